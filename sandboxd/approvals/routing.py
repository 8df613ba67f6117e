"""Who may answer a question, and how many of them must agree?

hitl-prompt/v1, Responder policy, with what it leaves open decided in the narrow direction: `specific:` names are the only ones
who may, whatever stands beside them; the largest `consensus:N` counts; patterns that nobody knows are dropped and grant
nothing, so a list of nothing else lets nobody answer. A cockpit's own policy is a second routing beside the asker's: both must
allow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sandboxd.values import frozen

_PATTERN: Final = re.compile(r"any|specific:(?P<who>\S+)|consensus:(?P<votes>[1-9][0-9]*)")
_DIGITS_MAX: Final = 9  # more voters than there are people; a longer number is only there to be parsed slowly


@frozen
class Principal:
    """Who a channel has authenticated: `name` is the account (`token:alice`), `person` who stands behind it.

    Two accounts of one person are one voter. `may_answer`: what the account is granted, before any question is looked at.
    """

    name: str
    person: str
    may_answer: bool


@frozen
class Routing:
    """One list of patterns, understood: `named` None is everyone who may answer at all; `ignored` are unknown patterns."""

    named: frozenset[str] | None
    votes: int
    ignored: tuple[str, ...] = ()

    def allows(self, principal: Principal) -> bool:
        """Whether this list lets the principal answer: by account or by person, never by a display name."""
        return self.named is None or bool(self.named & {principal.name, principal.person})

    @property
    def dead_end(self) -> str:
        """Why no answer can ever come by this list; empty: one can."""
        if self.named is not None and not self.named:
            return f"no responder rule is understood: {', '.join(self.ignored) or 'none is given'}"
        if self.named is not None and len(self.named) < self.votes:
            return f"{self.votes} must agree, and only {len(self.named)} may answer"
        return ""


ANYONE: Final = Routing(None, 1)


def route(patterns: Sequence[str] | None) -> Routing:
    """What the patterns come to; None (the list is missing) means `any`."""
    if patterns is None:
        return ANYONE
    named, votes, is_any, ignored = set[str](), 0, False, list[str]()
    for pattern in patterns:
        found = _PATTERN.fullmatch(pattern)
        if found is None or len(found["votes"] or "") > _DIGITS_MAX:
            ignored.append(pattern)
        elif found["who"]:
            named.add(found["who"])
        elif found["votes"]:
            votes = max(votes, int(found["votes"]))
        else:
            is_any = True
    open_to_all = not named and (is_any or votes > 0)
    return Routing(None if open_to_all else frozenset(named), max(votes, 1), tuple(ignored))
