"""Does a cockpit pass on what it cannot answer, in its own words, and bring the answer to the program that asked?"""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import Any

import httpx

from tests.cockpit.caller import ASK, LINKS, RELAY, TRACE, WORDS, Caller, command, envelope_of, open_prompts, refused_with
from tests.fakes.executor import Executor
from tests.support.cockpit import WAIT_S, Cockpit
from tests.support.daemon import ADAPTER, HITL, RUNNER, wait_until


def test_a_question_is_asked_in_other_words_and_its_answer_is_typed(cockpit, shared, caller):
    task = caller.start(shared, [["print", "secret plan\n"], ASK, ["print", "done\n"]])
    (theirs,) = [one for one in open_prompts(cockpit) if one["question"].startswith("Proceed")]
    ours = envelope_of(task)

    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert ours["prompt"] == "The plan changes 14 files. Apply it?"
    assert ours["response_schema"]["properties"]["answer"]["enum"] == ["apply", "stop"]
    told = json.dumps(task)
    for leak in (theirs["prompt_id"], theirs["task_id"], theirs["context_id"], "Proceed", "secret plan", "here", RUNNER):
        assert leak not in told, leak
    whole = cockpit.prompt(theirs["prompt_id"])
    assert moment(ours["deadline"]) < moment(whole["closes_at"]) <= moment(whole["deadline"] or whole["closes_at"])

    answer = caller.answer(task, {"answer": "apply"})

    assert caller.read(answer)["status"]["state"] in ("TASK_STATE_COMPLETED", "TASK_STATE_WORKING")
    done = caller.until(task, "COMPLETED")
    assert 'answer: "y"' in done["artifacts"][0]["parts"][0]["text"]
    closed = cockpit.prompt(theirs["prompt_id"], "closed")
    assert closed["verdict"]["persons"] == ["caller:boss"]
    (voted,) = [one for one in closed["history"] if one["event"] == "voted"]
    assert (voted["principal"], voted["channel"]) == ("caller:boss", "relay")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_question_that_no_words_are_for_stays_with_the_people_here(cockpit, shared, caller):
    task = caller.read(caller.send(command(shared, [["ask", "Reboot? [y/N] "]]), wait=False))
    (theirs,) = wait_until(
        lambda: [one for one in open_prompts(cockpit) if one["question"] == "Reboot? [y/N]"], timeout_s=WAIT_S
    )

    assert caller.until(task, "WORKING")["status"]["message"]["parts"] == [
        {"text": "It waits for an answer that is given elsewhere."}
    ]
    with cockpit.client("alice") as client:
        client.post(f"/api/prompts/{theirs['number']}/answer", json={"payload": {"text": "n"}})
    caller.until(task, "COMPLETED")


def test_who_answers_first_counts_and_the_other_is_told(cockpit, shared, caller):
    task = caller.start(shared, [ASK])
    (theirs,) = [one for one in open_prompts(cockpit) if one["question"].startswith("Proceed")]
    assert cockpit.cli("answer", str(theirs["number"]), "--choice", "n", "--wait", "30s").returncode == 0

    late = caller.answer(task, {"answer": "apply"})

    assert refused_with(late) == 409
    assert 'answer: "n"' in caller.until(task, "COMPLETED")["artifacts"][0]["parts"][0]["text"]


