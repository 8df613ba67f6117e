"""How does output look on a terminal, in a pipe and as JSON?"""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from sandboxd.cli.console import Console, ago, aligned, left, size, span

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def console(*, wide: bool, colour: bool = False, width: int = 40) -> Console:
    return Console(io.StringIO(), io.StringIO(), wide, width, colour, colour)


def printed(to: Console) -> str:
    assert isinstance(to.out, io.StringIO)
    return to.out.getvalue()


def test_a_pipe_gets_tabs_no_heading_and_whole_cells() -> None:
    to = console(wide=False)

    to.table(("id", "says"), [["1", "x" * 100], ["2", "tab\there"]])

    assert printed(to) == "1\t" + "x" * 100 + "\n2\ttab␉here\n"


def test_a_terminal_gets_aligned_columns_cut_to_its_width() -> None:
    to = console(wide=True, width=20)

    to.table(("id", "says"), [["1", "x" * 100], ["22", "short"]])

    assert printed(to).split("\n") == ["ID  SAYS", "1   " + "x" * 15 + "…", "22  short", ""]


def test_wide_characters_take_their_columns() -> None:
    assert aligned(["a", "b"], [["日本", "x"], ["i", "y"]], 40)[1:] == [["日本", "x"], ["i   ", "y"]]


def test_a_cell_cannot_break_out_of_its_row() -> None:
    to = console(wide=False)

    to.table(("id",), [["a\nb\x1b[2J"]])

    assert printed(to) == "a b␛[2J\n"


def test_colour_only_where_it_is_wanted() -> None:
    plain, coloured = console(wide=True), console(wide=True, colour=True)
    for to in (plain, coloured):
        to.table(("state",), [["failed"]], styles={"failed": "red"})

    assert "\x1b" not in printed(plain)
    assert "\x1b[31mfailed" in printed(coloured)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_environment_can_switch_colour_off(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setattr("sys.stdout", _Tty())
    monkeypatch.setenv("TERM", "xterm")
    assert Console.of_process().colour_out

    monkeypatch.setenv(name, value)

    assert not Console.of_process().colour_out


def test_an_object_is_one_line_that_a_terminal_can_show() -> None:
    to = console(wide=True)

    to.object({"text": "\x1b[2J\u202e\x9b\n"})

    assert printed(to) == '{"text":"\\u001b[2J\\u202e\\u009b\\n"}\n'
    assert json.loads(printed(to)) == {"text": "\x1b[2J\u202e\x9b\n"}


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.2, "just now"), (5, "5 s ago"), (75, "75 s ago"), (300, "5 min ago"), (7200, "2 h ago"), (200_000, "2 d ago")],
)
def test_people_are_told_how_long_ago(seconds: float, told: str) -> None:
    assert ago(NOW, NOW - timedelta(seconds=seconds)) == told


@pytest.mark.parametrize(("seconds", "told"), [(252, "4:12"), (59, "0:59"), (3725, "1:02:05"), (0, "over"), (-5, "over")])
def test_people_are_told_how_long_is_left(seconds: float, told: str) -> None:
    assert left(NOW, NOW + timedelta(seconds=seconds)) == told


def test_what_is_not_known_is_not_told() -> None:
    assert (ago(NOW, None), left(NOW, None)) == ("", "")


def test_lengths_and_sizes_have_units() -> None:
    assert [span(3.14), span(41), size(12), size(2048), size(16 * 1024 * 1024)] == [
        "3.1 s",
        "41 s",
        "12 B",
        "2.0 KiB",
        "16.0 MiB",
    ]


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True
