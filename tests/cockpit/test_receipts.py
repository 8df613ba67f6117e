"""What is known of an answer behind its acceptance, and what is never said?"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from sandboxd.a2a.extensions import NOTICE, PROMPT_NEWS
from sandboxd.a2a.model import TaskState
from sandboxd.approvals.events import Taken
from sandboxd.cockpit.reading import Seen
from sandboxd.cockpit.receipts import rows
from sandboxd.cockpit.receipts.progress import progress_json, progress_of, progress_text
from sandboxd.cockpit.receipts.receipt import Receipt, has_told_nothing_since, notice_in, outlived
from sandboxd.cockpit.record import Record
from sandboxd.cockpit.records import Records, open_records
from tests.cockpit.story import Clock, ask, prompt_id, vote

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def put(records: Records, record: Record, *receipts: Receipt) -> None:
    await records.write(lambda connection, now: rows.put(connection, record, receipts, now))


def seen(state: TaskState = TaskState.WORKING, text: str = "", **metadata: Any) -> Seen:
    message = {"messageId": "m", "parts": [{"text": text}], "metadata": {NOTICE: metadata} if metadata else {}}
    return Seen("task", "context", state, message, timestamp="2026-01-01T00:00:00Z")


def test_that_the_program_has_read_it_says_that_it_went_on():
    told = notice_in(seen(notice="answer-consumed", prompt_id="P"))

    assert told == ("p", (Receipt("read", "", NOW), Receipt("went-on", "the task is working", NOW)))


@pytest.mark.parametrize(
    ("notice", "what"),
    [("answer-discarded", "discarded"), ("answer-unfinished", "unfinished")],
    ids=["discarded", "unfinished"],
)
def test_an_answer_that_did_not_arrive_whole_is_not_said_to_be_read(notice, what):
    told = notice_in(seen(notice=notice, prompt_id="p", why="the program ended"))

    assert told == ("p", (Receipt(what, "the program ended", NOW),))


@pytest.mark.parametrize("fields", [{}, {"notice": "waiting-menu", "prompt_id": "p"}, {"notice": "answer-consumed"}])
def test_whatever_else_a_host_tells_is_no_receipt(fields):
    assert notice_in(seen(**fields)) is None


def test_working_alone_says_nothing_of_the_program():
    news = attrs.evolve(seen(), message={"metadata": {PROMPT_NEWS: {"prompt_id": "p", "closed": "answered"}}})

    assert has_told_nothing_since(news, "p")
    assert outlived(news, "Proceed?") is None


def test_the_same_question_again_is_not_said_to_be_another_one():
    assert outlived(seen(TaskState.INPUT_REQUIRED, "Proceed? "), "Proceed?") is None
    assert outlived(seen(TaskState.INPUT_REQUIRED, "Sure?"), "Proceed?") == Receipt("went-on", "it asks something else", NOW)
    assert outlived(seen(TaskState.FAILED), "Proceed?") == Receipt("ended", "the task is failed", NOW)


async def test_a_receipt_that_comes_before_the_hosts_reply_counts_once_the_answer_is_accepted(tmp_path):
    async with open_records(tmp_path / "cockpit" / "cockpit.db", Clock()) as records:
        record = (await vote(records, await ask(records))).record
        await put(records, record, Receipt("read"), Receipt("went-on", "the task is working"))
        early = await records.find(record.place.host, record.prompt_id)
        assert early is not None
        assert [step.state for step in progress_of(early)] == ["done", "now", "", ""]

        (pending,) = await records.pending()
        await records.hear(pending.record, Taken(pending.record.approval.verdicts[0].message_id), done=pending.rev)
        after = await records.find(record.place.host, record.prompt_id)
        assert after is not None
        assert progress_text(after) == "recorded → accepted → read → went on"
        assert await records.read(lambda connection: rows.awaited(connection, record.place.host, 10)) == []


@pytest.mark.parametrize(
    ("receipts", "states", "words"),
    [
        ((), ["done", "done", "now", ""], "read: not told yet"),
        ((Receipt("discarded"),), ["done", "done", "lost", ""], "threw it away unread"),
        ((Receipt("unfinished", "it went on"),), ["done", "done", "lost", ""], "its Enter was not: it went on"),
        ((Receipt("ended", "the task is failed"),), ["done", "done", "unknown", "unknown"], "went on: the task is failed"),
        ((Receipt("silent", "this host does not say"),), ["done", "done", "unknown", ""], "read: this host does not say"),
    ],
    ids=["nothing", "discarded", "unfinished", "ended", "silent"],
)
async def test_no_more_is_said_than_is_known(tmp_path, receipts, states, words):
    async with open_records(tmp_path / "cockpit" / "cockpit.db", Clock()) as records:
        await vote(records, await ask(records))
        (pending,) = await records.pending()
        heard = await records.hear(pending.record, Taken(pending.record.approval.verdicts[0].message_id), done=pending.rev)
        await put(records, heard.record, *receipts)
        record = await records.find(heard.record.place.host, heard.record.prompt_id)

    assert record is not None
    assert [step["state"] for step in progress_json(record)] == states
    assert words in progress_text(record)


async def test_a_receipt_is_put_down_once_and_never_changed(tmp_path):
    path = tmp_path / "cockpit" / "cockpit.db"
    async with open_records(path, Clock()) as records:
        record = (await vote(records, await ask(records))).record
        for how in ("first", "again"):
            await put(records, record, Receipt("read", how))
        entries = [one for one in await records.audit_last(50) if '"receipt"' in one.body]
        assert len(entries) == 1
    with closing(sqlite3.connect(path)) as other, pytest.raises(sqlite3.IntegrityError, match="never changed"):
        other.execute("UPDATE receipts SET how = 'else'")
    assert record.prompt_id == prompt_id()
