"""Is everything that was acknowledged still there after `kill -9` at any moment?"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from sandboxd.store.base import TaskQuery
from sandboxd.store.sqlite import open_store
from sandboxd.tasks.events import Wrote
from sandboxd.tasks.view import TaskView, fold
from tests.support.programs import begun

REPOSITORY = Path(__file__).resolve().parents[2]
ROUNDS = 10


@pytest.mark.slow
def test_kill_9_loses_nothing_that_was_acknowledged_and_leaves_no_gap(tmp_path):
    path = tmp_path / "state" / "store.sqlite"
    chance = random.Random(2)
    acknowledged: dict[str, int] = {}
    for round_number in range(ROUNDS):
        acknowledged |= _write_and_kill(path, round_number, stop_after=chance.randint(1, 1500))
        stored = trio.run(_stored, path)
        lost = {task_id: seq for task_id, seq in acknowledged.items() if stored.get(task_id, 0) < seq}
        assert lost == {}

    assert sum(acknowledged.values()) > 1000
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


def _write_and_kill(path: Path, round_number: int, *, stop_after: int) -> dict[str, int]:
    command = [sys.executable, str(Path(__file__).with_name("crash_writer.py")), str(path), str(round_number)]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    acknowledged: dict[str, int] = {}
    with begun(command, stdout=subprocess.PIPE, env=environment) as writer:
        assert writer.stdout is not None
        for number, line in enumerate(writer.stdout):  # what it still says after the kill counts as well
            task_id, seq = line.split()
            acknowledged[task_id.decode()] = int(seq)
            if number == stop_after:
                writer.kill()
    assert acknowledged.pop("ready") == 0
    return acknowledged


async def _stored(path: Path) -> dict[str, int]:
    """The last number of each task, having checked that its events, view and bytes agree."""
    found: dict[str, int] = {}
    async with open_store(path) as store:
        for task in await store.unfinished():
            view = task.view
            folded = TaskView(view.task_id, view.context_id, view.instance)
            after = 0
            while events := await store.events(view.task_id, after=after):
                assert [stored.seq for stored in events] == list(range(after + 1, after + 1 + len(events)))
                for stored in events:
                    folded = fold(folded, stored.event)
                    if isinstance(stored.event, Wrote):
                        assert stored.chunk == bytes([(stored.seq - 1) % 251]) * stored.event.size
                after = events[-1].seq
            assert folded == view
            found[view.task_id] = view.seq
        for view in (await store.tasks(TaskQuery("box", limit=1000))).views:
            found[view.task_id] = view.seq
    return found
