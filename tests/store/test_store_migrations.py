"""Does what an older version kept stand, after an upgrade, where it stood?"""

from __future__ import annotations

import json
import sqlite3

import pytest

from sandboxd.chain import FIRST, Broken, Spot, read, verify
from sandboxd.store.base import AuditEntry
from sandboxd.store.schema import SCHEMA
from sandboxd.store.sqlite import open_store
from tests.store.story import NOON

BEFORE_CHAIN = 9

BEFORE_REISSUES = 7
BEFORE_PUSHES = 4  # migrations that the audit record had before it knew of push notifications


async def test_the_audit_record_keeps_its_rows_its_numbers_and_its_trigger(path):
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as old:
        for script in SCHEMA.migrations[:BEFORE_PUSHES]:
            old.executescript(script)
        old.execute(f"PRAGMA application_id = {SCHEMA.application_id}")
        old.execute(f"PRAGMA user_version = {BEFORE_PUSHES}")
        old.executemany(
            "INSERT INTO audit (at_us, principal, door, action, instance, outcome) VALUES (?, 'p', 'tcp', ?, 'box', 'X')",
            [(1, "send"), (2, "answer"), (3, "cancel")],
        )
        old.execute("DELETE FROM audit WHERE number = 3")  # retention: the number was used all the same
    old.close()

    async with open_store(path) as store:
        await store.note(AuditEntry(NOON, "p", "tcp", "push-create", "box", "ACCEPTED", "t", None, None, "c", "https://e.test"))
        page = await store.audit_after(0, 10)

    found = [(record.number, json.loads(record.body)["action"]) for record in page.records]
    assert found == [(1, "send"), (2, "answer"), (4, "push-create")]
    with sqlite3.connect(path) as database, pytest.raises(sqlite3.IntegrityError, match="never changed"):
        database.execute("UPDATE audit SET principal = 'q'")
    database.close()


async def test_prompts_and_the_audit_record_move_on_to_where_reissues_are_known(path):
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as old:
        for script in SCHEMA.migrations[:BEFORE_REISSUES]:
            old.executescript(script)
        old.execute(f"PRAGMA application_id = {SCHEMA.application_id}")
        old.execute(f"PRAGMA user_version = {BEFORE_REISSUES}")
        old.execute("INSERT INTO tasks VALUES (1, 't', 'box', 'c', 'p', 'working', 0, 1, 1, '[]')")
        old.execute("INSERT INTO prompts VALUES ('p-1', 1, 'expired', 5, 6, NULL, NULL)")
        old.execute(
            "INSERT INTO audit (at_us, principal, door, action, instance, outcome) VALUES (1, 'p', 'tcp', 'send', 'box', 'X')"
        )
    old.close()

    async with open_store(path) as store:
        await store.note(AuditEntry(NOON, "p", "tcp", "reissue", "box", "ACCEPTED", "t", "p-1"))
        actions = [json.loads(record.body)["action"] for record in (await store.audit_after(0, 10)).records]

    assert actions == ["send", "reissue"]
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT id, state, closed_at_us FROM prompts").fetchall() == [("p-1", "expired", 6)]
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            database.execute("UPDATE audit SET principal = 'q'")
    database.close()


@pytest.fixture
def of_before_the_chain(path):
    """A store that has three audit records, the third of which went by its age."""
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as old:
        for script in SCHEMA.migrations[:BEFORE_CHAIN]:
            old.executescript(script)
        old.execute(f"PRAGMA application_id = {SCHEMA.application_id}")
        old.execute(f"PRAGMA user_version = {BEFORE_CHAIN}")
        old.executemany(
            "INSERT INTO audit (at_us, principal, door, action, instance, outcome) VALUES (?, 'p', 'tcp', 'send', 'box', 'X')",
            [(1,), (2001,), (3000,)],
        )
        old.execute("DELETE FROM audit WHERE number = 3")
    old.close()
    return path


async def test_the_audit_record_becomes_a_chain_behind_what_was_there(of_before_the_chain):
    async with open_store(of_before_the_chain) as store:
        for _ in range(2):
            await store.note(AuditEntry(NOON, "p", "tcp", "send", "box", "ACCEPTED"))
        page = await store.audit_after(0, 10)
        begins, older_to = page.begins.spot, page.begins.older_to
        found = verify(page.records, begins=begins, older_to=older_to)

        assert [record.number for record in page.records] == [1, 2, 4, 5]
        assert (found.begins, found.end.number, found.count, found.unchained) == (Spot(3, FIRST), 5, 2, 2)
        with pytest.raises(Broken, match="entry 4 is missing"):
            verify([record for record in page.records if record.number != 4], begins=begins, older_to=older_to)
        exported = [json.dumps(record.as_json("a")) for record in page.records]
        assert verify(read(exported, {"a": "an audit"}), begins=None, older_to=None) == found

        assert await store.forget_audit(before=NOON, limit=1) == 1
        assert await store.forget_audit(before=NOON, limit=1) == 1
        page = await store.audit_after(0, 10)
        assert verify(page.records, begins=page.begins.spot, older_to=page.begins.older_to).count == 2
