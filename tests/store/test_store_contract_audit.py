"""Does a store keep the audit record in order, as one chain, and forget what is old? (Contract suite, fourth part)"""

from __future__ import annotations

import json
import sqlite3
from datetime import timedelta

import attrs
import pytest

from sandboxd.a2a.canonical import canonical
from sandboxd.a2a.links import Links
from sandboxd.a2a.wire import rfc3339
from sandboxd.chain import START, Broken, verify
from sandboxd.store.base import AuditEntry, Conflict
from tests.store.story import NOON, Story


def entry(number: int, **at: float) -> AuditEntry:
    at_ = NOON + timedelta(**(at or {"days": number}))
    return AuditEntry(at_, "token:a", "tcp", "answer", "box", "ACCEPTED", f"task-{number}", None, "m\ud800")


async def check(store, **more):
    """The chain as it stands; `Broken`."""
    page = await store.audit_after(0, 100)
    return verify(page.records, begins=page.begins.spot, older_to=page.begins.older_to, **more)


async def test_entries_are_numbered_in_the_order_in_which_they_came(store):
    for number in range(5):
        await store.note(entry(number))

    everything = (await store.audit_after(0, 100)).records
    assert [record.number for record in everything] == [1, 2, 3, 4, 5]
    assert [json.loads(record.body)["task_id"] for record in everything] == [f"task-{number}" for number in range(5)]
    assert json.loads(everything[0].body)["at"] == rfc3339(NOON)
    assert list(await store.audit_last(2)) == list(everything[3:])
    assert list((await store.audit_after(3, 1)).records) == list(everything[3:4])


async def test_an_entry_that_comes_with_an_event_is_on_record_with_it_or_not_at_all(store):
    story = Story(store)
    await store.note(entry(0))
    await story.tell([attrs.evolve(story.submitted(), note=entry(1))])
    with pytest.raises(Conflict):  # there is a task of that id
        await Story(store).tell([attrs.evolve(story.submitted(), note=entry(2))])
    await store.note(entry(3))

    page = await store.audit_after(0, 9)
    assert [json.loads(record.body)["task_id"] for record in page.records] == ["task-0", "task-1", "task-3"]
    assert (await check(store)).count == 3


async def test_an_entry_is_read_back_whole(store):
    links = Links(mission="m-1", trace="t-1")
    ids = {"task_id": "t", "prompt_id": "p", "message_id": "m", "config_id": "config", "target": "https://example.com"}
    await store.note(AuditEntry(NOON, "token:a", "tcp", "push-create", "box", "ACCEPTED", links=links, **ids))

    (kept,) = await store.audit_last(1)
    said = {"principal": "token:a", "door": "tcp", "action": "push-create", "instance": "box", "outcome": "ACCEPTED", **ids}
    assert json.loads(kept.body) == {"at": rfc3339(NOON), **said, "links": {"mission": "m-1", "trace": "t-1"}}


@pytest.mark.parametrize("left_out", [(), ("task_id", "target"), ("prompt_id", "message_id", "config_id")])
async def test_what_is_hashed_is_the_canonical_spelling(store, left_out):
    ids = dict.fromkeys(
        ("task_id", "prompt_id", "message_id", "config_id", "target"), 'a"\\\x00\x1f\x7fé\u2028\U0001f600\ud800/'
    )
    links = Links(flow="f", issue="org/repo#12")
    said = {name: value for name, value in ids.items() if name not in left_out}
    await store.note(AuditEntry(NOON, 'token:"é', "tcp", "send", "box", "ACCEPTED", links=links, **said))

    (kept,) = await store.audit_last(1)
    assert kept.body == canonical(json.loads(kept.body)).decode()
    assert set(json.loads(kept.body)) & set(ids) == set(said)


async def test_old_entries_go_and_their_numbers_are_not_used_again(store):
    for number in range(3):
        await store.note(entry(number))

    assert await store.forget_audit(before=NOON + timedelta(days=9), limit=2) == 2
    assert await store.forget_audit(before=NOON + timedelta(days=9), limit=2) == 1
    await store.note(entry(4))

    assert [record.number for record in (await store.audit_after(0, 9)).records] == [4]


