"""What is known before a silence is over, and what need not be asked while there is none?"""

from __future__ import annotations

import attrs
import pytest

from sandboxd.detect.detector import Stalled
from tests.detect.bench import LINE, NOBODY, Bench


def test_the_kernel_is_not_asked_about_a_program_that_talks_and_leaves_nothing_that_could_ask() -> None:
    bench, put_off = Bench(NOBODY), []
    for number in range(100):
        bench.out(f"12:00:{number:02} INFO copied [{number}/100] (fast): a.txt -> b.txt\r\n")
        deadline = bench.detector.next_deadline()
        if deadline is not None and deadline < bench.now + 0.1:
            put_off.append(bench.detector.puts_off(deadline))
        bench.wait(0.1)
    assert len(put_off) > 10
    assert all(put_off)

    bench.kernel(LINE).wait(3)
    assert [type(found) for found in bench.news] == [Stalled]


@pytest.mark.parametrize("question", ["Remove it? (y/n)", "Name of the project:", "Press Enter to continue"])
def test_a_question_that_ended_its_line_is_asked_beside_other_output(question: str) -> None:
    bench = Bench(attrs.evolve(LINE, is_exact=True)).out(f"{question}\r\n")
    for _ in range(20):
        bench.wait(0.1).out("\x1b7\x1b[1;70H[12:00]\x1b8")

    assert bench.said == [f"Prompt {question}"]


def test_what_is_foreseen_is_what_is_asked() -> None:
    detector = Bench(LINE).out("Your name: ").detector
    deadline = detector.next_deadline()
    assert deadline is not None
    foreseen = detector.foresee(LINE)

    assert foreseen is not None
    assert detector.poll(deadline, attrs.evolve(LINE)) is foreseen


def test_what_was_foreseen_counts_no_more_once_more_was_printed_or_nobody_reads() -> None:
    printed = Bench(LINE).out("Your name: ")
    assert printed.detector.foresee(LINE) is not None
    printed.wait(0.1).out("(or none) ").wait(1)
    assert printed.said == ["Prompt Your name: (or none)"]

    left = Bench(LINE).out("Your name: ")
    assert left.detector.foresee(LINE) is not None
    assert left.kernel(NOBODY).wait(1).said == []


def test_nothing_is_foreseen_where_nobody_reads_or_the_line_was_answered() -> None:
    bench = Bench(LINE).out("Your name: ")
    assert bench.detector.foresee(NOBODY) is None

    bench.wait(1).typed().out("a")
    assert not bench.detector.is_settling or bench.detector.foresee(LINE) is None
