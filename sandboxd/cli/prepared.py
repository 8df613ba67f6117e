"""Which answer was prepared for this question?

`--answer PATTERN=TEXT`, as often as there are questions, in the order in which they will come. Each is used once: the next one
must fit the question, else the question is unanswered. Nothing is answered by default and nothing by a pattern out of turn:
an answer that was meant for another question is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import click


class PreparedAnswers:
    """The answers that are left, in order."""

    def __init__(self, answers: Iterable[tuple[re.Pattern[str], str]]) -> None:
        self._left = list(answers)

    def take(self, question: str) -> str | None:
        """The text for this question, used up; None: the next answer is not for it, or none is left."""
        if not self._left or not self._left[0][0].search(question):
            return None
        return self._left.pop(0)[1]

    @property
    def next_pattern(self) -> str | None:
        """What the next answer waits for, to be told when it did not fit."""
        return self._left[0][0].pattern if self._left else None


class PreparedAnswer(click.ParamType[tuple[re.Pattern[str], str]]):
    """`PATTERN=TEXT`: a regular expression that is searched in the question, and the text to type."""

    name = "PATTERN=TEXT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[re.Pattern[str], str]:
        """Split at the first `=`; a pattern that needs one writes `\\x3d`."""
        pattern, equals, text = str(value).partition("=")
        if not equals:
            self.fail(f"`{value}` has no `=` between pattern and text", param, ctx)
        try:
            return re.compile(pattern), text
        except re.error as error:
            self.fail(f"`{pattern}` is no regular expression: {error}", param, ctx)
