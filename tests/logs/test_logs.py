"""Is every event one line, whatever stands in it?"""

from __future__ import annotations

import io
import os

import pytest

from sandboxd import logs
from tests.support.captured import captured


def lines(act, **options):
    stream = io.StringIO()
    logs.configure(stream=stream, **options)
    act(logs.logger("sandboxd.http.app"))
    return stream.getvalue().splitlines()


def test_a_line_has_its_time_level_room_and_values():
    (line,) = lines(lambda log: log.info("asked", task="t-1", size=3, why="two words"), journal=False)

    time, *rest = line.split(" ")
    assert time.startswith("time=20")
    assert " ".join(rest) == 'level=info room=http event=asked task=t-1 size=3 why="two words"'


def test_the_journal_gets_a_priority_and_no_time():
    found = lines(lambda log: (log.warning("Cannot a"), log.error("Cannot b")), journal=True)

    assert found == ['<4>event="Cannot a" room=http', '<3>event="Cannot b" room=http']


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        ("plain-1.0/x", "plain-1.0/x"),
        ("", '""'),
        ('say "hi"\\', '"say \\"hi\\"\\\\"'),
        ("a\nevent=forged", '"a\\nevent=forged"'),
        ("\x1b[31mred\x07", '"\\x1b[31mred\\x07"'),
        ("\u202eabc\u2028", '"\\u202eabc\\u2028"'),
        ("\ud800", '"\\ud800"'),
        ("Grüße", '"Grüße"'),
        (None, "None"),
        (1.5, "1.5"),
    ],
)
def test_text_can_forge_nothing(value, spelled):
    assert logs.spell(value) == spelled


def test_a_long_value_is_cut():
    assert len(logs.spell("x" * 100_000)) < logs.MAX_VALUE_CHARS + 100


def test_a_traceback_is_one_value_without_local_variables():
    def act(log):
        secret = "hunter2" * 2
        try:
            raise OSError(f"no {len(secret)}")
        except OSError:
            log.exception("Cannot do it")

    (line,) = lines(act, journal=False)

    assert 'traceback="Traceback' in line
    assert "OSError: no 14" in line
    assert "hunter2hunter2" not in line


def test_a_traceback_may_be_that_of_an_exception_of_before():
    try:
        raise OSError("no 15")
    except OSError as error:
        kept = error

    (line,) = lines(lambda log: log.exception("Cannot do it", exc_info=kept, task="t-1"), journal=True)

    assert line.startswith('<3>event="Cannot do it" room=http task=t-1 traceback="Traceback')
    assert "OSError: no 15" in line


def test_a_logger_that_was_there_before_tells_where_it_was_configured_to():
    log = logs.logger("sandboxd.live.run")
    stream = io.StringIO()
    logs.configure(stream=stream, journal=True)
    log.info("a")
    with captured() as told:
        log.info("b")
    log.info("c")

    assert stream.getvalue() == "<6>event=a room=live\n<6>event=c room=live\n"
    assert told == [{"level": "info", "room": "live", "event": "b"}]


def test_a_level_hides_what_is_below_it():
    assert lines(lambda log: log.info("x"), level="warning", journal=False) == []


def test_the_journal_is_known_by_its_device_and_inode(tmp_path):
    with (tmp_path / "stderr").open("w") as stream:
        status = os.fstat(stream.fileno())

        assert logs.is_journal(stream, {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
        assert not logs.is_journal(stream, {"JOURNAL_STREAM": "1:2"})
        assert not logs.is_journal(stream, {})
    assert not logs.is_journal(io.StringIO(), {"JOURNAL_STREAM": "1:2"})


def test_a_line_that_cannot_be_written_is_lost_and_nothing_else():
    with open("/dev/full", "w", buffering=1) as stream:
        logs.configure(stream=stream, journal=False)
        logs.logger("sandboxd.live.run").error("Cannot append to the store", error="disk full")
        with pytest.raises(OSError, match="No space left"):
            stream.flush()  # so it was a stream that fails
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

    closed = io.StringIO()
    logs.configure(stream=closed, journal=False)
    closed.close()
    logs.logger("sandboxd.live.run").error("Cannot append to the store")
