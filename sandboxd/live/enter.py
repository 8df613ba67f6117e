"""When is the Enter of an answer typed, where a program reads keys?

In line mode text and Enter are one line. In raw mode a program may take all that one read brings for one key: ink, and the
agents built on it, then see a word that ends in a carriage return, and no Enter; and an ink that gets its Enter before it has
taken in the text submits the field as it was before. So where the kernel says that a process waits for keys, the text is typed
alone, and its Enter follows when that process has read all of it and waits again, as it does when a person types. The Enter is
typed at most once, and not at all where it would answer something else; that is told. Measured on a busy machine: ink,
inquirer, enquirer, clack, prompts, prompt_toolkit, questionary and readline read within 30 ms, and wait again within 120 ms.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

from sandboxd.detect.evidence import NOTHING_KNOWN
from sandboxd.detect.view import View
from sandboxd.live import terminal
from sandboxd.runner.witness import Witness
from sandboxd.values import frozen

AFTER_S: Final = 0.15  # one agent takes an Enter within 30 ms of the last key for a line break, and no person is that quick
MOST_S: Final = 10.0  # how long a program may be busy with the text before its Enter is given up
FIRST_S: Final = 0.005  # from the text to the first look
_NEXT_MOST_S: Final = 0.1

Step = Literal["wait", "type"]


@frozen
class Withheld:
    """The Enter is not typed, and why."""

    why: str


@attrs.define(eq=False)
class PendingEnter:
    """The Enter of an answer whose text was typed alone. `reader`: who waited for it; `asked`: what it looked like then."""

    prompt_id: str
    text: str = attrs.field(repr=False)
    reader: int
    asked: View = attrs.field(repr=False)
    typed_at: float
    next_at: float
    _delay_s: float = FIRST_S

    @classmethod
    def due(cls, prompt_id: str, text: str, witness: Witness | None, *, asked: View, now: float) -> PendingEnter | None:
        """The Enter of a text that is typed now into a raw terminal; None: nobody is known to take keys, so it goes along."""
        told = NOTHING_KNOWN if witness is None else witness.look()
        if witness is None or witness.reader_pid is None or not text or told.canonical or not told.reading or told.is_idle:
            return None
        return cls(prompt_id, text, witness.reader_pid, asked, now, now + FIRST_S)

    def look(self, fd: int, witness: Witness, now: float) -> Step | Withheld:
        """What to do now, and with no checkpoint after; `wait`: `next_at` says until when."""
        if terminal.is_closed(fd):
            return Withheld("the program closed its terminal")
        unread = terminal.unread_bytes(fd)
        if unread is None:
            return "type"
        is_late = now >= self.typed_at + MOST_S
        if unread:  # what follows unread text in the queue is read with it, as one line: for that it is never too late
            return "type" if is_late else self._wait(now)
        if terminal.is_canonical(fd):
            return Withheld("the program took the text without it, and reads whole lines now")
        told = witness.look()
        if told.reading and witness.reader_pid != self.reader:
            return Withheld("the program took the text without it, and another process reads now")
        if told.reading and now >= self.typed_at + AFTER_S:
            return "type"
        return (
            Withheld(f"the program took the text, and did not wait for more within {MOST_S:g} s")
            if is_late
            else self._wait(now)
        )

    def _wait(self, now: float) -> Step:
        self._delay_s = min(2 * self._delay_s, _NEXT_MOST_S)
        self.next_at = now + self._delay_s
        return "wait"
