"""Is a question raised once, when it stands, and taken back when it does not?"""

import re
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxd.detect.detector import Detector, News, Prompt
from sandboxd.detect.rule import AnswerTemplate, ChoiceTemplate, Rule

YES_NO = AnswerTemplate(
    kind="yes_no",
    choices=(ChoiceTemplate("{yes}", "Yes"), ChoiceTemplate("{no}", "No")),
    default="capital",
)
RULE = Rule(
    id="test.yes-no",
    title="yes or no",
    line=re.compile(r"(?i)[\[(](?P<yes>yes|y)/(?P<no>no|n)[\])]\s?\??\s?$"),
    answer=YES_NO,
)
ASK = b"Overwrite? [y/N] "


class Bench:
    """A detector with a clock that the test moves."""

    def __init__(self, rules: Sequence[Rule] = (RULE,)) -> None:
        self.detector = Detector(rules, by_shape=False)
        self.now = 0.0
        self.news: list[News] = []

    def out(self, *reads: bytes, every_s: float = 0.0) -> "Bench":
        for data in reads:
            self.detector.feed(data, self.now)
            self.wait(every_s)
        return self

    def wait(self, seconds: float) -> "Bench":
        until = self.now + seconds
        while (deadline := self.detector.next_deadline()) is not None and deadline <= until:
            if found := self.detector.poll(deadline):
                self.news.append(found)
        self.now = until
        return self

    def typed(self) -> "Bench":
        self.detector.typed(self.now)
        return self

    @property
    def said(self) -> list[str]:
        return [f"{type(found).__name__} {found.text}" for found in self.news]


def test_a_question_is_raised_after_the_settle_time_and_not_before() -> None:
    bench = Bench().out(ASK)

    assert bench.wait(0.19).said == []
    assert bench.wait(0.02).said == ["Prompt Overwrite? [y/N]"]
    assert bench.wait(3600).said == ["Prompt Overwrite? [y/N]"]


def test_the_prompt_holds_the_line_the_answers_the_rule_and_the_evidence() -> None:
    (prompt,) = Bench().out(b"  " + ASK).wait(1).news

    assert isinstance(prompt, Prompt)
    assert prompt.text == "  Overwrite? [y/N]"
    assert [(choice.text, choice.title) for choice in prompt.form.choices] == [("y", "Yes"), ("n", "No")]
    assert prompt.form.default == "n"
    assert prompt.rule == "test.yes-no"
    assert prompt.evidence == {"line": "  Overwrite? [y/N]", "settle_s": 0.2}


def test_a_line_that_goes_on_within_the_settle_time_is_no_question() -> None:
    assert Bench().out(ASK, b"is what it asks\r\n", every_s=0.1).wait(9).said == []


def test_a_line_that_has_ended_is_no_question() -> None:
    bench = Bench().out(ASK + b"\r\n")

    assert bench.detector.next_deadline() is None
    assert bench.wait(9).said == []


def test_a_question_that_mentions_itself_in_a_log_is_no_question() -> None:
    assert Bench().out(b"INFO tool asked [y/N] at 12:00").wait(9).said == []


def test_a_question_in_the_alternate_screen_is_no_question() -> None:
    assert Bench().out(b"\x1b[?1049h" + ASK).wait(9).said == []


@pytest.mark.parametrize("cut", range(len(b"\x1b[1mOverwrite \xe2\x80\x9ca\xe2\x80\x9d? [y/N]\x1b[0m ")))
def test_a_question_cut_anywhere_between_two_reads_is_raised_whole(cut: int) -> None:
    data = b"\x1b[1mOverwrite \xe2\x80\x9ca\xe2\x80\x9d? [y/N]\x1b[0m "

    assert Bench().out(data[:cut], data[cut:], every_s=0.1).wait(1).said == ["Prompt Overwrite “a”? [y/N]"]


def test_the_echo_of_the_answer_is_no_new_question() -> None:
    bench = Bench().out(ASK).wait(1).typed().out(b"y").wait(1).out(b"\r\n").wait(9)

    assert bench.said == ["Prompt Overwrite? [y/N]"]


def test_an_answered_line_that_stays_unchanged_is_no_new_question() -> None:
    bench = Bench().out(ASK).wait(1).typed().out(b"\x1b[0m").wait(9)

    assert bench.said == ["Prompt Overwrite? [y/N]"]


