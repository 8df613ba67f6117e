"""Is the live line what a person would see?"""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxd.detect.terminal import RING_BYTES, Terminal
from sandboxd.detect.view import LINE_MAX_CHARS, View

ASK = "Overwrite? [y/N] "


def seen(data: bytes | str, *, cols: int = 80) -> View:
    terminal = Terminal(cols)
    terminal.feed(data.encode() if isinstance(data, str) else data)
    return terminal.look()


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ("", ""),
        (ASK, ASK),
        ("first\r\nsecond", "second"),
        ("done\r\n", ""),
        ("10 %\r99 %\rProceed? ", "Proceed? "),
        ("99 % done\rok", "ok % done"),
        ("99 % done\r\x1b[Kok", "ok"),
        ("99 % done\x1b[2K\rok", "ok"),
        ("abcdef\x1b[3D\x1b[1K!", " !ef".rjust(6)),
        ("abcdef\x1b[3D\x1b[K!", "abc!"),
        ("Proceed?x\b ", "Proceed? "),
        ("ab\b\b\b\bcd", "cd"),
        ("abc\x1b[2Dx", "axc"),
        ("abc\x1b[2Cx", "abc  x"),
        ("abc\x1b[1Gx", "xbc"),
        ("abc\x1b[5Gx", "abc x"),
        ("abc\x1b[2D\x1b[P", "ac"),
        ("abc\x1b[2D\x1b[@", "a bc"),
        ("abc\x1b[3D\x1b[2X", "  c"),
        ("a\x1b[3b", "aaaa"),
        ("a\tb", "a       b"),
        ("\x1b[1;31mDelete?\x1b[0m \x1b[38:2:255:0:0my\x1b[m ", "Delete? y "),
        ("\x1b]0;title [y/N] \x07Go? ", "Go? "),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\? ", "link? "),
        ("\x1bPq#0;2;0;0;0~\x1b\\Go? ", "Go? "),
        ("\x1b(B\x1b)0\x1b=\x1b>\x1b[?25h\x1b[?2004h\x1b[>c\x1b[6nGo? ", "Go? "),
        ("Go?    \x1b[K", "Go? "),
        ("Go? \r", "Go? "),
        ("Go?\x1b[10G", "Go? "),
        ("続行? \r続", "続行? "),
        ("続行\bx", "続 x"),
        ("続行\r x", " x行"),
        ("e\u0301t\u00e9? ", "e\u0301t\u00e9? "),
        ("e\u0301\rx", "x"),
        ("\u001b7saved\u001b8S", "Saved"),
        ("\x1b[s" + "saved\x1b[uS", "Saved"),
        ("one\r\ntwo\x1b[1A\r\x1b[JGo? ", "Go? "),
        ("one\r\ntwo\x1b[1F\x1b[2K\x1b[MGo? ", "Go? "),
        ("text\x1bc" + ASK, ASK),
        ("text\x1b[H\x1b[2J" + ASK, ASK),
        ("text\x1b[H\x1b[2J\x1b[3J" + ASK, ASK),
        ("text\x1b[2J\x1b[H" + ASK, ASK),
        ("text\x1b[H\x1b[J" + ASK, ASK),
        ("\x1b[?1049hfull screen\x1b[5;5H\x1b[?1049l" + ASK, ASK),
        ("prompt> \x1b[?1049hvim\x1b[?1049lx", "prompt> x"),
        ("bar\x1b7\x1b[24;0f[####]\x1b8? ", "bar? "),
        (b"caf\xc3", "caf"),
        (b"caf\xc3\xa9\xff? ", "café\ufffd? "),
        ("Go? \x1b", "Go? "),
        ("Go? \x1b[3", "Go? "),
        ("Go? \x1b]0;half a ti", "Go? "),
        ("\x1b]0;a title that nobody ends\r\nGo? ", "Go? "),
    ],
)
def test_the_line_is_rendered_as_a_person_sees_it(data: bytes | str, line: str) -> None:
    view = seen(data)

    assert (view.line, view.unknown) == (line, "")


