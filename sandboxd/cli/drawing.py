"""How is a program's terminal drawn on another one, without what reaches beyond its window?

`tasks logs` and a plain `attach` show text (`cli/text`). Here a terminal obeys the program: colour, cursor, erasing, the other
screen. What is let through is a list: everything that makes a terminal answer (it would be typed into the shell afterwards),
sets a title, a clipboard, a link, another size, or reports keys and mouse is dropped. Sequences as in ECMA-48 §5 and xterm's.
"""

from __future__ import annotations

import codecs
import contextlib
import re
import signal
import termios
from collections.abc import Iterator
from types import FrameType
from typing import Final

_PLAIN: Final = frozenset("\a\b\t\n\v\f\r\x0e\x0f")  # the control characters that only move, or ring
_STRINGS: Final = frozenset("]PX^_")  # OSC, DCS, SOS, PM, APC: their text is for somebody else than the screen
_MODES: Final = frozenset({1, 5, 6, 7, 12, 25, 45, 47, 1047, 1048, 1049})  # how it draws; none that reports or resizes
_USUAL: Final = {7: True, 25: True}  # modes that are on before anybody sets one: lines wrap, the cursor shows
_SEQUENCE: Final = re.compile(r"\x1b\[(?P<mark>[<-?]?)(?P<numbers>[0-9;:]{0,64})(?P<between>[ -/]{0,2})(?P<last>[@-~])")
_DRAWS: Final = frozenset("@ABCDEFGHIJKLMPSTXZ`abdefgmrsu")
_LONGEST: Final = 80
_LFLAG: Final = 3  # termios(3)


class Drawing:
    """Lets through what draws, piece by piece; `reset` undoes what the program left set."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # a sequence that is not whole yet
        self._string = ""  # the last character of a string that is being dropped; empty: none is
        self._modes = dict(_USUAL)
        self._has_margins = False

    def feed(self, data: bytes) -> str:
        """What may be drawn of these bytes."""
        return "".join(filter(None, map(self._take, self._decoder.decode(data))))

    def reset(self) -> str:
        """What brings the terminal back to how it was found: modes, colour, character set, margins."""
        undone = [
            f"\x1b[?{mode}{'h' if _USUAL.get(mode) else 'l'}"
            for mode, is_on in self._modes.items()
            if is_on != _USUAL.get(mode, False)
        ]
        margins = "\x1b7\x1b[r\x1b8" if self._has_margins else ""  # resetting them moves the cursor
        return "".join(sorted(undone)) + margins + "\x1b[0m\x1b(B\x0f"

    def _take(self, char: str) -> str:
        if self._string:
            return self._skip(char)
        if self._held:
            return self._go_on(char)
        if char == "\x1b":
            self._held = char
            return ""
        is_control = ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0
        return char if char in _PLAIN or not is_control else ""

    def _skip(self, char: str) -> str:
        ended = char in "\a\x18\x1a\x9c" or (self._string == "\x1b" and char == "\\")
        self._string = "" if ended else char
        return ""

    def _go_on(self, char: str) -> str:
        if char in "\x18\x1a":  # CAN, SUB: a sequence is given up
            self._held = ""
            return ""
        if char == "\x1b":
            self._held = char
            return ""
        if ord(char) < 0x20:  # obeyed in the middle of a sequence
            return char if char in _PLAIN else ""
        self._held += char
        if self._held == "\x1b[" or (self._held[:2] != "\x1b[" and " " <= char <= "/" and len(self._held) < 4):
            return ""
        if self._held[1] in _STRINGS:
            self._held, self._string = "", char
            return ""
        if self._held[:2] == "\x1b[" and " " <= char <= "?" and len(self._held) < _LONGEST:
            return ""
        whole, self._held = self._held, ""
        return self._csi(whole) if whole[:2] == "\x1b[" else self._escape(whole)

    def _escape(self, whole: str) -> str:
        draws = whole in ("\x1b7", "\x1b8", "\x1bD", "\x1bE", "\x1bH", "\x1bM", "\x1b=", "\x1b>") or re.fullmatch(
            r"\x1b[()][0AB]", whole
        )
        return whole if draws else ""

    def _csi(self, whole: str) -> str:
        found = _SEQUENCE.fullmatch(whole)
        if found is None:
            return ""
        mark, last, between = found["mark"], found["last"], found["between"]
        if between:
            return whole if (between, last) == (" ", "q") else ""  # the cursor's shape
        if mark == "?" and last in "hl":
            modes = [int(number) for number in found["numbers"].split(";") if number.isdigit()]
            self._modes |= {mode: last == "h" for mode in modes if mode in _MODES}
            return "".join(f"\x1b[?{mode}{last}" for mode in modes if mode in _MODES)
        if mark == "?" and last in "JK":
            return whole
        if mark or last not in _DRAWS:
            return ""
        self._has_margins |= last == "r"
        return whole


@contextlib.contextmanager
def keyboard_off(keyboard: int) -> Iterator[None]:
    """Nothing that is typed shows, or is left for whoever reads next; Ctrl-C works, and TERM or HUP end the block like it."""
    before = termios.tcgetattr(keyboard)
    quiet = termios.tcgetattr(keyboard)
    quiet[_LFLAG] &= ~(termios.ECHO | termios.ICANON)
    numbers = (signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.signal(number, _interrupt) for number in numbers}
    try:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, quiet)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSAFLUSH, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
