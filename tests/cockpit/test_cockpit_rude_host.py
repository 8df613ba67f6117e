"""Does a host that says what it likes hide nothing of anybody else's, and stop nothing?"""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import trio

from sandboxd.approvals.record import Terms
from sandboxd.cockpit import agent as agent_room
from sandboxd.cockpit import controller as controller_room
from sandboxd.cockpit import transfer
from sandboxd.cockpit.agent import HostAddress
from sandboxd.cockpit.missions.mission import Order
from sandboxd.cockpit.reading import Unreachable
from tests.cockpit.bridge import answer, asked, came, cockpit, somebody, stands, until
from tests.fakes.executor import IDEMPOTENCY, Executor
from tests.fakes.rude_host import Reply, RudeHost, reply, spelled

QUICK = Terms(backoff=timedelta(milliseconds=20), tries_max=4, payload_class="public")
ALICE, BOB = somebody("alice"), somebody("bob")
SCHEMA = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}


def question(**more):
    return {"prompt_id": str(uuid.uuid4()), "prompt": "Proceed?", "response_schema": SCHEMA} | more


@pytest.fixture
def rude() -> Iterator[RudeHost]:
    with RudeHost() as host:
        yield host


@pytest.fixture
def robot(rude: RudeHost) -> HostAddress:
    return HostAddress("robot", rude.url, transport="rest")


GOOD = spelled("bad", state="INPUT_REQUIRED")
SPOILED = {
    "no-object": b"7",
    "nothing": b"null",
    "no-status": b'{"id": "bad", "contextId": "c-bad"}',
    "no-state": b'{"id": "bad", "contextId": "c-bad", "status": {}}',
    "unknown-state": GOOD.replace(b"TASK_STATE_INPUT_REQUIRED", b"TASK_STATE_DREAMING"),
    "state-is-a-list": GOOD.replace(b'"TASK_STATE_INPUT_REQUIRED"', b'["TASK_STATE_WORKING"]'),
    "id-is-a-number": GOOD.replace(b'"id": "bad"', b'"id": 7'),
    "a-name-twice": GOOD.replace(b'"id": "bad"', b'"id": "bad", "id": "bad"'),
    "not-a-number": GOOD.replace(b'"id": "bad"', b'"id": "bad", "x": NaN'),
    "out-of-range": GOOD.replace(b'"id": "bad"', b'"id": "bad", "x": 1e999'),
    "many-digits": GOOD.replace(b'"id": "bad"', b'"id": "bad", "x": ' + b"9" * 5000),
    "half-a-pair": GOOD.replace(b"Proceed?", b"\\ud800"),
    "no-utf-8": GOOD.replace(b"Proceed?", b"\xff\xfe"),
    "deep": GOOD.replace(b'"id": "bad"', b'"id": "bad", "x": ' + b"[" * 200 + b"]" * 200),
    "an-id-that-is-no-text": GOOD.replace(b'"id": "bad"', b'"id": "\\udfff"'),
    "an-update-of-nothing": b'{"artifactUpdate": {}}',
}


@pytest.mark.parametrize("spoiled", SPOILED.values(), ids=SPOILED.keys())
async def test_a_task_that_cannot_be_read_is_shown_so_and_hides_no_other(tmp_path, rude, robot, spoiled):
    before, behind = question(), question()
    rude.tasks = {
        "before": spelled("before", state="INPUT_REQUIRED", envelope=before),
        "bad": spoiled,
        "behind": spelled("behind", state="INPUT_REQUIRED", envelope=behind),
    }
    async with cockpit(tmp_path, robot) as controller:
        for envelope in (before, behind):
            await asked(controller.records, "robot", envelope["prompt_id"])
        (sighting,) = await until(controller.records, controller.records.sightings, "the sighting")
        assert (sighting.kind, sighting.host) == ("malformed", "robot")
        assert "cannot be read" in sighting.why
        assert sighting.task_id in ("bad", "")

        rude.tasks["bad"] = spelled("bad")

        async def gone():
            return not await controller.records.sightings()

        assert await until(controller.records, gone, "its end")


async def test_a_page_that_is_no_json_is_taken_apart_and_what_it_hides_is_said(tmp_path, rude, robot):
    before = [question() for _ in range(12)]
    rude.tasks = {str(n): spelled(str(n), state="INPUT_REQUIRED", envelope=one) for n, one in enumerate(before)}
    rude.tasks["bad"] = b'{"id": "bad", '
    async with cockpit(tmp_path, robot) as controller:
        for envelope in before:
            await asked(controller.records, "robot", envelope["prompt_id"])
        (sighting,) = await until(controller.records, controller.records.sightings, "the sighting")

        assert sighting.task_id == ""
        assert "what stands behind that is not seen" in sighting.why


