"""What does the kernel know of a terminal?

The value that the runner's witness hands to the detector. Every fact has three answers: yes, no, and None, "the kernel does
not say" (another kernel, a setuid program, a relay to another machine). What is not said is left to the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandboxd.values import frozen


@frozen
class Evidence:
    """The terminal at one moment.

    `canonical`, `echo`: its line mode, and whether it shows what is typed. `reading`: whether a process waits for input on it.
    `is_exact`: that process is blocked in a read of this very terminal. `is_idle`: it is one that keeps the terminal open for
    reading all the time (a relay to another terminal), so that its waiting tells nothing. `is_lazy`: it may have stopped
    without the kernel's knowledge (node leaves the terminal in its epoll set when it pauses). `reader`: program and call.
    """

    canonical: bool | None = None
    echo: bool | None = None
    reading: bool | None = None
    is_exact: bool = False
    is_idle: bool = False
    is_lazy: bool = False
    reader: str = ""

    @property
    def hides_typing(self) -> bool | None:
        """The kernel's own word that a secret is asked: line mode without echo. In raw mode echo says nothing."""
        if self.canonical is None or self.echo is None or not self.canonical:
            return None
        return not self.echo

    @property
    def says_who_reads(self) -> bool:
        """Whether the wait itself is known, one way or the other."""
        return self.reading is not None and not self.is_idle

    @property
    def says_who_stopped(self) -> bool:
        """Whether a wait that goes on is known to go on, so that output alone takes no question back."""
        return self.says_who_reads and not (self.reading and self.is_lazy)

    def facts(self) -> Mapping[str, Any]:
        """What is known, for the record."""
        known = {"canonical": self.canonical, "echo": self.echo, "reading": self.reading}
        facts: dict[str, Any] = {key: value for key, value in known.items() if value is not None}
        if self.is_idle:
            facts["idle_reader"] = True
        if self.reader:
            facts["reader"] = self.reader
        return facts


NOTHING_KNOWN = Evidence()
