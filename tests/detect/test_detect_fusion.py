"""What follows from the live line and the kernel's word together?"""

from __future__ import annotations

import itertools
import time

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxd.detect.detector import STALL_S, Detector, Prompt, Stalled, Withdrawn
from sandboxd.detect.evidence import Evidence
from sandboxd.detect.terminal import RING_BYTES
from tests.detect.bench import BLIND, LINE, NOBODY, RAW, UNKNOWN, Bench


@pytest.mark.parametrize(
    ("line", "evidence", "kind"),
    [
        ("the colour, please ", LINE, "free_text"),
        ("Port [8080]: ", LINE, "free_text"),
        ("> ", LINE, "repl"),
        ("#? ", LINE, "free_text"),
        ("dev@box:~$ ", RAW, "shell"),
        (">>> ", RAW, "repl"),
        ("... ", RAW, "repl"),
        ("Proceed? [y/N] ", RAW, "yes_no"),
        ("Press any key to continue...", RAW, "press_enter"),
        ("Etwas: ", BLIND, "secret"),
        ("Wipe it? (y/n) ", BLIND, "secret"),
        ("? Registry token ", RAW, "secret"),
        ("[sudo] password for ada: ", RAW, "secret"),
        ("Vault key: ", RAW, "secret"),
        ("API key name: ", RAW, "free_text"),
        ("Show the password? (y/N) ", RAW, "yes_no"),
        ("Downloading: ", attrs.evolve(LINE, is_exact=True), "free_text"),
    ],
)
def test_where_somebody_waits_the_line_is_asked_as_what_it_is(line: str, evidence: Evidence, kind: str) -> None:
    prompt = Bench(evidence).out(f"before\r\n{line}").wait(1).prompt()

    assert (prompt.text, prompt.form.kind) == (line.rstrip(), kind)
    assert prompt.evidence["reading"] is True


@pytest.mark.parametrize("line", ["Proceed? [y/N] ", "Name: ", "rm: remove regular file 'a'? ", "$ ", "Password: "])
def test_where_nobody_waits_no_line_is_asked(line: str) -> None:
    assert Bench(NOBODY).out(line).wait(60).said == []


def test_a_reader_that_comes_later_in_silence_is_found() -> None:
    bench = Bench(NOBODY).out("Proceed? [y/N] ").wait(20)

    assert bench.kernel(LINE).wait(2.5).said == ["Prompt Proceed? [y/N]"]


def test_a_default_and_choices_are_told_without_a_rule() -> None:
    port = Bench(LINE).out("Data directory (default: ./data): ").wait(1).prompt()
    assert port.form.default == "./data"

    sure = Bench(LINE).out("Wirklich? (yes/NO): ").wait(1).prompt()
    assert [choice.text for choice in sure.form.choices] == ["yes", "no"]
    assert sure.form.default == "no"


def test_the_line_above_is_asked_where_it_has_ended_and_somebody_waits() -> None:
    assert Bench(LINE).out("Remove old kernels? (y/n)\r\n").wait(1).said == ["Prompt Remove old kernels? (y/n)"]
    assert Bench(LINE).out("Copied 3 files.\r\n").wait(1).said == []


@pytest.mark.parametrize(
    "screen",
    [
        "? Pick one (Use arrow keys)\r\n❯ npm\r\n  yarn\x1b[?25l\x1b[8D",
        "? Pick one (Use arrow keys)\r\n» npm\r\n  yarn\x1b[2A\x1b[27G",
        "Choose:\r\n[?] Extras:\r\n > [ ] a\r\n   [ ] b\r\n",
        "◆  Select a framework:\r\n│  ● Vue\r\n│  ○ React\r\n└\r\n",
        "Watch usage\r\n › Press a to run all tests.\r\n › Press q to quit.\r\n",
        "\x1b[?1049h\x1b[HAre you sure? [y/N] ",
        "text\r\n\x1b[7m--More--(8%)\x1b[27m",
        "text\r\n:",
        "text\r\n\x1b[7m(END)\x1b[27m",
        "\x1b[10;20H< Yes > < No >",
        "Pick a number\r\n\r\n↑↓ navigate • ⏎ select",
        "\x1b[H\x1b[2J\x1b[?2004h\x1b[1;24r\x1b[HEd 4.6\r\n\x1b[K\n\x1b[K\x1b[H\nNew File\x1b[K\r",
    ],
)
def test_a_menu_is_noticed_and_not_asked(screen: str) -> None:
    (found,) = Bench(RAW).out(screen).wait(10).news

    assert isinstance(found, Stalled)
    assert found.why == "menu"