async def test_a_task_that_is_too_large_for_a_list_stands_alone(tmp_path, rude, robot, monkeypatch):
    monkeypatch.setattr(transfer, "LIST_MAX_BYTES", 64 * 1024)
    monkeypatch.setattr(transfer.read_bytes, "__kwdefaults__", {"most": 64 * 1024})
    envelope = question()
    rude.tasks = {"first": spelled("first", state="INPUT_REQUIRED", envelope=envelope)}
    rude.tasks["large"] = spelled("large", state="INPUT_REQUIRED", text="x" * 100_000)
    async with cockpit(tmp_path, robot) as controller:
        await asked(controller.records, "robot", envelope["prompt_id"])
        (sighting,) = await until(controller.records, controller.records.sightings, "the sighting")

        assert "more than 65536 bytes" in sighting.why


async def test_pages_that_lead_back_end(tmp_path, rude, robot):
    envelope = question()
    task = spelled("one", state="INPUT_REQUIRED", envelope=envelope)
    rude.replies["/tasks"] = lambda path, _: (
        reply(b'{"tasks": [' + task + b'], "nextPageToken": "again"}') if path == "/tasks" else None
    )
    async with cockpit(tmp_path, robot) as controller:
        await asked(controller.records, "robot", envelope["prompt_id"])
        (sighting,) = await until(controller.records, controller.records.sightings, "the sighting")

        assert "where the next one is" in sighting.why


async def test_a_stream_that_is_no_stream_leaves_its_task_to_the_lists(tmp_path, rude, robot):
    rude.tasks = {"one": spelled("one")}
    garbage = b"data: {]\n\ndata: 7\n\n"
    rude.replies["/tasks/one:subscribe"] = lambda *_: reply(garbage, Content_Type="text/event-stream")
    envelope = question()
    async with cockpit(tmp_path, robot) as controller:
        await came(lambda: rude.count("/tasks/one:subscribe") >= 1)
        rude.tasks["one"] = spelled("one", state="INPUT_REQUIRED", envelope=envelope)
        await asked(controller.records, "robot", envelope["prompt_id"])
        looks = rude.count("/tasks")
        await came(lambda: rude.count("/tasks") >= looks + 30)

    assert rude.count("/tasks/one:subscribe") < 10  # once for each state, and not with every look


async def test_a_compressed_body_is_not_unpacked(tmp_path, rude, robot):
    page = gzip.compress(b'{"tasks": []}')
    rude.replies["/tasks"] = lambda *_: reply(page, Content_Encoding="gzip")
    with Executor() as executor:
        envelope, task = question(), executor.begin()
        executor.ask(task, envelope)
        async with cockpit(tmp_path, robot, HostAddress("lab", executor.url)) as controller:
            await asked(controller.records, "lab", envelope["prompt_id"])
            agent = controller.agent("robot")
            assert agent is not None
            (why,) = (await agent.unfinished()).unread[:1]
            assert "compressed" in why.why


async def test_a_redirect_is_followed_by_nobody(tmp_path, rude, robot):
    with RudeHost() as elsewhere:
        envelope = question()
        rude.tasks = {"one": spelled("one", state="INPUT_REQUIRED", envelope=envelope)}
        rude.replies["/message:send"] = lambda *_: reply(b"<html>", 307, Location=f"{elsewhere.url}/message:send")
        async with cockpit(tmp_path, robot, terms=QUICK) as controller:
            record = await asked(controller.records, "robot", envelope["prompt_id"])
            await answer(controller, record, ALICE, "cli", {"text": "y"})

            async def known():
                found = await controller.records.find("robot", envelope["prompt_id"])
                return found if found and found.approval.status == "delivery-failed" else None

            found = await until(controller.records, known, "the refusal")
            assert "HTTP 307" in found.approval.reason
        assert elsewhere.requests == []


async def test_a_host_that_hangs_keeps_no_other_host_waiting(tmp_path, rude, robot, monkeypatch):
    monkeypatch.setattr(agent_room, "CALL_S", 600.0)
    monkeypatch.setattr(controller_room, "CALLS_MAX", 2)
    slow = [question() for _ in range(4)]
    rude.tasks = {str(n): spelled(str(n), state="INPUT_REQUIRED", envelope=one) for n, one in enumerate(slow)}
    rude.replies["/message:send"] = lambda *_: Reply(200, rude.drip())
    rude.replies["/.well-known"] = lambda *_: Reply(200, rude.drip())
    with Executor() as executor:
        envelope, task = question(), executor.begin()
        executor.ask(task, envelope)
        async with cockpit(tmp_path, robot, HostAddress("lab", executor.url), terms=QUICK) as controller:
            for one in slow:
                await answer(
                    controller, await asked(controller.records, "robot", one["prompt_id"]), ALICE, "cli", {"text": "y"}
                )
            await came(lambda: rude.count("/message:send") >= 2)
            record = await asked(controller.records, "lab", envelope["prompt_id"])
            await answer(controller, record, ALICE, "cli", {"text": "y"})
            assert (await stands(controller.records, record, "closed")).status == "responded"


