"""What does a person see on the line at the cursor?

Bytes in, a `View` out. Between two looks nothing is interpreted: `feed` only appends, and keeps the last 8 KiB. Escape
sequences and characters may be cut at any byte; the view does not depend on how the bytes were split.

When more than 8 KiB arrive between two looks, the older part is dropped unread: rendering begins anew after a newline, and
only a switch to the alternate screen is still looked for. Measured: a read of 4 KiB costs 2 to 4 µs, a look at 8 KiB of new
output 1 to 5 ms (a full emulation of all output: 4 ms a read).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Final

from sandboxd.detect.screen import Screen
from sandboxd.detect.view import View, view_of

RING_BYTES: Final = 8192
_STRING_MAX: Final = 4096  # of an OSC or DCS string that nobody ends

_TOKEN: Final = re.compile(
    # The order matters: ESC ] is also a valid two-character sequence.
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|\x1b\[(?P<args>[0-?]{0,64})(?P<between>[ -/]{0,4})(?P<final>[@-~])"
    rf"|(?P<string>\x1b[\]PX^_][^\x07\x1b\x18\x1a\n]{{0,{_STRING_MAX}}}(?:\x07|\x1b\\))"
    r"|(?P<cut>\x1b(?:\[[0-?]{0,64}[ -/]{0,4}|[ -/]{0,4}"
    rf"|[\]PX^_][^\x07\x1b\x18\x1a\n]{{0,{_STRING_MAX - 1}}}\x1b?)\Z)"
    rf"|(?P<unended>\x1b[\]PX^_][^\x07\x1b\x18\x1a\n]{{0,{_STRING_MAX}}})"
    r"|\x1b(?P<escape>[ -/]{0,4}[0-~])"
    r"|(?P<control>[\x00-\x1f\x7f-\x9f])"
)
_PRIVATE_MODE: Final = re.compile(rb"\x1b\[\?[0-9;]{1,60}[hl]")  # no groups: they halve the speed
_PRIVATE_MODE_MAX: Final = 64
_ALTERNATE: Final = frozenset({"47", "1047", "1049"})
_CURSOR: Final = "25"
_PASTE: Final = "2004"
_MOUSE: Final = frozenset(("1000", "1002", "1003"))  # clicks, drags, all moves
_INVERSE: Final = frozenset({"7", "48", *map(str, range(40, 48)), *map(str, range(100, 108))})
_UPRIGHT: Final = frozenset({"", "0", "27", "49"})
_BLOCK: Final = "█"


class Terminal:
    """The bytes that a program has written, and the line that they make."""

    def __init__(self, cols: int = 80, height: int = 24) -> None:
        self._screen = Screen(cols, height)
        self._pending = bytearray()
        self._has_dropped_newline = False
        self._has_dropped = False
        self._is_alternate = False  # what the dropped bytes left behind
        self._is_inverse = False
        self._inverse_chars = 0  # printed since it is
        self._drawn: tuple[tuple[str, ...], View] | None = None  # what was seen when it drew its cursor last
        self._seen: View | None = None  # at the last look; nothing has come since

    def feed(self, data: bytes) -> None:
        """Output as it was read."""
        self._pending += data
        self._seen = None
        if len(self._pending) > 2 * RING_BYTES:
            self._drop(len(self._pending) - RING_BYTES)

    def look(self) -> View:
        """Render what is new, and say what stands at the cursor: the same value again while nothing has come."""
        if self._seen is not None:
            return self._seen
        if len(self._pending) > RING_BYTES:
            self._drop(len(self._pending) - RING_BYTES)
        if self._has_dropped:
            self._begin_anew()
        if self._pending:
            self._render()
        self._seen = self._unless_it_blinks(view_of(self._screen))
        return self._seen

    @property
    def hides_cursor(self) -> bool:
        """Whether the cursor is hidden, as far as that is known before the next look."""
        return self._screen.hides_cursor or b"\x1b[?25l" in self._pending

    def _unless_it_blinks(self, view: View) -> View:
        """A cursor that the program draws may blink: while nothing but it has gone, it still is where it was."""
        if view.draws_cursor:
            self._drawn = self._screen.texts(), view
        elif view.hides_cursor and self._drawn is not None and self._drawn[0] == self._screen.texts():
            return self._drawn[1]
        else:
            self._drawn = None
        return view

    def _drop(self, count: int) -> None:
        if not self._has_dropped:
            self._has_dropped = True
            self._is_alternate = self._screen.is_alternate
        if not self._has_dropped_newline:
            self._has_dropped_newline = self._pending.find(b"\n", 0, count) >= 0
        # One character is found six times as fast as ESC [ ?; a sequence that the cut parts is still whole here.
        if self._pending.find(b"?", 0, count + 2) >= 0:
            for modes, is_on in _last_modes(self._pending, count):
                if _ALTERNATE & set(modes):
                    self._is_alternate = is_on
                _flags(self._screen, modes, is_on)
        del self._pending[:count]

    def _begin_anew(self) -> None:
        start = self._pending.find(b"\n") + 1 or self._pending.find(b"\r") + 1
        if start:
            self._drop(start)
        self._screen.restart(is_same_row=not self._has_dropped_newline, is_alternate=self._is_alternate, is_cut=not start)
        self._has_dropped = self._has_dropped_newline = self._is_inverse = False

    def _render(self) -> None:
        text, consumed = codecs.utf_8_decode(self._pending, "replace", False)
        rest = self._pending[consumed:]
        self._pending.clear()
        for token in _TOKEN.finditer(text):
            match token.lastgroup:
                case "text":
                    self._screen.write(token["text"])
                    self._screen.mark(is_inverse=self._is_inverse)
                    if self._screen.hides_cursor:
                        self._mark_cursor(token["text"])
                case "control":
                    _control(self._screen, token["control"])
                case "final":
                    if token["final"] == "m":  # most sequences are colours, and of those only one tells something
                        self._is_inverse = _inverse_after(token["args"], self._is_inverse)
                        self._inverse_chars *= self._is_inverse
                    elif not token["between"]:
                        _csi(self._screen, token["args"], token["final"])
                case "escape":
                    _escape(self._screen, token["escape"])
                case "cut":
                    self._pending += token["cut"].encode()
                case _:
                    pass  # a title, an image, a colour palette: nothing that stands in a row
        self._pending += rest
        self._screen.trim()

    def _mark_cursor(self, text: str) -> None:
        """What programs that hide the cursor draw in its place: one inverse cell, or one block."""
        if self._is_inverse:
            self._inverse_chars += len(text)
            self._screen.draw_cursor(is_drawn=self._inverse_chars == 1)
        elif text[-1] == _BLOCK:
            self._screen.draw_cursor(is_drawn=not self._screen.ends_in(_BLOCK * 2))


def _last_modes(data: bytearray, stop: int) -> Iterator[tuple[list[str], bool]]:
    """The private modes that are set before `stop`, each sequence once, in the order in which they come last.

    What a mode is in the end depends on its last setting alone, and a progress bar repeats the same one for every redraw: so
    that thousands cost no more than the search for them.
    """
    end = stop
    cut = _PRIVATE_MODE.search(data, max(0, stop - _PRIVATE_MODE_MAX), stop + _PRIVATE_MODE_MAX)
    while cut is not None and cut.start() < stop:
        end = max(stop, cut.end())
        cut = _PRIVATE_MODE.search(data, cut.end(), stop + _PRIVATE_MODE_MAX)
    sequences: Iterable[bytes] = _one_or_two(data, end)
    for sequence in sequences or reversed(dict.fromkeys(reversed(_PRIVATE_MODE.findall(data, 0, end)))):
        yield sequence[3:-1].decode().split(";"), sequence.endswith(b"h")


def _one_or_two(data: bytearray, end: int) -> tuple[bytes, ...]:
    """The sequences, where they are all like the last one or the last but one, as bars repeat them; empty: there are more.

    Counting them is many times as fast as listing them.
    """
    left = data.count(b"\x1b[?", 0, end)
    last: tuple[bytes, ...] = ()
    at = end
    while left and len(last) < 2:
        at = data.rfind(b"\x1b[?", 0, at)
        found = _PRIVATE_MODE.match(data, at, end)
        if found is None or found[0] in last:
            return ()
        last = (bytes(found[0]), *last)
        left -= data.count(found[0], 0, end)
    return () if left else last


def _control(screen: Screen, char: str) -> None:
    match char:
        case "\n" | "\v" | "\f":
            screen.newline()
        case "\r":
            screen.to_column(0)
        case "\b":
            screen.right(-1)
        case "\t":
            screen.tab()
        case _:
            pass  # bells, shifts, paddings


def _escape(screen: Screen, sequence: str) -> None:
    match sequence:
        case "7":
            screen.save()
        case "8":
            screen.restore()
        case "D" | "E":
            screen.newline()
        case "M":
            screen.up(1)
        case "c":
            screen.reset()
        case _:
            pass  # character sets, keypad modes


def _csi(screen: Screen, args: str, final: str) -> None:
    if args[:1] in ("<", "=", ">", "?"):
        if final in "hl" and args[0] == "?":
            _private_modes(screen, args[1:].split(";"), final == "h")
        return
    numbers = [int(arg) if arg.isdigit() else 0 for arg in args.replace(":", ";").split(";")]
    first = numbers[0]
    count = min(max(1, first), 9999)
    if final in "JKLMPX@b":
        _edit(screen, final, first, count)
    else:
        _move(screen, final, count, max(1, numbers[1]) if len(numbers) > 1 else 1)


def _edit(screen: Screen, final: str, first: int, count: int) -> None:
    match final:
        case "J":
            screen.erase_in_screen(first)
        case "K":
            screen.erase_in_line(first)
        case "L":
            screen.insert_rows(count)
        case "M":
            screen.delete_rows(count)
        case "P":
            screen.delete_cells(count)
        case "X":
            screen.erase_cells(count)
        case "@":
            screen.insert_cells(count)
        case _:
            screen.repeat(count)


def _move(screen: Screen, final: str, count: int, second: int) -> None:
    match final:
        case "A":
            screen.up(count)
        case "B" | "e":
            screen.down(count)
        case "E":
            screen.down(count)
            screen.to_column(0)
        case "F":
            screen.up(count)
            screen.to_column(0)
        case "C" | "a":
            screen.right(count)
        case "D":
            screen.right(-count)
        case "G" | "`":
            screen.to_column(count - 1)
        case "H" | "f":
            screen.move_to(count, second)
        case "d":
            screen.move_to(count, screen.place.column + 1)
        case "r":  # the margins themselves are not followed; setting them moves the cursor home
            screen.move_to(1, 1)
        case "I":
            screen.tab()
        case "S" | "T":
            screen.get_lost()
        case "s":
            screen.save()
        case "u":
            screen.restore()
        case _:
            pass  # colours, reports, tab stops


def _inverse_after(args: str, before: bool) -> bool:
    """Whether text is drawn in inverse video, or on a colour of its own, after that `SGR`."""
    parts = args.split(";")
    if "38" in parts:  # a colour's own numbers follow
        return before
    return not _INVERSE.isdisjoint(parts) or (before and _UPRIGHT.isdisjoint(parts))


def _flags(screen: Screen, modes: list[str], is_on: bool) -> None:
    """What needs no rendering, and so survives output that was dropped unread."""
    if _CURSOR in modes:
        screen.hides_cursor = not is_on
    if _PASTE in modes:
        screen.brackets_paste = is_on
    if not _MOUSE.isdisjoint(modes):
        screen.takes_mouse = is_on


def _private_modes(screen: Screen, modes: list[str], is_on: bool) -> None:
    _flags(screen, modes, is_on)
    for mode in modes:
        if mode in _ALTERNATE:
            screen.set_alternate(is_on)
        elif mode == "7":
            screen.set_wraps(is_on)
        elif mode == "1048":
            if is_on:
                screen.save()
            else:
                screen.restore()
