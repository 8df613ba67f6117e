"""By which rules does this cockpit ask, and which questions does a rule answer by itself?

TOML that an operator writes, strict, with examples that prove it. The first rule whose hosts and question fit decides: who must
agree beside what the asker says (it can only be narrower), how long a question stands, who is told when nobody answers, what of
an answer is kept. A rule with an `answer` answers under its own name, `policy:NAME`, and only where one answer of anybody is
enough: it is one voter, and no named person. Nothing here ever answers because time has passed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, cast

import attrs

from sandboxd.approvals.record import Approval, Escalation, ExpiredStep, PayloadClass, Terms
from sandboxd.approvals.routing import Principal, Routing, route
from sandboxd.errors import LoadError, Problem
from sandboxd.hitl.envelope import PROMPT_MAX_CHARS, PromptEnvelope
from sandboxd.hitl.received import asks_secret
from sandboxd.policy.table import Table, parse_toml
from sandboxd.values import frozen

FORMAT: Final = 1
_CLASSES: Final = ("redacted", "public", "secret")
_STEPS: Final = ("paused", "failed", "cancelled")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@frozen
class Rule:
    """One rule: for which questions, on which terms, and what it answers. `hosts` empty: all. `question` None: any.

    `bars_starter`: who started the mission may not answer its question.
    """

    name: str
    terms: Terms
    hosts: frozenset[str] = frozenset()
    question: re.Pattern[str] | None = None
    answer: Mapping[str, Any] | None = None
    fits: tuple[str, ...] = ()
    does_not_fit: tuple[str, ...] = ()
    bars_starter: bool = False

    @property
    def principal(self) -> Principal:
        """Under which name it answers."""
        return Principal(f"policy:{self.name}", f"policy:{self.name}", may_answer=True)

    def matches(self, host: str, question: str) -> bool:
        """Whether the rule is for that question on that host; by the whole of its text, as it came."""
        if self.hosts and host not in self.hosts:
            return False
        return self.question is None or (len(question) <= PROMPT_MAX_CHARS and self.question.fullmatch(question) is not None)


@frozen
class RuleBook:
    """All rules, in their order; `usual` are the terms of what none of them is for."""

    usual: Terms = attrs.field(factory=lambda: Terms(payload_class="redacted"))
    rules: tuple[Rule, ...] = ()
    bars_starter: bool = False

    def find(self, host: str, question: str) -> Rule | None:
        """The first rule for that question."""
        return next((rule for rule in self.rules if rule.matches(host, question)), None)

    def terms(self, host: str, envelope: PromptEnvelope, starter: str | None = None) -> Terms:
        """On which terms a question is asked. `starter`: the person who started its mission, where it is one's."""
        rule = self.find(host, envelope.prompt)
        terms, bars = (self.usual, self.bars_starter) if rule is None else (rule.terms, rule.bars_starter)
        return attrs.evolve(terms, barred=terms.barred | {starter}) if starter is not None and bars else terms


def terms_of(book: RuleBook, host: str, envelope: PromptEnvelope, starter: str | None = None) -> Terms:
    """On which terms a question is asked: the rules', and what is asked for in secret is never kept."""
    terms = book.terms(host, envelope, starter)
    return attrs.evolve(terms, payload_class="secret") if asks_secret(envelope.response_schema) else terms


@frozen
class Resolved:
    """A rule answers. `why` says so in words, for `policies test`."""

    rule: Rule
    answer: Mapping[str, Any]


def resolve(book: RuleBook, host: str, question: str, approval: Approval) -> Resolved | str:
    """What a rule answers to this question, or why people are asked."""
    rule = book.find(host, question)
    if rule is None:
        return "no rule is for this question"
    if rule.answer is None:
        return f"the rule `{rule.name}` leaves it to people"
    if approval.terms.payload_class == "secret":
        return f"the rule `{rule.name}` would answer, but this asks for a secret"
    if approval.votes_needed > 1:
        return f"the rule `{rule.name}` would answer, but {approval.votes_needed} persons must agree"
    if not approval.is_eligible(rule.principal):
        return f"the rule `{rule.name}` would answer, but the asker names who may"
    return Resolved(rule, rule.answer)


