"""Questions of living programs: raised, answered once, withdrawn, expired, and never after the end."""

from __future__ import annotations

import os
import signal

import pytest
import trio

from sandboxd.a2a.model import TaskState
from sandboxd.errors import DeliveryFailed, PromptNotOpen
from sandboxd.live import terminal
from sandboxd.live.run import TaskRun
from sandboxd.live.verdict import Ending
from sandboxd.tasks.events import Answered, Asked, Closed
from tests.live.stage import Stage, answer, open_stage
from tests.runner.workshop import wait_until

ASK_ON_INTERRUPT = """
import signal, time
def again(*_):
    print("\\nReally quit? [y/N] ", end="", flush=True)
signal.signal(signal.SIGINT, again)
signal.signal(signal.SIGTERM, again)
print("Proceed? [y/N] ", end="", flush=True)
while True: time.sleep(1)
"""
CLOSES_ITS_TERMINAL = """
import os, time
print("Proceed? [y/N] ", end="", flush=True)
while not os.path.exists("close"): time.sleep(0.01)
os.close(0); os.close(1); os.close(2)
open("closed", "w").close()
time.sleep(60)
"""
READS_A_LITTLE_AT_A_TIME = """
import os, signal, sys, time, tty
tty.setraw(0)
todo = []
signal.signal(signal.SIGUSR1, lambda *_: os.read(0, 512))
signal.signal(signal.SIGUSR2, lambda *_: todo.append(1))
print("First? [y/N] ", end="", flush=True)
while not todo: time.sleep(0.01)
os.set_blocking(0, False)
try: left = len(os.read(0, 100000))
except BlockingIOError: left = 0
os.set_blocking(0, True)
print(f"\\r\\nleft {left}\\r\\nSecond? [y/N] ", end="", flush=True)
data = b""
while not data.endswith(b"\\r"): data += os.read(0, 100000)
print(f"\\r\\ngot {data!r}\\r\\n", end="", flush=True)
"""
READS_RAW_AND_ENDS = """
import os, tty
tty.setraw(0)
print("Proceed? [y/N] ", end="", flush=True)
os.read(0, 100)
os._exit(3)
"""
KEEPS_ITS_TERMINAL = """
import fcntl, os, termios
fcntl.ioctl(0, termios.TIOCEXCL)
input("Proceed? [y/N] ")
os._exit(3)
"""


def fill(run: TaskRun) -> None:
    """Type until the terminal takes no more, behind the run's back."""
    fd = run._process.terminal_fd
    assert fd is not None
    try:
        while True:
            os.write(fd, b"x" * 512)
    except BlockingIOError:
        pass


async def test_no_question_is_raised_once_the_end_was_asked_for(blind_stage: Stage):
    task_id, run = await blind_stage.start(ASK_ON_INTERRUPT)
    asked, seq = await blind_stage.asked(task_id)

    run().end_nowait(Ending("canceled"))
    ended = await blind_stage.ended(task_id)

    assert ended.reason == "canceled"
    after = [stored.event for stored in await blind_stage.events(task_id) if stored.seq > seq]
    assert [event for event in after if isinstance(event, Asked | Closed)] == []
    record = await blind_stage.store.prompt(asked.envelope.prompt_id)
    assert record is not None
    assert record.state == "ended"


async def test_an_answer_is_not_typed_into_a_terminal_that_the_program_has_closed(blind_stage: Stage):
    task_id, run = await blind_stage.start(CLOSES_ITS_TERMINAL)
    asked, seq = await blind_stage.asked(task_id)
    (blind_stage.root / "close").touch()
    await blind_stage.appears("closed")

    with pytest.raises(PromptNotOpen):
        answer(run(), asked.envelope.prompt_id, "y")

    closed = await blind_stage.until(task_id, lambda event: isinstance(event, Closed), after=seq)
    assert isinstance(closed.event, Closed)
    assert closed.event.closure == "withdrawn"
    assert await blind_stage.state(task_id) is TaskState.WORKING


async def test_a_terminal_that_takes_no_input_leaves_the_prompt_open(blind_stage: Stage):
    task_id, run = await blind_stage.start(READS_A_LITTLE_AT_A_TIME)
    asked, seq = await blind_stage.asked(task_id)
    fill(run())
    await trio.sleep(0.05)  # the kernel moves it on to the line discipline
    fill(run())

    with pytest.raises(DeliveryFailed) as failed:
        answer(run(), asked.envelope.prompt_id, "y")

    assert failed.value.facts["prompt_open"] is True
    assert await blind_stage.state(task_id) is TaskState.INPUT_REQUIRED
    assert [stored for stored in await blind_stage.events(task_id) if stored.seq > seq] == []


