"""What does this daemon promise beyond CF-3, CF-5 and CF-6? The scenarios themselves are the conformance harness's."""

import json

from tests.support.daemon import HITL, Daemon, prompt_of, state_of

ASK = ["ask", "Proceed? [y/N] "]


def test_cf_3_a_schema_invalid_response_is_refused_and_the_prompt_stays_open(shared: Daemon):
    task = shared.run([ASK])

    for payload in (
        {"text": 7, "extra": 1},
        {},
        {"text": "a\nb"},
        {"text": "a\x1b[2J"},
        {"text": "a\x00"},
        {"text": "x" * 4097},
    ):
        refused = shared.answer(task, payload)
        assert refused.status_code == 422, (payload, refused.text)
        (details,) = [item["value"] for item in refused.json()["error"]["details"] if "value" in item]
        assert {"path", "keyword", "message"} == set(details["validation_errors"][0])
        assert state_of(shared.get(task["id"])) == "INPUT_REQUIRED"

    assert shared.answer(task, {"text": "y"}).status_code == 200


def test_cf_5_the_envelope_is_transport_only(shared: Daemon):
    envelope = prompt_of(shared.run([ASK]))

    assert set(envelope) == {"prompt_id", "prompt", "response_schema", "deadline", "allowed_responders"}
    assert envelope["allowed_responders"] == ["any"]
    assert envelope["response_schema"]["type"] == "object"
    assert envelope["response_schema"]["additionalProperties"] is False
    assert len(json.dumps(envelope["response_schema"])) < 65536


def test_cf_6_replay_survives_a_disconnect(shared: Daemon):
    request = shared.request([["print", "before\n"], ASK, ["print", "after\n"]])
    seen: list[tuple[int, dict]] = []
    with (
        shared.client() as client,
        client.stream("POST", "/message:stream", json=shared.message(shared.envelope(request))) as stream,
    ):
        for event in sse(stream):
            seen.append(event)
            if "INPUT_REQUIRED" in json.dumps(event[1]):
                break
    last = seen[-1]
    envelope = last[1]["statusUpdate"]["status"]["message"]["metadata"][HITL]
    task_id = last[1]["statusUpdate"]["taskId"]

    with (
        shared.client() as client,
        client.stream("POST", f"/tasks/{task_id}:subscribe", headers={"Last-Event-ID": "1"}) as stream,
    ):
        replayed = []
        for event in sse(stream):
            replayed.append(event)
            if len(replayed) == len(seen):
                break

    assert [seq for seq, _ in replayed] == [seq for seq, _ in seen] == list(range(1, len(seen) + 1))
    assert replayed[-1][1] == last[1]
    task = shared.get(task_id)
    assert prompt_of(task) == envelope
    assert shared.answer(task, "y", prompt_id=envelope["prompt_id"], wait=True).status_code == 200

    with (
        shared.client() as client,
        client.stream("GET", f"/tasks/{task_id}:subscribe", headers={"Last-Event-ID": "2"}) as stream,
    ):
        rest = list(sse(stream))
    assert [seq for seq, _ in rest] == list(range(2, rest[-1][0] + 1))
    assert rest[-1][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def sse(stream):
    """The (sequence number, data) pairs of an SSE response."""
    number = None
    for line in stream.iter_lines():
        if line.startswith("id:"):
            number = int(line[3:])
        elif line.startswith("data:"):
            assert number is not None
            yield number, json.loads(line[5:])
