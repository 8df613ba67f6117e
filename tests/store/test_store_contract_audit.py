"""Does a store keep the audit record in order, and forget what is old? (Contract suite, fourth part)"""

from __future__ import annotations

from datetime import timedelta

from sandboxd.store.base import AuditEntry
from tests.store.story import NOON


def entry(number: int) -> AuditEntry:
    at = NOON + timedelta(days=number)
    return AuditEntry(at, "token:a", "tcp", "answer", "box", "ACCEPTED", f"task-{number}", None, "m\ud800")


async def test_entries_are_numbered_in_the_order_in_which_they_came(store):
    for number in range(5):
        await store.note(entry(number))

    everything = await store.audit_after(0, 100)
    assert [record.number for record in everything] == [1, 2, 3, 4, 5]
    assert [record.entry.task_id for record in everything] == [f"task-{number}" for number in range(5)]
    assert everything[0].entry.at == NOON
    assert list(await store.audit_last(2)) == list(everything[3:])
    assert list(await store.audit_after(3, 1)) == list(everything[3:4])


async def test_an_entry_is_read_back_whole(store):
    whole = AuditEntry(NOON, "token:a", "tcp", "push-create", "box", "ACCEPTED", "t", "p", "m", "config", "https://example.com")
    await store.note(whole)

    assert [record.entry for record in await store.audit_last(1)] == [whole]


async def test_old_entries_go_and_their_numbers_are_not_used_again(store):
    for number in range(3):
        await store.note(entry(number))

    assert await store.forget_audit(before=NOON + timedelta(days=9), limit=2) == 2
    assert await store.forget_audit(before=NOON + timedelta(days=9), limit=2) == 1
    await store.note(entry(4))

    assert [record.number for record in await store.audit_after(0, 9)] == [4]