@pytest.mark.parametrize(
    "screen",
    [
        "? Target\r\n  1) web\r\n  2) cli\x1b[2A\x1b[10G",
        "? Registry token\r\n\x1b[1mctrl+t\x1b[22m toggle visibility\x1b[1A\x1b[18G",
        "sql> \r\n\r\n F2 help  |  F10 quit\x1b[2A\x1b[6G",
        "❯ ls\r\na.txt\r\n❯ ",
        "⠙ building\x1b[?25l\r\n\x1b[?2004hdev@box:~$ ",
    ],
)
def test_a_hint_or_a_list_without_a_pointer_hides_no_question(screen: str) -> None:
    (found,) = Bench(RAW).out(screen).wait(10).news

    assert isinstance(found, Prompt)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("Apply? [y/N] \r\nnote: a new version is there\r\n", ["Prompt Apply? [y/N]"]),
        ("Name: \r\nwarning: slow network\r\n", ["Prompt Name:"]),
        ("Please enter your city\r\n\r\n", ["Prompt Please enter your city"]),
        ("Apply? [y/N] \r\na\r\nb\r\nc\r\nd\r\ne\r\n", []),
        ("copied\r\nmoved\r\n", []),
    ],
)
def test_a_question_that_was_pushed_up_before_it_was_read_is_asked(output: str, said: list[str]) -> None:
    assert Bench(attrs.evolve(LINE, is_exact=True)).out(output).wait(1).said == said
    assert Bench(UNKNOWN).out(output).wait(3).said == []


def test_a_secret_s_words_that_ended_are_asked_where_typing_is_hidden() -> None:
    (found,) = Bench(BLIND).out("Passwort für joe:\r\n").wait(1).news

    assert isinstance(found, Prompt)
    assert (found.text, found.form.kind) == ("Passwort für joe:", "secret")


def test_a_service_that_keeps_its_input_open_asks_nothing_further_up() -> None:
    assert Bench(LINE).out("listening on port:\r\n8080\r\n").wait(1).said == []


def test_an_answered_question_further_up_is_not_asked_again() -> None:
    bench = Bench(LINE).out("Subject? ").wait(1).typed().out("hello\r\n").wait(1)

    assert bench.said == ["Prompt Subject?"]


def test_a_question_that_was_taken_back_is_not_asked_again_further_up() -> None:
    bench = Bench(LINE).out("Proceed? [y/N] ").wait(1).kernel(NOBODY).wait(5)

    bench.out("\r\nwent on without you\r\n").kernel(LINE).wait(5)

    assert bench.said == ["Prompt Proceed? [y/N]", "Withdrawn Proceed? [y/N]", "Stalled went on without you"]


@pytest.mark.parametrize("move", ["\x1b[2J\x1b[5;10H", "\x1b[H\x1b[Jtitle\x1b[7;3H", "log\r\n\x1b[9;1H"])
def test_a_form_whose_questions_have_places_is_asked_where_whole_lines_are_read(move: str) -> None:
    assert Bench(LINE).out(f"{move}Save it? (y/n) ").wait(1).said == ["Prompt Save it? (y/n)"]
    assert isinstance(Bench(RAW).out(f"{move}Save it? (y/n) ").wait(3).news[0], Stalled)
    assert Bench(UNKNOWN).out(f"{move}Save it? (y/n) ").wait(3).said == []


def test_a_question_is_asked_although_a_clock_beside_it_never_rests() -> None:
    bench = Bench(LINE).out("Your name: ")
    for second in range(20):
        bench.out(f"\x1b7\x1b[1;70H[{second:02}]\x1b8").wait(0.1)

    assert bench.said == ["Prompt Your name:"]


def test_output_that_nobody_reads_beside_is_looked_at_less_often_and_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, looks = Bench(NOBODY), []
    poll = bench.detector.poll

    def note(now: float, evidence: Evidence) -> object:
        looks.append(now)
        return poll(now, evidence)

    monkeypatch.setattr(bench.detector, "poll", note)
    for number in range(100):
        bench.out(f"line {number}\r\n").wait(0.1)

    gaps_s = [later - one for one, later in itertools.pairwise(looks)]
    assert 0.6 < min(gaps_s) <= max(gaps_s) < 1


