"""Which answers does a mission know beforehand?

Whoever starts a mission may say what is to be answered to which question: preseeds, tried before any rule. Such an answer is
the starter's own, given earlier: it counts only where they may answer, only where one answer is enough, never where a secret is
asked for, and each question is tried once, so what was refused is for people.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sandboxd.approvals.record import Approval
from sandboxd.approvals.routing import Principal
from sandboxd.errors import LoadError, Problem
from sandboxd.hitl.envelope import PROMPT_MAX_CHARS
from sandboxd.policy.table import Table, parse_toml
from sandboxd.values import frozen

FORMAT: Final = 1
PRESEEDS_MAX: Final = 100
CHANNEL: Final = "context"


@frozen
class Preseed:
    """What is answered to a question whose whole text fits the regular expression."""

    question: str
    answer: Mapping[str, Any]

    def fits(self, question: str) -> bool:
        """Whether it is for that question."""
        return len(question) <= PROMPT_MAX_CHARS and re.fullmatch(self.question, question) is not None


@frozen
class Known:
    """A mission knows the answer; `principal` is who has given it, when they started it."""

    preseed: Preseed
    principal: Principal


def resolve_context(preseeds: Sequence[Preseed], starter: Principal, question: str, approval: Approval) -> Known | str:
    """What a mission's own context answers to this question, or why the rules are asked."""
    found = next((one for one in preseeds if one.fits(question)), None)
    if found is None:
        return "the mission knows no answer to it" if preseeds else "no answer was given beforehand"
    if approval.terms.payload_class == "secret":
        return "the mission knows an answer, but this asks for a secret"
    if approval.votes_needed > 1:
        return f"the mission knows an answer, but {approval.votes_needed} persons must agree"
    if not approval.is_eligible(starter):
        return f"the mission knows an answer, but {starter.person}, who started it, may not answer this"
    return Known(found, starter)


def load_preseeds(source: str, text: str) -> tuple[Preseed, ...]:
    """The preseeds in a TOML text; `LoadError` with every problem, also for an example that does not hold."""
    problems: list[Problem] = []
    top = Table(parse_toml(source, text), problems)
    if not top.has("format") or repr(top.values["format"]) != repr(FORMAT):
        top.problem("format", f"must be `format = {FORMAT}`, the only format that there is")
    found = tuple(_read(table) for table in top.tables("answer"))
    top.close()
    problems += check_preseeds(found)
    if problems:
        raise LoadError(source, problems)
    return found


def check_preseeds(preseeds: Sequence[Preseed]) -> list[Problem]:
    """What is wrong with preseeds, whoever brings them."""
    problems = [Problem("answer", f"more than {PRESEEDS_MAX} are too many")] if len(preseeds) > PRESEEDS_MAX else []
    for index, one in enumerate(preseeds[:PRESEEDS_MAX]):
        try:
            re.compile(one.question)
        except (re.error, RecursionError, OverflowError) as error:
            problems.append(Problem(f"answer.{index}.question", f"is no regular expression: {error}"))
        if not one.question or len(one.question) > PROMPT_MAX_CHARS:
            problems.append(Problem(f"answer.{index}.question", f"must have 1 to {PROMPT_MAX_CHARS} characters"))
    return problems


def _read(table: Table) -> Preseed:
    preseed = Preseed(table.text("question"), table.table("answer", required=True).values)
    fits = table.texts("fits")
    try:
        for question in fits:
            if not preseed.fits(question):
                table.problem("fits", f"`{question[:80]}` does not fit")
    except re.error:
        pass  # told by `check_preseeds`
    table.close()
    return preseed
