"""What do the daemon and its spawner say to each other?

A stream socket, frames of a 4-byte length (big endian) and a JSON object. Descriptors travel as SCM_RIGHTS with the first
byte of their frame; its `fds` says how many. A stream, not SOCK_SEQPACKET: that one queues ten datagrams, which a burst of
starts overruns, and bounds a message below what exec can carry.

What comes from the daemon may come from whoever took it over. A request that the policy or its own shape rules out is refused
alone; what is no request at all ends the spawner, and every run with it.

Daemon to spawner: the setup, then `{"do": "start" | "preview" | "signal" | "end" | "reload" | "adopt", "id": n, …}`.
Spawner to daemon: `ready` or `refused`, then one `{"re": n, …}` for each request, and `{"exited": run, …}` when a leader was
reaped.
"""

from __future__ import annotations

import json
import struct
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from sandboxd.errors import Problem
from sandboxd.policy.adapter import AdapterCommand
from sandboxd.policy.model import CheckedPath, Isolation, LaunchPlan, Limits, PromptRules
from sandboxd.runner.isolation.levels import BUBBLEWRAP
from sandboxd.values import frozen

# exec carries at most 6 MiB of strings (3/4 of _STK_LIM, linux/exec.c), 2 MiB with the usual 8 MiB stack. JSON needs six bytes
# for a control character, so this holds every real environment and most silly ones.
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
MAX_FDS: Final = 3  # pidfd and a terminal, or pidfd and two pipes
_HEADER: Final = struct.Struct("!I")

Frame = dict[str, Any]


class ProtocolError(Exception):
    """The other side sent what it never sends: a bug, or somebody else's process."""


@frozen
class InstanceSetup:
    """A workspace: its root, the name that clients see for it, and the files of the policies that are active there."""

    id: str
    root: str
    shown: str = "/workspace"
    policies: tuple[str, ...] = ()


@frozen
class SpawnerSetup:
    """All that the spawner is told, once, before the first request.

    `isolation`: the level that every run gets at least. `cgroup`: a cgroup2 directory that is delegated to the daemon; None:
    its own one, where it may write there. `source`: the config that it came from, to be read again at a reload
    (`setup.renewed`); None: there is none. `read`: what runs may read of this host besides the system's own folders.
    `bubblewrap`: its absolute path. `scratch`: a folder for the runs' temporary folders, emptied at the start; None: a fresh
    one. `closed`: the daemon's own files and folders, which no confined run may find in what it can read.
    `max_runs`: so many are there at a time, whatever the daemon asks for. `late_s`: so long after its own limit a run is ended
    unasked.
    """

    instances: tuple[InstanceSetup, ...]
    programs: Mapping[str, str]
    isolation: Isolation = "none"
    cgroup: str | None = None
    source: str | None = None
    read: tuple[str, ...] = ()
    bubblewrap: str = BUBBLEWRAP
    scratch: str | None = None
    closed: tuple[str, ...] = ()
    max_runs: int = 1024
    late_s: float = 180.0


@frozen
class RunRequest:
    """One adapter command for one instance. `message_text` is what the run finds in its environment.

    `mission_id`: a UUID that its client gave it; None: the task's own id stands in for it.
    """

    task_id: str
    context_id: str
    instance: str
    command: AdapterCommand
    message_text: str = attrs.field(repr=lambda text: f"<{len(text)} characters>")
    mission_id: str | None = None


@frozen
class SpawnFailed:
    """The policy said yes and the run did not start; nothing of it is left.

    `reason` is stable: `program-missing`, `exec-failed`, `start-failed` (the host has no more processes or descriptors, or the
    working directory cannot be entered), `spawner-died`, `internal`.
    """

    reason: str
    message: str


def encode(frame: Mapping[str, Any]) -> bytes:
    """The bytes of one frame; `ProtocolError` when it is too large for any reader."""
    body = json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    if len(body) > MAX_FRAME_BYTES:
        raise ProtocolError(f"cannot send a frame of {len(body)} bytes: at most {MAX_FRAME_BYTES} are allowed")
    return _HEADER.pack(len(body)) + body


