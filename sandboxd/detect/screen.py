"""Which text stands in which row, and where is the cursor?

As much of a terminal as a person needs to see the line they are asked on: rows, a cursor, autowrap, erasing, saving and
relative moves. It is no full emulator. Where it cannot know what stands in a row it says so: after a move to an absolute
row, or in the alternate screen, nothing is known until the screen is cleared, the cursor restored, or enough lines have
been printed that the cursor is at the bottom again. Text that has been drawn elsewhere is never taken for a question.
"""

from __future__ import annotations

import unicodedata
from typing import Final

import attrs

ROWS_KEPT: Final = 64  # rows above the cursor that stay known; redraws of menus and progress lists stay far below


@attrs.define(eq=False)
class Row:
    """One row: a cell a column, the second cell of a wide character is empty."""

    cells: list[str] = attrs.Factory(list)
    is_wrapped: bool = False  # goes on where the row above was full
    is_stale: bool = False  # holds something from before all that we know
    is_cut: bool = False  # its beginning was dropped
    drawn_at: int | None = None  # the column of a cursor that the program draws itself
    is_inverse: bool = False  # was last written in inverse video

    @property
    def text(self) -> str:
        """What stands in it, blanks at the end included."""
        return "".join(self.cells)

    def put(self, column: int, cells: list[str]) -> None:
        """Overwrite from this column on; halves of wide characters that are left over become blanks."""
        own = self.cells
        if len(own) < column:
            own.extend(" " * (column - len(own)))
        stop = column + len(cells)
        if column < len(own) and own[column] == "" and column > 0:
            own[column - 1] = " "
        if stop < len(own) and own[stop] == "":
            own[stop] = " "
        own[column:stop] = cells
        if self.drawn_at is not None and column <= self.drawn_at < stop:
            self.drawn_at = None

    def forget(self) -> None:
        """Everything in it was erased."""
        self.cells.clear()
        self.is_stale = self.is_cut = self.is_inverse = False
        self.drawn_at = None

    def erase_from(self, column: int) -> None:
        """Everything from this column on was erased."""
        del self.cells[column:]
        if self.drawn_at is not None and self.drawn_at >= column:
            self.drawn_at = None


@attrs.define(eq=False)
class Place:
    """A cursor, the rows that it moves in, and whether we know where it is."""

    rows: list[Row] = attrs.Factory(lambda: [Row()])
    first: int = 0  # the number of the first row, counted from the start of the output
    at: int = 0
    column: int = 0
    is_lost: bool = False
    newlines_to_bottom: int = 0  # while lost

    @property
    def row(self) -> Row:
        """The cursor's row."""
        return self.rows[self.at]


