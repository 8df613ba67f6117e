"""Why was this taken for a question, and why was that not?

Replays a transcript through the detector with this host's packs, and prints what fired on what evidence, and what nearly did.
Where what the kernel said was recorded as well (`sandboxd record`), in a file beside the recording, that is part of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, Failure, of_load_error
from sandboxd.cli.findings import of_packs
from sandboxd.cli.options import json_option
from sandboxd.detect.explain import Explanation, Fired, Happening, Truth, read_truth
from sandboxd.detect.explain import explain as explain_bytes
from sandboxd.detect.load import combine
from sandboxd.errors import LoadError

_FILE_MAX_BYTES: Final = 64 * 1024 * 1024  # an hour of a busy terminal as an asciicast is about 10 MiB


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--pack", type=click.Path(path_type=Path, dir_okay=False), help="Try this pack beside those of the host.")
@json_option
def explain(file: BinaryIO, pack: Path | None, as_json: bool) -> None:
    """Say which of a transcript's lines are questions, and why; FILE is raw output or an asciicast, - is stdin.

    With --json one object a line: t (seconds, null where the transcript has no times), event (raised, withdrawn, answered),
    line, kind, answerable, secret, rule, evidence. A wait that no line of text can answer is raised with answerable false.
    """
    console = Console.of_process()
    data = file.read(_FILE_MAX_BYTES + 1)
    if len(data) > _FILE_MAX_BYTES:
        raise Failure(f"cannot explain `{file.name}`: it is longer than {_FILE_MAX_BYTES} bytes")
    try:
        found, loaded = of_packs(pack)
        for finding in found:
            for problem in finding.problems:
                console.talk(f"warning: pack {finding.name}: {problem}", style="yellow")
        explanation = explain_bytes(combine(list(loaded.values())), data, truth_beside(file))
    except LoadError as error:
        raise of_load_error(error, Exit.OTHER) from error
    if as_json:
        for happening in explanation.happenings:
            console.object(happening_json(happening))
        return
    for line in explanation_lines(explanation):
        console.say(line)


def explanation_lines(explanation: Explanation) -> list[str]:
    """Every question with its rule and evidence, then the line at the end and the rules that nearly fit it."""
    lines = [line for number, fired in enumerate(explanation.fired, 1) for line in _fired_lines(number, fired)]
    if not explanation.fired:
        lines.append("None of its lines is taken for a question.")
    lines += [
        f"somebody waits at {happening.at_s or 0:.2f} s, and no line can be offered ({happening.kind}): {happening.line}"
        for happening in explanation.happenings
        if happening.event == "stalled"
    ]
    if not explanation.has_times:
        lines.append("The transcript has no times: a long silence was assumed at the end of every word.")
    if explanation.dropped_bytes:
        lines.append(f"Only its end was read: {explanation.dropped_bytes} bytes before it were left out.")
    lines.append(f"At the end the live line is {_quoted(explanation.view.line)}.")
    return lines + [f"  {near.rule}: {near.why}" for near in explanation.near]


def happening_json(happening: Happening) -> dict[str, Any]:
    """One thing that happened, for a program."""
    return {
        "t": None if happening.at_s is None else round(happening.at_s, 3),
        "event": "raised" if happening.event == "stalled" else happening.event,
        "line": happening.line,
        "kind": happening.kind,
        "answerable": happening.is_answerable,
        "secret": happening.is_secret,
        "rule": happening.rule,
        "evidence": dict(happening.evidence),
    }


def truth_beside(file: BinaryIO) -> Truth | None:
    """What the kernel said, where `FILE.json` stands beside `FILE.cast`; `Failure` when that is there and no such file."""
    path = Path(str(file.name)) if isinstance(getattr(file, "name", None), str) else None
    if path is None or path.suffix != ".cast" or not path.with_suffix(".json").is_file():
        return None
    path = path.with_suffix(".json")
    try:
        with path.open("rb") as beside:
            return read_truth(json.loads(beside.read(_FILE_MAX_BYTES)))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise Failure(f"cannot explain `{file.name}`: `{path}` beside it does not say what the kernel said") from None


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


def _quoted(value: object) -> str:
    return f"`{value}`" if isinstance(value, str) else str(value)