@pytest.mark.parametrize(
    "data",
    [
        "\x1b[?1049hAre you sure? [y/N] ",
        "\x1b[?47h" + ASK,
        "log\r\n\x1b[24;1HQuit without saving? (y/n) ",
        "log\r\n\x1b[24;1H\x1b[2KQuit without saving? (y/n) ",
        "log\r\n\x1b[3dQuit? (y/n) ",
        "\x1b[H\x1b[2Jtitle\x1b[10;5HQuit? (y/n) ",
        "log\r\n\x1b[2;20r" + ASK,
        "log\r\n\x1b[S" + ASK,
    ],
)
def test_where_the_cursor_was_moved_away_nothing_is_known(data: str) -> None:
    view = seen(data)

    assert view.unknown
    assert view.line == ""


@pytest.mark.parametrize(
    ("data", "line", "below"),
    [
        ("one\r\ntwo\x1b[1A\r" + ASK, ASK, ("two",)),
        ("? Framework\r\n  Vue\r\n  React\x1b[2A\r", "? Framework", ("  Vue", "  React")),
    ],
)
def test_text_below_the_cursor_is_told_and_makes_the_line_a_weak_one(data: str, line: str, below: tuple[str, ...]) -> None:
    view = seen(data)

    assert view.unknown == "something stands below the cursor's line"
    assert (view.line, view.below) == (line, below)


def test_after_a_full_screen_of_lines_the_cursor_is_found_again() -> None:
    assert seen("log\r\n\x1b[5;1Hx" + "\r\n" * 23 + ASK).unknown
    assert seen("log\r\n\x1b[5;1Hx" + "\r\n" * 24 + ASK).line == ASK


@pytest.mark.parametrize("cols", [20, 40, 80, 120])
def test_a_wrapped_question_is_one_line(cols: int) -> None:
    question = f"The migration will rewrite {'every row of the table ' * 5}and cannot be undone. Continue? [y/N] "

    assert seen(question, cols=cols).line == question


def test_readline_wraps_by_a_blank_and_a_carriage_return() -> None:
    text = "0123456789" * 2

    assert seen(f"{text} \r? [y/N] ", cols=20).line == f"{text}? [y/N] "


def test_a_line_of_exactly_the_width_stays_in_its_row() -> None:
    assert seen("0123456789\rx", cols=10).line == "x123456789"
    assert seen("0123456789\r\nx", cols=10).line == "x"
    assert seen("012345678続? ", cols=10).line == "012345678続? "


def test_without_autowrap_the_last_column_is_overwritten() -> None:
    assert seen("\x1b[?7l0123456789abc", cols=10).line == "012345678c"


def test_the_line_above_skips_empty_ones_and_joins_wrapped_ones() -> None:
    assert seen(f"{'word ' * 30}end\r\n\r\n> ").above == f"{'word ' * 30}end"


def test_a_very_long_line_is_cut_at_its_beginning_and_says_so() -> None:
    view = seen("x" * 5000 + ASK)

    assert view.is_cut
    assert len(view.line) == LINE_MAX_CHARS
    assert view.line.startswith("…x") and view.line.endswith(ASK)


@pytest.mark.parametrize("filler", ["x", "x\r", "x\r\n", "\x1b[31mx\x1b[0m\r\n", "続"])
def test_much_output_before_the_question_is_dropped_not_kept(filler: str) -> None:
    terminal = Terminal()
    for _ in range(100):
        terminal.feed((filler * 1000).encode())
    terminal.feed(f"\r\n{ASK}".encode())

    assert len(terminal._pending) <= 2 * RING_BYTES
    assert terminal.look().line == ASK


def test_the_alternate_screen_is_remembered_over_dropped_output() -> None:
    noise = b"\x1b[1mx\x1b[0m\r\n" * 3000

    assert seen(b"\x1b[?1049h" + noise + ASK.encode()).unknown
    assert seen(b"\x1b[?1049h" + noise + b"\x1b[?1049l" + noise + ASK.encode()).line == ASK


def test_combining_marks_are_bounded() -> None:
    view = seen("e" + "\u0301" * 1000 + "? ")

    assert len(view.line) < 40


