"""A cockpit as a process that can be killed: `STATE_DIR URL TRANSPORT [TOKEN]`, answers as JSON lines on its standard input."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import trio

from sandboxd import logs
from sandboxd.approvals.record import Terms
from sandboxd.cockpit.agent import HostAddress
from sandboxd.cockpit.controller import Controller
from tests.cockpit.bridge import answer, asked, cockpit, somebody


async def main() -> None:
    logs.configure(stream=sys.stderr)
    folder, url, transport, *token = sys.argv[1:]
    address = HostAddress("lab", url, "rest" if transport == "rest" else "jsonrpc", *token)
    terms = Terms(backoff=timedelta(milliseconds=50), tries_max=5)
    async with cockpit(Path(folder), address, terms=terms) as controller, trio.open_nursery() as nursery:
        say({"ready": True})
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            nursery.start_soon(take, controller, json.loads(line))
        nursery.cancel_scope.cancel()


async def take(controller: Controller, said: dict[str, str]) -> None:
    record = await asked(controller.records, "lab", said["prompt_id"])
    heard = await answer(controller, record, somebody(), "test", {"text": said["text"]})
    say({"prompt_id": said["prompt_id"], "outcome": heard.decided.marks[-1].outcome})


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201 - whoever started it reads its standard output


if __name__ == "__main__":
    trio.run(main)
