"""Who would answer this question in a cockpit, and why?"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from sandboxd import packs
from sandboxd.a2a.canonical import sha256_hex
from sandboxd.approvals.events import Received
from sandboxd.approvals.record import Question, Terms
from sandboxd.approvals.reducer import begin
from sandboxd.approvals.routing import Principal
from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, Failure, of_load_error
from sandboxd.cli.options import json_option
from sandboxd.cockpit.config import read_rules
from sandboxd.cockpit.context import Known, Preseed, load_preseeds, resolve_context
from sandboxd.cockpit.rules import Resolved, RuleBook, resolve, terms_of
from sandboxd.errors import LoadError
from sandboxd.hitl.envelope import PromptEnvelope
from sandboxd.hitl.received import parse_envelope

_BECAUSE: Final = {Known: "it was given when the mission was started", Resolved: "the rule says so"}


@click.group()
def policies() -> None:
    """Try the rules of a cockpit."""


@policies.command("test")
@click.option("--rules", "files", type=click.Path(path_type=Path), multiple=True, required=True, metavar="FILE", help="Rules.")
@click.option("--prompt", "prompt", type=click.File("r", encoding="utf-8"), required=True, help="A prompt envelope, as JSON.")
@click.option("--as", "name", default="", metavar="NAME", help="A person, or an account such as token:alice.")
@click.option("--host", default="any-host", show_default=True, help="The host that asks.")
@click.option("--answers", type=click.Path(path_type=Path), metavar="FILE", help="What its mission answers beforehand.")
@click.option("--starter", default="", metavar="NAME", help="The person, or the account, who started its mission.")
@json_option
def test_(
    *, files: tuple[Path, ...], prompt: Any, name: str, host: str, answers: Path | None, starter: str, as_json: bool
) -> None:
    """Say whether a question's mission knows the answer, which rule it meets, whether that answers it, and who else may.

    Exit code: 0 mission or rule answers, or NAME may · 4 NAME may not · 1 nobody was named, and people are asked.
    """
    try:
        book = read_rules(list(files))
        preseeds = load_preseeds(str(answers), packs.read(answers).text) if answers else ()
    except LoadError as error:
        raise of_load_error(error) from error
    if preseeds and not starter:
        raise click.UsageError("--answers are somebody's own: name them by --starter")
    mission = (preseeds, _principal(starter)) if starter else None
    told, code = _explain(book, _read(prompt), host, name, mission)
    console = Console.of_process()
    if as_json:
        console.object({"schema": "sandboxd.policies-test/1", **told})
    else:
        for key, value in told.items():
            console.say(f"{key.replace('_', ' '):<13} {value}")
    if code is not Exit.DONE:
        raise click.exceptions.Exit(int(code))


def _read(file: Any) -> PromptEnvelope:
    try:
        value = json.load(file)
    except ValueError as error:
        raise Failure(f"cannot read the prompt: it is no JSON ({error})") from error
    envelope = parse_envelope(value)
    if not isinstance(envelope, PromptEnvelope):
        raise Failure("cannot ask this: the envelope is malformed", problems=envelope)
    return envelope


def _explain(
    book: RuleBook, envelope: PromptEnvelope, host: str, name: str, mission: tuple[Sequence[Preseed], Principal] | None
) -> tuple[dict[str, Any], Exit]:
    terms = terms_of(book, host, envelope, mission[1].person if mission else None)
    rule = book.find(host, envelope.prompt)
    question = Question(envelope.prompt_id, sha256_hex([]), envelope.allowed_responders, None)  # a deadline may have passed
    approval = begin(Received(question, terms, ""), datetime.now(UTC)).approval
    known = resolve_context(*mission, envelope.prompt, approval) if mission else "it is no mission's, as far as was said"
    found: Resolved | Known | str = known if isinstance(known, Known) else resolve(book, host, envelope.prompt, approval)
    by = f"policy:{found.rule.name}" if isinstance(found, Resolved) else "people"
    told: dict[str, Any] = {
        "mission": "knows the answer" if isinstance(known, Known) else known,
        "rule": rule.name if rule else "(none)",
        "answered_by": found.principal.name if isinstance(found, Known) else by,
        "because": _BECAUSE.get(type(found)) or found,
        "must_agree": approval.votes_needed,
        "answers_are": terms.payload_class,
        "stands": _spell(terms),
    }
    if approval.dead_end:
        told["nobody"] = approval.dead_end
    code = Exit.OTHER if isinstance(found, str) else Exit.DONE
    if name:
        # One of too few may answer, and nothing comes of it.
        why = approval.why_not(_principal(name)) or (approval.dead_end and f"nobody may: {approval.dead_end}")
        told[name] = f"may not answer: {why}" if why else "may answer, where granted to answer at all"
        code = Exit.NOT_ALLOWED if why else Exit.DONE
    return told, code


def _principal(name: str) -> Principal:
    return Principal(name, re.sub(r"^(token|uid|cert|web):", "", name), may_answer=True)


def _spell(terms: Terms) -> str:
    return f"{terms.patience} at most, then {terms.on_expiry}"
