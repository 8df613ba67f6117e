"""Does the controller keep the orchestrator's contract with an executor that is no sandboxd?"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest
import trio

from sandboxd.approvals.record import Terms
from sandboxd.cockpit.agent import HostAddress
from tests.cockpit.bridge import answer, asked, cockpit, somebody, stands, until
from tests.fakes.executor import Executor
from tests.support.daemon import HITL, wait_until

QUICK = Terms(backoff=timedelta(milliseconds=20), tries_max=4, payload_class="public")
ALICE, BOB, CAROL = somebody("alice"), somebody("bob"), somebody("carol")


@pytest.fixture
def executor() -> Iterator[Executor]:
    with Executor() as server:
        yield server


@pytest.fixture(params=["jsonrpc", "rest"])
def address(request: pytest.FixtureRequest, executor: Executor) -> HostAddress:
    return HostAddress("lab", executor.url, transport=request.param)


@pytest.fixture
def lab(executor: Executor) -> HostAddress:
    return HostAddress("lab", executor.url)


def question(**more):
    schema = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "maxLength": 8}}}
    return {"prompt_id": str(uuid.uuid4()), "prompt": "Proceed?", "response_schema": schema} | more


async def test_a_question_that_waits_is_found_asked_and_answered_once(tmp_path, executor, address):
    envelope, task = question(), executor.begin()
    executor.ask(task, envelope)
    async with cockpit(tmp_path, address) as controller:
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        await answer(controller, record, ALICE, "cli", {"text": "y"})
        approval = await stands(controller.records, record, "closed")

    assert (approval.status, approval.step) == ("responded", "running")
    assert executor.taken(envelope["prompt_id"]) == {"text": "y"}
    assert len(executor.answers) == 1
    assert HITL in executor.extensions
    assert executor.answers[0]["metadata"] == {
        "hitl_response_for": {"prompt_id": envelope["prompt_id"], "payload": {"text": "y"}}
    }


async def test_a_question_that_comes_later_comes_by_the_stream(tmp_path, executor, address):
    envelope, task = question(), executor.begin()
    async with cockpit(tmp_path, address) as controller:
        executor.ask(task, envelope)
        record = await asked(controller.records, "lab", envelope["prompt_id"])

        assert record.approval.phase == "open"


@pytest.mark.parametrize("names_accepted", [True, False])
async def test_a_lost_reply_is_found_to_have_been_our_answer(tmp_path, executor, lab, names_accepted):
    executor.manners.names_accepted = names_accepted
    executor.manners.keeps_history = not names_accepted
    executor.manners.loses_replies = 1
    envelope, task = question(), executor.begin()
    executor.ask(task, envelope)
    async with cockpit(tmp_path, lab, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        await answer(controller, record, ALICE, "cli", {"text": "y"})
        approval = await stands(controller.records, record, "closed")

    assert approval.status == "responded"
    assert {sent["messageId"] for sent in executor.answers} == {approval.accepted}


async def test_a_lost_reply_of_an_executor_that_tells_nothing_is_held_for_a_person(tmp_path, executor, lab):
    executor.manners.loses_replies = 1
    envelope, task = question(), executor.begin()
    executor.ask(task, envelope)
    async with cockpit(tmp_path, lab, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        await answer(controller, record, ALICE, "cli", {"text": "y"})

        async def held():
            found = await controller.records.find("lab", envelope["prompt_id"])
            return found if found and found.approval.held and found.approval.moved else None

        found = await until(controller.records, held, "held")
        # "conflict" once a second try has met the refusal; the news that the task went on may come before that try.
        assert found.approval.status in ("conflict", "delivery-failed")
        assert found.approval.step == "paused"
        looks = executor.looks
        await trio.to_thread.run_sync(lambda: wait_until(lambda: executor.looks > looks + 3, what="further looks"))
        again = await controller.records.find("lab", envelope["prompt_id"])
        assert again == found
        await controller.settle(found, BOB, "web", "the log shows that it went on")
        approval = await stands(controller.records, record, "closed")
        assert "on the word of token:bob" in approval.reason


async def test_503_is_tried_again_with_the_same_message(tmp_path, executor, address):
    executor.manners.breaks_before = 2
    envelope, task = question(), executor.begin()
    executor.ask(task, envelope)
    async with cockpit(tmp_path, address, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        await answer(controller, record, ALICE, "cli", {"text": "y"})
        approval = await stands(controller.records, record, "closed")

    assert approval.status == "responded"
    assert [sent["messageId"] for sent in executor.answers] == [approval.accepted] * 3


async def test_422_asks_again_and_quotes_nothing_of_the_answer(tmp_path, executor, address):
    executor.manners.refuses_payloads = 1
    envelope, task = question(), executor.begin()
    executor.ask(task, envelope)
    async with cockpit(tmp_path, address, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        await answer(controller, record, ALICE, "cli", {"text": "hunter2"})

        async def invalid():
            found = await controller.records.find("lab", envelope["prompt_id"])
            return found if found and found.approval.status == "invalid" else None

        found = await until(controller.records, invalid, "invalid")
        assert found.approval.phase == "open"
        assert "/text: pattern" in found.approval.reason
        assert "hunter2" not in found.approval.reason
        await answer(controller, found, ALICE, "cli", {"text": "y"})
        assert (await stands(controller.records, record, "closed")).status == "responded"


async def test_an_answer_that_does_not_fit_the_schema_is_never_sent(tmp_path, executor, lab):
    envelope, task = question(), executor.begin()
    executor.ask(task, envelope)
    async with cockpit(tmp_path, lab) as controller:
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        heard = await answer(controller, record, ALICE, "cli", {"text": "far too long"})

        assert heard.decided.marks[-1].outcome == "invalid"
        assert "/text" in heard.decided.marks[-1].why
        assert executor.answers == []


async def test_an_answer_of_somebody_else_pauses_the_step(tmp_path, executor, lab):
    envelope, task = question(), executor.begin()
    executor.ask(task, envelope)
    async with cockpit(tmp_path, lab) as controller:
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        executor.move(task, "WORKING")
        approval = await stands(controller.records, record, "closed")

    assert (approval.status, approval.step) == ("conflict", "paused")
    assert "the asker is gone" in approval.reason


async def test_two_of_three_decide_what_a_foreign_executor_asks(tmp_path, executor, address):
    responders = ["specific:alice", "specific:bob", "specific:token:carol", "consensus:2", "something:new"]
    envelope, task = question(allowed_responders=responders), executor.begin()
    executor.ask(task, envelope)
    async with cockpit(tmp_path, address, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        outcomes = [
            (await answer(controller, record, who, channel, {"text": text})).decided.marks[-1].outcome
            for who, channel, text in [
                (somebody("mallory"), "web", "y"),
                (ALICE, "cli", "y"),
                (ALICE, "web", "y"),
                (CAROL, "cli", "n"),
                (BOB, "web", "y"),
            ]
        ]
        approval = await stands(controller.records, record, "closed")
        entries = [entry.as_json() for entry in await controller.records.audit_last(20)]

    assert outcomes == ["not-eligible", "counted", "counted", "counted", "decided"]
    assert approval.verdict is not None
    assert approval.verdict.persons == ("alice", "bob")
    assert executor.taken(envelope["prompt_id"]) == {"text": "y"}
    assert [entry["principal"] for entry in entries if entry["event"] == "voted"] == [
        "token:mallory", "token:alice", "token:alice", "token:carol", "token:bob",
    ]  # fmt: skip


async def test_a_malformed_prompt_is_shown_with_its_reason_and_cannot_be_answered(tmp_path, executor, lab):
    task = executor.begin()
    executor.ask(task, question(colour="red"), text="Delete everything?")
    async with cockpit(tmp_path, lab) as controller:
        (sighting,) = await until(controller.records, controller.records.sightings, "the sighting")

        assert (sighting.kind, sighting.task_id, sighting.text) == ("malformed", task, "Delete everything?")
        assert "colour" in sighting.why
        assert await controller.records.unfinished() == []


async def test_a_question_without_an_envelope_is_observed_and_gone_when_it_is(tmp_path, executor, lab):
    task = executor.begin()
    executor.ask(task, ...)
    async with cockpit(tmp_path, lab) as controller:
        (sighting,) = await until(controller.records, controller.records.sightings, "the sighting")
        assert sighting.kind == "observed"
        executor.move(task, "WORKING")

        async def gone():
            return not await controller.records.sightings()

        assert await until(controller.records, gone, "its end")


async def test_a_prompt_in_another_state_is_no_question(tmp_path, executor, lab):
    envelope, task = question(), executor.begin()
    executor.ask(task, envelope)
    executor.tasks[task].state = "WORKING"
    last, other = question(), executor.begin()
    executor.ask(other, last)
    async with cockpit(tmp_path, lab) as controller:
        await asked(controller.records, "lab", last["prompt_id"])

        assert await controller.records.find("lab", envelope["prompt_id"]) is None


async def test_a_cancel_ends_the_task_and_then_the_record(tmp_path, executor, address):
    envelope, task = question(), executor.begin()
    executor.ask(task, envelope)
    async with cockpit(tmp_path, address) as controller:
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        await controller.cancel(record, BOB, "web", "not today")
        approval = await stands(controller.records, record, "closed")

    assert (approval.status, approval.step) == ("cancelled", "cancelled")
    assert executor.tasks[task].state == "CANCELED"
    assert executor.tasks[task].cancel_reasons == ["cancelled by token:bob: not today"]


async def test_a_task_that_asks_too_often_is_cancelled_with_the_reason(tmp_path, executor, lab):
    task = executor.begin()
    async with cockpit(tmp_path, lab, questions_max=2) as controller:
        for _ in range(2):
            envelope = question()
            executor.ask(task, envelope)
            record = await asked(controller.records, "lab", envelope["prompt_id"])
            await answer(controller, record, ALICE, "cli", {"text": "y"})
            await stands(controller.records, record, "closed")
        envelope = question()
        executor.ask(task, envelope)
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        approval = await stands(controller.records, record, "closed")

    assert approval.status == "cancelled"
    assert "more than 2 questions" in executor.tasks[task].cancel_reasons[0]


async def test_a_host_that_closes_its_streams_when_it_asks_is_followed_all_the_same(tmp_path, executor, lab):
    executor.manners.closes_when_asking = True
    task = executor.begin()
    async with cockpit(tmp_path, lab) as controller:
        for _ in range(3):
            envelope = question()
            executor.ask(task, envelope)
            record = await asked(controller.records, "lab", envelope["prompt_id"])
            await answer(controller, record, ALICE, "cli", {"text": "y"})
            await stands(controller.records, record, "closed")

    assert len(executor.answers) == 3


async def test_a_refusal_for_good_pauses_at_once_and_goes_on_when_a_person_says_so(tmp_path, executor, lab):
    executor.manners.refuses_with = 403
    envelope, task = question(), executor.begin()
    executor.ask(task, envelope)
    async with cockpit(tmp_path, lab, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        await answer(controller, record, ALICE, "cli", {"text": "y"})

        async def held():
            found = await controller.records.find("lab", envelope["prompt_id"])
            return found if found and found.approval.phase == "reconcile" else None

        found = await until(controller.records, held, "held")
        assert found.approval.step in ("paused", "awaiting-approval")
        executor.manners.refuses_with = 0
        with trio.fail_after(30):
            while (await stands_or_none(controller, envelope)) != "closed":
                await controller.resume(found, BOB, "web")
                await trio.sleep(0.05)

    assert executor.taken(envelope["prompt_id"]) == {"text": "y"}


async def stands_or_none(controller, envelope):
    found = await controller.records.find("lab", envelope["prompt_id"])
    return found.approval.phase


async def test_no_secret_is_anywhere_on_disk_or_in_a_log(tmp_path, executor, lab, capfd):
    canary = "canary-5c1d9f"
    schema = {"type": "object", "properties": {"text": {"type": "string", "writeOnly": True}}}
    executor.manners.breaks_before = 1
    envelope, task = question(response_schema=schema), executor.begin()
    executor.ask(task, envelope)
    async with cockpit(tmp_path, lab, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        heard = await answer(controller, record, ALICE, "cli", {"text": canary})
        assert canary not in repr((heard, controller, controller.__dict__))
        assert (await stands(controller.records, record, "closed")).status == "responded"
        on_disk = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]

    assert executor.taken(envelope["prompt_id"]) == {"text": canary}
    assert all(canary.encode() not in data for data in on_disk)
    assert canary not in "".join(capfd.readouterr())