async def test_a_card_that_never_ends_is_given_up(rude, robot, monkeypatch):
    monkeypatch.setattr(agent_room, "CALL_S", 0.2)
    rude.replies["/.well-known"] = lambda *_: Reply(200, rude.drip())
    async with agent_room.open_agent(robot) as agent:
        with trio.fail_after(30), pytest.raises(Unreachable, match="in time"):
            await agent.declared(IDEMPOTENCY)


async def test_a_task_that_asks_without_end_fills_no_record(tmp_path, rude, robot):
    rude.tasks = {"one": spelled("one", state="INPUT_REQUIRED", envelope=question())}
    rude.replies["/tasks/one:cancel"] = lambda *_: reply(b"{}", 403)
    other = question()

    def ask_anew(path, _):
        if path == "/tasks":
            rude.tasks["one"] = spelled("one", state="INPUT_REQUIRED", envelope=question())

    rude.replies["/tasks"] = ask_anew
    async with cockpit(tmp_path, robot, terms=QUICK, questions_max=3) as controller:
        await came(lambda: rude.count("/tasks/one:cancel") >= 30)
        rude.tasks["two"] = spelled("two", state="INPUT_REQUIRED", envelope=other)
        await asked(controller.records, "robot", other["prompt_id"])
        (count,) = await controller.records.read(
            lambda connection: connection.execute("SELECT count(*) FROM prompts WHERE task_id = 'one'").fetchone()
        )

    assert count == 4  # as many as it may ask, and the one that was too many