def test_what_does_not_fit_is_said_and_asked_so_often_and_no_more(cockpit, shared, caller):
    task = caller.start(shared, [ASK])
    for payload in ({"answer": "maybe"}, {"text": "y"}, {"answer": 1}, {"answer": "apply", "force": True}):
        refused = caller.answer(task, payload)
        assert refused_with(refused) == 422
        assert "validation_errors" in refused.text
    assert caller.get(task)["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert refused_with(caller.answer(task, {"answer": ""})) == 422

    ended = caller.until(task, "FAILED")

    assert "No valid answer" in ended["status"]["message"]["parts"][0]["text"]
    assert refused_with(caller.answer(task, {"answer": "apply"})) == 409


def test_a_message_that_comes_again_begins_nothing_and_answers_nothing_twice(cockpit, shared, caller):
    message = command(shared, [ASK, ["print", "once\n"]])
    first, second = caller.read(caller.send(message)), caller.read(caller.send(message))
    assert first["id"] == second["id"]

    message_id = str(uuid.uuid4())
    assert caller.answer(first, {"answer": "apply"}, messageId=message_id).status_code == 200
    again = caller.answer(first, {"answer": "apply"}, messageId=message_id)

    assert refused_with(again) == 409
    assert message_id in again.text
    other = caller.answer(first, {"answer": "stop"}, prompt_id=str(uuid.uuid4()))
    assert refused_with(other) == 409
    assert caller.until(first, "COMPLETED")["artifacts"][0]["parts"][0]["text"].count("once") == 1


def test_a_task_that_comes_round_is_refused(cockpit, shared, caller):
    own = (cockpit.state / "relay.id").read_text().strip()
    for via in ([own], ["a", own, "b"], [str(number) for number in range(8)]):
        refused = caller.send(command(shared, [ASK], metadata={RELAY: {"via": via}}))
        assert "error" in refused.json(), refused.text
    assert "error" in caller.send(command(shared, [ASK], metadata={RELAY: "x"})).json()
    assert not [one for one in cockpit.audit() if one["event"] == "mission-started"]


def test_one_door_is_not_the_others_and_one_caller_not_another(cockpit, shared, caller):
    task = caller.start(shared, [ASK])
    with Caller(cockpit, "other") as other:
        assert other.call("GetTask", f"/tasks/{task['id']}", {}, get=True).status_code == 404
        assert other.answer(task, {"answer": "apply"}).status_code == 409
        assert other.http.get("/tasks").json()["tasks"] == []
    with cockpit.client("alice") as person:
        assert person.get(f"/a2a/tasks/{task['id']}").status_code == 401
    with httpx.Client(base_url=cockpit.url, headers=caller.http.headers, trust_env=False) as stranger:
        assert stranger.get("/api/prompts").status_code == 401
    plain = {name: value for name, value in caller.http.headers.items() if name.lower() != "a2a-extensions"}
    with httpx.Client(base_url=f"{cockpit.url}/a2a", headers=plain, trust_env=False) as client:
        assert HITL not in client.get(f"/tasks/{task['id']}").text.replace("extensions", "")
        assert client.post("/message:send", json={"message": command(shared, [ASK])}).status_code == 400
    caller.answer(task, {"answer": "stop"})


def test_a_result_can_be_withheld_and_a_task_cancelled(cockpit, shared):
    with Caller(cockpit, "other") as other:
        done = other.start(shared, [["print", "internals\n"]])
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"
        assert "internals" not in json.dumps(done)
        asks = other.start(shared, [ASK])
        ended = other.read(other.call("CancelTask", f"/tasks/{asks['id']}:cancel", {"id": asks["id"]}))
        assert ended["status"]["state"] == "TASK_STATE_CANCELED"
        assert refused_with(other.answer(asks, {"answer": "apply"})) == 409


def test_a_stream_tells_of_question_and_end(cockpit, shared, caller):
    task = caller.start(shared, [ASK])
    path, body = f"/tasks/{task['id']}:subscribe", {"id": task["id"]}
    if caller.rpc:
        path, body = "", {"jsonrpc": "2.0", "id": 7, "method": "SubscribeToTask", "params": body}
    states, artifacts = [], 0
    with caller.http.stream("POST", path, json=body) as stream:
        for line in stream.iter_lines():
            if not line.startswith("data: "):
                continue
            item = json.loads(line.removeprefix("data: "))
            item = item["result"] if caller.rpc else item
            artifacts += "artifactUpdate" in item
            status = (item.get("task") or item.get("statusUpdate") or {}).get("status")
            if status:
                states.append(status["state"].removeprefix("TASK_STATE_"))
            if states == ["INPUT_REQUIRED"] and status:
                caller.answer(task, {"answer": "apply"}, wait=False)

    assert states[0] == "INPUT_REQUIRED"
    assert states[-1] == "COMPLETED"
    assert artifacts == 1


def test_a_cockpit_that_is_killed_goes_on_with_the_same_question(cockpit, shared):
    with Caller(cockpit) as before:
        task = before.start(shared, [ASK])
    cockpit.kill()
    cockpit.start()
    with Caller(cockpit) as after:
        again = after.until(task, "INPUT_REQUIRED")
        assert envelope_of(again) == envelope_of(task)
        assert after.answer(again, {"answer": "apply"}).status_code == 200
        assert 'answer: "y"' in after.until(task, "COMPLETED")["artifacts"][0]["parts"][0]["text"]


def test_an_asker_that_takes_no_answer_is_asked_for_so_often_and_no_more(tmp_path):
    words = WORDS.replace('host = "here"', 'host = "lab"')
    with Executor() as executor:
        executor.manners.refuses_payloads = 100
        cockpit = Cockpit(tmp_path / "cockpit", {"lab": (executor.url, "")}, more=words)
        cockpit.start()
        try:
            with Caller(cockpit) as caller:
                envelope = {"adapter": "x", "mode": "plan", "command": ["x"], "input_mode": "text-line"}
                message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "go"}]}
                task = caller.read(caller.send(message | {"metadata": {ADAPTER: envelope}}, wait=False))
                (theirs,) = wait_until(lambda: list(executor.tasks), timeout_s=WAIT_S, what="the sub-task")
                schema = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
                executor.ask(theirs, {"prompt_id": str(uuid.uuid4()), "prompt": "Which branch?", "response_schema": schema})
                seen: set[str] = set()
                for _ in range(3):
                    asked = wait_until(lambda: asks_anew(caller, task, seen), timeout_s=WAIT_S, what="the question")
                    seen.add(envelope_of(asked)["prompt_id"])
                    assert caller.answer(asked, {"answer": "main"}, wait=False).status_code == 200
                caller.until(task, "FAILED")
                wait_until(lambda: executor.tasks[theirs].state == "CANCELED", timeout_s=WAIT_S, what="the end of the sub-task")
        finally:
            cockpit.end()


