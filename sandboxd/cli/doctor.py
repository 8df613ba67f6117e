"""What can this host promise about runs, and what can it not?

Each layer is put on a child that then tries what must not work; only a refusal that the child has met counts. It is true of the
user who runs it, where it is run: a unit, a container or another user may have less.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click

from sandboxd import packs
from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit
from sandboxd.cli.options import json_option
from sandboxd.cli.settings import find_config
from sandboxd.config import Config
from sandboxd.errors import LoadError, Problem
from sandboxd.policy.decide import LEVELS
from sandboxd.policy.load import load_policy
from sandboxd.policy.model import Isolation as Level
from sandboxd.policy.model import Policy
from sandboxd.runner import limits
from sandboxd.runner.isolation.levels import BUBBLEWRAP, Ability, Host, Kept, resolve
from sandboxd.runner.isolation.promises import Promise, promises
from sandboxd.runner.isolation.selftest import probe
from sandboxd.values import frozen

_STYLES: Final = {"yes": "green", "part": "yellow", "no": "red", "refused": "red"}


@frozen
class Verdict:
    """What somebody asks for, and what it gets: a level, or None and why."""

    who: str
    asks: Level
    gets: Level | None
    why: str = ""
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The verdict as `--json` prints it."""
        return {"who": self.who, "asks": self.asks, "gets": self.gets, "why": self.why, "notes": list(self.notes)}


@click.command()
@click.option(
    "--config", default="", envvar="SANDBOXD_CONFIG", help="Whose policies to judge [SANDBOXD_CONFIG]; else the system's."
)
@click.option("--level", type=click.Choice(LEVELS), help="Ask for this level as well; without a config: standard.")
@json_option
def doctor(config: str, level: Level | None, *, as_json: bool) -> int:
    """Test each layer of isolation on this host, and say what it can promise.

    \b
    Exit codes: 0 every level that is asked for (by the config, its policies, --level) is kept
                1 one of them is refused, or a policy does not load: the output says why, and what helps
    """
    console, found = Console.of_process(), find_config(config)
    host = probe(bubblewrap=str(found.isolation.bubblewrap) if found else BUBBLEWRAP)
    controllers = host.abilities["cgroup"].controllers
    verdicts = [*_of_config(found, host, controllers)] if found is not None else []
    if level is not None or found is None:
        verdicts.insert(0, _verdict("--level" if level else "standard", level or "standard", host))
    kept = promises(host, controllers)
    is_well = all(verdict.gets is not None for verdict in verdicts)
    if os.geteuid() == 0:
        console.talk("You are root: the daemon's user may find less. Run this as that user.", style="yellow")
    if as_json:
        console.object(_json(host, verdicts, kept, is_well=is_well))
    else:
        _print(console, host, verdicts, kept)
    return Exit.DONE if is_well else Exit.OTHER


def _of_config(config: Config, host: Host, controllers: frozenset[str]) -> list[Verdict]:
    level = config.isolation.level
    verdicts = [_verdict("config", level, host)]
    for instance in config.instances:
        for path in instance.policies:
            who = f"{instance.id}: {path.stem}"
            policy = _policy(path)
            if isinstance(policy, LoadError):
                told = "; ".join(str(problem) for problem in policy.problems)
                verdicts.append(Verdict(who, level, None, f"cannot load `{path}`: {told}"))
                continue
            asks = max(level, policy.isolation.level or "none", key=LEVELS.index)
            verdict = _verdict(who, asks, host)
            if verdict.gets is not None:
                verdict = attrs.evolve(verdict, notes=limits.notes(policy.limits, controllers, verdict.gets))
            verdicts.append(verdict)
    return verdicts


def _policy(path: Path) -> Policy | LoadError:
    try:
        file = packs.read(path)
        return load_policy(str(path), file.text, file.digest)
    except LoadError as error:
        return error


def _verdict(who: str, asks: Level, host: Host) -> Verdict:
    match resolve(asks, host):
        case Kept(level=gets, note=note):
            return Verdict(who, asks, gets, note)
        case Problem(reason=why):
            return Verdict(who, asks, None, why)


def _print(console: Console, host: Host, verdicts: Sequence[Verdict], kept: Sequence[Promise]) -> None:
    """Four tables; in a pipe each row begins with the name of its table."""
    _table(console, "layer", ("holds", "what"), [(a.layer, _word(a), _told(a)) for a in host.abilities.values()])
    levels = [_verdict(level, level, host) for level in LEVELS]
    _table(console, "level", ("kept as", "why"), [(v.who, v.gets or "refused", v.why) for v in levels])
    rows = [(v.who, v.asks, v.gets or "refused", "; ".join(filter(None, (v.why, *v.notes)))) for v in verdicts]
    _table(console, "who", ("asks for", "gets", "why"), rows)
    words = [(p.what, *[p.kept[level] for level in LEVELS]) for p in kept]
    if not console.wide:
        words = [(*row, promise.note) for row, promise in zip(words, kept, strict=True)]
    _table(console, "a task", LEVELS, words)
    for promise in kept if console.wide else ():
        if promise.note:  # too long for a column
            console.say(f"{promise.what}: {promise.note}.")


def _table(console: Console, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if console.wide:
        console.table((name, *columns), rows, styles=_STYLES)
        console.say("")
        return
    console.table((), [(name, *row) for row in rows])


def _word(ability: Ability) -> str:
    return "yes" if ability.works else "no"


def _told(ability: Ability) -> str:
    return ability.detail if ability.works else "; ".join(filter(None, (ability.reason, ability.cure)))


def _json(host: Host, verdicts: Sequence[Verdict], kept: Sequence[Promise], *, is_well: bool) -> dict[str, Any]:
    return {
        "schema": "sandboxd.doctor/1",
        "ok": is_well,
        "uid": os.geteuid(),
        "layers": [
            {**attrs.asdict(ability), "controllers": sorted(ability.controllers)} for ability in host.abilities.values()
        ],
        "levels": {level: _verdict(level, level, host).as_json() for level in LEVELS},
        "asked": [verdict.as_json() for verdict in verdicts],
        "promises": [{"run": promise.what, "kept": dict(promise.kept), "note": promise.note} for promise in kept],
    }
