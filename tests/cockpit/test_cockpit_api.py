"""Can people and programs see, answer and end questions over the cockpit's API, and nobody else?"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
import trio

from sandboxd.approvals.record import Approval
from sandboxd.cockpit.agent import HostAddress
from sandboxd.cockpit.web.app import routes
from sandboxd.cockpit.web.pages import Pages
from sandboxd.cockpit.web_config import Proxy
from sandboxd.serving.bearer import digest_of
from tests.cockpit.bridge import WAIT_S, Web, asked, person, stands, token_of, until, web
from tests.fakes.executor import Executor

ALICE, BOB, EVE = person("alice"), person("bob"), person("eve", may_answer=False)
PEOPLE = (ALICE, BOB, EVE)
SECRET = "the-proxy-and-the-cockpit-alone-know-it"


@pytest.fixture
def executor() -> Iterator[Executor]:
    with Executor() as server:
        yield server


def question(**more):
    schema = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "maxLength": 8}}}
    return {"prompt_id": str(uuid.uuid4()), "prompt": "Proceed?", "response_schema": schema} | more


@asynccontextmanager
async def cockpit_with_question(tmp_path, executor, *, people=PEOPLE, **more) -> AsyncIterator[tuple[Web, str]]:
    envelope, task = question(**more.pop("envelope", {})), executor.begin()
    executor.ask(task, envelope)
    async with web(tmp_path, HostAddress("lab", executor.url), people=people, **more) as page:
        await asked(page.controller.records, "lab", envelope["prompt_id"])
        yield page, envelope["prompt_id"]


async def give(client: httpx.AsyncClient, prompt_id: object, payload: Any, **headers: str) -> httpx.Response:
    """Answer; where a busy machine left no time to check it, once more, as the refusal says."""
    with trio.fail_after(WAIT_S):
        while True:
            body = payload if "payload" in payload else {"payload": payload}
            answer = await client.post(f"/api/prompts/{prompt_id}/answer", json=body, headers=headers)
            if answer.status_code != 503:
                return answer


async def sign_in(browser: httpx.AsyncClient, name: str) -> httpx.Response:
    return await browser.post("/api/session", json={"token": token_of(name)})


class Listener:
    """The stream's events, read in threads: httpx's async generators cannot be left in the middle."""

    def __init__(self, client: httpx.AsyncClient, **headers: str) -> None:
        self._stack = ExitStack()
        self._client = httpx.Client(base_url=client.base_url, headers=client.headers, timeout=WAIT_S, trust_env=False)
        self._headers = headers

    async def __aenter__(self) -> Listener:
        await trio.to_thread.run_sync(self._open)
        return self

    async def __aexit__(self, *_: object) -> None:
        await trio.to_thread.run_sync(self._stack.close)

    async def next(self) -> tuple[int, Any]:
        """The next one: its number, and its data."""
        return await trio.to_thread.run_sync(self._read)

    def _open(self) -> None:
        self._stack.enter_context(self._client)
        answer = self._stack.enter_context(self._client.stream("GET", "/api/news", headers=self._headers))
        assert answer.status_code == 200
        self._lines = answer.iter_lines()

    def _read(self) -> tuple[int, Any]:
        number = 0
        for line in self._lines:
            if line.startswith("id: "):
                number = int(line[4:])
            if line.startswith("data: "):
                return number, json.loads(line[6:])
        raise AssertionError("the stream ended")


async def test_a_question_is_listed_shown_and_answered(tmp_path, executor):
    async with cockpit_with_question(tmp_path, executor) as (page, prompt_id), page.client("alice") as alice:
        await until(page.controller.records, lambda: listed(alice), "the question in the list")
        (row,) = await listed(alice)
        assert (row["question"], row["phase"], row["may_answer"]) == ("Proceed?", "open", True)
        shown = (await alice.get(f"/api/prompts/{prompt_id}")).json()["prompt"]
        assert shown["response_schema"]["properties"]["text"]["maxLength"] == 8
        assert [entry["outcome"] for entry in shown["history"]] == ["asked", "asked"]

        done = await give(alice, row["number"], {"payload": {"text": "y"}, "note": "as agreed"})

        assert (done.status_code, done.json()["outcome"]) == (200, "decided")
        await closed_record(page, prompt_id)
        closed = (await alice.get(f"/api/prompts/{prompt_id}")).json()["prompt"]
        assert (closed["status"], closed["verdict"]["payload"]) == ("responded", {"text": "y"})
        (vote,) = [entry for entry in closed["history"] if entry["event"] == "voted"]
        assert (vote["principal"], vote["channel"], vote["note"]) == ("token:alice", "api", "as agreed")
        assert await listed(alice) == []
        assert [one["prompt_id"] for one in await listed(alice, state="closed")] == [prompt_id]
    assert executor.taken(prompt_id) == {"text": "y"}


async def closed_record(page: Web, prompt_id: str) -> Approval:
    record = await page.controller.records.find("lab", prompt_id)
    assert record is not None
    return await stands(page.controller.records, record, "closed")


async def listed(client: httpx.AsyncClient, state: str = "open") -> list[dict]:
    answer = await client.get("/api/prompts", params={"state": state})
    assert answer.status_code == 200, answer.text
    return answer.json()["prompts"]


async def test_an_answer_that_does_not_fit_says_where_and_the_question_stays(tmp_path, executor):
    async with cockpit_with_question(tmp_path, executor) as (page, prompt_id), page.client("alice") as alice:
        wrong = await give(alice, prompt_id, {"text": "far too long"})

        assert wrong.status_code == 422
        error = wrong.json()["error"]
        assert error["validation_errors"] == [
            {"path": "/text", "keyword": "maxLength", "message": "12 characters, at most 8 are allowed"}
        ]
        assert (error["code"], error["tries_left"]) == ("invalid-answer", 9)
        assert (await alice.get(f"/api/prompts/{prompt_id}")).json()["prompt"]["phase"] == "open"
    assert executor.answers == []


async def test_two_must_agree_and_one_person_is_one_voter(tmp_path, executor):
    more = {"envelope": {"allowed_responders": ["consensus:2"]}}
    async with (
        cockpit_with_question(tmp_path, executor, **more) as (page, prompt_id),
        page.client("alice") as alice,
        page.client("bob") as bob,
        page.client("eve") as eve,
    ):
        payload = {"text": "y"}
        outcomes = [(await give(one, prompt_id, payload)).json().get("outcome") for one in (alice, alice)]
        refused = await give(eve, prompt_id, payload)
        outcomes.append((await give(bob, prompt_id, payload)).json().get("outcome"))

        assert outcomes == ["counted", "counted", "decided"]
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
        late = await give(alice, prompt_id, payload)
        assert (late.status_code, late.json()["error"]["code"]) == (409, "conflict")


async def test_a_cancel_ends_the_task_and_takes_a_reason(tmp_path, executor):
    async with cockpit_with_question(tmp_path, executor) as (page, prompt_id), page.client("bob") as bob:
        where = f"/api/prompts/{prompt_id}/cancel"
        assert (await bob.post(where, json={"reason": " "})).status_code == 400
        async with page.client("eve") as eve:
            assert (await eve.post(where, json={"reason": "no"})).status_code == 403

        assert (await bob.post(where, json={"reason": "not today"})).status_code == 200
        assert (await closed_record(page, prompt_id)).status == "cancelled"


async def test_nobody_comes_in_without_credentials_or_with_wrong_ones(tmp_path, executor):
    async with cockpit_with_question(tmp_path, executor) as (page, prompt_id), page.client() as nobody:
        for path in ("/api/me", "/api/prompts", f"/api/prompts/{prompt_id}", "/api/news", "/api/sightings"):
            assert (await nobody.get(path)).status_code == 401, path
        wrong = {"Authorization": f"Bearer {token_of('mallory')}"}
        assert (await nobody.get("/api/prompts", headers=wrong)).status_code == 401
        answered = await nobody.post(f"/api/prompts/{prompt_id}/answer", json={"payload": {"text": "y"}})
        assert (answered.status_code, answered.json()["error"]["code"]) == (401, "unauthenticated")


async def test_a_browser_signs_in_once_and_answers_from_our_page_alone(tmp_path, executor):
    async with cockpit_with_question(tmp_path, executor) as (page, prompt_id), page.browser() as browser:
        signed_in = await sign_in(browser, "alice")
        assert signed_in.status_code == 200
        cookie = signed_in.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert token_of("alice") not in cookie
        assert (await browser.get("/api/me")).json()["person"] == "alice"

        where, payload = f"/api/prompts/{prompt_id}/answer", {"payload": {"text": "y"}}
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await browser.post(where, json=payload, headers=headers)).status_code == 403, headers
        rebound = await browser.get("/api/prompts", headers={"Host": "evil.example"})
        assert rebound.status_code == 403
        del browser.headers["Origin"]
        assert (await browser.post(where, json=payload)).status_code == 403
        done = await give(browser, prompt_id, payload, Origin=page.url)
        assert done.json()["outcome"] == "decided"
        assert done.json()["prompt"]["votes"][0]["channel"] == "web"


async def test_a_session_ends_by_signing_out(tmp_path, executor):
    async with cockpit_with_question(tmp_path, executor) as (page, _), page.browser() as browser:
        await sign_in(browser, "alice")
        stolen = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        assert (await browser.delete("/api/session")).status_code == 200
        async with page.browser() as thief:
            assert (await thief.get("/api/me", headers={"Cookie": stolen})).status_code == 401


async def test_wrong_tokens_and_other_sites_do_not_sign_in(tmp_path, executor):
    async with cockpit_with_question(tmp_path, executor) as (page, _), page.browser() as browser:
        assert (await browser.post("/api/session", json={"token": "guess"})).status_code == 401
        token = {"token": token_of("alice")}
        assert (await browser.post("/api/session", json=token, headers={"Origin": "https://evil.example"})).status_code == 403
        assert (await browser.post("/api/session", json=token, headers={"Origin": ""})).status_code == 403


async def test_a_proxy_names_people_only_when_it_proves_itself(tmp_path, executor):
    people = (person("alice", proxy_user="alice@corp"),)
    doors = {"proxy": Proxy("Remote-User", digest_of(SECRET))}
    async with cockpit_with_question(tmp_path, executor, people=people, doors=doors) as (page, _), page.browser() as browser:
        named = {"Remote-User": "alice@corp"}
        assert (await browser.get("/api/me", headers=named)).status_code == 401
        assert (await browser.get("/api/me", headers=named | {"Sandboxd-Proxy": "guess"})).status_code == 401
        assert (await browser.get("/api/me", headers={"Sandboxd-Proxy": SECRET, "Remote-User": "bob"})).status_code == 403

        me = (await browser.get("/api/me", headers=named | {"Sandboxd-Proxy": SECRET})).json()

        assert (me["principal"], me["person"], me["way"]) == ("proxy:alice@corp", "alice", "proxy")


async def test_a_local_user_comes_in_by_the_unix_socket_if_the_config_names_them(tmp_path, executor):
    uid = os.getuid()
    for people, status in (((person("alice", uid=uid),), 200), ((person("alice", uid=uid + 1),), 200 if uid == 0 else 403)):
        async with cockpit_with_question(tmp_path, executor, people=people) as (page, _):
            transport = httpx.AsyncHTTPTransport(uds=str(page.unix))
            async with httpx.AsyncClient(transport=transport, base_url="http://cockpit") as local:
                me = await local.get("/api/me", headers={"Sandboxd-Channel": "cli"})
        assert me.status_code == status


async def test_news_comes_at_once_and_is_replayed_behind_a_number(tmp_path, executor):
    async with web(tmp_path, HostAddress("lab", executor.url), people=PEOPLE) as page, page.client("alice") as alice:
        envelope = question()
        async with Listener(alice) as news:
            _, hello = await news.next()
            executor.ask(executor.begin(), envelope)
            first, change = await news.next()
            assert (change["entry"]["outcome"], change["prompt"]["question"]) == ("asked", "Proceed?")
            await news.next()
            await give(alice, envelope["prompt_id"], {"text": "y"})
            while change["entry"]["outcome"] != "responded":
                last, change = await news.next()
            assert change["prompt"]["phase"] == "closed"

        async with Listener(alice, **{"Last-Event-ID": str(first)}) as news:
            await news.next()  # hello
            seen: list[int] = []
            while not seen or seen[-1] < last:
                number, _ = await news.next()
                seen.append(number)

        assert seen == list(range(first + 1, last + 1))
        assert hello["number"] < first


async def test_what_cannot_be_asked_here_is_listed_and_then_gone(tmp_path, executor):
    async with web(tmp_path, HostAddress("lab", executor.url), people=PEOPLE) as page, page.client("alice") as alice:
        task = executor.begin()
        executor.ask(task, None)
        found = await until(page.controller.records, lambda: sighted(alice), "the sighting")
        assert (found[0]["kind"], found[0]["host"]) == ("observed", "lab")
        executor.move(task, "COMPLETED")

        async def gone():
            return not await sighted(alice)

        await until(page.controller.records, gone, "its end")


async def sighted(client: httpx.AsyncClient) -> list[dict]:
    return (await client.get("/api/sightings")).json()["sightings"]


async def test_a_body_that_is_none_of_ours_is_refused_with_its_reason(tmp_path, executor):
    async with cockpit_with_question(tmp_path, executor) as (page, prompt_id), page.client("alice") as alice:
        where = f"/api/prompts/{prompt_id}/answer"
        for body, status in ((b"{", 400), (b"[]", 400), (b'{"payload": 1}', 400), (b'{"payload": {}, "as": "bob"}', 400)):
            refused = await alice.post(where, content=body, headers={"Content-Type": "application/json"})
            assert refused.status_code == status, body
            assert refused.json()["error"]["what"].startswith("cannot ")
        assert (await alice.post(where, data={"payload": "{}"})).status_code == 415
        assert (await alice.post(where, content=b"x" * 2_000_000)).status_code == 413
        assert (await alice.get("/api/prompts/999999")).status_code == 404
        assert (await alice.get("/nowhere")).status_code == 404
        assert (await alice.put("/api/prompts", json={})).status_code == 405
    assert executor.answers == []


async def test_no_get_changes_anything(tmp_path, executor):
    async with cockpit_with_question(tmp_path, executor) as (page, prompt_id):
        number = await until(page.controller.records, lambda: is_told(page, prompt_id), "the question, asked of people")
        (task,) = executor.tasks
        before = await page.controller.records.audit_last(1000)
        got = await trio.to_thread.run_sync(lambda: get_everything(page.url, number=number, task=task))
        after = await page.controller.records.audit_last(1000)

    assert got["/api/prompts/<name>"] == 200
    for act in ("answer", "cancel", "resume", "settle", "reissue"):
        assert got[f"/api/prompts/<name>/{act}"] == 405
    assert after == before
    assert (executor.answers, executor.tasks[task].state) == ([], "INPUT_REQUIRED")


async def is_told(page: Web, prompt_id: str) -> int | None:
    """The question's number, once nothing more happens to it by itself."""
    entries = [entry.as_json() for entry in await page.controller.records.audit_last(10)]
    if not any(entry["event"] == "told" for entry in entries):
        return None
    record = await page.controller.records.find("lab", prompt_id)
    return record.number if record else None