class Screen:
    """Takes text runs and cursor moves; `place` is the truth as far as it is known."""

    def __init__(self, cols: int, height: int) -> None:
        self._cols = max(2, cols)
        self._height = max(2, height)
        self.place = Place()
        self.is_alternate = False
        self.hides_cursor = self.brackets_paste = self.takes_mouse = False
        self._main: Place | None = None  # the main screen, while the alternate one is shown
        self._saved: Place | None = None
        self._wraps = True
        self._is_top_known = True  # the first row is the top of the screen: nothing is above it
        self._is_blank = True  # nothing was written since the screen was cleared
        self._is_home = False  # the last move was to the upper left corner
        self._last = ""

    @property
    def is_on_fresh_row(self) -> bool:
        """Whether the cursor, lost as it is, has gone to a new row since it was moved."""
        return self.place.newlines_to_bottom < self._height

    def restart(self, *, is_same_row: bool, is_alternate: bool, is_cut: bool) -> None:
        """Output was dropped: begin anew with an empty row, in the cursor's row or below all that was known."""
        place = self.place
        number = place.first + (place.at if is_same_row else len(place.rows))
        self.place = Place(rows=[Row(is_cut=is_cut)], first=number)
        self.is_alternate = is_alternate
        self._main = self._saved = None
        self._is_top_known = self._is_blank = self._is_home = False

    def trim(self) -> None:
        """Let go of rows far above the cursor."""
        extra = self.place.at - ROWS_KEPT
        if extra > 0:
            del self.place.rows[:extra]
            self._renumber(extra)
            self._is_top_known = False

    def continues(self, index: int) -> bool:
        """Whether the row goes on where the full row above it ended."""
        rows = self.place.rows
        return index > 0 and rows[index].is_wrapped and len(rows[index - 1].cells) >= self._cols - 1

    def _renumber(self, gone: int) -> None:
        """So many rows were taken from the beginning of the list (negative: put there)."""
        for place in (self.place, self._saved):
            if place is not None and place.rows is self.place.rows:
                place.first += gone
                place.at = max(0, place.at - gone)

    # ── text ──

    def write(self, text: str) -> None:
        """Print characters at the cursor, wrapping as a terminal does."""
        self._is_blank = self._is_home = False
        self._last = text[-1:]
        if text.isascii():
            self._put_narrow(text)
            return
        for char in text:
            if char.isascii():
                self._put_narrow(char)
            elif unicodedata.category(char) in ("Mn", "Me", "Cf"):
                self._combine(char)
            elif unicodedata.east_asian_width(char) in ("W", "F"):
                self._put_wide(char)
            else:
                self._put_narrow(char)

    def mark(self, *, is_inverse: bool) -> None:
        """The text that was printed last is in inverse video, or not."""
        self.place.row.is_inverse = is_inverse

    def texts(self) -> tuple[str, ...]:
        """What stands in each row that is known."""
        return tuple(row.text for row in self.place.rows)

    def draw_cursor(self, *, is_drawn: bool) -> None:
        """The character that was printed last is drawn as a cursor, or shows that the ones before are none."""
        if self.place.column > 0:
            self.place.row.drawn_at = self.place.column - 1 if is_drawn else None

    def ends_in(self, text: str) -> bool:
        """Whether that stands right before the cursor."""
        return self.place.row.cells[max(0, self.place.column - len(text)) : self.place.column] == list(text)

    def repeat(self, count: int) -> None:
        """Print the last character again."""
        if self._last:
            self.write(self._last * min(count, self._cols))

    def _put_narrow(self, text: str) -> None:
        place, cols = self.place, self._cols
        while text:
            room = self._room(1)
            if not self._wraps and len(text) > room:
                text = text[: room - 1] + text[-1]  # the last column shows the last character
            place.row.put(place.column, list(text[:room]))
            place.column = min(cols, place.column + len(text[:room]))
            text = text[room:]

    def _put_wide(self, char: str) -> None:
        self._room(2)
        place = self.place
        place.row.put(place.column, [char, ""])
        place.column += 2

    def _room(self, width: int) -> int:
        """How many columns are left in the row, after wrapping where fewer than `width` are."""
        place, cols = self.place, self._cols
        if place.column + width > cols:
            if self._wraps:
                place.column = 0
                self._down()
                place.row.is_wrapped = True
            else:
                place.column = cols - width
        return cols - place.column

    def _combine(self, char: str) -> None:
        """Join a character that has no width to the one before it."""
        cells = self.place.row.cells
        at = min(self.place.column, len(cells)) - 1
        if at > 0 and cells[at] == "":
            at -= 1
        if at >= 0 and len(cells[at]) < 16:  # a bound: hundreds of marks on one letter are an attack, not a text
            cells[at] += char

    # ── rows ──

    def newline(self) -> None:
        """To the first column of the next row (a tty's own newline arrives as CR LF; LF alone does not differ here)."""
        self.place.column = 0
        self._down()

    def _down(self) -> None:
        place = self.place
        self._is_home = False
        place.at += 1
        if place.at == len(place.rows):
            place.rows.append(Row())
        if place.is_lost:
            place.newlines_to_bottom -= 1
            if place.newlines_to_bottom <= 0:
                place.is_lost = False

    def up(self, count: int) -> None:
        """Up by so many rows; rows above all that is known are stale until they are erased."""
        place = self.place
        self._is_home = False
        if place.is_lost:
            place.newlines_to_bottom = self._height
        top = len(place.rows) - self._height  # a terminal cannot move above the top of its screen
        target = max(place.at - count, top)
        if self._is_top_known:
            target = max(target, 0)
        if target < 0:
            place.rows[:0] = [Row(is_stale=True) for _ in range(-target)]
            self._renumber(target)
            target = 0
        place.at = min(place.at, target)

    def down(self, count: int) -> None:
        """Down by so many rows, without scrolling."""
        place = self.place
        self._is_home = False
        target = min(place.at + count, max(len(place.rows), self._height) - 1)
        while len(place.rows) <= target:
            place.rows.append(Row())
        place.at = target

    def move_to(self, row: int, column: int) -> None:
        """To an absolute position: what stands there is not known, unless it is the top of a blank screen."""
        old = self.place
        self.place = Place(first=old.first + len(old.rows), column=min(column, self._cols) - 1)
        if not self._is_blank or row != 1:
            self.place.is_lost = True
            self.place.newlines_to_bottom = self._height
            self._is_home = row == 1 and column == 1
        self._is_top_known = False

    def insert_rows(self, count: int) -> None:
        """Push the cursor's row and the ones below it down."""
        at = self.place.at
        self.place.rows[at:at] = [Row() for _ in range(min(count, self._height))]
        del self.place.rows[at + 2 * self._height :]

    def delete_rows(self, count: int) -> None:
        """Take out rows from the cursor's on."""
        at = self.place.at
        self.place.rows[at : at + count] = []
        if at == len(self.place.rows):
            self.place.rows.append(Row())

    def get_lost(self) -> None:
        """The screen scrolled in a way that is not followed here."""
        self._is_blank = False
        self.move_to(2, self.place.column + 1)

    # ── columns ──

    def to_column(self, column: int) -> None:
        """To a column, counted from 0."""
        self.place.column = max(0, min(column, self._cols - 1))

    def right(self, count: int) -> None:
        """By so many columns; negative: to the left."""
        self.to_column(min(self.place.column, self._cols - 1) + count)

    def tab(self) -> None:
        """To the next column that eight divides."""
        self.to_column((self.place.column // 8 + 1) * 8)

    # ── erasing ──

    def erase_in_line(self, what: int) -> None:
        """From the cursor on (0), up to it (1), all (2)."""
        row, column = self.place.row, min(self.place.column, self._cols - 1)
        if what == 2 or (what == 0 and column == 0):
            row.forget()
        elif what == 0:
            row.erase_from(column)
        elif what == 1:
            row.put(0, [" "] * (column + 1))

    def erase_in_screen(self, what: int) -> None:
        """From the cursor on (0), up to it (1), all (2)."""
        place = self.place
        if what == 2 or (what == 0 and self._is_home):
            self.place = Place(first=place.first + len(place.rows), column=place.column)
            self._is_blank, self._is_home = True, False
            return
        if what == 0:
            self.erase_in_line(0)
            del place.rows[place.at + 1 :]
        elif what == 1:
            self.erase_in_line(1)
            for row in place.rows[: place.at]:
                row.forget()

    def erase_cells(self, count: int) -> None:
        """Blank so many cells from the cursor on."""
        column = min(self.place.column, self._cols - 1)
        self.place.row.put(column, [" "] * min(count, self._cols - column))

    def insert_cells(self, count: int) -> None:
        """Push the rest of the row to the right."""
        row, column = self.place.row, self.place.column
        if column < len(row.cells):
            row.cells[column:column] = [" "] * min(count, self._cols)
            del row.cells[self._cols :]

    def delete_cells(self, count: int) -> None:
        """Pull the rest of the row to the left."""
        del self.place.row.cells[self.place.column : self.place.column + count]

    # ── modes ──

    def save(self) -> None:
        """Remember the cursor."""
        self._saved = attrs.evolve(self.place)

    def restore(self) -> None:
        """Back to the cursor that was saved, and to its rows."""
        saved = self._saved
        if saved is None:
            self.move_to(1, 1)
            return
        place = self.place
        if saved.rows is not place.rows:
            self.place = attrs.evolve(saved, at=min(saved.at, len(saved.rows) - 1))
            return
        place.at = max(0, min(saved.first + saved.at - place.first, len(place.rows) - 1))
        place.column, place.is_lost = saved.column, saved.is_lost

    def set_alternate(self, is_alternate: bool) -> None:
        """Show the alternate screen, or the main one as it was left."""
        if is_alternate == self.is_alternate:
            return
        self.is_alternate = is_alternate
        if is_alternate:
            self._main = self.place
            self.place = Place(first=self._main.first + len(self._main.rows))
            return
        old = self.place
        self.place = self._main or Place(first=old.first + len(old.rows))
        self._main = None

    def set_wraps(self, wraps: bool) -> None:
        """Whether text goes on in the next row when a row is full."""
        self._wraps = wraps

    def reset(self) -> None:
        """As at the start (RIS), further down."""
        self.place = Place(first=self.place.first + len(self.place.rows))
        self.is_alternate = self.hides_cursor = self.brackets_paste = self.takes_mouse = False
        self._main = self._saved = None
        self._wraps = self._is_blank = self._is_top_known = True
