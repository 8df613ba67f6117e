"""Which answers does a line name?"""

import re

import pytest

from sandboxd.detect.rule import AnswerTemplate, ChoiceTemplate, Rule, answer_form, fit
from sandboxd.detect.view import View

YES_NO = (ChoiceTemplate("{yes}", "Yes"), ChoiceTemplate("{no}", "No"))
LINE = r"(?i)\[(?:(?P<yes>yes|y)/(?P<no>no|n)|(?P<other>x))\]\s?(?:\((?P<default>\w+)\))?\s?$"


def form(template: AnswerTemplate, line: str, pattern: str = LINE) -> tuple[list[str], str | None]:
    match = re.search(pattern, line)
    assert match is not None
    made = answer_form(template, match)
    return [choice.text for choice in made.choices], made.default


@pytest.mark.parametrize(
    ("line", "choices", "default"),
    [
        ("[y/N]", ["y", "n"], "n"),
        ("[Y/n]", ["y", "n"], "y"),
        ("[y/n]", ["y", "n"], None),
        ("[Y/N]", ["Y", "N"], None),
        ("[yes/NO]", ["yes", "no"], "no"),
        ("[x]", [], None),
    ],
)
def test_a_single_capital_letter_marks_the_default(line: str, choices: list[str], default: str | None) -> None:
    assert form(AnswerTemplate("yes_no", YES_NO, default="capital"), line) == (choices, default)


def test_the_choices_stand_in_the_order_of_the_line() -> None:
    template = AnswerTemplate("yes_no", YES_NO)

    assert form(template, "[no|yes]", r"\[(?P<no>no)\|(?P<yes>yes)\]")[0] == ["no", "yes"]


def test_a_default_group_means_the_choice_whatever_its_case() -> None:
    template = AnswerTemplate("yes_no", YES_NO, default="{default}")

    assert form(template, "[y/n] (N)") == (["y", "n"], "n")
    assert form(template, "[y/n]") == (["y", "n"], None)


@pytest.mark.parametrize(
    ("listed", "choices"),
    [
        ("y,n,q,a", ["y", "n", "q", "a"]),
        ("y,n,g,/,e,?", ["y", "n", "g", "/", "e", "?"]),
        ("dev, prod", ["dev", "prod"]),
        ("a/b/a", ["a", "b"]),
        ("red|green", ["red", "green"]),
        ("ynh", ["y", "n", "h"]),
    ],
)
def test_a_list_is_taken_apart(listed: str, choices: list[str]) -> None:
    template = AnswerTemplate("choice", choices_in="list")

    assert form(template, f"[{listed}]", r"\[(?P<list>.*)\]")[0] == choices


def test_a_list_without_an_end_is_bounded() -> None:
    template = AnswerTemplate("choice", choices_in="list")

    assert len(form(template, "[" + ",".join(map(str, range(1000))) + "]", r"\[(?P<list>.*)\]")[0]) == 32


def test_titles_name_the_buttons() -> None:
    match = re.search("(?P<list>.*)", "y,n")
    assert match is not None
    made = answer_form(AnswerTemplate("choice", choices_in="list", titles={"y": "Yes"}), match)

    assert [choice.title for choice in made.choices] == ["Yes", "n"]


def test_no_rule_fits_a_line_that_is_not_known_or_empty() -> None:
    rule = Rule("test.any", "any", re.compile(""), AnswerTemplate())

    assert fit([rule], View("text")) is not None
    assert fit([rule], View("text", unknown="elsewhere")) is None
    assert fit([rule], View("  ")) is None


@pytest.mark.parametrize(
    ("edits", "is_on", "fits"), [(None, False, True), (True, True, True), (True, False, False), (False, True, False)]
)
def test_a_rule_may_ask_for_a_line_editor(edits: bool | None, is_on: bool, fits: bool) -> None:
    rule = Rule("x.y", "", re.compile(r"\?\s$"), AnswerTemplate(), edits=edits)

    assert (fit([rule], View(line="Sure? ", edits=is_on)) is not None) is fits


def test_marked_letters_are_the_answers_and_their_words_the_titles() -> None:
    match = re.search(r"(?P<list>.+)\?", "(m)odified or (d)eleted file, or A(u)to rename?")
    assert match is not None
    made = answer_form(AnswerTemplate("choice", choices_in="list"), match)

    assert [(choice.text, choice.title) for choice in made.choices] == [
        ("m", "modified"),
        ("d", "deleted file"),
        ("u", "Auto rename"),
    ]