def load_rules(source: str, text: str, base: RuleBook | None = None) -> RuleBook:
    """The rules in `text`, behind those of `base`; `LoadError` with every problem."""
    before = base or RuleBook()
    problems: list[Problem] = []
    top = Table(parse_toml(source, text), problems)
    if not top.has("format") or repr(top.values["format"]) != repr(FORMAT):
        top.problem("format", f"must be `format = {FORMAT}`, the only format that there is")
    usual, bars_starter = before.usual, before.bars_starter
    if top.has("usual"):
        table = top.table("usual")
        usual, bars_starter = _read_terms(table, usual), _read_starter(table, bars_starter)
        table.close()
    rules = tuple(_read_rule(table, usual, bars_starter) for table in top.tables("rule"))
    top.close()
    names = [rule.name for rule in (*before.rules, *rules)]
    for name in sorted({name for name in names if names.count(name) > 1}):
        top.problem("rule", f"the name `{name}` stands twice")
    if problems:
        raise LoadError(source, problems)
    return RuleBook(usual, before.rules + rules, bars_starter)


def check_rule(book: RuleBook, rule: Rule) -> list[Problem]:
    """The examples of one of its rules that do not hold with all of them loaded."""
    problems, host = list[Problem](), next(iter(sorted(rule.hosts)), "any-host")
    if rule.question is not None and not (rule.fits and rule.does_not_fit):
        problems.append(Problem(f"rule.{rule.name}", "show at least one question in `fits` and one in `does-not-fit`"))
    for question in rule.fits:
        found = book.find(host, question)
        if found is not rule:
            why = f"goes to the rule `{found.name}`" if found else "goes to no rule"
            problems.append(Problem(f"rule.{rule.name}.fits", f"`{question[:80]}` {why}"))
    for question in rule.does_not_fit:
        if rule.matches(host, question):
            problems.append(Problem(f"rule.{rule.name}.does-not-fit", f"`{question[:80]}` fits"))
    return problems


def _read_starter(table: Table, usual: bool) -> bool:
    return table.word("mission-starter", ("may-answer", "barred"), "barred" if usual else "may-answer") == "barred"


def _read_rule(table: Table, usual: Terms, bars_starter: bool) -> Rule:
    name = table.text("name")
    if name and not _NAME.fullmatch(name):
        table.problem("name", "must be small letters, digits, `.`, `_` and `-`")
    answer = table.table("answer").values if table.has("answer") else None
    terms = _read_terms(table, usual)
    if answer is not None and terms.narrowed is not None and (terms.narrowed.named is not None or terms.narrowed.votes > 1):
        table.problem("answer", "could never count: `responders` asks for named persons, or for several")
    rule = Rule(
        name=name,
        terms=terms,
        hosts=frozenset(table.texts("hosts")),
        question=_read_pattern(table),
        answer=answer,
        fits=table.texts("fits"),
        does_not_fit=table.texts("does-not-fit"),
        bars_starter=_read_starter(table, bars_starter),
    )
    table.close()
    return rule


def _read_pattern(table: Table) -> re.Pattern[str] | None:
    if not table.has("question"):
        return None
    try:
        return re.compile(table.text("question"))
    except re.error as error:
        table.problem("question", f"is no regular expression: {error}")
        return None


def _read_terms(table: Table, usual: Terms) -> Terms:
    escalations = usual.escalations
    if table.has("escalate"):
        escalations = tuple(sorted(map(_read_escalation, table.tables("escalate")), key=lambda one: one.after))
    return attrs.evolve(
        usual,
        narrowed=_read_responders(table) if table.has("responders") else usual.narrowed,
        barred=frozenset(table.texts("barred")) if table.has("barred") else usual.barred,
        patience=timedelta(seconds=table.duration("patience", usual.patience.total_seconds(), least_s=1)),
        on_expiry=cast(ExpiredStep, table.word("on-expiry", _STEPS, usual.on_expiry)),
        schema_budget=table.number("max-misfits", usual.schema_budget, most=1000),
        tries_max=table.number("tries", usual.tries_max, most=100),
        payload_class=cast(PayloadClass, table.word("answers", _CLASSES, usual.payload_class)),
        escalations=escalations,
    )


def _read_escalation(table: Table) -> Escalation:
    escalation = Escalation(timedelta(seconds=table.duration("after", 600, least_s=1)), table.text("to"))
    table.close()
    return escalation


def _read_responders(table: Table) -> Routing:
    patterns: Sequence[str] = table.texts("responders", required=True)
    routing = route(patterns)
    for pattern in routing.ignored:
        table.problem("responders", f"`{pattern}` is none of `any`, `specific:ID`, `consensus:N`")
    if patterns and not routing.ignored and routing.dead_end:
        table.problem("responders", f"lets nobody answer: {routing.dead_end}")
    return routing