class FrameReader:
    """Bytes and descriptors in, frames out. One for each connection, owned by whoever reads from it."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._fds: deque[tuple[int, ...]] = deque()

    def feed(self, data: bytes, fds: Sequence[int] | None = None) -> None:
        """Add what one `recvmsg` returned; `fds` None: the message brought no descriptors (empty: they were lost)."""
        self._buffer += data
        if fds is not None:
            self._fds.append(tuple(fds))

    def next_frame(self) -> tuple[Frame, tuple[int, ...]] | None:
        """The next whole frame with its descriptors, fewer than it names if the kernel could not deliver them."""
        if len(self._buffer) < _HEADER.size:
            return None
        (size,) = _HEADER.unpack_from(self._buffer)
        if size > MAX_FRAME_BYTES:
            raise ProtocolError(f"cannot read a frame of {size} bytes: at most {MAX_FRAME_BYTES} are allowed")
        if len(self._buffer) < _HEADER.size + size:
            return None
        body = bytes(self._buffer[_HEADER.size : _HEADER.size + size])
        del self._buffer[: _HEADER.size + size]
        try:
            frame = json.loads(body.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"cannot read a frame: {error}") from error
        if not isinstance(frame, dict):
            raise ProtocolError("cannot read a frame: it is no object")
        fds = self._fds.popleft() if frame.get("fds") and self._fds else ()
        return frame, fds

    def take_fds(self) -> tuple[int, ...]:
        """Descriptors that arrived and belong to no frame yet: the reader stops and has to close them."""
        left = tuple(fd for fds in self._fds for fd in fds)
        self._fds.clear()
        return left


def to_json(value: Any) -> Any:
    """A value of this file, or a plan, as JSON takes it."""
    return attrs.asdict(value)


def setup_from_json(frame: Mapping[str, Any]) -> SpawnerSetup:
    """The inverse of `to_json`."""
    instances = tuple(InstanceSetup(**{**one, "policies": tuple(one["policies"])}) for one in frame["instances"])
    return SpawnerSetup(
        **{
            **frame,
            "instances": instances,
            "programs": dict(frame["programs"]),
            "read": tuple(frame["read"]),
            "closed": tuple(frame["closed"]),
        }
    )


def request_from_json(frame: Mapping[str, Any]) -> RunRequest:
    """The inverse of `to_json`; `ProtocolError` when it is none: of all that the daemon sends, this decides what runs."""
    _refuse_other_fields(frame, RunRequest)
    command = frame["command"]
    _refuse_other_fields(command, AdapterCommand)
    texts = [frame[name] for name in ("task_id", "context_id", "instance", "message_text")]
    texts += [command["adapter"], command["mode"], *(command["command"] if isinstance(command["command"], list) else [None])]
    texts += [text for text in (command["working_dir"], frame["mission_id"]) if text is not None]
    is_whole = command["timeout_s"] is None or type(command["timeout_s"]) is int
    if not (all(isinstance(text, str) for text in texts) and is_whole and isinstance(command["text_line"], bool)):
        raise ProtocolError("cannot read a run request: a value has another type than it has")
    return RunRequest(**{**frame, "command": AdapterCommand(**{**command, "command": tuple(command["command"])})})


def _refuse_other_fields(frame: Any, kind: type[attrs.AttrsInstance]) -> None:
    if not isinstance(frame, dict) or frame.keys() != attrs.fields_dict(kind).keys():
        raise ProtocolError(f"cannot read a run request: it has other fields than {', '.join(attrs.fields_dict(kind))}")


def plan_from_json(frame: Mapping[str, Any]) -> LaunchPlan:
    """The inverse of `to_json`. What stands in the plans of many runs, which is most of it, is in memory once."""
    frame = _shared(frame)
    prompts = frame["prompts"]
    made = {
        "paths": tuple(CheckedPath(**{**path, "pins": tuple(path["pins"])}) for path in frame["paths"]),
        "limits": Limits(**frame["limits"]),
        "prompts": PromptRules(**{**prompts, "detectors": tuple(prompts["detectors"])}),
    }
    lists = {name: tuple(value) for name, value in frame.items() if isinstance(value, list | tuple) and name != "paths"}
    return LaunchPlan(**{**frame, **lists, **made})


def _shared(value: Any) -> Any:
    match value:
        case str():
            return sys.intern(value)
        case list():
            return [_shared(each) for each in value]
        case dict():
            return {sys.intern(name): _shared(each) for name, each in value.items()}
        case _:
            return value


def problems_to_json(problems: Sequence[Problem]) -> list[Any]:
    """Reasons, one triple each."""
    return [[problem.field, problem.reason, problem.keyword] for problem in problems]


def problems_from_json(triples: Sequence[Sequence[str]]) -> tuple[Problem, ...]:
    """The inverse of `problems_to_json`."""
    return tuple(Problem(*triple) for triple in triples)
