"""What does a person see at the cursor of a screen that has been rendered?

Where a program hides the cursor and draws one itself, as clack, ink and the agents built on it do, the line is the one that
holds the drawn cursor; in a frame that holds nothing but the answer, it is the line above.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from sandboxd.detect.screen import Row, Screen
from sandboxd.values import frozen

LINE_MAX_CHARS: Final = 4096  # of the live line; the end is kept, for that is where a question is
_ROWS_SHOWN: Final = 16  # above and below: as far as a menu reaches that a person can take in
_APART: Final = " " * 4
_FRAME: Final = "│┃║|"
_FRAME_ROW: Final = re.compile(r"^[\s│┃║╭╮╰╯┌┐└┘├┤╔╗╚╝─━═]*$")


@frozen
class View:
    """The live line and what surrounds it.

    `line`: as printed, one blank at its end where there were several; empty when `unknown` says why it cannot be told. With
    text below the cursor, or a line editor that goes on below a full screen, it is known and only weak. `row`: the number of
    the row that the line begins in; it tells the same words in another place. `is_cut`: the line is longer than the cap and
    only its end is here. `rows`: the rows above, nearest last, wrapped ones apart and blank ones kept; `below`: the ones below
    that are not blank. `edits`: bracketed paste is on, as line editors have it while they read. `hides_cursor`: as menus do;
    `draws_cursor`: and draws one of its own, in the line that is shown here, whose text before it is `line`; `is_field`: it
    stands in a frame's row of its own, below that line. `takes_mouse`: it asked to be told of the mouse. `marks_below`: of the
    rows right below, the first alone is in inverse video. `written`: where the line cannot be told for a move of the cursor,
    what was written in that row since.
    """

    line: str = ""
    above: str = ""
    row: int = 0
    is_cut: bool = False
    unknown: str = ""
    rows: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    edits: bool = False
    hides_cursor: bool = False
    written: str = ""
    draws_cursor: bool = False
    is_field: bool = False
    takes_mouse: bool = False
    marks_below: bool = False
    full_screen: bool = False


def view_of(screen: Screen) -> View:
    """The line at the cursor, or at the one that the program draws."""
    place = screen.place
    blank = View(edits=screen.brackets_paste, hides_cursor=screen.hides_cursor, takes_mouse=screen.takes_mouse)
    if screen.is_alternate:
        return attrs.evolve(blank, row=place.first + place.at, unknown="the alternate screen is shown", full_screen=True)
    lost = "the cursor was moved to a row of its own" if place.is_lost else ""
    if lost and not _is_editing_below(screen):
        written = _tidy(place.row.text.lstrip())
        return attrs.evolve(blank, written=written, row=place.first + place.at, unknown=lost, full_screen=True)
    drawn = _drawn(screen) if screen.hides_cursor and not lost else None
    if drawn is not None:
        at, line, is_field = drawn
        return attrs.evolve(_around(screen, blank, at, at), line=line, draws_cursor=True, is_field=is_field)
    first = last = place.at
    while screen.continues(first):
        first -= 1
    while last + 1 < len(place.rows) and screen.continues(last + 1):
        last += 1
    rows = place.rows[first : last + 1]
    if any(row.is_stale for row in rows):
        return attrs.evolve(blank, row=place.first + first, unknown="the cursor was moved up to a row that is not known")
    line = _without_right_prompt(screen) if first == last else "".join(row.text for row in rows)
    if place.at == last and place.column > len(place.row.cells):
        line += " "  # the cursor was moved past the text, as inquirer does
    line = _tidy(line)
    is_cut = rows[0].is_cut or len(line) > LINE_MAX_CHARS
    if is_cut:
        line = "…" + line[-(LINE_MAX_CHARS - 1) :]
    view = _around(screen, blank, first, last)
    return attrs.evolve(
        view, line=line, is_cut=is_cut, unknown=lost or ("something stands below the cursor's line" if view.below else "")
    )


def _is_editing_below(screen: Screen) -> bool:
    """Whether a line editor goes on in a new row below a full screen; an editor of screens stands in front of its text."""
    is_in_front = screen.place.column == 0 and bool(screen.place.row.text.strip())
    return screen.is_on_fresh_row and screen.brackets_paste and not is_in_front


def _without_right_prompt(screen: Screen) -> str:
    """The cursor's row; what stands far to the right of the cursor is a shell's or editor's right prompt."""
    place = screen.place
    before, behind = "".join(place.row.cells[: place.column]), "".join(place.row.cells[place.column :])
    is_apart = before.strip() and behind.startswith(_APART) and behind.strip()
    return before if is_apart else before + behind


