"""Does the controller bring a real daemon's questions to people, and their answers to the process that asked?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
import trio

from sandboxd.approvals.record import Terms
from sandboxd.cockpit.agent import HostAddress
from tests.cockpit.bridge import answer, asked, cockpit, somebody, stands, until
from tests.support.daemon import Daemon, output_of, prompt_of, state_of

ALICE, BOB = somebody("alice"), somebody("bob")
QUICK = Terms(backoff=timedelta(milliseconds=50), payload_class="public")


def address(daemon: Daemon, transport: str = "jsonrpc") -> HostAddress:
    return HostAddress("here", daemon.url, "rest" if transport == "rest" else "jsonrpc", daemon.token)


async def in_thread(work: Callable, *args):
    return await trio.to_thread.run_sync(lambda: work(*args))


@pytest.mark.parametrize("transport", ["jsonrpc", "rest"])
async def test_an_answer_is_typed_into_the_process_that_asked(tmp_path, shared, transport):
    task = await in_thread(shared.run, [["ask", "Proceed? [y/N] "]])
    prompt_id = prompt_of(task)["prompt_id"]
    async with cockpit(tmp_path, address(shared, transport)) as controller:
        record = await asked(controller.records, "here", prompt_id)
        await answer(controller, record, ALICE, "cli", {"text": "y"})
        approval = await stands(controller.records, record, "closed")

    assert approval.status == "responded"
    done = await in_thread(shared.until, task["id"], "COMPLETED")
    assert 'answer: "y"' in output_of(done)


async def test_questions_of_one_task_come_one_after_the_other(tmp_path, shared):
    task = await in_thread(shared.run, [["ask", "First? [y/N] "], ["ask", "Second? [y/N] "]])
    async with cockpit(tmp_path, address(shared)) as controller:
        first = await asked(controller.records, "here", prompt_of(task)["prompt_id"])
        await answer(controller, first, ALICE, "cli", {"text": "y"})
        await stands(controller.records, first, "closed")

        async def second():
            return next(iter(await controller.records.of_task("here", task["id"])), None)

        record = await until(controller.records, second, "the second question")
        assert record.envelope["prompt"].startswith("Second?")
        await answer(controller, record, BOB, "web", {"text": "n"})
        await stands(controller.records, record, "closed")

    done = await in_thread(shared.until, task["id"], "COMPLETED")
    assert output_of(done).count("answer:") == 2


async def test_an_answer_at_the_daemon_itself_closes_the_question_here(tmp_path, shared):
    task = await in_thread(shared.run, [["ask", "Proceed? [y/N] "], ["read", 60000]])
    async with cockpit(tmp_path, address(shared)) as controller:
        record = await asked(controller.records, "here", prompt_of(task)["prompt_id"])
        await in_thread(shared.answer, task, "n")
        approval = await stands(controller.records, record, "closed")
        assert (approval.status, approval.step) == ("conflict", "paused")
        heard = await answer(controller, record, ALICE, "cli", {"text": "y"})
        assert heard.decided.marks[-1].outcome == "closed"
    with shared.client() as client:
        client.post(f"/tasks/{task['id']}:cancel", json={})


async def test_a_cancel_ends_the_task_at_the_daemon(tmp_path, shared):
    task = await in_thread(shared.run, [["ask", "Proceed? [y/N] "]])
    async with cockpit(tmp_path, address(shared)) as controller:
        record = await asked(controller.records, "here", prompt_of(task)["prompt_id"])
        await controller.cancel(record, BOB, "web", "not today")
        approval = await stands(controller.records, record, "closed")

    assert (approval.status, approval.step) == ("cancelled", "cancelled")
    assert state_of(await in_thread(shared.get, task["id"])) == "CANCELED"


async def test_a_daemon_that_is_killed_with_a_question_open_leaves_a_reason(tmp_path, daemon):
    task = await in_thread(daemon.run, [["ask", "Proceed? [y/N] "]])
    async with cockpit(tmp_path, address(daemon)) as controller:
        record = await asked(controller.records, "here", prompt_of(task)["prompt_id"])
    await in_thread(daemon.kill)
    await in_thread(daemon.start)
    async with cockpit(tmp_path, address(daemon)) as controller:
        approval = await stands(controller.records, record, "closed")

    assert (approval.status, approval.step) == ("conflict", "failed")
    assert "failed" in approval.reason


async def test_an_answer_that_meets_a_dead_daemon_is_delivered_or_said_not_to_be(tmp_path, daemon):
    task = await in_thread(daemon.run, [["ask", "Proceed? [y/N] "]])
    where = address(daemon)
    async with cockpit(tmp_path, where, terms=QUICK) as controller:
        record = await asked(controller.records, "here", prompt_of(task)["prompt_id"])
        await in_thread(daemon.kill)
        await answer(controller, record, ALICE, "cli", {"text": "y"})
    await in_thread(daemon.start)
    async with cockpit(tmp_path, address(daemon), terms=QUICK) as controller:
        approval = await stands(controller.records, record, "closed")

    # The prompt died with its daemon, whose record says that nothing was typed.
    assert (approval.status, approval.step) in [("conflict", "paused"), ("conflict", "failed")]
    assert approval.reason