async def test_an_answer_that_went_in_half_is_taken_back_and_its_prompt_closed(blind_stage: Stage):
    task_id, run = await blind_stage.start(READS_A_LITTLE_AT_A_TIME)
    asked, seq = await blind_stage.asked(task_id)
    failure = await half_an_answer(run(), asked.envelope.prompt_id)

    assert failure.facts["prompt_open"] is False
    with pytest.raises(PromptNotOpen):
        answer(run(), asked.envelope.prompt_id, "y")
    await blind_stage.until(task_id, lambda event: isinstance(event, Closed), after=seq)
    assert await blind_stage.state(task_id) is TaskState.WORKING

    os.kill(run()._process.pid, signal.SIGUSR2)
    second, _ = await blind_stage.asked(task_id, after=seq)
    answer(run(), second.envelope.prompt_id, "n")
    await blind_stage.ended(task_id)
    output = await blind_stage.output(task_id)
    assert b"left 0" in output
    assert b"got b'n\\r'" in output


async def half_an_answer(run: TaskRun, prompt_id: str) -> DeliveryFailed:
    """Let the program read until the terminal has room for a part of a long answer."""
    fill(run)
    for _ in range(50):
        await trio.sleep(0.02)
        try:
            answer(run, prompt_id, "x" * 4096)
        except DeliveryFailed as failure:
            if not failure.facts["prompt_open"]:
                return failure
        else:
            raise AssertionError("it went in whole")
        os.kill(run._process.pid, signal.SIGUSR1)
    raise AssertionError("nothing went in")


async def test_the_answer_is_typed_once_with_the_enter_that_the_terminal_mode_has(stage: Stage):
    script = (
        "import os, tty\n{mode}\nprint('Proceed? [y/N] ', end='', flush=True)\n"
        "data = b''\nwhile not data.endswith((b'\\r', b'\\n')): data += os.read(0, 100)\nprint('got', data)\n"
    )
    for mode, wanted in (("tty.setraw(0)", b"got b'y\\r'"), ("", b"got b'y\\n'")):
        task_id, run = await stage.start(script.format(mode=mode))
        asked, _ = await stage.asked(task_id)
        living = run()
        accepted = answer(living, asked.envelope.prompt_id, "y")
        await accepted.fate.committed()
        with pytest.raises(PromptNotOpen) as twice:
            answer(living, asked.envelope.prompt_id, "y")
        await stage.ended(task_id)

        assert twice.value.facts["accepted_message_id"]
        assert wanted in await stage.output(task_id)
        assert sum(isinstance(stored.event, Answered) for stored in await stage.events(task_id)) == 1


async def test_a_program_that_read_its_answer_and_ended_at_once_was_answered(stage: Stage, monkeypatch):
    bash = "read -r -p 'Proceed? [y/N] ' x; exit 3"
    for script, adapter in ((bash, "bash"), (READS_RAW_AND_ENDS, "python"), (KEEPS_ITS_TERMINAL, "python")):
        task_id, run = await stage.start(script, adapter)
        asked, _ = await stage.asked(task_id)
        process = run()._process
        typing = terminal.type_now

        def type_and_be_slow(fd: int, data: bytes, typing=typing, process=process) -> int:
            typed = typing(fd, data)
            assert wait_until(lambda: not process.is_alive(), 5)
            return typed

        with monkeypatch.context() as patched:
            patched.setattr(terminal, "type_now", type_and_be_slow)
            answer(run(), asked.envelope.prompt_id, "y")
        ended = await stage.ended(task_id)

        assert ended.exit_code == 3
        assert [type(stored.event) for stored in await stage.events(task_id)].count(Answered) == 1


@pytest.mark.parametrize("mode", ["raw", "canonical"])
async def test_a_program_that_died_before_the_first_key_was_not_answered(stage: Stage, monkeypatch, mode):
    task_id, run = await stage.start(READS_RAW_AND_ENDS if mode == "raw" else "input('Proceed? [y/N] ')")
    asked, _ = await stage.asked(task_id)
    process = run()._process
    typing = terminal.type_now

    def type_too_late(fd: int, data: bytes) -> int:
        os.kill(process.pid, signal.SIGKILL)
        assert wait_until(lambda: not process.is_alive(), 5)
        return typing(fd, data)

    monkeypatch.setattr(terminal, "type_now", type_too_late)
    with pytest.raises(DeliveryFailed) as failed:
        answer(run(), asked.envelope.prompt_id, "y")
    ended = await stage.ended(task_id)

    assert failed.value.facts["prompt_open"] is False
    assert (ended.reason, ended.signal) == ("signal", "SIGKILL")
    assert Answered not in [type(stored.event) for stored in await stage.events(task_id)]


async def test_a_run_without_input_mode_asks_nothing_even_on_a_terminal(tmp_path):
    async with open_stage(tmp_path, terminal="always") as stage:
        task_id, run = await stage.start("read -r -t 1 -p 'Proceed? [y/N] ' x; exit 4", "bash", text_line=False)
        await stage.wrote(task_id, b"Proceed?")
        with pytest.raises(PromptNotOpen, match="input_mode"):
            answer(run(), "b8ab1c2e-6f0b-4a39-9a59-3c8a6ad3a4b8", "y")
        ended = await stage.ended(task_id)

        assert ended.exit_code == 4
        assert not any(isinstance(stored.event, Asked) for stored in await stage.events(task_id))
        assert b"Proceed?" in await stage.output(task_id)