def test_a_question_beside_a_clock_is_asked_soon_also_after_long_work() -> None:
    bench = Bench(NOBODY).out("working\r\n")
    for second in range(100):
        bench.out(f"\x1b7\x1b[1;70H[{second:02}]\x1b8").wait(0.1)
    bench.kernel(LINE).out("Your name: ")
    for second in range(30):
        bench.out(f"\x1b7\x1b[1;70H[{second:02}]\x1b8").wait(0.1)

    assert bench.said == ["Prompt Your name:"]


def test_what_is_still_printed_is_no_question_however_long_it_takes() -> None:
    bench = Bench(LINE)
    for word in ["which ", "file? ", "this ", "one: ", "and ", "that? "] * 4:
        bench.out(word).wait(0.15)

    assert bench.said == []


def test_output_alone_withdraws_nothing_while_somebody_waits() -> None:
    bench = Bench(LINE).out("Apply? [y/N] ").wait(1).out("[worker] heartbeat\r\n").wait(60)

    assert bench.said == ["Prompt Apply? [y/N]"]


def test_another_question_takes_the_place_of_the_one_before() -> None:
    bench = Bench(LINE).out("Apply? [y/N] ").wait(1).out("\r\nReally? [y/N] ").wait(2)

    assert bench.said == ["Prompt Apply? [y/N]", "Withdrawn Apply? [y/N]", "Prompt Really? [y/N]"]


def test_a_question_that_is_drawn_anew_below_other_output_stands() -> None:
    bench = Bench(RAW).out("\x1b[?2004h? Name? ").wait(1)
    bench.out("\r\x1b[KWARNING: your terminal does not report its cursor\r\n? Name? ").wait(60)

    assert bench.said == ["Prompt ? Name?"]


def test_a_question_is_withdrawn_when_nobody_waits_any_more_though_its_line_stands() -> None:
    bench = Bench(LINE).out("Apply? [y/N] ").wait(1).kernel(NOBODY)

    assert isinstance(bench.wait(5).news[-1], Withdrawn)


def test_one_look_at_a_reader_at_work_withdraws_nothing() -> None:
    bench = Bench(LINE).out("Apply? [y/N] ").wait(1)
    deadline = bench.detector.next_deadline()
    assert deadline is not None
    assert bench.detector.poll(deadline, NOBODY) is None

    bench.now = deadline
    assert bench.wait(30).said == ["Prompt Apply? [y/N]"]


def test_an_answered_line_that_is_read_on_is_no_new_question() -> None:
    assert Bench(LINE).out("Apply? [y/N] ").wait(1).typed().wait(60).said[:1] == ["Prompt Apply? [y/N]"]


def test_a_second_question_behind_an_answered_one_in_its_row_is_asked() -> None:
    bench = Bench(BLIND).out("Password: ").wait(1).typed().out("Token: ").wait(2)

    assert bench.said == ["Prompt Password:", "Prompt Password: Token:"]


def test_a_discarded_answer_raises_its_question_anew() -> None:
    bench = Bench(UNKNOWN).out("Go on? [y/N] ").wait(1).typed().out("y\r\n")
    bench.detector.discarded(bench.now)

    assert bench.wait(2).said == ["Prompt Go on? [y/N]"] * 2


@pytest.mark.parametrize("kernel", [UNKNOWN, BLIND])
def test_a_discarded_answer_raises_its_question_anew_though_its_echo_comes_late(kernel: Evidence) -> None:
    detector = Detector((), witnessed=False)
    detector.feed(b"Go on? [y/N] ", 0)
    assert isinstance(detector.poll(1, kernel), Prompt)
    detector.typed(1)
    detector.discarded(1)
    detector.feed(b"y\r\n", 1)

    deadline = detector.next_deadline()
    assert deadline is not None
    assert isinstance(detector.poll(deadline, kernel), Prompt)


def test_a_silent_wait_behind_no_question_is_loud_once() -> None:
    bench = Bench(LINE).out("ready\r\n")

    assert bench.wait(STALL_S - 0.1).said == []
    assert bench.wait(60).said == ["Stalled ready"]
    (found,) = bench.news
    assert isinstance(found, Stalled)
    assert found.why == "undetected"


def test_an_idle_reader_s_line_must_look_like_a_question() -> None:
    idle = attrs.evolve(LINE, is_idle=True)

    assert Bench(idle).out("building ").wait(60).said == []
    assert Bench(idle).out("Continue? [y/N] ").wait(1).said == ["Prompt Continue? [y/N]"]


