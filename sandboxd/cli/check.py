"""Would it work, without doing it?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import trio

from sandboxd.cli import findings
from sandboxd.cli.console import Console, paint
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.findings import Finding
from sandboxd.cli.groups import Group
from sandboxd.cli.local import Wish, command_of, open_engine, place, unwrapped
from sandboxd.cli.options import HoleValue, Span, json_option
from sandboxd.cli.plan import decision_json, decision_lines
from sandboxd.cli.run import ADAPTER, below_root, setting_of
from sandboxd.cli.settings import is_there, read_config
from sandboxd.cli.text import shown
from sandboxd.config import DEFAULT_PATH
from sandboxd.errors import Refusal
from sandboxd.policy.model import Allowed

EXISTING = click.Path(path_type=Path, dir_okay=False)


@click.group(cls=Group, default="all")
def check() -> None:
    """Check config, policies and packs with their examples, or one request. Nothing is started."""


@check.command("all")
@click.option("--config", type=EXISTING, envvar="SANDBOXD_CONFIG", help="Which config [SANDBOXD_CONFIG]; else the system's.")
@json_option
def everything(config: Path | None, as_json: bool) -> int:
    """Check the config, all that it names, and the detector packs; this is what `sandboxd check` does."""
    if config is None and is_there(DEFAULT_PATH):
        config = DEFAULT_PATH
    if config is None:
        Console.of_process().talk(f"There is no config at {DEFAULT_PATH}, and none is named: checking what is shipped.")
    return report(findings.of_everything(config), as_json=as_json)


@check.command("reload")
@click.option("--config", type=EXISTING, envvar="SANDBOXD_CONFIG", help="Which config [SANDBOXD_CONFIG]; else the system's.")
@json_option
def reload_(config: Path | None, as_json: bool) -> int:
    """Check what `check all` does, and whether the daemon that runs could go by it; 1 names the keys that take a restart."""
    path = config or DEFAULT_PATH
    return report([*findings.of_everything(path), *findings.of_reload(path)], as_json=as_json)


@check.command("config")
@click.argument("file", type=EXISTING)
@json_option
def config_(file: Path, as_json: bool) -> int:
    """Check a config and the policies that it names."""
    _, detectors = findings.of_packs()
    return report(findings.of_config(file, detectors), as_json=as_json)


@check.command()
@click.argument("files", type=EXISTING, nargs=-1, required=True, metavar="FILE...")
@json_option
def policy(files: Sequence[Path], as_json: bool) -> int:
    """Check policies: their keys, and that their examples hold."""
    _, detectors = findings.of_packs()
    return report([findings.of_policy(file, detectors)[0] for file in files], as_json=as_json)


@check.command()
@click.argument("file", type=EXISTING)
@json_option
def pack(file: Path, as_json: bool) -> int:
    """Check a detector pack, alone and beside the packs of this host."""
    found, _ = findings.of_packs(file)
    mine = [finding for finding in found if finding.name in (str(file), "all together") or not finding.holds]
    return report(mine, as_json=as_json)


@check.command()
@click.argument("path")
@click.option("--mode", type=click.Choice(["plan", "assess"]), required=True, help="What the adapter is to do.")
@click.option("--config", default="", envvar="SANDBOXD_CONFIG", help="Which config; else the shipped policy on --root.")
@click.option("--instance", metavar="ID", default="", help="Which instance of the config.")
@click.option("--root", type=click.Path(path_type=Path, file_okay=False), default=Path(), help="Without a config: the folder.")
@click.option("--adapter", default=ADAPTER, show_default=True, help="Which adapter.")
@click.option("--set", "holes", type=HoleValue(), multiple=True, help="Fill another hole of the policy's command.")
@click.option("--timeout", "timeout_s", type=Span(), metavar="TIME", help="The timeout that the request will name.")
@json_option
def request(
    *,
    path: str,
    mode: str,
    config: str,
    instance: str,
    root: Path,
    adapter: str,
    holes: tuple[tuple[str, str], ...],
    timeout_s: float | None,
    as_json: bool,
) -> int:
    """Check one request as the spawner would, and open its files; 1 when it would be rejected."""
    console = Console.of_process()
    with unwrapped(), place(read_config(config) if config else None, root, instance) as where:
        values = {**dict(holes), "request": below_root(path, where.instance.root)}
        wish = Wish(adapter, mode, values, None if timeout_s is None else int(timeout_s), text_line=True, text="")

        async def decide() -> int:
            try:
                command = command_of(wish.envelope(where.policies))
                async with open_engine(where) as engine:
                    decision = await engine.preview(command, wish.text)
            except Refusal as refusal:
                raise Failure(refusal.message, Exit.OTHER, problems=refusal.problems) from refusal
            setting = setting_of(where, wish, "by the client")
            if as_json:
                console.object(decision_json(decision, setting))
            else:
                console.say("\n".join(decision_lines(decision, setting)))
            return Exit.DONE if isinstance(decision, Allowed) else Exit.OTHER

        return trio.run(decide)


def report(found: Sequence[Finding], *, as_json: bool) -> int:
    """Print every finding; the exit code."""
    console, holds = Console.of_process(), all(finding.holds for finding in found)
    if as_json:
        checks = [finding.as_json() for finding in found]
        console.object({"schema": "sandboxd.check/1", "ok": holds, "checks": checks})
        return Exit.DONE if holds else Exit.OTHER
    for finding in found:
        for line in lines(finding, wide=console.wide, colour=console.colour_out):
            print(line, file=console.out)
    return Exit.DONE if holds else Exit.OTHER


def lines(finding: Finding, *, wide: bool, colour: bool) -> list[str]:
    """A line for the thing, and on a terminal one below it for each problem; in a pipe, a line each with tabs."""
    word = "ok" if finding.holds else "fail"
    cells = [finding.what, shown(finding.name)]
    told = [shown(str(problem)) for problem in finding.problems]
    if not wide:
        return ["\t".join([word, *cells, more]) for more in told or [shown(finding.note)]]
    mark = paint(f"{word:<4}", ("green" if finding.holds else "red") if colour else "")
    note = f"  ({shown(finding.note)})" if finding.note and finding.holds else ""
    return [f"{mark}  {cells[0]:<9}  {cells[1]}{note}", *[f"        {problem}" for problem in told]]