def asks_anew(caller: Caller, task: dict[str, Any], seen: set[str]) -> dict[str, Any] | None:
    found = caller.get(task)
    if found["status"]["state"] != "TASK_STATE_INPUT_REQUIRED" or envelope_of(found)["prompt_id"] in seen:
        return None
    return found


def test_a_result_that_cannot_be_read_now_is_asked_for_again_and_when_is_said(tmp_path):
    words = WORDS.replace('host = "here"', 'host = "lab"')
    with Executor() as executor:
        cockpit = Cockpit(tmp_path / "cockpit", {"lab": (executor.url, "")}, more=words)
        cockpit.start()
        try:
            with Caller(cockpit) as caller, Caller(cockpit, rpc=True) as by_rpc:
                envelope = {"adapter": "x", "mode": "plan", "command": ["x"], "input_mode": "text-line"}
                message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "go"}]}
                task = caller.read(caller.send(message | {"metadata": {ADAPTER: envelope}}, wait=False))
                (theirs,) = wait_until(lambda: list(executor.tasks), timeout_s=WAIT_S, what="the sub-task")
                executor.move(theirs, "COMPLETED")
                caller.until(task, "COMPLETED")
                executor.tasks.pop(theirs)

                refused = caller.call("GetTask", f"/tasks/{task['id']}", {}, get=True)
                by_code = by_rpc.call("GetTask", "", {"id": task["id"]})
        finally:
            cockpit.end()

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert (by_code.status_code, by_code.headers["retry-after"]) == (200, "1")
    assert "ask again" in by_code.text
    assert executor.url not in refused.text + by_code.text


def test_two_hops_lead_to_a_person_and_back(tmp_path, shared):
    inner = Cockpit(tmp_path / "inner", {"here": (shared.url, shared.token)}, more=WORDS)
    inner.start()
    token = (inner.folder / "boss.token").read_text().strip()
    words = WORDS.replace('host = "here"', 'host = "inner"')
    outer = Cockpit(tmp_path / "outer", {"inner": (f"{inner.url}/a2a", token)}, more=words)
    outer.start()
    try:
        with Caller(outer) as caller:
            message = command(shared, [ASK], metadata={LINKS: {"mission": "boss-7", "flow": "nightly", "trace": TRACE}})
            task = caller.read(caller.send(message, wait=False))

            def waits() -> list[dict[str, Any]]:
                return [one for one in open_prompts(outer) if one["question"] == "The plan changes 14 files. Apply it?"]

            (theirs,) = wait_until(waits, timeout_s=WAIT_S, what="the question, two hops away")
            assert outer.cli("answer", str(theirs["number"]), "--json", '{"answer": "apply"}', "--wait", "30s").returncode == 0
            assert 'answer: "y"' in caller.until(task, "COMPLETED")["artifacts"][0]["parts"][0]["text"]
        for hop, parent in ((outer, {"boss-7"}), (inner, {one["links"]["mission"] for one in outer.audit()})):
            links = [one["links"] for one in hop.audit()]
            assert {one["parent"] for one in links} == parent
            assert {(one["flow"], one["trace"]) for one in links} == {("nightly", TRACE)}
    finally:
        outer.end()
        inner.end()


def test_the_card_says_what_is_done_and_nothing_of_by_whom(cockpit, shared):
    with cockpit.client() as anybody:
        for path in ("/.well-known/agent-card.json", "/a2a/.well-known/agent-card.json"):
            card = anybody.get(path).json()
            assert card["supportedInterfaces"][0]["url"] == f"{cockpit.url}/a2a"
            assert shared.url not in json.dumps(card)
            assert [one["uri"] for one in card["capabilities"]["extensions"]] == [HITL, ADAPTER]
            assert card["capabilities"]["pushNotifications"] is False