CSI = re.findall(r"\S+", "K 1K 2K J 2J H 3A 2B 4C 5D 7G 5;5H ?1049h ?1049l 1;31m ?7l ?7h L 2M 3P 2@ 4X 6b s u")
PIECES = st.one_of(
    st.text(max_size=12),
    st.sampled_from([ASK, "\r", "\n", "\r\n", "\b", "\t", "続行", "👍🏽", "e\u0301", "0" * 90]),
    st.sampled_from(CSI).map("\x1b[{}".format),
    st.sampled_from(["\x1b7", "\x1b8", "\x1bM", "\x1bD", "\x1bc", "\x1b(B", "\x1b", "\x1b[", "\x1b[99"]),
    st.sampled_from(["\x1b]0;t\x07", "\x1b]0;t\x1b\\", "\x1b]0;never", "\x1bP1$r\x1b\\"]),
)
OUTPUT = st.lists(PIECES, max_size=30).map(lambda pieces: "".join(pieces).encode("utf-8", "replace"))


@given(OUTPUT, st.lists(st.integers(0, 400), max_size=8), st.sampled_from([10, 80]))
@settings(max_examples=300, deadline=None)
def test_how_the_bytes_were_split_makes_no_difference(data: bytes, cuts: list[int], cols: int) -> None:
    terminal, looking = Terminal(cols), Terminal(cols)
    stops = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    for start, stop in zip([0, *stops], stops, strict=False):
        terminal.feed(data[start:stop])
        looking.feed(data[start:stop])
        looking.look()

    assert terminal.look() == looking.look() == seen(data, cols=cols)


@given(st.binary(max_size=200), st.integers(0, 200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_at_all_can_be_looked_at(data: bytes, cut: int) -> None:
    terminal = Terminal()
    terminal.feed(data[:cut])
    terminal.look()
    terminal.feed(data[cut:])

    assert terminal.look() == seen(data)


@given(OUTPUT, st.lists(st.integers(1, 5000), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_how_a_flood_was_split_makes_no_difference(tail: bytes, sizes: list[int]) -> None:
    data = (b"\x1b[32mok\x1b[0m line of a build log\r\n" * 700) + tail
    terminal = Terminal()
    start = 0
    while start < len(data):
        for size in sizes:
            terminal.feed(data[start : start + size])
            start += size

    assert terminal.look() == seen(data)


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x1b]",
        b"\x1b",
        b"\x1b7\x1b8",
        b"\xcc\x81",
        b"\r\n",
        *(f"\x1b[{end}".encode() for end in ("", "24A", "99B", "99b", "99@", "99L")),
    ],
)
def test_a_hostile_flood_is_rendered_in_bounded_time(hostile: bytes) -> None:
    terminal = Terminal()
    terminal.feed(b"x")
    terminal.feed(hostile * (RING_BYTES // len(hostile)))
    began = time.thread_time()
    terminal.look()

    assert time.thread_time() - began < 0.5  # measured: 1 to 30 ms; CPU time, so that a busy machine changes nothing


@pytest.mark.parametrize("cut", range(16))
def test_a_mode_that_was_set_in_dropped_output_holds_wherever_the_cut_falls(cut: int) -> None:
    terminal = Terminal()
    terminal.feed(b"\x1b[?25l\x1b[?25h" * 10 + b"\x1b[?25;2004h" + b"x" * cut + b"\x1b[?25l")
    terminal.feed(b"\r\n" + b"y" * (RING_BYTES + 16) + b"\r\nName: ")

    view = terminal.look()
    assert (view.line, view.edits, view.hides_cursor) == ("Name: ", True, True)


@given(
    st.lists(st.sampled_from(["25l", "25h", "2004h", "2004l", "25;2004h", "1049h", "1049l", "7l"]), max_size=6), st.booleans()
)
def test_modes_in_dropped_output_are_what_they_were_set_to_last(modes: list[str], repeats: bool) -> None:
    data = "".join(f"\x1b[?{mode}bar? {number}\r" for number, mode in enumerate(modes * (50 if repeats else 1))).encode()
    dropping, seeing = Terminal(), Terminal()
    dropping.feed(data + b"y" * (2 * RING_BYTES) + b"\r\nName: ")
    seeing.feed(data)
    seeing.look()
    seeing.feed(b"\r\nName: ")

    assert _flags_of(dropping.look()) == _flags_of(seeing.look())


def _flags_of(view: View) -> tuple[bool, bool, bool]:
    return view.edits, view.hides_cursor, bool(view.full_screen)
