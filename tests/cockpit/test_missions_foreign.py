"""Is a command started once, whatever its host does with the message, and is what cannot be known said?"""

from __future__ import annotations

import uuid
from typing import Any

import attrs
import pytest

from sandboxd.a2a.extensions import IDEMPOTENCY, LINKS
from sandboxd.a2a.links import Links
from sandboxd.approvals.record import Terms
from sandboxd.cockpit.agent import HostAddress
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.missions.mission import Mission, Order
from sandboxd.cockpit.missions.rows import Kept
from tests.cockpit.bridge import answer, asked, cockpit, somebody, until
from tests.cockpit.story import envelope
from tests.fakes.executor import Executor

ALICE, BOB = somebody("alice"), somebody("bob")
ORDER = Order("lab", "runner", "plan", ("node", "x"), "Go.")


async def reaches(controller: Controller, kept: Kept, *states: str, **facts: Any) -> Mission:
    async def reached() -> Mission | None:
        (now,) = await controller.missions.find(kept.mission.mission_id)
        fits = now.mission.standing.state in states and all(getattr(now.mission, key) == value for key, value in facts.items())
        return now.mission if fits else None

    return await until(controller.records, reached, f"the mission's state {states}")


@pytest.mark.parametrize("declares", [(), (IDEMPOTENCY,)])
@pytest.mark.parametrize("transport", ["jsonrpc", "rest"])
async def test_a_reply_that_is_lost_starts_nothing_twice(tmp_path, declares, transport):
    with Executor(loses_dispatches=1, declares=declares) as executor:
        async with cockpit(tmp_path, HostAddress("lab", executor.url, transport)) as controller:
            kept = await controller.missions.start(ORDER, ALICE, "cli")
            running = await reaches(controller, kept, "running")
            executor.move(running.task_id or "", "COMPLETED")
            await reaches(controller, kept, "completed")

    assert len(executor.tasks) == len(executor.dispatches) == 1


async def test_what_a_mission_belongs_to_is_told_its_host_and_stands_in_every_entry(tmp_path):
    with Executor() as executor:
        async with cockpit(tmp_path, HostAddress("lab", executor.url, provider="acme")) as controller:
            order = attrs.evolve(ORDER, links=Links(flow="nightly", issue="org/repo#12", trace="t-1"))
            kept = await controller.missions.start(order, ALICE, "cli")
            running = await reaches(controller, kept, "running")
            asks = envelope()
            executor.ask(running.task_id or "", asks)
            record = await asked(controller.records, "lab", asks["prompt_id"])
            executor.ask(running.task_id or "", ...)
            await until(controller.records, controller.records.sightings, "the sighting")
            entries = [entry.as_json() for entry in await controller.records.audit_last(50)]

    links = Links(kept.mission.mission_id, "nightly", "acme", "lab", "org/repo#12", "t-1")
    assert record.links == links
    assert {entry["event"] for entry in entries} >= {"mission-started", "received", "told", "seen"}
    assert [entry["links"] for entry in entries] == [attrs.asdict(links)] * len(entries)
    (sent,) = executor.dispatches
    assert sent["metadata"][LINKS] == {name: value for name, value in attrs.asdict(links).items() if value}


async def test_a_message_that_was_lost_is_sent_again_under_its_id_where_the_host_acts_on_it_once(tmp_path):
    with Executor(drops_dispatches=2, declares=(IDEMPOTENCY,)) as executor:
        async with cockpit(tmp_path, HostAddress("lab", executor.url)) as controller:
            kept = await controller.missions.start(ORDER, ALICE, "cli")
            await reaches(controller, kept, "running")

    assert len(executor.tasks) == 1
    assert [message["messageId"] for message in executor.dispatches] == [kept.mission.message_id] * 3


async def test_where_nobody_can_tell_whether_it_started_a_person_is_asked_and_nothing_is_sent_again(tmp_path):
    with Executor(drops_dispatches=1) as executor:
        async with cockpit(tmp_path, HostAddress("lab", executor.url)) as controller:
            kept = await controller.missions.start(ORDER, ALICE, "cli")
            paused = await reaches(controller, kept, "paused")
            assert (paused.hold, len(executor.dispatches)) == ("unsure", 1)
            assert "resume" in paused.standing.way_out
            await controller.missions.resume(kept, BOB, "cli")
            await reaches(controller, kept, "running")

    assert len(executor.tasks) == 1


async def test_a_host_that_does_not_answer_pauses_the_mission_and_it_goes_on_when_resumed(tmp_path):
    with Executor(declares=(IDEMPOTENCY,)) as executor:
        executor.manners.refuses_dispatch = 503
        async with cockpit(tmp_path, HostAddress("lab", executor.url), mission_tries=2) as controller:
            kept = await controller.missions.start(ORDER, ALICE, "cli")
            paused = await reaches(controller, kept, "paused")
            assert paused.hold == "unreachable"
            executor.manners.refuses_dispatch = 0
            await controller.missions.resume(kept, BOB, "cli")
            await reaches(controller, kept, "running")

    assert len(executor.tasks) == 1