async def test_what_is_left_behind_old_entries_is_a_chain_still(store):
    for number in range(6):
        await store.note(entry(number))
    noted = [record.spot for record in (await store.audit_after(0, 9)).records]
    assert await store.forget_audit(before=NOON + timedelta(days=2.5)) == 3

    found = await check(store, anchors={noted[2].number: noted[2].hash, noted[5].number: noted[5].hash})
    assert (found.begins, found.end, found.count) == (noted[2], noted[5], 3)
    with pytest.raises(Broken, match="entry 2 is no longer there: the record begins behind 3"):
        await check(store, anchors={2: noted[1].hash})
    assert await store.forget_audit(before=NOON + timedelta(days=99)) == 3
    assert (await check(store)).end == noted[5]
    await store.note(entry(7))
    assert (await check(store)).begins == noted[5]


async def test_a_clock_that_jumped_makes_no_hole_in_the_chain(store):
    for number, days in enumerate((0, 900, 1, 2)):  # the second one came while the clock was wrong
        await store.note(entry(number, days=days))

    assert await store.forget_audit(before=NOON + timedelta(days=9)) == 1
    assert await store.forget_audit(before=NOON + timedelta(days=9)) == 0
    assert (await check(store)).count == 3


async def test_an_empty_record_is_a_chain_that_has_not_begun(store):
    found = await check(store)

    assert (found.begins, found.end, found.count) == (START, START, 0)


@pytest.mark.parametrize("column", ["at_us", "principal", "outcome", "task", "links"])
async def test_a_record_that_was_changed_behind_our_back_is_found_at_its_place(path, store, column):
    for number in range(4):
        await store.note(entry(number))
    value = 7 if column == "at_us" else '{"flow":"x"}' if column == "links" else "somebody"
    meddle(path, "DROP TRIGGER audit_is_never_changed", f"UPDATE audit SET {column} = '{value}' WHERE number = 2")

    with pytest.raises(Broken, match="entry 2 was changed"):
        await check(store)


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (1, "entry 1 is missing: entry 2 stands in its place"),
        (3, "entry 3 is missing: entry 4 stands in its place"),
    ],
)
async def test_a_record_that_was_taken_out_is_missed(path, store, number, why):
    for count in range(4):
        await store.note(entry(count))
    meddle(path, "DROP TRIGGER audit_goes_from_its_beginning", f"DELETE FROM audit WHERE number = {number}")

    with pytest.raises(Broken, match=why):
        await check(store)


async def test_an_end_that_was_cut_off_is_missed_by_who_noted_it(path, store):
    for count in range(4):
        await store.note(entry(count))
    end = (await check(store)).end
    meddle(path, "DROP TRIGGER audit_goes_from_its_beginning", "DELETE FROM audit WHERE number = 4")

    with pytest.raises(Broken, match="entry 4 is missing: the record ends at 3"):
        await check(store, anchors={end.number: end.hash})


async def test_records_that_changed_places_are_found(path, store):
    for count in range(4):
        await store.note(entry(count))
    meddle(
        path,
        "DROP TRIGGER audit_is_never_changed",
        *(f"UPDATE audit SET number = {new} WHERE number = {old}" for old, new in ((2, 9), (3, 2), (9, 3))),
    )

    with pytest.raises(Broken, match="entry 2 does not follow the one before it"):
        await check(store)


async def test_a_hash_that_was_taken_away_does_not_make_a_record_an_older_one(path, store):
    for count in range(3):
        await store.note(entry(count))
    meddle(path, "DROP TRIGGER audit_is_never_changed", "UPDATE audit SET previous = NULL, hash = NULL WHERE number = 1")

    with pytest.raises(Broken, match="entry 1"):
        await check(store)


async def test_sqlite_itself_refuses_to_change_the_record_or_to_make_a_hole_in_it(path, store):
    for count in range(3):
        await store.note(entry(count))

    with pytest.raises(sqlite3.IntegrityError, match="never changed"):
        meddle(path, "UPDATE audit SET principal = 'somebody'")
    with pytest.raises(sqlite3.IntegrityError, match="from its beginning alone"):
        meddle(path, "DELETE FROM audit WHERE number = 2")


def meddle(path, *statements: str) -> None:
    with sqlite3.connect(path, timeout=30) as raw:
        for statement in statements:
            raw.execute(statement)
    raw.close()
