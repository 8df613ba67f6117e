"""Do changes that are put on record in one call stand there as if each had come by itself?"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
import pytest

from sandboxd.db.connection import connect
from sandboxd.db.schema import migrate
from sandboxd.store import changes, queries
from sandboxd.store.base import AuditEntry, Conflict, Entry
from sandboxd.store.changes import Change
from sandboxd.store.files import Files
from sandboxd.store.schema import SCHEMA
from sandboxd.tasks.view import fold
from tests.store.story import NOON, Story


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "store.sqlite"
    path.touch()
    opened = connect(path)
    migrate(opened, SCHEMA)
    yield opened
    opened.close()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "store.sqlite")


class Teller(Story):
    """A story that is not told to a store: its changes are gathered."""

    def __init__(self, task_id: str) -> None:
        super().__init__(None, task_id)
        self.changes: list[Change] = []

    def add(self, entries: Iterable[Entry]) -> None:
        told, after = list(entries), self.seq
        for entry in told:
            self.view = fold(self.view, entry.event)
            self.events.append(entry.event)
        self.changes.append(changes.prepare(told, self.view, after=after, principal=None if after else "alice"))


def whole_life(task_id: str) -> Teller:
    teller = Teller(task_id)
    teller.add([teller.submitted(f"message-of-{task_id}")])
    teller.add([teller.started()])
    teller.add([teller.wrote(b"small", "stdout"), teller.wrote(b"l" * 150_000, "stderr")])
    teller.add([teller.wrote(b"m" * 70_000, "stdout")])
    teller.add([Entry(teller.asked(f"prompt-of-{task_id}"))])
    teller.add([teller.closed(f"prompt-of-{task_id}", "withdrawn")])
    teller.add([teller.finished()])
    return teller


def test_a_task_can_be_in_one_call_from_its_beginning_to_its_end(connection, files):
    tellers = [whole_life("a"), whole_life("b"), whole_life("c")]
    in_turn = [change for together in zip(*(teller.changes for teller in tellers), strict=True) for change in together]
    assert changes.keep(connection, in_turn, files) == (None,) * len(in_turn)
    files.flush()

    for teller in tellers:
        task_id = teller.view.task_id
        found = queries.events(connection, files, task_id, 0, 100)
        assert queries.view(connection, task_id) == teller.view
        assert [stored.event for stored in found[:3]] == teller.events[:3]
        assert queries.read(connection, files, task_id, "stdout", range(10**9)) == b"small" + b"m" * 70_000
        assert queries.read(connection, files, task_id, "stderr", range(10**9)) == b"l" * 150_000
        assert (record := queries.prompt(connection, f"prompt-of-{task_id}")) is not None
        assert record.state == "withdrawn"


def test_a_change_that_another_one_of_its_call_forestalled_is_a_conflict(connection, files):
    teller = whole_life("a")
    changes.keep(connection, teller.changes[:2], files)

    with pytest.raises(Conflict, match="after event 2: it stands at 4"):
        changes.keep(connection, [teller.changes[2], teller.changes[2]], files)


def test_output_that_somebody_is_said_to_have_sent_is_a_mistake_of_ours():
    teller = whole_life("a")
    entry = attrs.evolve(teller.wrote(b"x"), note=AuditEntry(NOON, "alice", "here", "send", "box", "accepted"))
    with pytest.raises(ValueError, match="no message"):
        changes.prepare([entry], attrs.evolve(teller.view, seq=1), after=0)


def test_a_task_that_begins_with_output_is_a_mistake_of_ours():
    teller = whole_life("a")
    with pytest.raises(ValueError, match="does not begin with output"):
        changes.prepare([teller.wrote(b"x")], attrs.evolve(teller.view, seq=1), after=0, principal="alice")