async def test_a_task_that_asks_without_an_envelope_pauses_the_mission_and_goes_on_by_itself(tmp_path):
    with Executor() as executor:
        async with cockpit(tmp_path, HostAddress("lab", executor.url)) as controller:
            kept = await controller.missions.start(ORDER, ALICE, "cli")
            running = await reaches(controller, kept, "running")
            executor.ask(running.task_id or "", ...)
            paused = await reaches(controller, kept, "paused")
            assert "without a hitl-prompt/v1 envelope" in paused.standing.reason
            executor.move(running.task_id or "", "WORKING")
            await reaches(controller, kept, "running")


async def test_a_host_that_forgets_the_task_pauses_the_mission_and_a_cancel_closes_it(tmp_path):
    with Executor() as executor:
        async with cockpit(tmp_path, HostAddress("lab", executor.url)) as controller:
            kept = await controller.missions.start(ORDER, ALICE, "cli")
            running = await reaches(controller, kept, "running")
            with executor.changed:
                task = executor.tasks.pop(running.task_id or "")
                task.state = "CANCELED"  # its streams end
                executor.changed.notify_all()
            await reaches(controller, kept, "paused", hold="vanished")
            await controller.missions.cancel(kept, BOB, "cli", "it is gone")
            await reaches(controller, kept, "cancelled")


async def test_a_task_that_turns_up_after_its_mission_was_cancelled_is_cancelled(tmp_path):
    with Executor(drops_dispatches=1) as executor:
        async with cockpit(tmp_path, HostAddress("lab", executor.url)) as controller:
            kept = await controller.missions.start(ORDER, ALICE, "cli")
            await reaches(controller, kept, "paused")
            await controller.missions.cancel(kept, BOB, "cli", "no")
            await reaches(controller, kept, "cancelled")
            late = executor.begin()
            executor.tasks[late].context_id = kept.mission.mission_id

            async def stopped():
                return executor.tasks[late].cancel_reasons

            await until(controller.records, stopped, "the end of the straggler")


@pytest.mark.parametrize(("on_expiry", "state"), [("paused", "paused"), ("failed", "failed"), ("cancelled", "cancelled")])
async def test_a_question_that_nobody_answers_leaves_the_step_as_the_rules_say(tmp_path, on_expiry, state):
    terms = Terms(on_expiry=on_expiry)
    with Executor() as executor:
        async with cockpit(tmp_path, HostAddress("lab", executor.url), terms=terms) as controller:
            kept = await controller.missions.start(ORDER, ALICE, "cli")
            running = await reaches(controller, kept, "running")
            asks = envelope(deadline="2020-01-01T00:00:00Z")
            executor.ask(running.task_id or "", asks)
            stood = await reaches(controller, kept, state)
            assert "nobody answered" in stood.standing.reason
            if state == "paused":
                await controller.missions.resume(kept, BOB, "cli")
                still = await reaches(controller, kept, "paused")
                assert still.standing.way_out


async def test_a_question_that_comes_while_its_mission_is_cancelled_is_cancelled_too(tmp_path):
    with Executor() as executor:
        async with cockpit(tmp_path, HostAddress("lab", executor.url)) as controller:
            kept = await controller.missions.start(ORDER, ALICE, "cli")
            running = await reaches(controller, kept, "running")
            asks = envelope()
            executor.ask(running.task_id or "", asks)
            record = await asked(controller.records, "lab", asks["prompt_id"])
            await controller.missions.cancel(kept, BOB, "cli", "no")
            heard = await answer(controller, record, ALICE, "cli", {"text": "y"})
            assert heard.decided.marks[-1].outcome == "closed"
            await reaches(controller, kept, "cancelled")

    assert executor.tasks[running.task_id or ""].cancel_reasons
    assert executor.taken(asks["prompt_id"]) is None


async def test_an_id_that_begins_with_digits_is_found_by_its_beginning(tmp_path, monkeypatch):
    with Executor() as executor:
        async with cockpit(tmp_path, HostAddress("lab", executor.url)) as controller:
            for mission_id in ("12345678-9abc-4def-8123-456789abcdef", "20000000-0000-4000-8000-000000000000"):
                with monkeypatch.context() as patch:
                    patch.setattr("sandboxd.cockpit.missions.desk.uuid.uuid4", lambda text=mission_id: uuid.UUID(text))
                    await controller.missions.start(ORDER, ALICE, "cli")
            numbers = [[kept.number for kept in await controller.missions.find(name)] for name in ("12345678", "1", "2", "3")]

    assert numbers == [[1], [1], [2], []]
