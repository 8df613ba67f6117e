"""Is every event one transaction, and does what is on disk say everything after a kill?"""

from __future__ import annotations

import json
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxd.approvals.events import CancelAsked, Deliver, Fence, Inquire, Taken, Undelivered, Voted
from sandboxd.approvals.record import Approval, payload
from sandboxd.cockpit import audit, rows
from sandboxd.cockpit.codec import Undecodable, decode, decode_wire, encode, encode_wire
from sandboxd.cockpit.records import open_records
from sandboxd.errors import Problem
from tests.approvals.desk import Desk, person
from tests.cockpit.story import ALICE, BOB, Clock, ask, prompt_id, vote


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cockpit" / "cockpit.db"


async def test_an_answer_is_one_call_that_is_to_be_made(path):
    async with open_records(path, Clock()) as records:
        heard = await vote(records, await ask(records))

        (pending,) = await records.pending()
        assert isinstance(pending.wire, Deliver)
        assert pending.wire.message_id == heard.record.approval.verdicts[0].message_id
        await records.hear(pending.record, Taken(pending.wire.message_id), done=pending.rev)
        assert await records.pending() == []
        assert await records.unfinished() == []


async def test_what_was_under_way_at_a_kill_is_found_out_before_it_is_sent_again(path):
    async with open_records(path, Clock()) as records:
        before = (await vote(records, await ask(records))).record.approval
    async with open_records(path, Clock()) as records:
        assert await records.restart() == 1

        (pending,) = await records.pending()
        assert pending.wire == Inquire()
        assert pending.record.approval.verdicts == before.verdicts


async def test_a_newer_call_takes_the_place_of_one_that_was_not_made(path):
    async with open_records(path, Clock()) as records:
        heard = await vote(records, await ask(records))
        (deliver,) = await records.pending()
        await records.hear(heard.record, CancelAsked(BOB, "web", "no"))

        await records.hear(
            deliver.record, Undelivered(deliver.record.approval.verdicts[0].message_id, "gone"), done=deliver.rev
        )

        (pending,) = await records.pending()
        assert pending.wire == Fence(may_cancel=True)


@pytest.mark.parametrize("fails", ["audit.append", "rows._set_wire", "rows._add_news"])
async def test_what_breaks_in_the_middle_leaves_nothing_behind(path, monkeypatch, fails):
    async with open_records(path, Clock()) as records:
        asked = await ask(records, narrowed=None, schema_budget=1)
        before = await records.audit_last(100)
        with monkeypatch.context() as patch:
            patch.setattr({"audit": audit, "rows": rows}[fails.split(".")[0]], fails.split(".")[1], _break)
            if fails == "rows._add_news":
                event = Voted(ALICE, "cli", payload({"text": "y"}), (Problem("/text", "does not fit"),))
            else:
                event = Voted(ALICE, "cli", payload({"text": "y"}))
            with pytest.raises(RuntimeError):
                await records.hear(asked.record, event)

        found = await records.find("lab", prompt_id())
        assert found == asked.record
        assert await records.pending() == []
        assert await records.audit_last(100) == before


async def test_a_question_that_comes_again_keeps_its_first_terms_and_seed(path):
    async with open_records(path, Clock()) as records:
        first = await ask(records)
        again = await ask(records, seed="another", on_expiry="failed")

        assert again.record == first.record
        assert again.decided.marks[-1].outcome == "repeated"


async def test_a_deadline_that_passes_while_nobody_runs_is_met_at_the_next_start(path):
    clock = Clock()
    async with open_records(path, clock) as records:
        await ask(records, patience=timedelta(minutes=1))
        assert await records.next_due() == clock.now + timedelta(minutes=1)
    clock.forward(hours=2)
    async with open_records(path, clock) as records:
        await records.restart()

        found = await records.find("lab", prompt_id())
        assert found is not None
        assert (found.approval.status, found.approval.phase) == ("expired", "closed")


