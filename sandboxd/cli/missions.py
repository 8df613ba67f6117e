"""What has a cockpit started, where does it stand, and how does it go on?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from sandboxd import packs
from sandboxd.a2a.wire import parse_rfc3339
from sandboxd.cli.cockpit_client import CockpitClient
from sandboxd.cli.console import Console, ago
from sandboxd.cli.exits import Exit, Failure, of_load_error
from sandboxd.cli.groups import Group
from sandboxd.cli.options import Span, json_option
from sandboxd.cockpit.context import load_preseeds
from sandboxd.errors import LoadError

Command = TypeVar("Command", bound=Callable[..., Any])
_POLL_S: Final = 0.3
_STYLES: Final = {
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
    "paused": "yellow",
    "awaiting-approval": "yellow",
}
_CODES: Final = {"completed": Exit.DONE, "failed": Exit.OTHER, "cancelled": Exit.OTHER}


def at_cockpit(command: Command) -> Command:
    """Gives a command the two options that say which cockpit, and who comes."""
    where = click.option(
        *("--cockpit", "cockpit"),
        envvar="SANDBOXD_COCKPIT_URL",
        required=True,
        metavar="URL|SOCKET",
        help="The cockpit: its URL, with --token-file, or its socket [SANDBOXD_COCKPIT_URL].",
    )
    token = click.option(
        "--token-file", envvar="SANDBOXD_TOKEN_FILE", default="", metavar="FILE", help="Your token [SANDBOXD_TOKEN_FILE]."
    )
    return where(token(command))


@click.group(cls=Group, default="list")
def missions() -> None:
    """Start commands on the hosts of a cockpit, follow them, have them go on or end.

    A mission is one adapter command, started once whatever is killed on the way (docs/missions.md).
    """


@missions.command()
@click.argument("host")
@click.argument("command", nargs=-1, required=True)
@click.option("--adapter", required=True, help="The adapter, as the host's policy names it.")
@click.option("--mode", type=click.Choice(["plan", "assess"]), required=True)
@click.option("--text", default="Run it.", show_default=True, help="What the command finds as its message.")
@click.option("--working-dir", default="", metavar="DIR", help="Where it runs, below the host's workspace.")
@click.option("--timeout", "timeout_s", type=Span(), default=None, help="Its limit, such as 300s or 15m.")
@click.option("--quiet", "is_quiet", is_flag=True, help="No terminal: it is asked nothing and asks nothing.")
@click.option("--answers", type=click.Path(path_type=Path), metavar="FILE", help="What you answer beforehand.")
@click.option("--flow", default="", metavar="ID", help="What it belongs to, for the audit; so are the next two.")
@click.option("--issue", default="", metavar="ID", help="The issue, such as org/repo#12.")
@click.option("--trace", default="", metavar="ID", help="The trace; 32 hex digits go on as W3C's traceparent.")
@click.option("--wait", "wait_s", type=Span(), default=None, help="Until it has ended, or so long.")
@json_option
@at_cockpit
def start(  # a command's options are its parameters
    *,
    host: str,
    command: tuple[str, ...],
    adapter: str,
    mode: str,
    text: str,
    working_dir: str,
    timeout_s: float | None,
    is_quiet: bool,
    answers: Path | None,
    flow: str,
    issue: str,
    trace: str,
    wait_s: float | None,
    as_json: bool,
    cockpit: str,
    token_file: str,
) -> None:
    """Start COMMAND on HOST: sandboxd missions start lab --adapter A --mode plan -- node runner.mjs …

    With --wait the exit code is 0 completed · 1 failed or cancelled · 8 it goes on, or waits for somebody.
    """
    body: dict[str, Any] = {"host": host, "adapter": adapter, "mode": mode, "command": list(command), "text": text}
    body |= {"working_dir": working_dir} if working_dir else {}
    body |= {"timeout_seconds": int(timeout_s)} if timeout_s is not None else {}
    body |= {} if is_quiet else {"input_mode": "text-line"}
    links = {name: value for name, value in (("flow", flow), ("issue", issue), ("trace", trace)) if value}
    body |= {"links": links} if links else {}
    if answers is not None:
        try:
            preseeds = load_preseeds(str(answers), packs.read(answers).text)
        except LoadError as error:
            raise of_load_error(error) from error
        body["answers"] = [{"question": one.question, "answer": dict(one.answer)} for one in preseeds]
    with CockpitClient(cockpit, token_file) as client:
        mission = client.start_mission(body)
        if wait_s is not None:
            mission = _wait(client, mission, wait_s)
    _tell(mission, as_json=as_json)
    if wait_s is not None and (code := _CODES.get(mission["state"], Exit.PENDING)) is not Exit.DONE:
        raise click.exceptions.Exit(int(code))


@missions.command("list")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="At most this many.")
@json_option
@at_cockpit
def list_(*, limit: int, as_json: bool, cockpit: str, token_file: str) -> None:
    """List missions, the newest first.

    Columns in a pipe: number, id, state, started, host, adapter, mode, why.
    """
    console, now = Console.of_process(), datetime.now(UTC)
    with CockpitClient(cockpit, token_file) as client:
        told = client.missions(limit)
    if as_json:
        console.object(told)
        return
    if not told["missions"] and console.wide:
        console.talk("No missions.")
        return
    rows = [
        [
            *(str(it["number"]), it["mission_id"][:8] if console.wide else it["mission_id"], it["state"]),
            *(ago(now, parse_rfc3339(it["started_at"])), it["host"], it["adapter"], it["mode"], it["reason"]),
        ]
        for it in told["missions"]
    ]
    console.table(("no", "mission", "state", "started", "host", "adapter", "mode", "why"), rows, styles=_STYLES)


@missions.command()
@click.argument("mission", metavar="ID")
@click.option("--output", "with_output", is_flag=True, help="What its task left; there is none before it has ended.")
@json_option
@at_cockpit
def show(*, mission: str, with_output: bool, as_json: bool, cockpit: str, token_file: str) -> None:
    """Show one mission: where it stands and why, its way out, its task."""
    with CockpitClient(cockpit, token_file) as client:
        if with_output:
            _tell_output(client.mission_result(mission), as_json=as_json)
            return
        _tell(client.mission(mission), as_json=as_json)


@missions.command()
@click.argument("mission", metavar="ID")
@json_option
@at_cockpit
def resume(*, mission: str, as_json: bool, cockpit: str, token_file: str) -> None:
    """Have a paused mission go on: `show` says what that does."""
    with CockpitClient(cockpit, token_file) as client:
        _tell(client.act_on_mission(mission, "resume", {}), as_json=as_json)


@missions.command()
@click.argument("mission", metavar="ID")
@click.option("--reason", default="", help="Why; it stays on record.")
@json_option
@at_cockpit
def cancel(*, mission: str, reason: str, as_json: bool, cockpit: str, token_file: str) -> None:
    """End a mission, its open questions and its task."""
    with CockpitClient(cockpit, token_file) as client:
        _tell(client.act_on_mission(mission, "cancel", {"reason": reason} if reason else {}), as_json=as_json)


def _wait(client: CockpitClient, mission: Mapping[str, Any], wait_s: float) -> Mapping[str, Any]:
    until = time.monotonic() + wait_s
    while mission["state"] not in _CODES and (left_s := until - time.monotonic()) > 0:
        time.sleep(min(_POLL_S, left_s))
        mission = client.mission(mission["mission_id"])
    return mission


def _tell(mission: Mapping[str, Any], *, as_json: bool) -> None:
    console = Console.of_process()
    if as_json:
        console.object(mission)
        return
    lines = [
        ("mission", f"{mission['number']}, {mission['mission_id']}"),
        ("state", mission["state"]),
        ("why", mission["reason"]),
        ("way out", mission["way_out"]),
        ("host", mission["host"]),
        ("adapter", f"{mission['adapter']}, {mission['mode']}"),
        ("command", " ".join(mission["command"])),
        ("started by", mission["started_by"]),
        ("task", f"{mission['task_id']}, {mission['task_state']}" if mission["task_id"] else ""),
        ("questions", ", ".join(str(one["number"]) for one in mission["questions"])),
    ]
    for name, value in lines:
        if value:
            console.say(f"{name:<11} {value}" if console.wide else f"{name}\t{value}")


def _tell_output(result: Mapping[str, Any], *, as_json: bool) -> None:
    console = Console.of_process()
    if as_json:
        console.object(result)
        return
    for artifact in result["artifacts"]:
        parts = artifact.get("parts")
        texts = [part.get("text") for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
        whole = "".join(text for text in texts if isinstance(text, str))
        console.talk(f"── {artifact.get('artifactId', '?')} ──", style="dim")
        console.say(whole.removesuffix("\n"))
    if not result["artifacts"]:
        raise Failure("cannot show what the mission left: its task left nothing", Exit.NOT_FOUND)