def test_an_agent_that_cannot_be_seen_is_told_by_a_blind_terminal_and_its_words() -> None:
    nobody_seen = Evidence(canonical=True, echo=False, reading=False)

    assert Bench(nobody_seen).out("Passphrase: ").wait(2).prompt().form.kind == "secret"
    assert Bench(nobody_seen).out("Measuring: ").wait(60).said == []


def test_what_expect_drives_answers_itself() -> None:
    assert Bench(UNKNOWN).out("spawn rm -i a\r\nrm: remove regular file 'a'? ").wait(9).said == []


def test_a_secret_s_words_on_a_terminal_that_shows_typing_ask_nobody() -> None:
    shown = Evidence(canonical=True, echo=True)

    assert Bench(shown).out("[sudo] password for ada: ").wait(9).said == []


STORIES = [
    ("Name: ", LINE),
    (
        "\x1b[?2004h\x1b[?25l\x1b[36m?\x1b[1m Country?\x1b[0m\r\r\n\r\r\n\x1b[2A\x1b[11C\x1b[?25h",
        RAW,
    ),
    ("\x1b[32m✔\x1b[39m done\r\n\x1b[34m?\x1b[39m \x1b[1mPort\x1b[22m \x1b[2m(3000)\x1b[22m\x1b[15G", RAW),
    ("Möchten Sie fortfahren? [J/n] ", LINE),
    ("\x1b]0;title\x07비밀번호: ", BLIND),
    ("99 %\r\x1b[KAccept? [y/n]: \x1b[K", UNKNOWN),
    ("? Pick\r\n❯ a\r\n  b\x1b[?25l", RAW),
]


@given(st.sampled_from(STORIES), st.lists(st.integers(1, 200), max_size=8))
@settings(max_examples=300, deadline=None)
def test_the_same_is_raised_wherever_the_bytes_are_cut(story: tuple[str, Evidence], cuts: list[int]) -> None:
    text, evidence = story
    data = text.encode()
    whole = Bench(evidence)
    whole.detector.feed(data, 0.0)
    whole.wait(3)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    cut = Bench(evidence)
    for start, stop in itertools.pairwise(places):
        cut.detector.feed(data[start:stop], 0.0)
    cut.wait(3)

    assert cut.news == whole.news
    assert whole.news


@pytest.mark.parametrize(
    "flood",
    [
        b"x" * 65536 * 16,
        b"\x1b]0;" + b"a" * 65536 * 16,
        b"Proceed? [y/N] " * 70_000,
        b"\r\x1b[K? pick [y/N] " * 60_000,
        b"(" * 65536 * 8,
        b"[y/n" * 65536 * 4,
        b"\x1b[?25l\x1b[?25h" * 80_000,
        b"press enter to " * 60_000,
        b" " * 65536 * 8,
        "⠋".encode() * 65536,
        b"a\r\n" * 300_000,
    ],
    ids=lambda value: value[:12].decode("utf-8", "replace").encode("unicode_escape").decode(),
)
def test_hostile_output_holds_nobody_up(flood: bytes) -> None:
    assert min(longest_step_s(flood) for _ in range(3)) < 0.05  # the best of three: the machine may be busy


def longest_step_s(flood: bytes) -> float:
    bench = Bench(RAW)
    longest = 0.0
    for start in range(0, len(flood), 65536):
        began = time.thread_time()
        bench.detector.feed(flood[start : start + 65536], bench.now)
        longest = max(longest, time.thread_time() - began)
        if start % (4 * 65536) == 0:  # and at times it falls silent for as long as a question settles
            bench.now += 0.3
            began = time.thread_time()
            bench.detector.poll(bench.now, RAW)
            longest = max(longest, time.thread_time() - began)
    assert len(bench.detector._terminal._pending) <= 2 * RING_BYTES
    return longest


def test_a_reader_that_may_have_stopped_unseen_keeps_a_question_only_while_its_line_stands() -> None:
    lazy = attrs.evolve(RAW, is_lazy=True)
    stands = Bench(lazy).out("? Token\r\nctrl+t shows it\x1b[1A\x1b[9G").wait(60)
    assert stands.said == ["Prompt ? Token"]

    left = Bench(lazy).out("Proceed? [y/N] ").wait(1).out("\r\nwent on without you\r\n").wait(1)
    assert left.said == ["Prompt Proceed? [y/N]", "Withdrawn Proceed? [y/N]"]
