"""Did the program read what was typed?

The terminal counts what nobody has read (FIONREAD); packet mode tells when a program throws its input away (ioctl_tty(2)).
A program that waited in the kernel when the answer was typed has it, whatever it flushes later (getpass flushes after it has
read); one that did not, and flushes while something is unread, has thrown the answer away.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

from sandboxd.live import terminal

_FIRST_S: Final = 0.02  # right after the write the count may still be 0: the line discipline takes it in a moment later
_MOST_S: Final = 2.0

Word = Literal["consumed", "discarded", "unread", "unknown"]


@attrs.define(eq=False)
class Receipt:
    """What is known of one answer. `was_read`: a process was waiting for it in the kernel when it was typed."""

    prompt_id: str
    was_read: bool
    next_at: float
    _delay_s: float = _FIRST_S

    @classmethod
    def of(cls, prompt_id: str, *, was_read: bool, now: float) -> Receipt:
        """The receipt of an answer that was typed just now."""
        return cls(prompt_id, was_read, now + _FIRST_S)

    def sample(self, fd: int, now: float) -> Word:
        """Look again; `unread`: not yet, and `next_at` says when to look next."""
        count = terminal.unread_bytes(fd)
        if count is None:
            return "unknown"
        if count == 0:
            return "consumed"
        self._delay_s = min(2 * self._delay_s, _MOST_S)
        self.next_at = now + self._delay_s
        return "unread"

    def flushed(self) -> Word:
        """The program has thrown away what it had not read."""
        return "discarded" if not self.was_read else "unread"


def why_missed(unread: int | None, *, was_read: bool) -> str | None:
    """Why an answer has not reached a program that ended right behind it, or None. `unread`: what its terminal still has.

    A terminal that the program kept to itself (TIOCEXCL) lets nobody look any more. Then a program that waited for the answer
    in the kernel has it, as above, and of any other nobody can tell, so it is not said to be answered.
    """
    if unread:
        return "the program ended without reading it"
    if unread is None and not was_read:
        return "the program ended, and whether it had read it cannot be told"
    return None
