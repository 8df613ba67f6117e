"""Does somebody wait for a line here, and for which?

The fusion: what stands at the cursor, what the packs know of it, and what the kernel says. Where the kernel says that nobody
reads, nothing is asked. Where it says that somebody does, any line is a question unless it is a menu, and then no line of
text answers it. Where the kernel does not say, the text has to look like a question, and stand longer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from sandboxd.detect import shape
from sandboxd.detect.evidence import Evidence
from sandboxd.detect.rule import Fit, Rule, fit
from sandboxd.detect.view import View
from sandboxd.hitl.answer import AnswerForm
from sandboxd.values import frozen

SETTLE_S: Final = 0.2  # of a line that the kernel says is waited on
WEAK_SETTLE_S: Final = 0.5  # of one that only looks like a question
_SIGN_MAX: Final = 3  # characters of a sign that says nothing else: `$`, `>>>`
_PUSHED_ROWS: Final = 4  # how far up other output may have pushed a question that is still read
_READ: Final = Evidence(canonical=True, echo=True, reading=True, is_exact=True)  # what most can be a question for
_AGAIN: Final = re.compile(r"(?i)\b(?:again|repeat|retype|re-?enter|confirm|verify|verification)\b|wiederhol|repet|confirm")


@frozen
class Finding:
    """What stands at the cursor is waited on. `menu`: why no line of text can answer it; empty: one can.

    `start`: where in the line the question begins.
    """

    text: str
    form: AnswerForm
    rule: str
    settle_s: float
    start: int = 0
    menu: str = ""
    facts: Mapping[str, Any] = attrs.Factory(dict)


@frozen
class Past:
    """What was asked before: lines that were answered (`shape.without_numbers`), the row below the last of them, the row below
    all that were taken back, and whether the last answer was a secret.
    """

    answered: frozenset[str] = frozenset()
    next_row: int | None = None
    left_row: int = 0
    was_secret: bool = False


def judge(rules: Sequence[Rule], view: View, evidence: Evidence, past: Past, *, by_shape: bool = True) -> Finding | None:
    """What is waited for, or None: nothing, as far as can be told.

    `by_shape`: whether a line that no pack knows may be a question for its looks alone, where the kernel does not say.
    """
    if view.written.strip() and evidence.canonical and evidence.reading and not evidence.is_idle:
        view = attrs.evolve(view, line=view.written, unknown="")  # no screen of keys, but a form whose questions have places
    found = _fit(rules, view, evidence)
    if evidence.reading is False and not (found is not None and found.rule.polls) and not _is_blind(view, evidence, past):
        return None
    if found is not None and found.rule.answer.kind == "menu":
        return _menu(view, evidence, "its pack says so", found.rule.id)
    if evidence.canonical is not True and (why := shape.menu_reason(view)):
        return _menu(view, evidence, why) if evidence.reading else None
    if evidence.reading is None and (_is_for_another(view) or _is_echoed_secret(view, evidence)):
        return None
    if found is not None:
        return _by_rule(found, view, evidence, past)
    if evidence.reading and not evidence.is_idle:
        return _by_kernel(view, evidence, past)
    return _by_text(view, evidence, past) if by_shape else None


def could_ask(view: View, past: Past) -> bool:
    """Whether anything that stands here could be a question or a menu, whatever the kernel said of it."""
    is_plain = not (view.line.strip() or view.written.strip() or view.unknown or view.below or view.is_field)
    if not is_plain or view.hides_cursor or view.takes_mouse or view.edits:
        return True
    return bool(_asked_above(view, _READ, past) or shape.menu_reason(view))


def _is_blind(view: View, evidence: Evidence, past: Past) -> bool:
    """A terminal that hides typing behind words that ask for a secret: an agent of another session may be the one who reads."""
    return evidence.hides_typing is True and shape.is_prompt(view.line) and _names_secret(view.line, past)


def _is_for_another(view: View) -> bool:
    """Whether the text says itself that nobody at this terminal is asked."""
    return shape.is_driven(view) or shape.is_record(view.line) or shape.is_repeated(view.line)


def _is_echoed_secret(view: View, evidence: Evidence) -> bool:
    """Words for a secret on a terminal that shows what is typed: whoever asks reads it from elsewhere, as `sudo -S` does."""
    return evidence.hides_typing is False and shape.is_prompt(view.line) and shape.asks_secret(view.line)


def _fit(rules: Sequence[Rule], view: View, evidence: Evidence) -> Fit | None:
    if view.line and evidence.reading and not evidence.is_idle:
        view = attrs.evolve(view, unknown="")  # a hint below the line that is being read hides nothing
    return fit(rules, view, evidence)


def _by_rule(found: Fit, view: View, evidence: Evidence, past: Past) -> Finding:
    rule, form = found.rule, found.form
    if form.kind != "secret" and _is_secret(view.line, evidence, past, default=False):
        form = AnswerForm("secret")
    facts = {**found.evidence, **evidence.facts()}
    return Finding(view.line.rstrip(), form, rule.id, rule.settle_s, found.start, facts=facts)


def _by_kernel(view: View, evidence: Evidence, past: Past) -> Finding | None:
    line = view.line
    if view.unknown and not view.line:
        return None
    if not line.strip():
        line = _asked_above(view, evidence, past)
        if not line:
            return None
    elif not (evidence.is_exact or evidence.hides_typing or view.edits) and _goes_on(line, evidence):
        return None
    return _generic("kernel", line, view, evidence, past)


def _asked_above(view: View, evidence: Evidence, past: Past) -> str:
    """The line above that asks, where the cursor's is empty: the nearest, or one that other output has pushed up since.

    For the latter somebody must wait for a whole line, and it must stand below what was answered or taken back; the name of a
    field counts only for one who is blocked in a read, since services that keep their input open report alike: `listening on:`.
    """
    if view.rows and view.rows[-1].strip() and shape.asks_above(view.above):
        return view.above
    if not evidence.canonical:
        return ""
    near = list(enumerate(view.rows, view.row - len(view.rows)))[-_PUSHED_ROWS:]
    asks = shape.asks_still if evidence.is_exact or evidence.hides_typing else shape.asks_above
    first = max(past.next_row or 0, past.left_row)
    return next((text for row, text in reversed(near) if row >= first and asks(text)), "")


def _goes_on(line: str, evidence: Evidence) -> bool:
    """An idle reader's line: in line mode only what can be nothing but progress, in raw mode whatever looks like it."""
    return shape.is_heading(line) or (not evidence.canonical and shape.is_progress(line))