@pytest.mark.parametrize("kind", ["observed", "unread"])
async def test_what_comes_and_goes_without_end_fills_no_record(tmp_path, rude, robot, kind):
    asks = spelled("one", state="INPUT_REQUIRED")
    turns = [asks, spelled("one")] if kind == "observed" else [asks, b'{"id": "one"}']

    def turn(path, query):
        if path == "/tasks" and query["status"].endswith("INPUT_REQUIRED"):
            rude.tasks["one"] = turns[rude.count("/tasks") // 3 % 2]

    rude.replies["/tasks"] = turn
    rude.replies["/tasks/one:cancel"] = lambda *_: reply(b"{}", 403)
    async with cockpit(tmp_path, robot, questions_max=2) as controller:
        await came(lambda: rude.count("/tasks/one:cancel") >= 5)
        before = len(await controller.records.audit_last(1000))
        await came(lambda: rude.count("/tasks/one:cancel") >= 15)

        assert len(await controller.records.audit_last(1000)) - before <= 2
        assert before < 40


async def test_one_prompt_id_with_ever_other_questions_is_told_of_so_often_and_no_more(tmp_path, rude, robot):
    prompt_id = str(uuid.uuid4())
    texts = iter(range(1_000_000))

    def ask_anew(path, _):
        if path == "/tasks":
            envelope = question(prompt_id=prompt_id, prompt=f"Proceed {next(texts)}?")
            rude.tasks["one"] = spelled("one", state="INPUT_REQUIRED", envelope=envelope)

    rude.replies["/tasks"] = ask_anew
    async with cockpit(tmp_path, robot, questions_max=3) as controller:
        await asked(controller.records, "robot", prompt_id)
        await came(lambda: rude.count("/tasks") >= 60)
        entries = [json.loads(one.body) for one in await controller.records.audit_last(1000)]

    assert len([one for one in entries if one["outcome"] == "conflict"]) == 3


async def test_a_promise_beyond_all_time_is_no_promise_that_breaks_anything(tmp_path):
    class Boastful(Executor):
        def card(self) -> dict[str, Any]:
            return {"capabilities": {"extensions": [{"uri": IDEMPOTENCY, "params": {"ttl_seconds": 10**30}}]}}

    with Boastful(declares=(IDEMPOTENCY,), drops_dispatches=1) as executor:
        async with cockpit(tmp_path, HostAddress("lab", executor.url)) as controller:
            kept = await controller.missions.start(Order("lab", "a", "plan", ("x",), "go"), ALICE, "cli")

            async def runs():
                (found,) = await controller.missions.find(kept.mission.mission_id)
                return found.mission.standing.state == "running"

            assert await until(controller.records, runs, "the mission")
    assert len(executor.dispatches) == 2


async def test_two_tasks_with_one_prompt_id_are_no_two_askers_of_one_question(tmp_path, rude, robot):
    first, second = question(), question()
    second["prompt_id"] = first["prompt_id"]
    rude.tasks = {"first": spelled("first", state="INPUT_REQUIRED", envelope=first)}
    async with cockpit(tmp_path, robot, terms=QUICK) as controller:
        record = await asked(controller.records, "robot", first["prompt_id"])
        for envelope in (first, second | {"prompt": "Delete everything?"}):
            rude.tasks["second"] = spelled("second", state="INPUT_REQUIRED", envelope=envelope)
            (sighting,) = await until(controller.records, controller.records.sightings, "the sighting")
            assert (sighting.kind, sighting.task_id) == ("malformed", "second")
            assert "another task's" in sighting.why
        found = await controller.records.find("robot", first["prompt_id"])

    assert found is not None
    assert (found.place, found.approval.phase) == (record.place, "open")


async def test_what_is_very_long_is_looked_at_from_its_end_or_not_at_all(tmp_path, rude, robot):
    rude.tasks = {
        "x" * 300: spelled("x" * 300, state="INPUT_REQUIRED"),
        "long": spelled("long", state="INPUT_REQUIRED", text="\u202e" * 1_000_000 + "And now?"),
    }
    async with cockpit(tmp_path, robot) as controller:

        async def both():
            found = await controller.records.sightings()
            return found if len(found) == 2 else None

        sighted = {one.kind: one for one in await until(controller.records, both, "the sightings")}

    assert sighted["malformed"].task_id == ""
    assert "more than 256 characters" in sighted["malformed"].why
    assert sighted["observed"].text == "And now?"


async def test_a_state_that_goes_back_is_answered_once(tmp_path):
    with Executor() as executor:
        envelope, task, lab = question(), executor.begin(), HostAddress("lab", executor.url)
        executor.ask(task, envelope)
        async with cockpit(tmp_path, lab, terms=QUICK) as controller:
            record = await asked(controller.records, "lab", envelope["prompt_id"])
            await answer(controller, record, ALICE, "cli", {"text": "y"})
            await stands(controller.records, record, "closed")
            for state in ("COMPLETED", "WORKING"):
                executor.move(task, state)
            executor.ask(task, envelope)
            looks = executor.looks
            await came(lambda: executor.looks >= looks + 5)
            late = await answer(controller, record, BOB, "web", {"text": "n"})

    assert late.decided.marks[-1].outcome == "closed"
    assert [sent["metadata"]["hitl_response_for"]["payload"] for sent in executor.answers] == [{"text": "y"}]


async def test_of_many_who_answer_at_once_one_counts(tmp_path):
    with Executor() as executor:
        envelope, task = question(), executor.begin()
        executor.ask(task, envelope)
        outcomes: list[str] = []
        async with cockpit(tmp_path, HostAddress("lab", executor.url), terms=QUICK) as controller:
            record = await asked(controller.records, "lab", envelope["prompt_id"])

            async def give(number: int) -> None:
                heard = await answer(controller, record, somebody(f"p{number}"), "cli", {"text": f"{number}"})
                outcomes.append(heard.decided.marks[-1].outcome)

            async with trio.open_nursery() as nursery:
                for number in range(12):
                    nursery.start_soon(give, number)
            approval = await stands(controller.records, record, "closed")

    assert outcomes.count("decided") == 1
    assert approval.verdict is not None
    (who,) = approval.verdict.persons
    assert executor.taken(envelope["prompt_id"]) == {"text": who.removeprefix("p")}
    assert len(executor.answers) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"deadline": "0001-01-01T00:00:00Z"},
        {"deadline": "9999-12-31T23:59:59.999999Z"},
        {"deadline": "9999-12-31T23:59:59-14:00"},
        {"deadline": "soon"},
        {"deadline": 7},
        {"allowed_responders": ["consensus:" + "9" * 5000]},
        {"allowed_responders": ["specific:" + "x" * 100_000]},
        {"allowed_responders": [{}]},
        {"allowed_responders": ["any"] * 1000},
        {"prompt": "\u202e\x00\x1b[2J" * 100},
        {"prompt": ""},
        {"prompt": "x" * 100_000},
        {"prompt_id": "../../etc"},
        {"prompt_id": None},
        {"response_schema": {"$ref": "https://example.com/schema"}},
        {"response_schema": {"type": "object", "pattern": "(a+)+$"}},
        {"response_schema": 7},
        {"more": {"deep": [[[[[[]]]]]]}},
    ],
    ids=lambda more: next(iter(more)),
)
async def test_no_envelope_stops_the_controller(tmp_path, rude, robot, more):
    good = question()
    rude.tasks = {
        "odd": spelled("odd", state="INPUT_REQUIRED", envelope=question() | more),
        "good": spelled("good", state="INPUT_REQUIRED", envelope=good),
    }
    async with cockpit(tmp_path, robot, terms=QUICK) as controller:
        await asked(controller.records, "robot", good["prompt_id"])
        looks = rude.count("/tasks")
        await came(lambda: rude.count("/tasks") >= looks + 9)