@pytest.mark.parametrize("days", [-4000, 4000])
async def test_a_clock_that_jumps_answers_nothing_and_takes_no_negative_time(path, days):
    clock = Clock()
    async with open_records(path, clock) as records:
        asked = await ask(records)
        clock.forward(days=days)
        await records.tick()
        await vote(records, asked)
        found = await records.find("lab", prompt_id())
        entries = [entry.as_json() for entry in await records.audit_last(9)]

    assert found is not None
    assert (found.approval.status, len(found.approval.verdicts)) == (("pending", 1) if days < 0 else ("expired", 0))
    assert all(entry["took_ms"] is None or entry["took_ms"] >= 0 for entry in entries)


async def test_a_tick_does_what_is_due_and_nothing_else(path):
    clock = Clock()
    async with open_records(path, clock) as records:
        await ask(records, 1, patience=timedelta(minutes=1))
        await ask(records, 2, patience=timedelta(minutes=9))
        clock.forward(minutes=2)
        await records.tick()

        assert [record.prompt_id for record in await records.unfinished()] == [prompt_id(2)]


async def test_a_closed_question_cannot_be_changed_by_anybody(path):
    async with open_records(path, Clock()) as records:
        heard = await vote(records, await ask(records))
        await records.hear(heard.record, Taken(heard.record.approval.verdicts[0].message_id))
    with sqlite3.connect(path) as raw, pytest.raises(sqlite3.IntegrityError, match="never changed"):
        raw.execute("UPDATE prompts SET status = 'pending'")


async def test_changes_are_told_after_they_are_on_disk(path):
    async with open_records(path, Clock()) as records:
        since = records.changes
        await ask(records)

        assert await records.wait_changed(since) > since


async def test_what_is_redacted_is_in_no_audit_and_gone_from_the_record_at_its_end(path):
    canary = "canary-77a1"
    async with open_records(path, Clock()) as records:
        heard = await vote(records, await ask(records, payload_class="redacted"), text=canary)
        await records.hear(heard.record, Taken(heard.record.approval.verdicts[0].message_id))
        assert all(canary not in entry.body for entry in await records.audit_last(100))
        found = await records.find("lab", prompt_id())
        assert found is not None
        assert canary not in encode(found.approval)


async def test_what_is_public_stands_in_the_audit(path):
    async with open_records(path, Clock()) as records:
        await vote(records, await ask(records, payload_class="public"), text="y")

        last = (await records.audit_last(1))[0].as_json()
        assert (last["payload"], last["outcome"], last["principal"]) == ({"text": "y"}, "decided", "token:alice")


def histories() -> st.SearchStrategy[Approval]:
    """Approvals as they come out of histories."""

    def play(votes: list[tuple[str, str, bool]]) -> Approval:
        desk = Desk("consensus:2", patience=timedelta(minutes=9), payload_class="redacted", barred=frozenset({"mallory"}))
        for who, text, fits in votes:
            desk.vote(person(who), text, fits=fits)
            desk.wait(seconds=61)
        return desk.approval

    said = st.tuples(st.sampled_from(["alice", "bob", "mallory"]), st.text(max_size=5), st.booleans())
    return st.lists(said, max_size=6).map(play)


@given(approval=histories())
def test_an_approval_is_read_back_equal(approval):
    assert decode(encode(approval)) == approval


@pytest.mark.parametrize("wire", [Deliver("id", payload({"text": "ü"})), Inquire(), Fence(may_cancel=True)])
def test_a_call_is_read_back_equal(wire):
    assert decode_wire(*encode_wire(wire)) == wire


@pytest.mark.parametrize("change", [("v", 99), ("phase", "ajar"), ("extra", 1)])
def test_what_this_version_does_not_write_is_not_guessed_at(change):
    text = json.dumps(json.loads(encode(Desk().approval)) | dict([change]))

    with pytest.raises(Undecodable):
        decode(text)


def _break(*_: object) -> None:
    raise RuntimeError("torn")