def get_everything(url: str, *, number: int, task: str) -> dict[str, int]:
    """The status of a GET of every path, as whoever may answer, with all that a POST would need; streams are left."""
    query = {"payload": '{"text": "y"}', "reason": "because", "outcome": "decided"}
    names = {"<name>": str(number), "<host>": "lab", "<path:task>": task}
    found = dict[str, int]()
    bearer = {"Authorization": f"Bearer {token_of('alice')}"}
    with httpx.Client(base_url=url, headers=bearer, timeout=WAIT_S, trust_env=False) as alice:
        for route in routes(Pages(None)):
            path = route.path
            for name, value in names.items():
                path = path.replace(name, value)
            with alice.stream("GET", path, params=query) as answer:
                found.setdefault(route.path, answer.status_code)
    return found


async def test_every_answer_forbids_scripts_frames_and_sniffing(tmp_path, executor):
    async with cockpit_with_question(tmp_path, executor) as (page, _), page.client("alice") as alice:
        for path in ("/api/prompts", "/nowhere"):
            headers = (await alice.get(path)).headers
            assert "default-src 'none'" in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-store"


async def test_a_target_that_names_no_host_well_is_answered_like_any_other(tmp_path, executor):
    async with cockpit_with_question(tmp_path, executor) as (page, _), page.client("alice") as alice:
        for target, status in ((b"http://[a/api/prompts", 200), (b"http://[a/no-such", 404)):
            assert (await alice.get("/", extensions={"target": target})).status_code == status, target
