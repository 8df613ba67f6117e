"""Can people start, follow and end missions over the cockpit's API, and have a question asked again?"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import httpx
import pytest
import trio

from sandboxd.a2a.extensions import IDEMPOTENCY
from sandboxd.approvals.record import Terms
from sandboxd.cockpit.agent import HostAddress
from tests.cockpit.bridge import WAIT_S, asked, person, stands, until, web
from tests.fakes.executor import Executor

PEOPLE = (person("alice"), person("bob"), person("eve", may_answer=False))
ORDER = {"host": "lab", "adapter": "runner", "mode": "plan", "command": ["node", "x"]}


async def reaches(client: httpx.AsyncClient, number: int, state: str) -> dict[str, Any]:
    with trio.fail_after(WAIT_S):
        while True:
            shown = (await client.get(f"/api/missions/{number}")).json()
            if shown["state"] == state:
                return shown
            await trio.sleep(0.05)


async def test_a_mission_is_started_followed_and_its_result_read_when_it_has_ended(tmp_path):
    with Executor(declares=(IDEMPOTENCY,)) as executor:
        async with web(tmp_path, HostAddress("lab", executor.url), people=PEOPLE) as page, page.client("alice") as alice:
            made = await alice.post("/api/missions", json=ORDER | {"answers": [{"question": "Go\\?", "answer": {"text": "y"}}]})
            assert made.status_code == 201, made.text
            number = made.json()["number"]
            running = await reaches(alice, number, "running")
            assert (running["started_by"], running["answers_given"]) == ("token:alice", 1)
            early = await alice.get(f"/api/missions/{number}/result")
            assert (early.status_code, early.json()["error"]["code"]) == (409, "conflict")
            again = await alice.post(f"/api/missions/{number}/resume")
            assert again.status_code == 409
            executor.move(running["task_id"], "COMPLETED")
            await reaches(alice, number, "completed")
            result = await alice.get(f"/api/missions/{running['mission_id'][:8]}/result")
            assert result.json()["state"] == "completed"
            listed = (await alice.get("/api/missions")).json()["missions"]
            assert [one["number"] for one in listed] == [number]


async def test_who_may_only_look_starts_and_ends_nothing(tmp_path):
    with Executor() as executor:
        async with web(tmp_path, HostAddress("lab", executor.url), people=PEOPLE) as page:
            async with page.client("eve") as eve, page.client("alice") as alice:
                assert (await eve.post("/api/missions", json=ORDER)).status_code == 403
                made = await alice.post("/api/missions", json=ORDER)
                where = f"/api/missions/{made.json()['number']}"
                assert (await eve.get(where)).status_code == 200
                for verb in ("resume", "cancel"):
                    assert (await eve.post(f"{where}/{verb}", json={})).status_code == 403
                assert (await alice.post(f"{where}/cancel", json={"reason": "no"})).status_code == 200
                await reaches(alice, made.json()["number"], "cancelled")
                assert (await alice.post(f"{where}/cancel", json={})).status_code == 409
            async with page.client() as nobody:
                assert (await nobody.get("/api/missions")).status_code == 401


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"host": "elsewhere"}, "host"),
        ({"mode": "destroy"}, "mode"),
        ({"command": []}, "command"),
        ({"command": "node"}, "command"),
        ({"timeout_seconds": True}, "timeout_seconds"),
        ({"timeout_seconds": 901}, "timeout_seconds"),
        ({"answers": [{"question": "(", "answer": {}}]}, "answer.0"),
        ({"answers": [{"question": "a"}]}, "answers.0"),
        ({"colour": "red"}, "colour"),
        ({"host": ...}, "host"),
    ],
)
async def test_an_order_that_cannot_be_one_is_refused_by_name(tmp_path, changes, said):
    body = {key: value for key, value in (ORDER | changes).items() if value is not ...}
    with Executor() as executor:
        async with web(tmp_path, HostAddress("lab", executor.url), people=PEOPLE) as page, page.client("alice") as alice:
            refused = await alice.post("/api/missions", json=body)

    assert refused.status_code == 400, refused.text
    assert said in refused.text
    assert executor.dispatches == []


async def test_a_mission_that_is_not_there_is_not_found(tmp_path):
    with Executor() as executor:
        async with web(tmp_path, HostAddress("lab", executor.url), people=PEOPLE) as page, page.client("alice") as alice:
            assert (await alice.get("/api/missions/7")).status_code == 404
            assert (await alice.get("/api/missions/%25")).status_code == 404
            assert (await alice.post("/api/missions/7/cancel", json={})).status_code == 404
            assert (await alice.get("/api/missions?limit=x")).status_code == 400


async def test_a_host_that_cannot_ask_again_is_said_to_be_one(tmp_path):
    with Executor() as executor:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        prompt_id, task = str(uuid.uuid4()), executor.begin()
        executor.ask(task, {"prompt_id": prompt_id, "prompt": "Go?", "response_schema": schema})
        terms = Terms(patience=timedelta(milliseconds=500))
        async with web(tmp_path, HostAddress("lab", executor.url), people=PEOPLE, terms=terms) as page:
            record = await asked(page.controller.records, "lab", prompt_id)
            await stands(page.controller.records, record, "closed")
            async with page.client("alice") as alice, page.client("eve") as eve:
                refused = await alice.post(f"/api/prompts/{record.number}/reissue")
                assert (refused.status_code, refused.json()["error"]["reason"]) == (409, "unsupported")
                assert (await eve.post(f"/api/prompts/{record.number}/reissue")).status_code == 403


async def test_a_mission_is_started_with_what_it_belongs_to_and_no_more(tmp_path):
    trace = "0af7651916cd43dd8448eb211c80319c"
    with Executor() as executor:
        async with web(tmp_path, HostAddress("lab", executor.url), people=PEOPLE) as page, page.client("alice") as alice:
            headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
            made = await alice.post("/api/missions", json=ORDER | {"links": {"flow": "nightly"}}, headers=headers)
            odd: list[Any] = [{"mission": "mine"}, {"flow": "<b>"}, {"issue": 7}, []]
            wrong = [await alice.post("/api/missions", json=ORDER | {"links": links}) for links in odd]

    links = {"mission": made.json()["mission_id"], "flow": "nightly", "sandbox": "lab", "trace": trace}
    assert made.json()["links"] == links
    assert [one.status_code for one in wrong] == [400] * 4


async def test_changes_of_a_mission_are_among_the_news(tmp_path):
    with Executor() as executor:
        async with web(tmp_path, HostAddress("lab", executor.url), people=PEOPLE) as page, page.client("alice") as alice:
            made = await alice.post("/api/missions", json=ORDER)
            await reaches(alice, made.json()["number"], "running")

            async def told():
                entries = [entry.as_json() for entry in await page.controller.records.audit_last(20)]
                return [one["outcome"] for one in entries if one["links"]["mission"] == made.json()["mission_id"]]

            assert await until(page.controller.records, told, "the mission's entries") == ["starting", "running"]
