"""Does `explain` say what happened, and why not?"""

import json

import pytest

from sandboxd.detect.explain import explain
from sandboxd.detect.load import combine, load_pack
from sandboxd.errors import LoadError

RULES = combine(
    [
        load_pack(
            "t.toml",
            """
format = 1
[[rule]]
id = "t.yes-no"
title = "yes or no"
line = '''\\[(?P<yes>y)/(?P<no>N)\\] $'''
answer = { kind = "yes_no", choices = [{ text = "{yes}" }, { text = "{no}" }], default = "capital" }
examples = { asks = ["Go? [y/N] "], silent = ["x"] }
[[rule]]
id = "t.pointer"
title = "a pointer below a question"
line = '''^> $'''
above = '''\\?$'''
answer = { kind = "free_text" }
examples = { asks = ["What?\\r\\n> "], silent = ["x"] }
""",
        )
    ]
)


def cast(*events: tuple[float, str, str]) -> bytes:
    lines = [json.dumps({"version": 2, "width": 80, "height": 24}), *(json.dumps(event) for event in events)]
    return "\n".join(lines).encode()


def test_raw_bytes_name_the_offset_the_line_and_the_rule() -> None:
    told = explain(RULES, b"hello\r\nGo? [y/N] y\r\nbye\r\n")

    (fired,) = told.fired
    assert (fired.offset, fired.line_number, fired.at_s) == (len(b"hello\r\nGo? [y/N] "), 2, None)
    assert (fired.rule, fired.text, fired.end) == ("t.yes-no", "Go? [y/N]", "withdrawn")
    assert fired.form.default == "n"
    assert not told.has_times


def test_a_question_at_the_end_is_still_standing() -> None:
    (fired,) = explain(RULES, b"Go? [y/N] ").fired

    assert fired.end == "standing"


def test_an_asciicast_is_replayed_in_its_own_time() -> None:
    asked = ((0.5, "o", "Go? [y/N] "), (0.6, "o", "skipped\r\n"), (1.0, "o", "Really? [y/N] "))
    answered = ((9.0, "i", "y\r"), (9.1, "o", "y\r\n"))

    told = explain(RULES, cast(*asked, *answered))

    (fired,) = told.fired
    assert (fired.text, fired.end) == ("Really? [y/N]", "answered")
    assert fired.at_s == pytest.approx(1.2)
    assert told.has_times


@pytest.mark.parametrize(
    ("data", "rule", "why"),
    [
        ("Go? [y/N] y", "t.yes-no", "would fit, but the line goes on: `y`"),
        ("Go? [y/N] \r\n", "t.yes-no", "would fit, but its line has ended: `Go? [y/N]`"),
        ("Go? [y/N]", "t.yes-no", "would fit with a blank at the end of the line"),
        ("What.\r\n> ", "t.pointer", "`line` fits, but `above` does not fit the line above: `What.`"),
    ],
)
def test_a_rule_that_nearly_fits_says_what_is_missing(data: str, rule: str, why: str) -> None:
    (near,) = explain(RULES, data.encode()).near

    assert (near.rule, near.why) == (rule, why)


def test_a_line_that_has_been_answered_says_so() -> None:
    told = explain(RULES, cast((0.0, "o", "Go? [y/N] "), (2.0, "i", "y\r")))

    assert [near.why for near in told.near] == ["fits, but the line has been answered already"]


def test_a_screen_that_is_not_known_says_why() -> None:
    told = explain(RULES, b"\x1b[?1049hGo? [y/N] ")

    assert told.fired == ()
    assert told.view.unknown == "the alternate screen is shown"


def test_json_lines_that_are_no_asciicast_are_output() -> None:
    assert explain(RULES, b'{"level": "info"}\r\nGo? [y/N] ').fired[0].line_number == 2


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"version": 3, "term": {"cols": 80}}\n', "line 1`: asciicast version 3"),
        (b'{"version": 2, "width": "wide", "height": 24}\n', "line 1`: `width`"),
        (b'{"version": 2, "width": 80, "height": 24}\n[1, "o"]\n', "line 2`: is no asciicast event"),
        (b'{"version": 2, "width": 80, "height": 24}\n\nnonsense\n', "line 3`: is no asciicast event"),
    ],
)
def test_a_broken_asciicast_is_refused_with_its_line(data: bytes, why: str) -> None:
    with pytest.raises(LoadError, match=why.replace("(", r"\(")):
        explain(RULES, data)


def test_a_very_long_transcript_is_cut_at_its_beginning_and_says_so() -> None:
    told = explain(RULES, b"log line\r\n" * 30_000 + b"Go? [y/N] ")

    assert told.dropped_bytes > 0
    assert told.fired[-1].end == "standing"
