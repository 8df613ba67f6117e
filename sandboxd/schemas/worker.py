"""How is a foreign schema evaluated where it can hurt nobody?

A process of its own that answers one question at a time, frames of a 4-byte length and JSON on its standard input and output.
It is killed from outside when an answer takes too long: a thread could not be, since Python's `re` keeps the interpreter's
lock. Should the daemon die, a question that never ends is ended by the worker's own alarm.
"""

from __future__ import annotations

import json
import resource
import signal
import struct
import sys
from typing import Any, BinaryIO, Final

from sandboxd.schemas.evaluate import Unusable, evaluate

HEADER: Final = struct.Struct("!I")
FRAME_MAX_BYTES: Final = 1024 * 1024  # a schema and a value of 64 KiB each, escaped
MEMORY_MAX_BYTES: Final = 512 * 1024 * 1024  # address space; idle it uses 19 MB of memory
ALARM_S: Final = 2.0
READY: Final = b"+"


def main() -> None:
    """Answer until the daemon closes the pipe."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the kernel ends the process, whatever Python is doing
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the daemon's business
    evaluate({"type": "string", "pattern": "^a$"}, "a")  # load what the first question would have to wait for
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sink.write(READY)
    sink.flush()
    while (question := _read(source)) is not None:
        signal.setitimer(signal.ITIMER_REAL, ALARM_S)
        body = json.dumps(_answer(question)).encode()
        signal.setitimer(signal.ITIMER_REAL, 0)
        sink.write(HEADER.pack(len(body)) + body)
        sink.flush()


def _answer(question: Any) -> dict[str, Any]:
    try:
        found = evaluate(question["schema"], question["value"])
    except Unusable as why:
        return {"unusable": str(why)}
    except MemoryError:
        return {"unusable": "it takes too much memory"}
    return {"problems": [[problem.field, problem.reason, problem.keyword] for problem in found]}


def _read(source: BinaryIO) -> Any | None:
    head = source.read(HEADER.size)
    if len(head) < HEADER.size:
        return None
    (size,) = HEADER.unpack(head)
    body = source.read(size) if size <= FRAME_MAX_BYTES else b""
    return json.loads(body) if len(body) == size else None
