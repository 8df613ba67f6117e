"""How does a question go on that is paused, or that waits for a person's word?

Every paused step names its reason (`Approval.reason`) and its way out, by command line and page alike. The verbs in brackets
are those of `sandboxd prompts`; the page has a button for each.
"""

from __future__ import annotations

from typing import Final

from sandboxd.approvals.record import Approval

_HELD: Final = "have it found out once more (resume), close it on your own word (settle), or end its task (cancel)"
_NOBODY: Final = "answer it at its host, or end its task (cancel)"
_BY_ITSELF: Final = "what the host took is being found out, and it goes on by itself; or end its task (cancel)"
_CLOSED: Final = (
    "where its program waits still, have it asked again (reissue) or answer it at its host; else nothing is left to do"
)


def way_out(approval: Approval) -> str:
    """In words; empty where it goes on, or has come to its end."""
    if approval.held:
        return _HELD
    if approval.step != "paused":
        return ""
    if approval.phase == "closed":
        return _CLOSED
    return _NOBODY if approval.phase == "open" else _BY_ITSELF
