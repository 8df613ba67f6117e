"""Which runs there are, and what a fault of ours does to one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from sandboxd.a2a.model import TaskState
from sandboxd.errors import NotReady, TooBusy
from sandboxd.live.verdict import Ending
from sandboxd.tasks.events import Rejected
from tests.live.stage import Stage, comes_true, open_stage


async def test_a_fault_of_ours_ends_its_run_and_says_so(tmp_path):
    async with open_stage(tmp_path, more='[prompts]\ndetectors = ["no such pack"]') as stage:
        task_id, _ = await stage.start("echo $$ > pid; exec sleep 30", "bash")
        ended = await stage.ended(task_id)

        assert (ended.reason, ended.fail_kind) == ("internal", "infrastructure")
        await comes_true(lambda: not stage.supervisor.live)
        await comes_true(lambda: stage.root not in standing_in())
        assert await stage.state(task_id) is TaskState.FAILED


def standing_in() -> Iterator[Path]:
    """Where the processes of this machine stand."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                yield (entry / "cwd").readlink()


async def test_a_fault_of_ours_leaves_the_other_runs_alone(stage: Stage):
    other, _ = await stage.start("sleep 0.5; exit 9", "bash")
    task_id, run = await stage.start("while :; do echo more; sleep 0.02; done", "bash")
    await stage.wrote(task_id, b"more")

    def break_down(data: bytes) -> None:
        raise RuntimeError("a fault of ours")

    run()._captures["terminal"].add = break_down  # type: ignore[method-assign]  # the fault
    ended = await stage.ended(task_id)

    assert ended.reason == "internal"
    assert b"more" in await stage.output(task_id)
    assert (await stage.ended(other)).exit_code == 9


async def test_a_run_that_does_nothing_is_three_tasks(stage: Stage):
    before = tasks_of_the_loop()
    for _ in range(3):
        task_id, _ = await stage.start("exec sleep 30", "bash")
        await stage.started(task_id)

    await comes_true(lambda: tasks_of_the_loop() <= before + 3 * 3)  # who conducts it, its reader, its recorder


def tasks_of_the_loop() -> int:
    root = trio.lowlevel.current_root_task()
    left, count = [root] if root else [], 0
    while left:
        count += 1
        left += [child for nursery in left.pop().child_nurseries for child in nursery.child_tasks]
    return count


async def test_there_is_a_bound_on_live_tasks(tmp_path):
    async with open_stage(tmp_path, max_tasks=2) as stage:
        for _ in range(2):
            await stage.start("sleep 30", "bash")
        with pytest.raises(TooBusy):
            await stage.start("true", "bash")


async def test_what_a_fault_of_ours_kept_off_the_record_is_refused(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    async def break_down(principal: str, entries: object, view: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(stage.feed, "create", break_down)
    with pytest.raises(NotReady, match="it was not put on record"):
        await stage.start("true", "bash")


async def test_nothing_starts_once_it_is_stopping(stage: Stage):
    await stage.supervisor.stop()
    with pytest.raises(NotReady):
        await stage.start("true", "bash")


async def test_a_denied_command_is_rejected_and_its_reasons_are_on_record(stage: Stage):
    outside = stage.root / "link"
    outside.symlink_to("/etc/passwd")
    task_id, _ = await stage.start("true", "bash", script="link")
    stored = await stage.until(task_id, lambda event: isinstance(event, Rejected))

    assert isinstance(stored.event, Rejected)
    assert "symlink" in str(stored.event.reasons)
    assert not stage.supervisor.end_nowait("unknown", Ending("canceled"))
