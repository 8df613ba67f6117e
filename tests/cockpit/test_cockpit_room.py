"""Does a question for which there is no room wait where it is, with its reason, and is it asked once there is room?"""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from typing import Any

import pytest

from sandboxd import metrics
from sandboxd.a2a.model import TaskState
from sandboxd.cockpit.agent import HostAddress
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.ledger import STORE_NAME
from sandboxd.cockpit.missions.mission import Order
from sandboxd.cockpit.record import Record, Sighting
from sandboxd.cockpit.schema import SCHEMA
from sandboxd.db.schema import Schema, migrate
from tests.cockpit.bridge import answer, asked, came, cockpit, person, somebody, stands, until, web
from tests.fakes.executor import Executor
from tests.fakes.rude_host import RudeHost, reply, spelled

ALICE = somebody("alice")
BOUNDS: dict[str, Any] = {"max-open": {"open_max": 1}, "max-open-per-host": {"open_per_host_max": 1}}


def question(prompt: str = "Proceed?") -> dict[str, Any]:
    schema = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
    return {"prompt_id": str(uuid.uuid4()), "prompt": prompt, "response_schema": schema}


def ask(executor: Executor, prompt: str = "Proceed?", task: str | None = None) -> dict[str, Any]:
    envelope = question(prompt)
    executor.ask(task or executor.begin(), envelope)
    return envelope


async def sighted(controller: Controller, kind: str = "postponed") -> Sighting:
    async def there() -> Sighting | None:
        return next((one for one in await controller.records.sightings() if one.kind == kind), None)

    found: Sighting = await until(controller.records, there, f"a sighting that is {kind}")
    return found


async def nothing_sighted(controller: Controller) -> None:
    async def gone() -> bool:
        return not await controller.records.sightings()

    await until(controller.records, gone, "the end of the sightings")


async def close(controller: Controller, record: Record) -> None:
    await answer(controller, record, ALICE, "cli", {"text": "y"})
    await stands(controller.records, record, "closed")


def counted(bound: str) -> float:
    value = metrics.REGISTRY.get_sample_value("sandboxd_bounds_reached_total", {"bound": bound})
    assert value is not None
    return value


@pytest.mark.parametrize("key", BOUNDS)
async def test_a_question_without_room_waits_with_its_reason_and_is_asked_once_there_is_room(tmp_path, executor, key):
    bound = key.replace("-", "_")
    before = counted(bound)
    first = ask(executor)
    async with cockpit(tmp_path, HostAddress("lab", executor.url), **BOUNDS[key]) as controller:
        record = await asked(controller.records, "lab", first["prompt_id"])
        second = ask(executor, "And this?")
        waits = await sighted(controller)
        assert (waits.host, waits.text) == ("lab", "And this?")
        assert f"(`{key}`)" in waits.why
        assert "answered or closed" in waits.why
        assert await controller.records.find("lab", second["prompt_id"]) is None

        await close(controller, record)  # what is open goes on as ever

        await close(controller, await asked(controller.records, "lab", second["prompt_id"]))
        await nothing_sighted(controller)
        outcomes = [entry.as_json()["outcome"] for entry in await controller.records.audit_last(50)]

    assert [executor.taken(one["prompt_id"]) for one in (first, second)] == [{"text": "y"}] * 2
    assert (outcomes.count("postponed"), outcomes.count("gone")) == (1, 1)
    assert counted(bound) == before + 1


async def test_a_host_that_has_all_its_room_takes_none_of_another_hosts(tmp_path, executor):
    with Executor() as other:
        hosts = (HostAddress("lab", executor.url), HostAddress("robot", other.url))
        async with cockpit(tmp_path, *hosts, open_per_host_max=1, open_max=2) as controller:
            await asked(controller.records, "lab", ask(executor)["prompt_id"])
            ask(executor)
            await sighted(controller)

            await close(controller, await asked(controller.records, "robot", ask(other)["prompt_id"]))


async def test_what_a_task_asks_next_has_the_room_of_what_it_asked_before(tmp_path, executor):
    first, task = question(), executor.begin()
    executor.ask(task, first)
    async with cockpit(tmp_path, HostAddress("lab", executor.url), open_max=1) as controller:
        await asked(controller.records, "lab", first["prompt_id"])
        second = ask(executor, task=task)
        await close(controller, await asked(controller.records, "lab", second["prompt_id"]))
        outcomes = [entry.as_json()["outcome"] for entry in await controller.records.audit_last(50)]

    assert "postponed" not in outcomes


