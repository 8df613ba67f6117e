"""Is a text field asked whose cursor the program draws itself, and no menu for that?"""

from __future__ import annotations

import pytest

from sandboxd.detect.detector import Stalled
from tests.detect.bench import RAW, UNKNOWN, Bench

CLACK = "\x1b[?25l│\r\n\x1b[36m◆\x1b[39m  {}\r\n\x1b[36m│\x1b[39m  {}\r\n\x1b[36m└\x1b[39m\r\n"


@pytest.mark.parametrize(
    ("screen", "line", "kind"),
    [
        (CLACK.format("Project name:", "\x1b[7mm\x1b[27m\x1b[2my-app\x1b[22m"), "◆  Project name:", "free_text"),
        (CLACK.format("Where is it?", "abc█"), "◆  Where is it?", "free_text"),
        (CLACK.format("Enter your API key", "\x1b[7m\x1b[8m_\x1b[28m\x1b[27m"), "◆  Enter your API key", "secret"),
        ("\x1b[?25l\x1b[1mLog in\x1b[22m\r\nPassword: \x1b[7ms\x1b[27m\x1b[90mecret\x1b[39m\r\n", "Password:", "secret"),
        ("\x1b[?25l╭────╮\r\n│ > \x1b[7mT\x1b[27mry │\r\n╰────╯\r\n  ? for shortcuts\r\n", ">", "repl"),
        ("\x1b[?25l? User? ‣ \x1b[46m\x1b[30m \x1b[39m\x1b[49m\x1b[1D", "? User? ‣", "free_text"),
        (CLACK.format("Site title", "My blog█"), "◆  Site title", "free_text"),
        ("\x1b[?25lWhich?\r\n\r\n> \x1b[7mP\x1b[0mikachu\r\n\r\n(esc to quit)\x1b[2A\x1b[80D", ">", "repl"),
        ("\x1b[?25l✔ Stage: dev█", "✔ Stage: dev", "free_text"),
        ("\x1b[?25lSay it\r\n› \x1b[7m \x1b[27m\r\n", "›", "shell"),
        (CLACK.format("Name", "\x1b[7m\x1b[8m_\x1b[28m\x1b[27m"), "◆  Name", "free_text"),
        ("\x1b[?25l? Deploy now? (y/N) ‣ \x1b[36mfalse\x1b[39m\x1b[10D", "? Deploy now? (y/N) ‣ false", "yes_no"),
        ("? Your key [input is masked]\x1b[?25l\r\nctrl+t shows it\x1b[1A\x1b[29G", "? Your key [input is masked]", "secret"),
    ],
)
def test_a_text_field_whose_cursor_is_drawn_is_asked(screen: str, line: str, kind: str) -> None:
    prompt = Bench(RAW).out(f"before\r\n{screen}").wait(3).prompt()

    assert (prompt.text, prompt.form.kind) == (line, kind)


@pytest.mark.parametrize(
    "screen",
    [
        CLACK.format("Install?", "● Yes / ○ No"),
        CLACK.format("Search:", "a█\r\n│  ● apple\r\n│  ○ pear"),
        "\x1b[?25l? Use it? › \x1b[36m\x1b[4mno\x1b[39m\x1b[24m / yes",
        "\x1b[?25lName: \x1b[7msubmit\x1b[27m",
        "\x1b[?25lSpace: ██████",
        "\x1b[?25l? Form\r\n⊙ X : \x1b[46m \x1b[49m\r\n⊙ Y : …\x1b[2A",
        "\x1b[?25l\r\n\x1b[A\rPick\r\n\x1b[2C\x1b[7ma\x1b[m   \r\n\x1b[2Cb   \r\x1b[A> \r\r\n  \r\x1b[A",
        "\x1b[?25lloading \x1b[41m \x1b[42m \x1b[49m",
        "\x1b[?25lName: \x1b[7mx\x1b[27m\r\x1b[K\r\nbye",
    ],
)
def test_a_cell_in_colour_makes_no_text_field_of_a_menu(screen: str) -> None:
    (found,) = Bench(RAW).out(f"before\r\n{screen}").wait(10).news

    assert isinstance(found, Stalled)


def test_a_right_prompt_is_no_part_of_the_question() -> None:
    assert Bench(UNKNOWN).out(f"name? {' ' * 40}12:00\x1b[39D\x1b[6D").wait(2).said == ["Prompt name?"]


def test_an_inverse_word_is_no_cursor_wherever_a_look_cuts_it() -> None:
    bench = Bench(RAW).out("before\r\n\x1b[?25lName: \x1b[7ms").wait(0.1)
    bench.detector.view()

    assert not bench.out("ubmit\x1b[27m").detector.view().draws_cursor


def test_a_drawn_cursor_that_blinks_keeps_its_question() -> None:
    shown, gone = (f"\x1b[2K\x1b[1A\x1b[80D\x1b[2KOpen\r\r\nCode: {cell}\x1b[80D" for cell in ("\x1b[7m \x1b[0m", " "))
    bench = Bench(RAW).out("before\r\n\x1b[?25lOpen\r\nCode: \x1b[7m \x1b[0m\x1b[80D").wait(0.5)
    for _ in range(4):
        bench.out(gone).wait(0.5).out(shown).wait(0.5)

    assert bench.said == ["Prompt Code:"]


def test_a_field_whose_cursor_blinked_away_is_no_field_when_the_screen_is_another() -> None:
    bench = Bench(RAW).out("\x1b[?25lName: \x1b[7m \x1b[0m").wait(0.5).typed()

    assert isinstance(bench.out("\rPick  \r\n  a\r\n  b\r\n").wait(3).news[-1], Stalled)


def test_choices_of_which_the_first_is_marked_make_a_menu() -> None:
    finder = "{sign}\x1b[K\r\n\x1b[7mone\x1b[0m\r\n{second}two\x1b[0m\x1b[2A\x1b[1G{sign}"

    (found,) = Bench(RAW).out(finder.format(sign="> ", second="")).wait(10).news
    assert isinstance(found, Stalled)
    assert Bench(RAW).out(finder.format(sign="sql> ", second="\x1b[7m")).wait(3).said == ["Prompt sql>"]