def test_a_redrawn_answered_line_is_no_new_question() -> None:
    bench = Bench().out(ASK).wait(1).typed().out(b"\r\x1b[K" + ASK).wait(9)

    assert bench.said == ["Prompt Overwrite? [y/N]"]


def test_the_same_question_on_a_new_line_after_an_answer_is_a_new_question() -> None:
    bench = Bench().out(ASK).wait(1).typed().out(b"maybe\r\n" + ASK).wait(9)

    assert bench.said == ["Prompt Overwrite? [y/N]"] * 2


def test_another_question_that_takes_the_answered_one_s_place_is_new() -> None:
    bench = Bench().out(ASK).wait(1).typed().out(b"\r\x1b[KReally? [y/N] ").wait(9)

    assert bench.said == ["Prompt Overwrite? [y/N]", "Prompt Really? [y/N]"]


def test_a_second_question_behind_an_answered_one_on_the_same_line_is_new() -> None:
    bench = Bench().out(ASK).wait(1).typed().out(b"Really? [y/N] ").wait(9)

    assert bench.said == ["Prompt Overwrite? [y/N]", "Prompt Overwrite? [y/N] Really? [y/N]"]


def test_typing_while_nothing_was_asked_does_not_hide_the_next_question() -> None:
    assert Bench().typed().out(ASK).wait(1).said == ["Prompt Overwrite? [y/N]"]


def test_a_question_that_output_pushed_away_is_withdrawn() -> None:
    bench = Bench().out(ASK).wait(1).out(b"[worker] heartbeat\r\n")

    assert bench.wait(0.1).said == ["Prompt Overwrite? [y/N]"]
    assert bench.wait(1).said == ["Prompt Overwrite? [y/N]", "Withdrawn Overwrite? [y/N]"]


def test_a_question_is_withdrawn_too_when_the_output_never_falls_silent() -> None:
    bench = Bench().out(ASK).wait(1)

    bench.out(*[b"log line\r\n"] * 40, every_s=0.05)

    assert bench.said == ["Prompt Overwrite? [y/N]", "Withdrawn Overwrite? [y/N]"]


def test_a_question_that_went_to_the_alternate_screen_is_withdrawn() -> None:
    bench = Bench().out(ASK).wait(1).out(b"\x1b[?1049h").wait(1)

    assert bench.said == ["Prompt Overwrite? [y/N]", "Withdrawn Overwrite? [y/N]"]


def test_a_withdrawn_question_that_comes_back_is_raised_again() -> None:
    bench = Bench().out(ASK).wait(1).out(b"\r\x1b[Kworking").wait(1).out(b"\r\x1b[K" + ASK)

    assert bench.wait(1).said == ["Prompt Overwrite? [y/N]", "Withdrawn Overwrite? [y/N]"]
    bench.wait(1)  # it went away unanswered, so it must stand longer this time
    assert bench.said == ["Prompt Overwrite? [y/N]", "Withdrawn Overwrite? [y/N]", "Prompt Overwrite? [y/N]"]


def test_the_same_question_on_a_new_line_without_an_answer_replaces_the_old_one() -> None:
    bench = Bench().out(ASK).wait(1).out(b"\r\n" + ASK).wait(1)

    assert bench.said == ["Prompt Overwrite? [y/N]", "Withdrawn Overwrite? [y/N]", "Prompt Overwrite? [y/N]"]


def test_a_different_question_in_the_same_row_replaces_the_old_one() -> None:
    bench = Bench().out(b"Delete a? [y/N] ").wait(1).out(b"\r\x1b[KDelete b? [y/N] ").wait(1)

    assert bench.said == ["Prompt Delete a? [y/N]", "Withdrawn Delete a? [y/N]", "Prompt Delete b? [y/N]"]


@pytest.mark.parametrize("every_s", [0.05, 0.1, 0.2, 0.5])
def test_a_spinner_that_redraws_the_very_same_question_changes_nothing(every_s: float) -> None:
    bench = Bench().out(b"log\r\n" + ASK).wait(1)

    for _ in range(1000):  # each frame is caught half-drawn for a third of its time
        bench.out(b"\r\x1b[K").wait(min(0.1, every_s / 3)).out(ASK).wait(every_s)

    assert bench.wait(1).said == ["Prompt Overwrite? [y/N]"]


