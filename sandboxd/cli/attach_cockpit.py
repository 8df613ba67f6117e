"""How does somebody look at a task's terminal through a cockpit?

The cockpit decides who may look, and asks the host itself: whoever looks needs no token of the host's.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from sandboxd.cli.cockpit_client import CockpitClient, find_prompt
from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.facts import TaskFacts
from sandboxd.cli.screens import Screen

TERMINAL: Final = "terminal"


def place_of(client: CockpitClient, given: str) -> tuple[str, str]:
    """The host and the whole task id that `given` names: HOST/TASK, a question, a task that has asked one, or a mission."""
    host, slash, task_id = given.partition("/")
    if slash:
        return host, task_id
    try:
        prompt = find_prompt(client, given, to="attach to")
        return str(prompt["host"]), str(prompt["task_id"])
    except Failure as failure:
        if failure.exit_code != Exit.NOT_FOUND:
            raise
        mission = _mission(client, given)
        if mission is None:
            hint = "name a question, a mission, or HOST/TASK"
            raise Failure(str(failure), Exit.NOT_FOUND, hint=hint) from failure
    if not mission.get("task_id"):
        raise Failure(f"cannot attach to mission `{given}`: it has no task yet", Exit.CONFLICT)
    return str(mission["host"]), str(mission["task_id"])


def follow_terminal(client: CockpitClient, console: Console, screen: Screen, host: str, task_id: str) -> TaskFacts:
    """Show what it printed and prints, up to its end; as it then stands."""
    last = TaskFacts(task_id, "", "unknown", None, "", {}, {})
    dropped = 0
    for kind, told in client.terminal(host, task_id):
        match kind:
            case "output":
                screen.write(TERMINAL, base64.b64decode(told["base64"]), dropped)
                dropped = 0
            case "gap":
                dropped += int(told["bytes"])
            case "trouble" if told.get("is_gone"):
                raise Failure(f"cannot attach to task `{task_id}`: the host `{host}` does not know it", Exit.NOT_FOUND)
            case "trouble" if screen.make_room():
                console.talk(f"── the host does not answer: {told['why']}; it is asked again", style="yellow")
            case "task":
                last = TaskFacts(task_id, "", str(told["state"]), None, str(told["text"]), told.get("outcome") or {}, {})
                if last.state == "input-required" and screen.make_room():
                    console.talk(f"── asks: {last.summary}", style="yellow")
            case _:
                continue  # what a newer cockpit tells beside it
    return last


def _mission(client: CockpitClient, given: str) -> Mapping[str, Any] | None:
    if given.isdigit():  # that would be a question's number
        return None
    try:
        return client.mission(given)
    except Failure as failure:
        if failure.exit_code != Exit.NOT_FOUND:
            raise
    return None
