"""Can a text from a task steer the terminal?"""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxd.cli.text import Screen, one_line, shown

HOSTILE = [
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x1b]52;c;cm0gLXJm\x07",
    "\x9b31m",
    "\u202egnp.exe",
    "a\rb",
    "\x08\x08",
    "\x7f",
    "\u2066x\u2069",
]


def is_harmless(text: str, *, kept: str = "") -> bool:
    return all(
        char in kept + "\u200c\u200d" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in text
    )


def screened(*pieces: bytes) -> str:
    screen = Screen()
    return "".join([*map(screen.feed, pieces), screen.finish()])


@given(st.text(st.characters(codec=None)))
def test_no_text_shown_can_steer_a_terminal(text: str) -> None:
    assert is_harmless(shown(text))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_with_nothing_dropped(text: str) -> None:
    safe = shown(text)

    assert is_harmless(safe)
    assert len(safe) >= len(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_plain_text_is_shown_as_it_is(text: str) -> None:
    assert shown(text) == text


def test_control_characters_have_their_unicode_pictures() -> None:
    assert shown("a\x1b[31m\x07\x7f\tb") == "a␛[31m␇␡␉b"


def test_invisible_characters_are_spelled_out() -> None:
    assert shown("\u202e\x9b\u2028\ud800") == "\\u202e\\x9b\\u2028\\ud800"


def test_words_that_need_a_joiner_stay_whole() -> None:
    assert shown("می\u200cخواهم 👩\u200d💻") == "می\u200cخواهم 👩\u200d💻"


def test_one_line_says_where_it_was_cut() -> None:
    assert one_line("a\nb" + "c" * 300, limit=10) == "a bcccccc…"


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_no_output_shown_can_steer_a_terminal(pieces: list[bytes]) -> None:
    assert is_harmless(screened(*pieces), kept="\n\t")


@given(
    st.lists(st.sampled_from([text.encode("utf-8", "surrogatepass") for text in [*HOSTILE, "é", "\r\n", "\x1b[0m", "\x1b"]])),
    st.data(),
)
def test_the_cuts_between_reads_change_nothing(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    assert screened(*pieces) == screened(whole)


@given(st.lists(st.sampled_from(["\x1b[31m", "\x1b[0K", "\x1b[2J", "\x1b[1;1H", "\x1b[?25l", "x", "é", "\n", "y "])))
def test_output_keeps_every_word_between_cursor_moves(parts: list[str]) -> None:
    assert screened("".join(parts).encode()) == "".join(part for part in parts if not part.startswith("\x1b"))


def test_a_line_of_a_terminal_ends_with_one_newline() -> None:
    assert screened(b"one\r", b"\ntwo\r\n") == "one\ntwo\n"


def test_a_title_is_shown_not_set() -> None:
    assert screened(b"\x1b]0;pwned\x07ok\n") == "␛]0;pwned␇ok\n"


def test_a_character_cut_by_a_read_waits_for_its_rest() -> None:
    screen = Screen()

    assert [screen.feed(b"\xc3"), screen.feed(b"\xa9")] == ["", "é"]


def test_an_unfinished_line_is_shown_at_once() -> None:
    screen = Screen()

    assert screen.feed(b"Write the plan? [y/N] ") == "Write the plan? [y/N] "
    assert not screen.at_line_start
