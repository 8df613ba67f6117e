"""Does that executor keep what the specs promise?

Drives any executor from outside, over HTTP alone. Exit 0: everything that could be judged passed; 1: something failed; 2: it
could not run, or nothing could be judged.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Final, Literal, NoReturn
from urllib.parse import quote, urlsplit

import click

from sandboxd.cli.connect import is_loopback, read_token
from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.options import json_option
from sandboxd.cli.text import shown
from sandboxd.conformance.finding import CannotRun, Report, Result, Verdict
from sandboxd.conformance.line import Line
from sandboxd.conformance.report import as_json as report_json
from sandboxd.conformance.report import as_junit, figures_text, finding_lines
from sandboxd.conformance.run import drive
from sandboxd.conformance.site import DoorName, Options, VersionName

_STYLES: Final = {"pass": "green", "FAIL": "red", "skip": "yellow"}
Kind = Literal["text", "json", "junit"]
_TRIALS_MIN: Final = 20  # hitl-prompt/v1, CF-4: at least 20


@click.command()
@click.argument("url")
@click.option("--token-file", envvar="SANDBOXD_TOKEN_FILE", metavar="FILE", help="File with the bearer token.")
@click.option("--instance", envvar="SANDBOXD_INSTANCE", metavar="ID", help="Drive URL/agents/ID.")
@click.option("--door", type=click.Choice(["jsonrpc", "rest", "dialect", "all"]), default="all", show_default=True)
@click.option("--version", type=click.Choice(["1.0", "0.3", "all"]), default="all", show_default=True, help="Of A2A.")
@click.option(
    "--request", metavar="PATH", default="", help="A request file of the target's workspace that asks [example adapter's]."
)
@click.option("--restart-cmd", metavar="CMD", default="", help="Restarts the target; without it RS scenarios are skipped.")
@click.option("--only", metavar="ID", multiple=True, help="CF-4, CF, 'AC-1*'; may be given again.")
@click.option("--trials", type=click.IntRange(_TRIALS_MIN, 10_000), default=50, show_default=True, help="Of CF-4.")
@click.option(
    "--timing-tolerance",
    metavar="MS",
    type=click.IntRange(0, 60_000),
    default=0,
    show_default=True,
    help="Added to CF-4's bound.",
)
@click.option("--report", type=click.Choice(["text", "json", "junit"]), default="text", show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the report there; the table still is told.")
@json_option
def conformance(
    *,
    url: str,
    token_file: str | None,
    instance: str | None,
    door: DoorName,
    version: VersionName,
    request: str,
    restart_cmd: str,
    only: tuple[str, ...],
    trials: int,
    timing_tolerance: int,
    report: Kind,
    out: Path | None,
    as_json: bool,
) -> int:
    """Drive the executor at URL through the specs' conformance scenarios; exit 0 pass, 1 fail, 2 could not run.

    It needs nothing of this daemon: CF-1 to CF-7 and HP-… judge hitl-prompt/v1, AC-… adapter-command/v1, IDEM-AC-…
    idempotency/v1, RS-… what a restart leaves. Tasks that it starts are cancelled at the end.
    """
    console = Console.of_process()
    options = Options(door, version, request, _split(restart_cmd), trials, timing_tolerance, only)
    kind: Kind = "json" if as_json else report
    base = url.rstrip("/") + (f"/agents/{quote(instance, safe='')}" if instance else "")
    line = Line(token=_token(url, token_file))
    try:
        if out is not None:
            out.touch()  # rather now than after minutes
        made = drive(base, line, options, told=lambda result: _progress(console, result))
        _print(console, made, kind, out)
    except CannotRun as error:
        raise Failure(str(error), Exit.USAGE) from error
    except OSError as error:
        raise Failure(f"cannot write `{out}`: {(error.strerror or str(error)).lower()}", Exit.USAGE) from error
    finally:
        line.close()
    return made.exit_code


def _token(url: str, token_file: str | None) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Failure(f"cannot drive `{url}`: it needs http:// or https:// and a host", Exit.USAGE)
    if not token_file:
        return ""
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        why = "over plain HTTP everybody on the way could read it"
        raise Failure(f"cannot send the token to `{parts.hostname}`: {why}", Exit.USAGE, hint="use an https:// URL")
    try:
        return read_token(token_file)
    except Failure as failure:
        _could_not_run(failure)


def _could_not_run(failure: Failure) -> NoReturn:
    raise Failure(failure.message, Exit.USAGE, hint=failure.hint) from failure


def _split(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise Failure(f"cannot read --restart-cmd: {str(error).lower()}", Exit.USAGE) from error


def _progress(console: Console, result: Result) -> None:
    """Tell a person at a terminal which scenario has ended; in a pipe the report says it all."""
    if console.err.isatty():
        style = _STYLES[_word(result)]
        console.talk(f"{_word(result)}  {result.door:<12}  {result.scenario:<9}  {result.took_s:6.1f} s", style=style)


def _print(console: Console, report: Report, kind: Kind, out: Path | None) -> None:
    if out is None:
        if kind == "text":
            _print_text(console, report)
        elif kind == "json":
            console.object(report_json(report))
        else:
            print(as_junit(report), end="", file=console.out)
        return
    if kind == "text":
        out.write_text("\n".join(shown(line, keep="\t") for line in _text_lines(report)) + "\n")
    else:
        out.write_text(json.dumps(report_json(report), indent=2) + "\n" if kind == "json" else as_junit(report))
    _print_text(console, report)


def _print_text(console: Console, report: Report) -> None:
    rows = [[_word(one), one.door, one.scenario, f"{one.took_s:.1f} s", _remark(one)] for one in report.results]
    console.table(["", "door", "scenario", "took", "what"], rows, styles=_STYLES)
    for line in _findings(report):
        console.say(line)
    console.say(_summary(report), style="red" if report.exit_code else "green")


def _text_lines(report: Report) -> list[str]:
    rows = [f"{_word(one)}\t{one.door}\t{one.scenario}\t{one.took_s:.1f} s\t{_remark(one)}" for one in report.results]
    return [*rows, *_findings(report), _summary(report)]


def _findings(report: Report) -> list[str]:
    lines: list[str] = []
    for result in report.results:
        for finding in result.findings:
            lines += ["", f"{result.scenario} at {result.door}: {result.title}"]
            lines += [f"  {line}" for line in finding_lines(finding)]
    noted = [f"{one.scenario} at {one.door}: {note}" for one in report.results for note in one.notes]
    told = [f"note: {note}" for note in (*report.notes, *noted)]
    return [*lines, "", *told] if told or lines else []


def _summary(report: Report) -> str:
    counts = ", ".join(
        f"{report.count(verdict)} {word}"
        for verdict, word in ((Verdict.PASSED, "passed"), (Verdict.FAILED, "failed"), (Verdict.SKIPPED, "skipped"))
    )
    return f"{counts} in {report.took_s:.0f} s: {report.agent or 'no name'} at {report.target} by {', '.join(report.doors)}"


def _remark(result: Result) -> str:
    if result.verdict is Verdict.SKIPPED:
        return f"{result.title} — {result.reason}"
    figures = figures_text(result)
    return f"{result.title} — {figures}" if figures else result.title


def _word(result: Result) -> str:
    return "FAIL" if result.verdict is Verdict.FAILED else result.verdict.value
