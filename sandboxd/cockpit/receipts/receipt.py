"""What does a host tell of an answer that it has taken?

`urn:sandboxd:notice:v1` in a task's status: the program has read the answer, threw it away unread, or got its text without its
Enter. A host says `working` as soon as it has typed, so that alone is no sign of the program. What is not told is not known:
no receipt is ever made of silence, and a host that does not speak of receipts leaves an answer at `accepted`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

import attrs

from sandboxd.a2a.extensions import NOTICE, PROMPT_NEWS
from sandboxd.a2a.model import TaskState
from sandboxd.a2a.wire import parse_rfc3339
from sandboxd.cockpit.reading import Seen
from sandboxd.hitl.envelope import plain_text
from sandboxd.values import frozen

# read, discarded, unfinished: as the host tells it · went-on: the program did · ended: its task did, and nothing was told of
# the answer · silent: nothing will be told
What = Literal["read", "discarded", "unfinished", "went-on", "ended", "silent"]
WHATS: Final[tuple[What, ...]] = ("read", "discarded", "unfinished", "went-on", "ended", "silent")
HOW_MAX_CHARS: Final = 200
_NOTICES: Final[Mapping[str, What]] = {
    "answer-consumed": "read",
    "answer-discarded": "discarded",
    "answer-unfinished": "unfinished",
}


@frozen
class Receipt:
    """One thing that is known. `said_at`: by the host's clock, where it tells; `at`: when it came on record here."""

    what: What
    how: str = ""
    said_at: datetime | None = None
    at: datetime | None = None


SILENT: Final = Receipt("silent", "this host does not say")
UNKNOWN_TASK: Final = Receipt("silent", "the host does not know the task any more")


def notice_in(seen: Seen) -> tuple[str, tuple[Receipt, ...]] | None:
    """Of which prompt's answer the status tells, and what; None: of none."""
    notice = _about(seen, NOTICE)
    what, prompt_id = _NOTICES.get(str(notice.get("notice"))), notice.get("prompt_id")
    if what is None or not isinstance(prompt_id, str):
        return None
    why = notice.get("why")
    how = plain_text(why)[:HOW_MAX_CHARS] if isinstance(why, str) else ""
    told = Receipt(what, how, said_at_of(seen))
    if what == "read" and seen.state is not TaskState.INPUT_REQUIRED:
        return prompt_id.lower(), (told, attrs.evolve(told, what="went-on", how=_is(seen)))
    return prompt_id.lower(), (told,)


def has_told_nothing_since(seen: Seen, prompt_id: str) -> bool:
    """Whether that the answer was accepted is still the last thing that the task tells."""
    news = _about(seen, PROMPT_NEWS)
    return seen.state is TaskState.WORKING and str(news.get("prompt_id")).lower() == prompt_id


def outlived(seen: Seen, question: str) -> Receipt | None:
    """What the task's state says where no notice was given of the answer; None: nothing.

    The same words again may be the question raised anew for an answer that was thrown away.
    """
    if seen.state.is_terminal:
        return Receipt("ended", _is(seen), said_at_of(seen))
    if seen.state is TaskState.INPUT_REQUIRED and seen.text.strip() != question.strip():
        return Receipt("went-on", "it asks something else", said_at_of(seen))
    return None


def said_at_of(seen: Seen) -> datetime | None:
    """When the host says that the task came to stand so."""
    try:
        return parse_rfc3339(seen.timestamp) if seen.timestamp else None
    except ValueError:
        return None


def _about(seen: Seen, key: str) -> Mapping[str, Any]:
    metadata = seen.message.get("metadata")
    found = metadata.get(key) if isinstance(metadata, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _is(seen: Seen) -> str:
    return f"the task is {seen.state.value}"