def _by_text(view: View, evidence: Evidence, past: Past) -> Finding | None:
    line = view.line
    if view.unknown and not view.below:
        return None
    if view.row != past.next_row and shape.is_in_table(view):  # of a form that was answered, the row above is ours
        return None
    if shape.is_prompt(line) or view.is_field:
        return _generic("text", line, view, evidence, past)
    is_first = not view.row and len(line.strip()) <= _SIGN_MAX  # no transcript begins with a sign that is left open
    is_known = view.edits or is_first or view.row == past.next_row or shape.without_numbers(line) in past.answered
    if shape.is_bare_prompt(line) and (is_known or shape.is_introduced(view)):
        return _generic("text", line, view, evidence, past)
    return None


def _generic(source: Literal["kernel", "text"], line: str, view: View, evidence: Evidence, past: Past) -> Finding:
    settle_s = SETTLE_S if source == "kernel" else WEAK_SETTLE_S
    form = shape.form_of(line)
    likely = form.kind in ("free_text", "repl") and not view.edits
    if _is_secret(line, evidence, past, default=likely or form.kind == "free_text"):
        form = AnswerForm("secret")
    facts: dict[str, Any] = {"line": line.rstrip(), "settle_s": settle_s, **evidence.facts()}
    if view.is_cut:
        facts["is_cut"] = True
    return Finding(line.rstrip(), form, f"{shape.GENERIC}.{source}", settle_s, facts=facts)


def _menu(view: View, evidence: Evidence, why: str, rule: str = f"{shape.GENERIC}.menu") -> Finding:
    text = view.line.rstrip() or view.above
    facts = {"line": view.line.rstrip(), "menu": why, **evidence.facts()}
    return Finding(text, AnswerForm("menu"), rule, WEAK_SETTLE_S, menu=why, facts=facts)


def _is_secret(line: str, evidence: Evidence, past: Past, *, default: bool) -> bool:
    """The kernel's word where it has one; else the words of the question, where the kind allows (`default`)."""
    if evidence.hides_typing is not None:
        return evidence.hides_typing
    return default and _names_secret(line, past)


def _names_secret(line: str, past: Past) -> bool:
    return shape.asks_secret(line) or (past.was_secret and _AGAIN.search(shape.tail(line)) is not None)