def test_a_progress_bar_that_takes_the_question_s_row_for_long_withdraws_it() -> None:
    bench = Bench().out(ASK).wait(1)

    bench.out(*[f"\r\x1b[Kdownloading {percent} %".encode() for percent in range(100)], every_s=0.1)

    assert bench.said == ["Prompt Overwrite? [y/N]", "Withdrawn Overwrite? [y/N]"]


def test_a_question_on_a_line_that_a_spinner_animates_is_not_raised() -> None:
    frames = [f"\r\x1b[K{'⠋⠙⠹⠸'[index % 4]} Continue? (y/n)".encode() for index in range(100)]

    assert Bench().out(*frames, every_s=0.08).out(b"\r\x1b[Kdone\r\n").wait(9).said == []


def test_a_redraw_by_rows_leaves_the_question_standing() -> None:
    frame = b"\x1b[1A\x1b[2K\rbuilding\r\n\x1b[2K" + ASK
    bench = Bench().out(b"building\r\n" + ASK).wait(1)

    bench.out(*[frame] * 500, every_s=0.3).wait(1)

    assert bench.said == ["Prompt Overwrite? [y/N]"]


def test_each_rule_waits_for_its_own_settle_time_and_the_first_that_fits_wins() -> None:
    slow = attrs.evolve(RULE, id="test.slow", settle_s=1.0)
    quick = attrs.evolve(RULE, id="test.quick", settle_s=0.05)

    bench = Bench([slow, quick]).out(ASK)

    assert bench.wait(0.9).said == []
    assert [found.rule for found in bench.wait(0.2).news] == ["test.slow"]


def test_above_must_fit_the_nearest_line_above() -> None:
    rule = attrs.evolve(RULE, line=re.compile(r"^>\s$"), above=re.compile(r"proceed\?$"), answer=AnswerTemplate())

    (prompt,) = Bench([rule]).out(b"Shall we proceed?\r\n\r\n> ").wait(1).news
    assert isinstance(prompt, Prompt)
    assert prompt.evidence["above"] == "Shall we proceed?"
    assert Bench([rule]).out(b"Proceeding.\r\n> ").wait(1).said == []


def test_a_question_at_the_end_of_a_very_long_line_is_found_and_says_that_it_is_cut() -> None:
    (prompt,) = Bench().out(b"x" * 20_000 + ASK).wait(1).news

    assert isinstance(prompt, Prompt)
    assert prompt.evidence["is_cut"] is True
    assert len(prompt.text) <= 4096


def test_a_caret_does_not_fit_the_middle_of_a_long_line() -> None:
    rule = attrs.evolve(RULE, line=re.compile(r"^x* ?Go\?\s$"), answer=AnswerTemplate())

    assert Bench([rule]).out(b"x" * 2000 + b" Go? ").wait(1).said == []


def test_without_rules_nothing_is_ever_pending() -> None:
    bench = Bench([]).out(ASK)

    assert bench.detector.next_deadline() is None
    assert bench.detector.live_line == "Overwrite? [y/N]"


def test_polling_too_early_or_without_need_says_nothing() -> None:
    detector = Detector([RULE])
    assert detector.poll(0.0) is None

    detector.feed(ASK, 1.0)
    assert detector.poll(1.1) is None
    assert detector.next_deadline() == pytest.approx(1.2)


READS = st.lists(
    st.tuples(
        st.sampled_from(
            [ASK, b"y", b"\r\n", b"\r", b"\x1b[K", b"log\r\n", b"\x1b[1A", b"\x1b[?1049h", b"\x1b[?1049l", b"Sure? (y/n) "]
        ),
        st.sampled_from([0.0, 0.05, 0.3]),
        st.booleans(),
    ),
    max_size=25,
)  # fmt: skip


@given(READS)
@settings(max_examples=200, deadline=None)
def test_news_alternate_and_everything_ends(reads: list[tuple[bytes, float, bool]]) -> None:
    bench = Bench()
    is_raised = False
    for data, pause_s, answers in reads:
        bench.out(data).wait(pause_s)
        for found in bench.news:
            assert isinstance(found, Prompt) is not is_raised
            is_raised = not is_raised
        bench.news.clear()
        if answers and is_raised:
            bench.typed()
            is_raised = False
    bench.wait(10)

    assert bench.detector.next_deadline() is None
