"""Does the orchestrator's contract hold, with a real daemon as with an executor that is none?

What an orchestrator makes of each reply to an answer: 200 accepted, 422 asked again, 409 and 410 found out, 502 and its like
sent once more in the very same message, 403 for a person. By JSON-RPC and by HTTP+JSON.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from sandboxd.approvals.record import Terms
from sandboxd.cockpit.agent import HostAddress, Transport, open_agent
from sandboxd.cockpit.reading import Refused
from tests.cockpit.bridge import answer, asked, cockpit, somebody, stands, until
from tests.cockpit.test_cockpit_foreign import question
from tests.fakes.executor import Executor
from tests.support.daemon import Daemon, output_of, prompt_of

QUICK = Terms(backoff=timedelta(milliseconds=20), tries_max=4, payload_class="public")
ALICE = somebody("alice")
in_thread: Callable[..., Any] = trio.to_thread.run_sync


@attrs.frozen
class Asker:
    """A host with a question open: `says_elsewhere` has somebody else answer it, `took` is what it was told, if anything."""

    address: HostAddress
    task_id: str
    context_id: str
    prompt_id: str
    says_elsewhere: Callable[[], Any]
    took: Callable[[], str | None]


@pytest.fixture
def executor() -> Iterator[Executor]:
    with Executor(names_accepted=True) as server:
        yield server


@pytest.fixture(params=["jsonrpc", "rest"])
def transport(request: pytest.FixtureRequest) -> Transport:
    return request.param


@pytest.fixture(params=["daemon", "foreign"])
def asker(request: pytest.FixtureRequest, transport: Transport) -> Asker:
    if request.param == "foreign":
        return of_executor(request.getfixturevalue("executor"), transport)
    return of_daemon(request.getfixturevalue("shared"), transport)


def of_executor(executor: Executor, transport: Transport) -> Asker:
    envelope, task_id = question(), executor.begin()
    executor.ask(task_id, envelope)
    prompt_id, context_id = envelope["prompt_id"], executor.tasks[task_id].context_id

    def says_elsewhere() -> None:
        message = {"messageId": str(uuid.uuid4()), "taskId": task_id}
        response = {"prompt_id": prompt_id, "payload": {"text": "n"}}
        executor.send({"message": message | {"metadata": {"hitl_response_for": response}}})

    def took() -> str | None:
        return (executor.taken(prompt_id) or {}).get("text")

    return Asker(HostAddress("lab", executor.url, transport), task_id, context_id, prompt_id, says_elsewhere, took)


def of_daemon(daemon: Daemon, transport: Transport) -> Asker:
    task = daemon.run([["ask", "Proceed? [y/N] "]])
    address = HostAddress("lab", daemon.url, transport, daemon.token)

    def took() -> str | None:
        told = output_of(daemon.until(task["id"], "COMPLETED", timeout_s=60)).partition('answer: "')[2]
        return told.partition('"')[0] or None

    return Asker(address, task["id"], task["contextId"], prompt_of(task)["prompt_id"], partial(daemon.answer, task, "n"), took)


async def says(asker: Asker, message_id: str, payload: Any) -> Refused | None:
    """One answer, straight to the host; how it was refused."""
    async with open_agent(asker.address) as agent:
        try:
            await agent.answer(
                task_id=asker.task_id,
                context_id=asker.context_id,
                message_id=message_id,
                prompt_id=asker.prompt_id,
                payload=payload,
                is_secret=False,
            )
        except Refused as refused:
            return refused
    return None


async def test_200_is_an_answer_that_was_taken(tmp_path, asker):
    async with cockpit(tmp_path, asker.address, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", asker.prompt_id)
        await answer(controller, record, ALICE, "cli", {"text": "y"})
        approval = await stands(controller.records, record, "closed")

    assert (approval.status, approval.step) == ("responded", "running")
    assert await in_thread(asker.took) == "y"


async def test_422_names_the_place_and_leaves_the_question_open(tmp_path, asker, request):
    if "foreign" in request.node.name:
        request.getfixturevalue("executor").manners.refuses_payloads = 1
    refused = await says(asker, str(uuid.uuid4()), {"text": 17})

    assert refused is not None
    assert refused.is_misfit
    assert refused.misfits.startswith("/text: ")
    async with cockpit(tmp_path, asker.address, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", asker.prompt_id)
        await answer(controller, record, ALICE, "cli", {"text": "y"})
        assert (await stands(controller.records, record, "closed")).status == "responded"
    assert await in_thread(asker.took) == "y"


async def test_409_for_our_own_message_is_our_answer(asker):
    message_id = str(uuid.uuid4())
    assert await says(asker, message_id, {"text": "y"}) is None

    refused = await says(asker, message_id, {"text": "y"})

    assert refused is not None
    assert refused.is_conflict
    assert refused.accepted_message_id == message_id
    assert await in_thread(asker.took) == "y"


async def test_409_for_another_message_names_the_one_that_was_taken(asker):
    message_id = str(uuid.uuid4())
    assert await says(asker, message_id, {"text": "y"}) is None

    refused = await says(asker, str(uuid.uuid4()), {"text": "n"})

    assert refused is not None
    assert refused.is_conflict
    assert refused.accepted_message_id == message_id
    assert await in_thread(asker.took) == "y"


async def test_an_answer_of_somebody_else_is_a_conflict_with_a_reason(tmp_path, asker):
    async with cockpit(tmp_path, asker.address, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", asker.prompt_id)
        await in_thread(asker.says_elsewhere)
        await answer(controller, record, ALICE, "cli", {"text": "y"})  # too late, whether or not the news is here by now
        approval = await stands(controller.records, record, "closed")

    assert (approval.status, approval.step) == ("conflict", "paused")
    assert approval.reason
    assert await in_thread(asker.took) == "n"


async def test_409_for_a_prompt_that_never_was_and_for_another_task(asker):
    other = attrs.evolve(asker, prompt_id=str(uuid.uuid4()))

    for unknown in (other, attrs.evolve(asker, task_id=str(uuid.uuid4()))):
        refused = await says(unknown, str(uuid.uuid4()), {"text": "y"})
        assert refused is not None
        assert refused.is_conflict
        assert refused.accepted_message_id is None
    await in_thread(asker.says_elsewhere)


@pytest.mark.parametrize("status", [502, 503, 504, 500, 429, 408])
async def test_what_may_pass_is_sent_again_in_the_very_same_message(tmp_path, executor, transport, status):
    asker = of_executor(executor, transport)
    executor.manners.refuses_with, executor.manners.refuses_times = status, 2
    async with cockpit(tmp_path, asker.address, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", asker.prompt_id)
        await answer(controller, record, ALICE, "cli", {"text": "y"})
        approval = await stands(controller.records, record, "closed")
        kept = [json.loads(one.body) for one in await controller.records.audit_last(50)]

    assert approval.status == "responded"
    assert [sent["messageId"] for sent in executor.answers] == [approval.accepted] * 3
    assert [one["outcome"] for one in kept if one["event"] == "undelivered"] == ["retrying"] * 2


async def test_tries_are_bounded_and_then_it_is_found_out_what_was_taken(tmp_path, executor, transport):
    asker = of_executor(executor, transport)
    executor.manners.refuses_with = 502
    async with cockpit(tmp_path, asker.address, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", asker.prompt_id)
        await answer(controller, record, ALICE, "cli", {"text": "y"})

        async def paused():
            found = await controller.records.find("lab", asker.prompt_id)
            return found if found and found.approval.step == "paused" else None

        found = await until(controller.records, paused, "the pause")
        assert found.approval.status == "delivery-failed"
        assert found.approval.reason


async def test_410_for_a_question_that_is_open_still_is_for_a_person_who_may_send_it_on(tmp_path, executor, transport):
    asker = of_executor(executor, transport)
    executor.manners.refuses_with, executor.manners.refuses_times = 410, 1
    async with cockpit(tmp_path, asker.address, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", asker.prompt_id)
        await answer(controller, record, ALICE, "cli", {"text": "y"})

        async def held():
            found = await controller.records.find("lab", asker.prompt_id)
            return found if found and found.approval.held else None

        found = await until(controller.records, held, "held")
        assert (found.approval.status, found.approval.step) == ("conflict", "paused")
        await controller.resume(found, ALICE, "cli")
        approval = await stands(controller.records, record, "closed")

    assert approval.status == "responded"
    assert {sent["messageId"] for sent in executor.answers} == {approval.accepted}


async def test_410_for_a_question_that_is_gone_pauses_the_step(tmp_path, executor, transport):
    asker = of_executor(executor, transport)
    async with cockpit(tmp_path, asker.address, terms=QUICK) as controller:
        record = await asked(controller.records, "lab", asker.prompt_id)
        executor.manners.refuses_with = 410
        executor.move(asker.task_id, "FAILED")
        await answer(controller, record, ALICE, "cli", {"text": "y"})

        async def paused():
            found = await controller.records.find("lab", asker.prompt_id)
            return found if found and found.approval.step in ("paused", "failed") else None

        found = await until(controller.records, paused, "the pause")

    assert found.approval.status in ("conflict", "delivery-failed")
    assert executor.taken(asker.prompt_id) is None


async def test_403_is_nothing_that_another_try_mends(tmp_path, executor, transport):
    asker = of_executor(executor, transport)
    executor.manners.refuses_with = 403
    async with cockpit(tmp_path, asker.address, terms=attrs.evolve(QUICK, tries_max=2)) as controller:
        record = await asked(controller.records, "lab", asker.prompt_id)
        await answer(controller, record, ALICE, "cli", {"text": "y"})

        async def paused():
            found = await controller.records.find("lab", asker.prompt_id)
            return found if found and found.approval.step == "paused" else None

        found = await until(controller.records, paused, "the pause")
        assert "403" in found.approval.reason