async def test_a_task_that_gives_up_waiting_for_room_is_gone_from_the_list(tmp_path, executor):
    async with cockpit(tmp_path, HostAddress("lab", executor.url), open_max=1) as controller:
        await asked(controller.records, "lab", ask(executor)["prompt_id"])
        ask(executor, task=executor.begin("impatient"))
        assert (await sighted(controller)).task_id == "impatient"
        executor.move("impatient", "FAILED")

        await nothing_sighted(controller)


async def test_a_mission_whose_question_waits_for_room_is_paused_and_says_why(tmp_path, executor):
    async with cockpit(tmp_path, HostAddress("lab", executor.url), open_max=1) as controller:
        record = await asked(controller.records, "lab", ask(executor)["prompt_id"])
        kept = await controller.missions.start(Order("lab", "runner", "plan", ("node", "x"), "Go."), ALICE, "cli")

        async def stands_as(state: str) -> Any:
            (now,) = await controller.missions.find(kept.mission.mission_id)
            return now.mission if now.mission.standing.state == state else None

        running = await until(controller.records, lambda: stands_as("running"), "the mission's task")
        ask(executor, task=running.task_id)
        paused = await until(controller.records, lambda: stands_as("paused"), "the pause")
        assert paused.task_state == TaskState.INPUT_REQUIRED.value
        assert "(`max-open`)" in paused.standing.reason
        assert paused.standing.way_out

        await close(controller, record)

        assert await until(controller.records, lambda: stands_as("awaiting-approval"), "the question")


async def test_what_waited_waits_behind_a_restart_and_more_room_takes_it_in(tmp_path, executor):
    first = ask(executor)
    async with cockpit(tmp_path, HostAddress("lab", executor.url), open_max=1) as controller:
        await asked(controller.records, "lab", first["prompt_id"])
        second = ask(executor)
        waits = await sighted(controller)
    async with cockpit(tmp_path, HostAddress("lab", executor.url), open_max=1) as controller:
        assert await sighted(controller) == waits
    async with cockpit(tmp_path, HostAddress("lab", executor.url), open_max=2) as controller:
        for envelope in (first, second):
            await close(controller, await asked(controller.records, "lab", envelope["prompt_id"]))


async def test_ever_other_questions_for_which_there_is_no_room_fill_no_record(tmp_path, executor):
    with RudeHost() as rude:
        rude.replies["/tasks/one:cancel"] = lambda *_: reply(b"{}", 403)

        def ask_anew(path, _):
            if path == "/tasks":
                rude.tasks["one"] = spelled("one", state="INPUT_REQUIRED", envelope=question())

        hosts = (HostAddress("lab", executor.url), HostAddress("robot", rude.url, transport="rest"))
        async with cockpit(tmp_path, *hosts, open_max=1, questions_max=2) as controller:
            await asked(controller.records, "lab", ask(executor)["prompt_id"])
            rude.replies["/tasks"] = ask_anew
            await came(lambda: rude.count("/tasks/one:cancel") >= 5)
            before = len(await controller.records.audit_last(1000))
            await came(lambda: rude.count("/tasks/one:cancel") >= 15)

            assert len(await controller.records.audit_last(1000)) - before <= 2
            assert before < 40


async def test_the_metrics_say_how_many_are_open_and_how_many_wait(tmp_path, executor):
    async with web(tmp_path, HostAddress("lab", executor.url), people=(person("alice"),), open_max=1) as page:
        await asked(page.controller.records, "lab", ask(executor)["prompt_id"])
        ask(executor)
        await sighted(page.controller)
        async with page.client() as stranger, page.client("alice") as alice:
            assert (await stranger.get("/metrics")).status_code == 401
            told = await alice.get("/metrics")

    assert told.headers["content-type"].startswith("text/plain")
    lines = told.text.splitlines()
    assert 'sandboxd_cockpit_questions_open{host="lab"} 1.0' in lines
    assert 'sandboxd_cockpit_tasks_unasked{host="lab",kind="postponed"} 1.0' in lines
    assert any(line.startswith('sandboxd_bounds_reached_total{bound="max_open"}') for line in lines)
    assert not any(line.startswith("sandboxd_tasks_") for line in lines)  # what is a daemon's alone


def test_a_file_of_before_keeps_what_was_sighted(tmp_path):
    path = tmp_path / STORE_NAME
    names = "host, task_id, digest, kind, at_us, text, why, gone_at_us"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, Schema(SCHEMA.application_id, SCHEMA.migrations[:6]))
        row = ("lab", "one", "d", "observed", 7, "And now?", "no envelope", None)
        connection.execute(f"INSERT INTO sightings ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        migrate(connection, SCHEMA)

        assert connection.execute(f"SELECT number, {names} FROM sightings").fetchall() == [(1, *row)]
