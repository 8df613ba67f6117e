"""Why was this taken for a question, and why was that not?

Replays a transcript through the detector with this host's packs, and prints what fired on what evidence, and what nearly did.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, Failure, of_load_error
from sandboxd.cli.findings import of_packs
from sandboxd.cli.options import json_option
from sandboxd.detect.explain import Explanation, Fired
from sandboxd.detect.explain import explain as explain_bytes
from sandboxd.detect.load import combine
from sandboxd.errors import LoadError

_FILE_MAX_BYTES: Final = 64 * 1024 * 1024  # an hour of a busy terminal as an asciicast is about 10 MiB


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--pack", type=click.Path(path_type=Path, dir_okay=False), help="Try this pack beside those of the host.")
@json_option
def explain(file: BinaryIO, pack: Path | None, as_json: bool) -> None:
    """Say which rules take a transcript's lines for questions, and why; FILE is raw output or an asciicast, - is stdin."""
    console = Console.of_process()
    data = file.read(_FILE_MAX_BYTES + 1)
    if len(data) > _FILE_MAX_BYTES:
        raise Failure(f"cannot explain `{file.name}`: it is longer than {_FILE_MAX_BYTES} bytes")
    try:
        found, loaded = of_packs(pack)
        for finding in found:
            for problem in finding.problems:
                console.talk(f"warning: pack {finding.name}: {problem}", style="yellow")
        explanation = explain_bytes(combine(list(loaded.values())), data)
    except LoadError as error:
        raise of_load_error(error, Exit.OTHER) from error
    if as_json:
        console.object(explanation_json(explanation))
        return
    for line in explanation_lines(explanation):
        console.say(line)


def explanation_lines(explanation: Explanation) -> list[str]:
    """Every question with its rule and evidence, then the line at the end and the rules that nearly fit it."""
    lines = [line for number, fired in enumerate(explanation.fired, 1) for line in _fired_lines(number, fired)]
    if not explanation.fired:
        lines.append("No rule takes any of its lines for a question.")
    if not explanation.has_times:
        lines.append("The transcript has no times: a long silence was assumed at the end of every word.")
    if explanation.dropped_bytes:
        lines.append(f"Only its end was read: {explanation.dropped_bytes} bytes before it were left out.")
    lines.append(f"At the end the live line is {_quoted(explanation.view.line)}.")
    return lines + [f"  {near.rule}: {near.why}" for near in explanation.near]


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """The same for a program."""
    return {
        "schema": "sandboxd.explain/1",
        "questions": [_fired_json(fired) for fired in explanation.fired],
        "live_line": explanation.view.line,
        "near": [{"rule": near.rule, "why": near.why} for near in explanation.near],
        "has_times": explanation.has_times,
        "dropped_bytes": explanation.dropped_bytes,
    }


def _fired_lines(number: int, fired: Fired) -> list[str]:
    when = f"at {fired.at_s:.2f} s, " if fired.at_s is not None else ""
    choices = ", ".join(f"`{choice.text}` ({choice.title})" for choice in fired.form.choices)
    default = f", default `{fired.form.default}`" if fired.form.default is not None else ""
    evidence = ", ".join(f"{name} {_quoted(value)}" for name, value in fired.evidence.items())
    return [
        f"question {number}: {fired.text}",
        f"  where     {when}line {fired.line_number}, byte {fired.offset}; {fired.end}",
        f"  rule      {fired.rule}: {fired.title}",
        f"  evidence  {evidence}",
        f"  answers   {fired.form.kind}{': ' + choices if choices else ''}{default}",
    ]


def _fired_json(fired: Fired) -> dict[str, Any]:
    return {
        "question": fired.text,
        "rule": fired.rule,
        "title": fired.title,
        "line": fired.line_number,
        "offset": fired.offset,
        "at_s": fired.at_s,
        "end": fired.end,
        "kind": fired.form.kind,
        "choices": _choices(fired),
        "default": fired.form.default,
        "evidence": dict(fired.evidence),
    }


def _choices(fired: Fired) -> Sequence[dict[str, str]]:
    return [{"text": choice.text, "title": choice.title} for choice in fired.form.choices]


def _quoted(value: object) -> str:
    return f"`{value}`" if isinstance(value, str) else str(value)
