"""idempotency/v1 from outside, at every door: a message is acted on once, and its answer is told again."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from sandboxd.a2a.canonical import canonical
from tests.support.daemon import ADAPTER, HITL, Daemon, output_of, prompt_of, state_of, wait_until

IDEMPOTENCY = "https://agentic-sandbox.aiwg.io/extensions/idempotency/v1"
ALL = (HITL, ADAPTER, IDEMPOTENCY)
REPLAYED = "Idempotent-Replayed"
OLD = ("compat", "rpc03", "rest03")
ASK = ["ask", "Proceed? [y/N] "]
DOORS = ("rest", "rpc", "compat", "rpc03", "rest03")


def post(daemon: Daemon, door: str, params: dict[str, Any], *, extensions: Any = ALL, **more: Any) -> httpx.Response:
    """Send a message at one of the doors; each has its own spelling of the same parameters."""
    with daemon.client(extensions=extensions, version="0.3" if door in OLD else "1.0") as client:
        if door.startswith("rpc"):
            method = "message/send" if door in OLD else "SendMessage"
            call = {"jsonrpc": "2.0", "id": more.get("call_id", 1), "method": method, "params": spelled(door, params)}
            return client.post("/", json=call)
        path = {"rest": "/message:send", "compat": "/messages:send", "rest03": "/v1/message:send"}[door]
        return client.post(path, json=spelled(door, params))


def spelled(door: str, params: dict[str, Any]) -> dict[str, Any]:
    if door not in OLD:
        return params
    message = {**params["message"], "role": "user", "kind": "message"}
    message["parts"] = [
        {"kind": "text", "text": part["text"]} if "text" in part else {"kind": "data", "data": part["data"]}
        for part in message["parts"]
    ]
    configuration = dict(params.get("configuration") or {})
    if "returnImmediately" in configuration:
        configuration["blocking"] = not configuration.pop("returnImmediately")
    if door == "rest03":  # ProtoJSON of the 0.3 proto
        content = [
            {"text": part["text"]} if "text" in part else {"data": {"data": part["data"]}}
            for part in params["message"]["parts"]
        ]
        sent = {**params["message"], "content": content}
        del sent["parts"]
        rest = {name: value for name, value in params.items() if name != "message"}
        return {**rest, "request": sent, "configuration": configuration}
    return {**params, "message": message, "configuration": configuration}


def task_of(answer: httpx.Response) -> dict[str, Any]:
    body = answer.json()
    body = body.get("result", body)
    return body.get("task", body)


def is_refused(answer: httpx.Response, status: int) -> bool:
    return "error" in answer.json() if "jsonrpc" in answer.json() else answer.status_code == status


def total(daemon: Daemon) -> int:
    with daemon.client() as client:
        return client.get("/tasks", params={"pageSize": 1}).json()["totalSize"]


def command(daemon: Daemon, steps: Any, **configuration: Any) -> dict[str, Any]:
    return daemon.message(daemon.envelope(daemon.request(steps))) | {"configuration": configuration}


def answer_to(task: dict[str, Any], text: str) -> dict[str, Any]:
    payload = {"text": text}
    message = {
        "messageId": str(uuid.uuid4()),
        "role": "ROLE_USER",
        "taskId": task["id"],
        "parts": [{"data": payload}],
        "metadata": {"hitl_response_for": {"prompt_id": prompt_of(task)["prompt_id"], "payload": payload}},
    }
    return {"message": message, "configuration": {"returnImmediately": True}}


@pytest.mark.parametrize("door", DOORS)
def test_a_message_that_is_sent_again_makes_no_second_task_and_gets_the_same_answer(shared: Daemon, door):
    params = command(shared, [["print", "once\n"]])
    before = total(shared)

    first = post(shared, door, params)
    again = post(shared, door, params)

    assert REPLAYED not in first.headers
    assert again.headers[REPLAYED] == "true"
    assert IDEMPOTENCY in again.headers["A2A-Extensions"]
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers.get("Location") == first.headers.get("Location")
    assert total(shared) == before + 1


@pytest.mark.parametrize("door", DOORS)
def test_equal_sends_at_once_make_one_task(shared: Daemon, door):
    params = command(shared, [["sleep", 100], ["print", "once\n"]])
    before = total(shared)
    gate = threading.Barrier(8)

    def go(_: int) -> httpx.Response:
        gate.wait()
        return post(shared, door, params)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(go, range(8)))

    assert len({answer.content for answer in answers}) == 1
    assert sorted(REPLAYED in answer.headers for answer in answers) == [False] + [True] * 7
    assert total(shared) == before + 1


def test_a_replayed_call_has_its_own_id(shared: Daemon):
    params = shared.message()

    assert post(shared, "rpc", params, call_id="a").json()["id"] == "a"
    assert post(shared, "rpc", params, call_id="b").json()["id"] == "b"


@pytest.mark.parametrize("door", DOORS)
def test_another_body_under_the_same_id_is_422_with_both_hashes(shared: Daemon, door):
    params = shared.message(text="one")
    other = json.loads(json.dumps(params))
    other["message"]["parts"][0]["text"] = "two"
    post(shared, door, params)

    refused = post(shared, door, other)
    replayed = post(shared, door, params)

    assert is_refused(refused, 422)
    for body in (spelled(door, params), spelled(door, other)):
        of = "request" if door == "rest03" else "message"
        bare = {**body, of: {name: value for name, value in body[of].items() if name != "messageId"}}
        assert hashlib.sha256(canonical(bare)).hexdigest() in refused.text
    assert REPLAYED not in refused.headers
    assert replayed.headers[REPLAYED] == "true"  # the stored row is kept
    if door.startswith("rpc"):
        assert refused.json()["error"]["code"] == -32422
        assert refused.json()["id"] == 1


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("message_id", ["m-1", "", 7, None, "0f5a7c1e6b3d4c589a553c1d2e4f5a6b"])
def test_an_id_that_is_no_uuid_is_400(shared: Daemon, door, message_id):
    params = shared.message()
    params["message"]["messageId"] = message_id
    before = total(shared)

    refused = post(shared, door, params)

    assert is_refused(refused, 400)
    named = {"compat": "idempotency.message_id_malformed", "rpc03": "must be a UUID"}  # 0.3's errors have no reason
    assert named.get(door, "IDEMPOTENCY_MESSAGE_ID_MALFORMED") in refused.text
    assert total(shared) == before


@pytest.mark.parametrize("door", DOORS)
def test_a_refusal_is_replayed_as_it_went_out(shared: Daemon, door):
    params = command(shared, [])
    params["message"]["metadata"][ADAPTER]["mode"] = "destroy"

    first = post(shared, door, params)
    again = post(shared, door, params)

    assert is_refused(first, 400)
    assert REPLAYED not in first.headers
    assert again.headers[REPLAYED] == "true"
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["Content-Type"] == first.headers["Content-Type"]


def test_a_refusal_that_can_pass_is_not_kept(make_daemon):
    daemon = make_daemon(extra="[limits]\nmax_tasks = 1\n")
    holder = daemon.run([ASK])
    params = command(daemon, [["print", "later\n"]])

    busy = post(daemon, "rest", params)
    daemon.answer(holder, "y", wait=True)
    then = wait_until(lambda: got if (got := post(daemon, "rest", params)).status_code == 200 else None)

    assert busy.status_code == 429
    assert REPLAYED not in then.headers
    assert "later" in output_of(task_of(then))


@pytest.mark.parametrize("door", DOORS)
def test_an_answer_that_is_sent_again_is_typed_once_and_told_again(shared: Daemon, door):
    task = shared.run([ASK, ["ask", "And then? [y/N] "]])
    params = answer_to(task, "y")

    first = post(shared, door, params)
    again = post(shared, door, params)
    other = json.loads(json.dumps(params))
    other["message"]["metadata"]["hitl_response_for"]["payload"]["text"] = "n"
    changed = post(shared, door, other)

    assert first.status_code == 200
    assert again.headers[REPLAYED] == "true"
    assert again.content == first.content
    assert is_refused(changed, 422)
    seen = wait_until(lambda: found if "And then?" in (found := output_of(shared.get(task["id"]))) else None)
    assert seen.count("answer: ") == 1


def test_nothing_of_an_answer_is_remembered(daemon: Daemon):
    task = daemon.run([ASK])
    params = answer_to(task, "Tr0ub4dor")
    wrong = answer_to(task, "Tr0ub4dor\n")
    assert post(daemon, "rest", wrong).status_code == 422
    assert post(daemon, "rest", params).status_code == 200
    daemon.stop()

    with sqlite3.connect(daemon.folder / "state" / "sandboxd.sqlite3") as store:
        rows = store.execute("SELECT * FROM sends").fetchall()

    assert len(rows) == 2
    assert "Tr0ub4dor" not in repr(rows)
    known = {"message": {k: v for k, v in params["message"].items() if k not in ("messageId", "parts", "metadata")}}
    known["message"]["metadata"] = {"hitl_response_for": {"prompt_id": prompt_of(task)["prompt_id"]}}
    known["configuration"] = params["configuration"]
    assert hashlib.sha256(canonical(known)).hexdigest() in {row[4] for row in rows}


def test_it_is_remembered_over_a_restart(daemon: Daemon):
    params = command(daemon, [["print", "once\n"]])
    bad = command(daemon, [])
    bad["message"]["metadata"][ADAPTER]["mode"] = "destroy"
    asked = daemon.run([ASK])
    answered = answer_to(asked, "y")
    sent = [params, bad, answered]
    firsts = [post(daemon, "rest", one) for one in sent]
    daemon.kill()
    daemon.start()

    again = [post(daemon, "rest", one) for one in sent]

    assert [(one.status_code, one.content) for one in again] == [(one.status_code, one.content) for one in firsts]
    assert all(one.headers[REPLAYED] == "true" for one in again)


def test_a_client_that_hung_up_finds_the_task_that_it_made(shared: Daemon):
    params = command(shared, [["sleep", 700], ["print", "once\n"]])
    before = total(shared)
    with shared.client(extensions=ALL) as client, pytest.raises(httpx.ReadTimeout):
        client.post("/message:send", json=params, timeout=0.3)

    again = post(shared, "rest", params)

    assert again.headers[REPLAYED] == "true"
    assert state_of(task_of(again)) == "COMPLETED"
    assert total(shared) == before + 1


def events(daemon: Daemon, params: dict[str, Any], *, rpc: bool = False) -> tuple[httpx.Headers, list[str]]:
    with daemon.client(extensions=ALL) as client:
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params}
        path, body = ("/", call) if rpc else ("/message:stream", params)
        with client.stream("POST", path, json=body) as answer:
            return answer.headers, [line for line in answer.iter_lines() if line and not line.startswith(":")]


@pytest.mark.parametrize("rpc", [False, True])
def test_a_stream_is_told_again_from_its_first_event(shared: Daemon, rpc):
    params = command(shared, [["print", "one\n"], ["sleep", 100], ["print", "two\n"]])
    before = total(shared)

    headers, first = events(shared, params, rpc=rpc)
    headers_again, again = events(shared, params, rpc=rpc)

    assert REPLAYED not in headers
    assert headers_again[REPLAYED] == "true"
    assert again == first
    assert first[0] == "id: 1"
    assert total(shared) == before + 1


def test_a_stream_that_answers_is_told_again_from_its_answer(shared: Daemon):
    task = shared.run([ASK, ["print", "went on\n"]])
    params = answer_to(task, "y")

    _, first = events(shared, params)
    headers, again = events(shared, params)

    assert headers[REPLAYED] == "true"
    assert again == first
    assert "TASK_STATE_COMPLETED" in first[-1]


def test_another_principal_has_its_own_ids(make_daemon):
    daemon = make_daemon()
    params = daemon.message()
    first = task_of(post(daemon, "rest", params))

    with httpx.Client(transport=httpx.HTTPTransport(uds=str(daemon.folder / "api.sock")), base_url="http://localhost") as local:
        answer = local.post("/message:send", json=params, headers={"A2A-Version": "1.0", "A2A-Extensions": IDEMPOTENCY})

    assert REPLAYED not in answer.headers
    assert task_of(answer)["id"] != first["id"]


def test_what_was_sent_with_a_prompt_is_told_again_without_it_where_prompts_are_not_active(shared: Daemon):
    params = command(shared, [ASK])
    first = task_of(post(shared, "rest", params))
    assert prompt_of(first)

    again = post(shared, "rest", params, extensions=(IDEMPOTENCY,))

    assert again.headers[REPLAYED] == "true"
    assert HITL not in again.text


def test_without_the_extension_every_send_is_new(shared: Daemon):
    params = shared.message()

    first, again = (post(shared, "rest", params, extensions=()) for _ in range(2))

    assert REPLAYED not in again.headers
    assert task_of(first)["id"] != task_of(again)["id"]


def test_without_the_extension_a_message_that_its_task_has_already_changes_nothing(shared: Daemon):
    params = command(shared, [ASK])
    task = task_of(post(shared, "rest", params, extensions=(HITL,)))
    params["message"]["taskId"] = task["id"]

    again = post(shared, "rest", params, extensions=(HITL,))
    params["message"]["parts"][0]["text"] = "something else"
    other = post(shared, "rest", params, extensions=(HITL,))

    assert again.status_code == 200
    assert task_of(again) == task
    assert other.status_code == 400


def test_without_the_extension_an_answer_that_is_sent_again_is_409_and_names_the_accepted_message(shared: Daemon):
    params = answer_to(shared.run([ASK]), "y")

    first, again = (post(shared, "rest", params, extensions=(HITL,)) for _ in range(2))

    assert (first.status_code, again.status_code) == (200, 409)
    assert params["message"]["messageId"] in again.text


def test_the_card_lists_it_with_its_bounds(shared: Daemon):
    with shared.client() as client:
        card = client.get("/.well-known/agent-card.json").json()

    (listed,) = [found for found in card["capabilities"]["extensions"] if found["uri"] == IDEMPOTENCY]
    assert listed["required"] is False
    assert listed["params"] == {"ttl_seconds": 86400, "max_entries": 100000}