def _around(screen: Screen, blank: View, first: int, last: int) -> View:
    """What stands above and below these rows."""
    place = screen.place
    below = tuple(row.text.rstrip() for row in place.rows[last + 1 : last + 1 + 4 * _ROWS_SHOWN] if row.text.strip())
    return attrs.evolve(
        blank,
        row=place.first + first,
        above=_above(screen, first),
        rows=tuple("" if row.is_stale else row.text.rstrip() for row in place.rows[max(0, first - _ROWS_SHOWN) : first]),
        below=below[:_ROWS_SHOWN],
        marks_below=_is_marked_below(place.rows[last + 1 : last + 3]),
    )


def _drawn(screen: Screen) -> tuple[int, str, bool] | None:
    """The row with the cursor that the program draws, nearest the real one, its text up to there, and whether it is a field."""
    rows, at = screen.place.rows, screen.place.at
    for index in range(min(len(rows) - 1, at + _ROWS_SHOWN), max(-1, at - _ROWS_SHOWN), -1):
        row = rows[index]
        if row.drawn_at is None or row.is_stale:
            continue
        if index == at and screen.place.column < row.drawn_at and _is_aligned(rows[index + 1 : index + 2], row.drawn_at):
            continue  # a menu's mark on the first letter of a choice, with the next choice right below it
        text = _before(row)
        if not text or text[0] not in _FRAME:
            return index, text, False
        text = f"{text[1:].strip()} "
        above = rows[index - 1].text.rstrip() if index and not rows[index - 1].is_stale else ""
        is_in_box = _FRAME_ROW.match(above) is not None or above.lstrip()[:1] in _FRAME
        if text.strip() and is_in_box:
            return index, text, False
        is_last = all(_FRAME_ROW.match(row.text) for row in rows[index + 1 :])  # no list of what fits stands below
        return None if _FRAME_ROW.match(above) else (index - 1, f"{above} ", is_last or not text.strip())
    return None


def _is_aligned(rows: list[Row], column: int) -> bool:
    """Whether the row has its text where a choice above it has."""
    return any(row.text[:column].isspace() and row.text[column : column + 1].strip() for row in rows)


def _is_marked_below(rows: list[Row]) -> bool:
    """Whether the first row is all in inverse video, and the next is not: a list of choices, and no bar of keys."""
    return (
        len(rows) > 1
        and rows[0].is_inverse
        and bool(rows[0].text.strip())
        and not rows[1].is_inverse
        and bool(rows[1].text.strip())
    )


def _before(row: Row) -> str:
    return _tidy("".join(row.cells[: row.drawn_at]).lstrip())


def _tidy(text: str) -> str:
    """Blanks at the end are one blank."""
    bare = text.rstrip()
    return f"{bare} " if len(bare) < len(text) else text


def _above(screen: Screen, stop: int) -> str:
    """The nearest line above that is not empty, wrapped rows joined; empty when it is not known."""
    joined = ""
    for index in range(stop - 1, -1, -1):
        row = screen.place.rows[index]
        if row.is_stale:
            return ""
        joined = row.text + joined
        if not screen.continues(index):
            if joined.strip():
                break
            joined = ""
    return joined.rstrip()[-LINE_MAX_CHARS:]
