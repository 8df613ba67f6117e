"""How is a dry run made in this terminal, without a daemon?

What will run is shown before it runs, decided by the same spawner that starts it. Then one task, as an orchestrator would make
it, with this person as its client. Wrong usage and refusals end with 125, so that every other code is the child's own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import trio

from sandboxd.cli.connect import is_typed
from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, Failure, of_refusal
from sandboxd.cli.local import Place, Wish, command_of, new_message, open_engine, own_name, place, unwrapped
from sandboxd.cli.options import HoleValue, Span, json_option
from sandboxd.cli.plan import Setting, decision_json, decision_lines
from sandboxd.cli.prepared import PreparedAnswer, PreparedAnswers
from sandboxd.cli.session import Session
from sandboxd.cli.settings import read_config
from sandboxd.errors import Refusal
from sandboxd.policy.model import Denied

ADAPTER: Final = "sandbox-agent-runner"  # adapter-command/v1: the first supported adapter


@click.command()
@click.option("--mode", type=click.Choice(["plan", "assess"]), required=True, help="What the adapter is to do.")
@click.option("--request", metavar="PATH", help="The request file, below the root.")
@click.option(
    "--config", metavar="FILE", envvar="SANDBOXD_CONFIG", help="Use this config's instance and policies [SANDBOXD_CONFIG]."
)
@click.option("--instance", metavar="ID", default="", help="Which instance of the config; without it the default one.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    help="Without a config: the folder to run on; else the current one.",
)
@click.option("--adapter", default=ADAPTER, show_default=True, help="Which adapter; a policy must be for it.")
@click.option("--set", "holes", type=HoleValue(), multiple=True, help="Fill another hole of the policy's command.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Span(),
    metavar="TIME",
    help="End it after this long, such as 90s; the policy's own limit otherwise.",
)
@click.option(
    "--input",
    "input_mode",
    type=click.Choice(["text-line", "none"]),
    default="text-line",
    show_default=True,
    help="May it ask?",
)
@click.option(
    "--answer",
    "answers",
    type=PreparedAnswer(),
    multiple=True,
    help="Answer the next question if PATTERN is found in it; repeat in order.",
)
@click.option("--message", default="Local dry run.", show_default=True, help="The message's text, which the program can read.")
@json_option
def run(
    *,
    mode: str,
    request: str | None,
    config: str | None,
    instance: str,
    root: Path | None,
    adapter: str,
    holes: tuple[tuple[str, str], ...],
    timeout_s: float | None,
    input_mode: str,
    answers: tuple[tuple[re.Pattern[str], str], ...],
    message: str,
    as_json: bool,
) -> int:
    """Make a plan or assess dry run in this terminal; no daemon is needed.

    Shows what will run and every check, then runs it; its questions are answered here. Ends with the program's own exit code;
    128+n after a signal, 125 when it was refused, 124 when its time was over, 123 when nobody could answer.

    \b
    sandboxd run --mode plan --request .aiwg/ops/runs/cycle-005.json
    sandboxd run --mode plan --request … --answer 'Write the plan=y' </dev/null
    """
    if config and root is not None:
        if is_typed(click.get_current_context(), "config"):
            raise click.UsageError("--root is for a run without a config: the config names its instances' roots")
        config = None  # the one in the environment is meant for other commands
    if timeout_s is not None and (timeout_s != int(timeout_s) or timeout_s < 1):
        raise click.UsageError("--timeout must be whole seconds, at least one")
    console = Console.of_process()
    with as_run(), place(read_config(config) if config else None, root or Path(), instance) as where:
        if request is not None:
            holes = (*holes, ("request", below_root(request, where.instance.root)))
        wish = Wish(
            adapter, mode, dict(holes), None if timeout_s is None else int(timeout_s), input_mode == "text-line", message
        )
        keyboard = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        begin = functools.partial(_run, answers=PreparedAnswers(answers), keyboard=keyboard, as_json=as_json)
        return trio.run(begin, console, where, wish)


async def _run(
    console: Console, where: Place, wish: Wish, *, answers: PreparedAnswers, keyboard: int | None, as_json: bool
) -> int:
    try:
        envelope = wish.envelope(where.policies, programs=where.config.programs if where.config.source is None else None)
        command = command_of(envelope)
        async with open_engine(where) as engine:
            setting = setting_of(where, wish, f"here as {own_name()}" if keyboard is not None else "by --answer alone")
            decision = await engine.preview(command, wish.text)
            if as_json:
                console.object({"schema": "sandboxd.run/1", "event": "plan", "plan": decision_json(decision, setting)})
            else:
                console.talk("\n".join(decision_lines(decision, setting)))
            if isinstance(decision, Denied):
                return Exit.RUN_REFUSED
            session = Session(engine, console, answers, keyboard, as_json)
            return await session.run(new_message(wish, envelope))
    except Refusal as refusal:
        of_refusal(refusal)


def setting_of(where: Place, wish: Wish, answered_by: str) -> Setting:
    """What a plan for that place and wish is shown with."""
    request = wish.holes.get("request", wish.adapter)
    return Setting(request, where.instance.id, where.instance.root, where.source, answered_by, os.environ.keys())


def below_root(path: str, root: Path) -> str:
    """The path as an envelope has it, relative to the root: as it was typed if that is there, else from this folder.

    Only the spelling is changed. What it names, and whether it may, is for the spawner to say.
    """
    typed = Path(path)
    if not typed.is_absolute() and os.path.lexists(root / typed):
        return path
    relative = os.path.relpath(typed, root)
    return path if relative.startswith("..") or not os.path.lexists(typed) else relative


@contextlib.contextmanager
def as_run() -> Iterator[None]:
    """Whatever fails before the child has run is a refusal."""
    try:
        with unwrapped():
            yield
    except Failure as failure:
        raise Failure(failure.message, Exit.RUN_REFUSED, hint=failure.hint, problems=failure.problems) from failure
