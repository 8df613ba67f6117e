"""What of a program's drawing reaches a person's own terminal?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxd.cli.drawing import Drawing


def drawn(text: str) -> str:
    return Drawing().feed(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "one\r\ntwo\b\t",
        "\x1b[31mred\x1b[0m",
        "\x1b[2J\x1b[1;1H",
        "\x1b[?25l",
        "\x1b[?1049h",
        "\x1b7\x1b8\x1bM",
        "\x1b(0q\x1b(B",
        "é漢🙂",
    ],
)
def test_what_draws_is_let_through(text):
    assert drawn(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[c",  # who are you?
        "\x1b[>c",
        "\x1b[>q",
        "\x1b[6n",  # where is the cursor?
        "\x1b[?6n",
        "\x1b[?1$p",  # is that mode set?
        "\x1b[14t",  # how large are you? and: be that large
        "\x1b[8;1;1t",
        "\x1b[5i",  # print
        "\x1b[>1u",
        "\x1b[?u",
        "\x1b[?1000h\x1b[?2004h\x1b[?1004h\x1b[?3h",  # report mouse, pastes, focus; 132 columns
        "\x1b]0;title\x07",
        "\x1b]52;c;cm0gLXJm\x1b\\",  # the clipboard
        "\x1b]8;;http://evil\x1b\\",
        "\x1bP+q544e\x1b\\",
        "\x1b_apc\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\",
        "\x05",  # ENQ: answer back
        "\x1bZ",
        "\x1bc",
        "\x9b6n\x9d0;title\x9c".encode("latin-1").decode("latin-1")[:1],  # a C1 control
        "\x1b[" + "1;" * 60 + "m",
    ],
)
def test_what_makes_a_terminal_answer_or_reaches_beyond_it_is_dropped(text):
    kept = drawn(f"<{text}>")

    assert kept.startswith("<")
    assert kept.endswith(">")
    assert "\x1b" not in kept


def test_of_several_modes_those_that_draw_are_set():
    assert drawn("\x1b[?25;1000l") == "\x1b[?25l"


def test_a_sequence_may_come_in_pieces():
    drawing = Drawing()

    assert "".join(drawing.feed(piece) for piece in (b"a\x1b", b"[3", b"1mb\xc3", b"\xa9")) == "a\x1b[31mbé"


def test_a_string_that_nobody_ends_hides_no_more_than_itself():
    assert drawn("\x1b]0;never\x18after") == "after"


def test_what_was_left_set_is_undone():
    drawing = Drawing()
    drawing.feed(b"\x1b[?25l\x1b[?1049h\x1b[2;5r\x1b[31m")

    undone = drawing.reset()

    assert "\x1b[?25h" in undone
    assert "\x1b[?1049l" in undone
    assert "\x1b[r" in undone
    assert "\x1b[0m" in undone


def test_nothing_is_undone_that_was_not_set():
    assert "\x1b[?" not in Drawing().reset()


@given(st.lists(st.binary(max_size=40)))
def test_pieces_make_no_difference(pieces):
    parted, whole = Drawing(), Drawing()

    assert "".join(map(parted.feed, pieces)) == whole.feed(b"".join(pieces))


@given(st.text(alphabet="\x1b[]P?;0123456789chmntu\x07\\\x9b\x05 $>"))
def test_whatever_comes_no_question_to_the_terminal_gets_through(text):
    import re

    assert not re.search(r"\x1b\[[0-9;?>]*[cntu$](?<!\x1b\[u)|\x1b[\]PX^_Zc]|[\x05\x9b]", drawn(text))
