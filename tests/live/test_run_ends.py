"""How a run ends, whatever its program and its children do about it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxd.a2a.model import TaskState
from sandboxd.live.verdict import Ending
from sandboxd.tasks.events import Asked, Finished, Wrote
from tests.live.stage import Stage, answer, open_stage
from tests.runner.workshop import wait_until

CHATTY = """
( trap '' HUP; while :; do echo more; sleep 0.05; done ) &
echo done
exit 3
"""
FLOOD = """
( trap '' HUP; exec yes ) &
echo done
exit 3
"""
STOPPED = """
import os, signal
print("Proceed? [y/N] ", end="", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""
CLOSES_AND_LIVES_ON = """
import os, time
print("before", flush=True)
os.close(0); os.close(1); os.close(2)
time.sleep(0.3)
fd = os.open("/dev/tty", os.O_RDWR)
os.write(fd, b"Proceed? [y/N] ")
print_ = os.read(fd, 100)
os.write(fd, b"got " + print_)
os._exit(5)
"""
HOLDS_THE_TERMINAL = """
import os, signal, sys
print("asked? no", flush=True)
if os.fork() == 0:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pause()
sys.exit(6)
"""


@pytest.mark.parametrize("text_line", [True, False], ids=["terminal", "pipes"])
@pytest.mark.parametrize("script", [CHATTY, FLOOD], ids=["chatty", "flood"])
async def test_a_background_child_that_never_falls_silent_does_not_keep_its_run_going(stage: Stage, script, text_line):
    task_id, _ = await stage.start(script, "bash", text_line=text_line)

    ended = await stage.ended(task_id, seconds=6)

    assert (ended.reason, ended.exit_code) == ("exit", 3)
    assert b"done" in await stage.output(task_id, "terminal" if text_line else "stdout")


async def test_a_silent_grandchild_that_holds_the_terminal_does_not_either(stage: Stage):
    task_id, _ = await stage.start(HOLDS_THE_TERMINAL)

    ended = await stage.ended(task_id, seconds=6)

    assert (ended.reason, ended.exit_code) == ("exit", 6)


async def test_a_stopped_program_ends_at_its_deadline(stage: Stage):
    task_id, _ = await stage.start(STOPPED, timeout_s=1)

    ended = await stage.ended(task_id, seconds=6)

    assert ended.reason == "timeout"


async def test_a_stopped_program_is_canceled(blind_stage: Stage):
    task_id, run = await blind_stage.start(STOPPED)
    await blind_stage.asked(task_id)
    run().end_nowait(Ending("canceled"))

    ended = await blind_stage.ended(task_id, seconds=6)

    assert ended.reason == "canceled"


async def test_a_program_that_closed_its_terminal_and_opened_it_again_is_asked_and_answered(stage: Stage):
    task_id, run = await stage.start(CLOSES_AND_LIVES_ON)
    asked, _ = await stage.asked(task_id)
    answer(run(), asked.envelope.prompt_id, "y")

    ended = await stage.ended(task_id)

    assert ended.exit_code == 5
    assert b"before" in await stage.output(task_id)
    assert b"got y" in await stage.output(task_id)


async def test_a_program_that_execs_another_is_still_the_run(stage: Stage):
    script = 'exec bash -c \'read -r -p "Proceed? [y/N] " x; exec sh -c "echo got $x; exit 7"\''
    task_id, run = await stage.start(script, "bash")
    asked, _ = await stage.asked(task_id)
    answer(run(), asked.envelope.prompt_id, "y")

    ended = await stage.ended(task_id)

    assert (ended.reason, ended.exit_code) == ("exit", 7)
    assert b"got y" in await stage.output(task_id)


@pytest.mark.parametrize("text_line", [True, False], ids=["terminal", "pipes"])
async def test_every_artifact_is_complete_before_the_end_and_nothing_follows_it(stage: Stage, text_line):
    task_id, _ = await stage.start("echo out; echo err >&2; head -c 300000 /dev/zero | tr '\\0' x", "bash", text_line=text_line)
    await stage.ended(task_id)

    events = await stage.events(task_id)

    assert [stored.seq for stored in events] == list(range(1, len(events) + 1))
    assert isinstance(events[-1].event, Finished)
    wrote = [stored.event for stored in events if isinstance(stored.event, Wrote)]
    for name in {event.artifact_id for event in wrote}:
        own = [event for event in wrote if event.artifact_id == name]
        assert [event.first for event in own] == [True] + [False] * (len(own) - 1)
        assert [event.last for event in own] == [False] * (len(own) - 1) + [True]
        assert all(one.offset + one.size == other.offset for one, other in itertools.pairwise(own))


async def test_what_was_printed_before_a_question_is_on_record_before_it(stage: Stage):
    task_id, run = await stage.start("echo first; read -r -p 'Proceed? [y/N] ' x; exit 0", "bash")
    asked, seq = await stage.asked(task_id)

    before = b"".join(stored.chunk for stored in await stage.events(task_id) if stored.seq < seq)

    assert before.endswith(b"Proceed? [y/N] ")
    assert asked.envelope.prompt == "Proceed? [y/N]"
    answer(run(), asked.envelope.prompt_id, "y")
    await stage.ended(task_id)


async def test_a_task_that_is_told_to_end_before_it_started_ends(stage: Stage):
    task_id, _ = await stage.start("sleep 30", "bash")
    assert stage.supervisor.end_nowait(task_id, Ending("canceled"))

    ended = await stage.ended(task_id)

    assert ended.reason == "canceled"
    assert await stage.state(task_id) is TaskState.CANCELED


async def test_stopping_ends_every_run_and_waits_for_its_record(tmp_path):
    async with open_stage(tmp_path) as stage:
        ids = [(await stage.start("read -r -p 'Proceed? [y/N] ' x", "bash"))[0] for _ in range(3)]
        for task_id in ids:
            await stage.asked(task_id)
        await stage.supervisor.stop()

        for task_id in ids:
            events = await stage.events(task_id)
            last = events[-1].event
            assert isinstance(last, Finished)
            assert last.reason == "daemon-stopped"
            assert sum(isinstance(stored.event, Asked) for stored in events) == 1


@pytest.fixture
def freezer() -> Iterator[Path]:
    """A cgroup v1 freezer: what it holds cannot even be killed, as a process that hangs in the kernel."""
    folder = Path(f"/sys/fs/cgroup/freezer/sandboxd-test-{os.getpid()}")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"NOT TESTED HERE: a process that hangs in the kernel: no cgroup v1 freezer ({error.strerror})")
    yield folder
    (folder / "freezer.state").write_text("THAWED")
    assert wait_until(lambda: not (folder / "cgroup.procs").read_text(), 5)
    folder.rmdir()


async def test_a_program_that_hangs_in_the_kernel_does_not_keep_its_task_from_ending(stage: Stage, freezer: Path):
    task_id, run = await stage.start("sleep 30", "bash")
    await stage.started(task_id)
    pid = run()._process.pid
    (freezer / "cgroup.procs").write_text(str(pid))
    (freezer / "freezer.state").write_text("FROZEN")
    run().end_nowait(Ending("canceled"))

    try:
        ended = await stage.ended(task_id, seconds=9)
    finally:
        (freezer / "freezer.state").write_text("THAWED")

    assert ended.reason == "canceled"
    assert ended.detail["survivors"] == [pid]
