"""When does a line count as a question, and which answers does it name?

A rule is what one `[[rule]]` of a detector pack says. `fit` is the whole of matching: it knows nothing of time, of what was
asked before, or of the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from sandboxd.detect.evidence import NOTHING_KNOWN, Evidence
from sandboxd.detect.pattern import TEXT_MAX_CHARS
from sandboxd.detect.view import View
from sandboxd.hitl.answer import AnswerForm, Choice, Kind
from sandboxd.values import frozen

CHOICES_MAX: Final = 32
_SEPARATOR: Final = re.compile(r"[,/|]")
_MARKED: Final = re.compile(r"([\w' ]*)[\[(](\w{1,2})[\])]([\w' ]*)")
_HOLE: Final = re.compile(r"\{([a-z_]+)\}")


@frozen
class ChoiceTemplate:
    """One answer: its text as it is typed, or `{group}` for what the line shows; how a button names it."""

    text: str
    title: str = ""


@frozen
class AnswerTemplate:
    """How a rule's answer form is made from a match.

    `choices`: the texts, one by one. `choices_in`: the group that lists them instead, parted by the first of `,`, `/` and `|`
    that it holds, or letter by letter where it holds none; in `(m)odified or (d)eleted` the marked letters are the answers, and
    the words their titles. `default`: a text, a `{group}`, or `capital` (the one choice that the line spells with a capital
    letter; the mark is then taken off).
    """

    kind: Kind = "free_text"
    choices: tuple[ChoiceTemplate, ...] = ()
    choices_in: str | None = None
    titles: Mapping[str, str] = attrs.Factory(dict)
    default: str | None = None


@frozen
class Asks:
    """An example that must raise this rule's prompt; `choices`, `default` and `echo` None: not told."""

    data: str
    choices: tuple[str, ...] | None = None
    default: str | None = None
    echo: bool | None = None


@frozen
class Rule:
    """One way to recognise a question. `settle_s`: how long the terminal must stay silent, in seconds.

    `echo`: what the kernel must say of the terminal's echo in line mode, if it says anything. `edits`: whether a line editor
    must have switched bracketed paste on, or must not. `single_key`: the program takes one key, so that Enter is not typed.
    `polls`: it asks without ever waiting in the kernel, so that "nobody reads" is no objection.
    """

    id: str
    title: str
    line: re.Pattern[str]
    answer: AnswerTemplate
    above: re.Pattern[str] | None = None
    settle_s: float = 0.2
    echo: bool | None = None
    edits: bool | None = None
    single_key: bool = False
    polls: bool = False
    asks: tuple[Asks, ...] = ()
    silent: tuple[Asks, ...] = ()


@frozen
class Fit:
    """A rule that fits a line; `start` is where in the line its match begins."""

    rule: Rule
    form: AnswerForm
    start: int
    evidence: Mapping[str, Any]


def fit(rules: Sequence[Rule], view: View, evidence: Evidence = NOTHING_KNOWN) -> Fit | None:
    """The first rule that fits; None too where the live line is not known."""
    if view.unknown or not view.line.strip():
        return None
    for rule in rules:
        found = fit_one(rule, view, evidence)
        if found is not None:
            return found
    return None


def fit_one(rule: Rule, view: View, evidence: Evidence = NOTHING_KNOWN) -> Fit | None:
    """Whether this rule fits the line, and the terminal's echo as far as that is known."""
    if rule.echo is not None and evidence.hides_typing is rule.echo:
        return None
    if rule.edits is not None and view.edits is not rule.edits:
        return None
    line, dropped = _window(view.line)
    match = rule.line.search(line)
    if match is None:
        return None
    facts: dict[str, Any] = {"line": view.line.rstrip(), "settle_s": rule.settle_s}
    if rule.above is not None:
        above, _ = _window(view.above)
        if rule.above.search(above) is None:
            return None
        facts["above"] = view.above
    if view.is_cut:
        facts["is_cut"] = True
    return Fit(rule, attrs.evolve(answer_form(rule.answer, match), single_key=rule.single_key), match.start() + dropped, facts)


def _window(line: str) -> tuple[str, int]:
    """The end of a long line, for the bound on a match's cost; its first character shows that something is missing."""
    dropped = len(line) - TEXT_MAX_CHARS
    return (line, 0) if dropped <= 0 else ("…" + line[dropped + 1 :], dropped)


def answer_form(template: AnswerTemplate, match: re.Match[str]) -> AnswerForm:
    """The answers that the line names, in the order of the line."""
    listing = template.choices_in
    shown = _placed(template.choices, match) if listing is None else _listed(match[listing] or "")
    default, is_mark = _default(template, match, shown)
    if is_mark:
        shown = [attrs.evolve(choice, text=choice.text.lower()) for choice in shown]
    choices: dict[str, Choice] = {}
    for choice in shown:
        choices.setdefault(choice.text, Choice(choice.text, _title(template, choice)))
    return AnswerForm(template.kind, tuple(choices.values()), default)


def _listed(text: str) -> list[ChoiceTemplate]:
    marked = [(found[2], "".join(found.groups()).strip().removeprefix("or ")) for found in _MARKED.finditer(text)]
    if len(marked) > 1:
        return [ChoiceTemplate(letter, word.removesuffix(" or")) for letter, word in marked][:CHOICES_MAX]
    parts = _parts(text)[: 2 * CHOICES_MAX]
    return [ChoiceTemplate(part) for part in parts if part][:CHOICES_MAX]


def _parts(text: str) -> list[str]:
    """What a list names; a separator that stands between two others is itself an answer, as in git's `g,/,e`."""
    first = _SEPARATOR.search(text)
    if first is None:
        return list(text)
    return [part.strip() for part in text.split(first[0])]


def _placed(templates: Sequence[ChoiceTemplate], match: re.Match[str]) -> list[ChoiceTemplate]:
    placed: list[tuple[int, ChoiceTemplate]] = []
    for template in templates:
        hole = _HOLE.fullmatch(template.text)
        if hole is None:
            placed.append((len(match.string), template))
        elif match[hole[1]]:
            placed.append((match.start(hole[1]), attrs.evolve(template, text=match[hole[1]])))
    placed.sort(key=lambda pair: pair[0])
    return [template for _, template in placed]


def _default(template: AnswerTemplate, match: re.Match[str], shown: Sequence[ChoiceTemplate]) -> tuple[str | None, bool]:
    """What an empty line means, and whether the line marks it by a capital letter."""
    if template.default is None:
        return None, False
    if template.default == "capital":
        capital = [choice.text for choice in shown if choice.text[:1] != choice.text[:1].lower()]
        if len(capital) == 1 and len(shown) > 1:
            return capital[0].lower(), True
        return None, False
    hole = _HOLE.fullmatch(template.default)
    text = match[hole[1]] if hole is not None else template.default
    if not text:
        return None, False
    same = [choice.text for choice in shown if choice.text.casefold() == text.casefold()]
    exact = text in same
    return (text if exact or not same else same[0]), False


def _title(template: AnswerTemplate, choice: ChoiceTemplate) -> str:
    return choice.title or template.titles.get(choice.text, choice.text)


def holes(template: AnswerTemplate) -> dict[str, Literal["choices", "default"]]:
    """The groups that the pattern has to name."""
    found: dict[str, Literal["choices", "default"]] = {}
    for choice in template.choices:
        if hole := _HOLE.fullmatch(choice.text):
            found[hole[1]] = "choices"
    if template.choices_in is not None:
        found[template.choices_in] = "choices"
    if template.default is not None and (hole := _HOLE.fullmatch(template.default)):
        found.setdefault(hole[1], "default")
    return found
