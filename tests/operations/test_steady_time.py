"""By which time is something judged too old, whatever the machine's clock is set to?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from sandboxd.operations.steady import FILE, Sighting, SteadyClock, look

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


class Told:
    """A clock that says what it is told to."""

    def __init__(self) -> None:
        self.says = NOON

    def now(self) -> datetime:
        return self.says


def live(*hours: tuple[timedelta, str, float]) -> Sighting:
    """What is thought in the end of a clock that said that in turn, in that boot after so many hours of it."""
    seen = Sighting("first", 0.0, NOON)
    for ahead, boot, up in hours:
        seen = look(seen, boot, up * 3600, NOON + ahead)
    return seen


def test_a_clock_that_runs_as_clocks_do_is_followed():
    seen = live(*[(hour * HOUR + timedelta(seconds=hour), "first", float(hour)) for hour in range(1, 50)])

    assert (seen.time, seen.leapt_at) == (NOON + 49 * HOUR + timedelta(seconds=49), None)


def test_one_that_is_set_back_is_followed_for_that_keeps_things_longer():
    assert live((-3 * DAY, "first", 1)).time == NOON - 3 * DAY


def test_one_that_leapt_forward_is_not_believed_for_a_day():
    leapt = [(1000 * DAY + hour * HOUR, "first", float(hour)) for hour in range(1, 25)]

    assert live(*leapt).time == NOON + 24 * HOUR
    assert live(*leapt, (1000 * DAY + 25 * HOUR, "first", 25.0)).time == NOON + 1000 * DAY + 25 * HOUR


def test_one_that_is_put_right_within_the_day_is_followed_again():
    seen = live((1000 * DAY, "first", 1), (2 * HOUR, "first", 2))

    assert (seen.time, seen.leapt_at) == (NOON + 2 * HOUR, None)


def test_a_leap_that_grows_is_no_new_one():
    seen = live(*[(hour * 30 * DAY, "first", float(hour)) for hour in range(1, 26)])

    assert seen.time == NOON + 25 * 30 * DAY


def test_a_machine_that_was_off_at_night_has_a_clock_that_is_right():
    assert live((14 * HOUR, "second", 0.01)).leapt_at is None


def test_after_a_boot_a_clock_that_is_days_ahead_is_not_believed_before_a_day_of_work():
    at_work = [(day * DAY + hour * HOUR, f"boot {day}", float(hour)) for day in range(30, 34) for hour in range(1, 9)]

    assert live(*at_work[:24]).time == NOON + 7 * 3 * HOUR
    assert live(*at_work).leapt_at is None


async def test_what_was_seen_is_known_to_the_next_daemon(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    clock = Told()
    before = await SteadyClock(clock, tmp_path).now()
    clock.says += 1000 * DAY

    after = await SteadyClock(clock, tmp_path).now()

    assert before == NOON
    assert NOON <= after < NOON + HOUR
    assert "leapt forward" in caplog.text
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "{}", '{"boot": 1, "boot_s": "x", "time": 5, "leapt_at": null}', "[]", "\0"])
async def test_a_note_that_cannot_be_read_is_said_and_the_clock_believed(tmp_path: Path, text: str):
    (tmp_path / FILE).write_text(text)
    (tmp_path / FILE).chmod(0o600)

    with trio.fail_after(10):
        assert await SteadyClock(Told(), tmp_path).now() == NOON
