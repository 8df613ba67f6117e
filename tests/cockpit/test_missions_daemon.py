"""Does a mission start one command on a real daemon, and say truthfully what becomes of it?"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trio

from sandboxd.approvals.record import Terms
from sandboxd.cockpit.agent import HostAddress
from sandboxd.cockpit.context import Preseed
from sandboxd.cockpit.controller import CannotReissue, Controller
from sandboxd.cockpit.missions.desk import NotEnded
from sandboxd.cockpit.missions.mission import FINAL, Mission, Order
from sandboxd.cockpit.missions.rows import Kept
from sandboxd.cockpit.rules import RuleBook
from tests.cockpit.bridge import answer, asked, cockpit, somebody, stands, until
from tests.support.daemon import RUNNER, Daemon, prompt_of

ALICE, BOB = somebody("alice"), somebody("bob")


def address(daemon: Daemon, transport: str = "jsonrpc") -> HostAddress:
    return HostAddress("here", daemon.url, "rest" if transport == "rest" else "jsonrpc", daemon.token)


async def in_thread(work: Callable, *args):
    return await trio.to_thread.run_sync(lambda: work(*args))


def order(daemon: Daemon, steps: list[list[Any]], **more: Any) -> Order:
    command = ("node", RUNNER, "--request", daemon.request(steps))
    return Order("here", "sandbox-agent-runner", "plan", command, "Run it.", timeout_s=60, **more)


async def reaches(controller: Controller, kept: Kept, *states: str) -> Mission:
    async def reached() -> Mission | None:
        (now,) = await controller.missions.find(kept.mission.mission_id)
        return now.mission if now.mission.standing.state in states else None

    return await until(controller.records, reached, f"the mission's state {states}")


async def question_of(controller: Controller, mission: Mission):
    async def found():
        task_id = mission.task_id or ""
        return next(iter(await controller.records.of_task(mission.order.host, task_id)), None)

    return await until(controller.records, found, "its question")


async def text_left(controller: Controller, kept: Kept) -> str:
    result = await controller.missions.result(kept)
    return "".join(part.get("text", "") for artifact in result.artifacts for part in artifact["parts"])


@pytest.mark.parametrize("transport", ["jsonrpc", "rest"])
async def test_a_mission_runs_asks_is_answered_and_completes(tmp_path, shared, transport):
    wanted = order(shared, [["env", "AIWG_MISSION_ID"], ["ask", "Proceed? [y/N] "]])
    async with cockpit(tmp_path, address(shared, transport)) as controller:
        kept = await controller.missions.start(wanted, ALICE, "cli")
        mission = await reaches(controller, kept, "awaiting-approval")
        with pytest.raises(NotEnded, match="no result"):
            await controller.missions.result(Kept(kept.number, mission))
        record = await question_of(controller, mission)
        assert record.links.mission == mission.mission_id
        await answer(controller, record, BOB, "web", {"text": "y"})
        done = await reaches(controller, kept, *FINAL)
        left = await text_left(controller, Kept(kept.number, done))
        news = [one.standing.state for one in await controller.missions.news_after(0, 100)]
        entries = [entry.as_json() for entry in await controller.records.audit_last(50)]

    assert done.standing.state == "completed"
    assert f"AIWG_MISSION_ID={mission.mission_id}" in left
    assert 'answer: "y"' in left
    assert [state for state, before in zip(news, ["", *news], strict=False) if state != before] == [
        *("starting", "running", "awaiting-approval", "running", "completed")
    ]
    started = next(entry for entry in entries if entry["event"] == "mission-started")
    assert (started["principal"], started["channel"], started["links"]["mission"]) == ("token:alice", "cli", mission.mission_id)
    assert {entry["links"]["mission"] for entry in entries} == {mission.mission_id}


async def test_what_a_mission_knows_is_answered_in_its_starter_s_name_and_nobody_is_told(tmp_path, shared):
    wanted = order(shared, [["ask", "Proceed? [y/N] "]], preseeds=(Preseed(r"Proceed\? \[y/N\]", {"text": "y"}),))
    async with cockpit(tmp_path, address(shared)) as controller:
        kept = await controller.missions.start(wanted, ALICE, "cli")
        done = await reaches(controller, kept, *FINAL)
        news = [one.what for one in await controller.records.news_after(0, 100)]
        votes = [entry.as_json() for entry in await controller.records.audit_last(50) if '"voted"' in entry.body]

    assert done.standing.state == "completed"
    assert [what for what in news if what != "receipt"] == ["closed"]  # that it was read may be known by then, or not
    assert [(vote["principal"], vote["channel"]) for vote in votes] == [("token:alice", "context")]


async def test_who_started_a_mission_may_not_answer_where_the_rules_bar_them_nor_beforehand(tmp_path, shared):
    wanted = order(shared, [["ask", "Proceed? [y/N] "]], preseeds=(Preseed(".*", {"text": "y"}),))
    rules = RuleBook(Terms(), bars_starter=True)
    async with cockpit(tmp_path, address(shared), rules=rules) as controller:
        kept = await controller.missions.start(wanted, ALICE, "cli")
        record = await question_of(controller, await reaches(controller, kept, "awaiting-approval"))
        refused = await answer(controller, record, ALICE, "cli", {"text": "y"})
        assert refused.decided.marks[-1].outcome == "not-eligible"
        await answer(controller, record, BOB, "cli", {"text": "y"})
        assert (await reaches(controller, kept, *FINAL)).standing.state == "completed"


async def test_a_command_that_the_host_s_policy_refuses_fails_the_mission_with_the_reason(tmp_path, shared):
    wanted = Order("here", "sandbox-agent-runner", "plan", ("node", "elsewhere.mjs", "--request", "x"), "Run it.")
    async with cockpit(tmp_path, address(shared)) as controller:
        failed = await reaches(controller, await controller.missions.start(wanted, ALICE, "cli"), *FINAL, "paused")

    assert failed.standing.state == "failed"
    assert "command" in failed.standing.reason


async def test_an_envelope_that_the_host_refuses_pauses_the_mission_and_a_resume_sends_another_message(tmp_path, shared):
    wanted = Order("here", "sandbox-agent-runner", "destroy", ("node", "x"), "Run it.")
    async with cockpit(tmp_path, address(shared)) as controller:
        kept = await controller.missions.start(wanted, ALICE, "cli")
        paused = await reaches(controller, kept, "paused")
        assert paused.hold == "refused"
        assert "malformed" in paused.standing.reason
        await controller.missions.resume(kept, BOB, "web")

        async def refused_again():
            (now,) = await controller.missions.find(kept.mission.mission_id)
            return now.mission if now.mission.attempt == 2 and now.mission.hold else None

        again = await until(controller.records, refused_again, "the second refusal")
    assert again.message_id != paused.message_id


async def test_a_cancel_ends_the_question_and_the_task(tmp_path, shared):
    wanted = order(shared, [["ask", "Proceed? [y/N] "]])
    async with cockpit(tmp_path, address(shared)) as controller:
        kept = await controller.missions.start(wanted, ALICE, "cli")
        mission = await reaches(controller, kept, "awaiting-approval")
        await controller.missions.cancel(kept, BOB, "web", "not today")
        cancelled = await reaches(controller, kept, *FINAL)

    assert cancelled.standing.state == "cancelled"
    assert re.search("cancelled by token:bob: not today", cancelled.standing.reason)
    task = await in_thread(shared.get, mission.task_id)
    assert task["status"]["state"] == "TASK_STATE_CANCELED"


async def test_an_answer_that_somebody_gave_at_the_host_pauses_the_mission_until_a_person_has_looked(tmp_path, shared):
    wanted = order(shared, [["ask", "Proceed? [y/N] "]])
    async with cockpit(tmp_path, address(shared)) as controller:
        kept = await controller.missions.start(wanted, ALICE, "cli")
        mission = await reaches(controller, kept, "awaiting-approval")
        await in_thread(lambda: shared.answer(shared.get(mission.task_id), "y"))

        async def withheld():
            (now,) = await controller.missions.find(kept.mission.mission_id)
            return now if now.mission.has_task_ended and now.mission.standing.state == "paused" else None

        paused = await until(controller.records, withheld, "the end of its task")
        assert "its task has completed" in paused.mission.standing.reason
        with pytest.raises(NotEnded):
            await controller.missions.result(paused)
        await controller.missions.resume(kept, BOB, "cli")
        done = await reaches(controller, kept, *FINAL)
        assert done.standing.state == "completed"
        assert 'answer: "y"' in await text_left(controller, Kept(kept.number, done))


async def test_a_mission_outlives_the_cockpit_and_is_followed_on(tmp_path: Path, shared: Daemon) -> None:
    wanted = order(shared, [["ask", "Proceed? [y/N] "]])
    async with cockpit(tmp_path, address(shared)) as controller:
        kept = await controller.missions.start(wanted, ALICE, "cli")
        mission = await reaches(controller, kept, "awaiting-approval")
    task_id = mission.task_id or ""
    await in_thread(lambda: shared.answer(shared.get(task_id), "y"))
    await in_thread(shared.until, task_id, "COMPLETED")
    async with cockpit(tmp_path, address(shared)) as controller:
        paused = await reaches(controller, kept, "paused", *FINAL)

    assert paused.standing.state == "paused"  # nobody here has answered it
    assert paused.standing.way_out


async def test_a_question_that_expired_is_asked_again_when_its_mission_is_resumed(tmp_path, shared):
    wanted = order(shared, [["ask", "Proceed? [y/N] "]])
    async with cockpit(tmp_path / "strict", address(shared), terms=Terms(patience=timedelta(seconds=1))) as controller:
        kept = await controller.missions.start(wanted, ALICE, "cli")
        paused = await reaches(controller, kept, "paused")
        assert "nobody answered" in paused.standing.reason
        task = await in_thread(shared.get, paused.task_id)
        old = prompt_of(task)["prompt_id"]
    async with cockpit(tmp_path / "strict", address(shared)) as controller:  # with the patience that it takes to answer
        await controller.missions.resume(kept, BOB, "cli")
        record = await question_of(controller, await reaches(controller, kept, "awaiting-approval"))
        assert record.prompt_id != old
        late = await in_thread(lambda: shared.answer(task, "late", prompt_id=old))
        assert late.status_code == 409
        await answer(controller, record, BOB, "cli", {"text": "y"})
        done = await reaches(controller, kept, *FINAL)
        assert done.standing.state == "completed"
        assert 'answer: "y"' in await text_left(controller, Kept(kept.number, done))


async def test_a_person_has_a_closed_question_asked_again_and_that_is_on_record(tmp_path, shared):
    task = await in_thread(shared.run, [["ask", "Proceed? [y/N] "]])
    old = prompt_of(task)["prompt_id"]
    async with cockpit(tmp_path, address(shared), terms=Terms(patience=timedelta(seconds=1))) as controller:
        record = await asked(controller.records, "here", old)
        with pytest.raises(CannotReissue, match="may not answer"):
            await controller.reissue(record, somebody("mallory", may_answer=False), "cli")
        await stands(controller.records, record, "closed")
        closed = await asked(controller.records, "here", old)
        new = await controller.reissue(closed, BOB, "cli")
        assert await asked(controller.records, "here", new)
        assert await controller.reissue(closed, BOB, "cli") == new  # as if the first reply had been lost
        entries = [one.as_json() for one in await controller.records.audit_last(50)]
    assert [one["outcome"] for one in entries if one["event"] == "reissueasked"] == ["not-allowed", "reissued", "reissued"]
    with shared.client() as client:
        client.post(f"/tasks/{task['id']}:cancel", json={})
