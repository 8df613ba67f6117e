"""Do the golden samples of the wire pass through the codecs? They are no part of this tree, so not everywhere."""

from __future__ import annotations

import json
from typing import Any

from sandboxd.a2a import faults, jsonrpc, v03, v10
from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT, HITL_RESPONSE_FOR
from sandboxd.a2a.model import Message, Part, StatusUpdate, Task, TaskState, TaskStatus
from sandboxd.a2a.wire import parse_rfc3339
from sandboxd.errors import AnswerInvalid, Problem, PromptNotOpen
from tests.support import shared

pytestmark = shared.needs_samples

NOON = parse_rfc3339("2026-11-29T12:00:00.000Z")
PROMPT = "0f5a7c1e-6b3d-4c58-9a55-3c1d2e4f5a6b"
DOES_NOT_FIT = AnswerInvalid(
    "2 fields do not fit; the prompt is still open",
    problems=[
        Problem("/text", "expected string, got integer", "type"),
        Problem("/extra", "additional property 'extra' is not permitted", "additionalProperties"),
    ],
    facts={"prompt_id": PROMPT},
)


def sample(name: str) -> Any:
    return json.loads(shared.sample(name))


def test_the_adapter_command_is_read_in_both_spellings() -> None:
    new, old = sample("send-adapter-command.v10.json"), sample("send-adapter-command.dialect.json")

    read_new, read_old = v10.decode_send(new), v03.decode_send(old)

    assert read_new.message == read_old.message
    assert read_new.return_immediately
    assert read_new.message.metadata is not None
    assert read_new.message.metadata[ADAPTER_COMMAND] == new["message"]["metadata"][ADAPTER_COMMAND]


def test_the_answer_is_read_in_both_spellings() -> None:
    new, old = v10.decode_send(sample("answer.v10.json")).message, v03.decode_send(sample("answer.aiwg.json")).message

    assert (new.task_id, new.context_id) == (old.task_id, old.context_id) == ("TASK", "CONTEXT")
    assert new.metadata == old.metadata
    assert new.metadata is not None
    assert new.metadata[HITL_RESPONSE_FOR]["payload"] == {"text": "y"}
    assert [part.value for part in new.parts] == [part.value for part in old.parts] == [{"text": "y"}]


def test_the_prompt_is_written_in_both_spellings() -> None:
    golden = sample("prompt-status-update.v10.json")
    asked = golden["statusUpdate"]["status"]["message"]
    text, data = asked["parts"]
    message = Message(
        "MESSAGE",
        "agent",
        (Part("text", text["text"]), Part("data", data["data"], media_type="application/json")),
        "CONTEXT",
        "TASK",
        {HITL_PROMPT: asked["metadata"][HITL_PROMPT]},
    )
    update = StatusUpdate(
        "TASK", "CONTEXT", TaskStatus(TaskState.INPUT_REQUIRED, parse_rfc3339("2026-11-29T12:00:01.000Z"), message)
    )

    assert v10.encode_stream_item(update) == golden
    assert v03.encode_stream_item(update) == sample("prompt-status-update.v03.json")


def test_the_accepted_task_is_written() -> None:
    task = Task("TASK", "CONTEXT", TaskStatus(TaskState.WORKING, NOON))

    assert v03.encode_task(task) == sample("send-accepted-202.dialect.json")["body"]


def test_an_answer_that_does_not_fit_is_written_at_every_door() -> None:
    golden = sample("answer-invalid-422.problem.json")

    assert faults.to_problem(DOES_NOT_FIT, instance_id="default") == (golden["_http"]["status"], golden["body"])
    assert jsonrpc.failure(7, DOES_NOT_FIT, version="1.0") == sample("answer-invalid.jsonrpc-v10.json")
    assert jsonrpc.failure(7, DOES_NOT_FIT, version="0.3") == sample("answer-invalid.jsonrpc-v03.json")


def test_a_conflict_is_written() -> None:
    golden = sample("answer-conflict-409.problem.json")
    facts = {"prompt_id": PROMPT, "accepted_message_id": "9a0c1b9e-61d7-4a83-8c3a-6d3c2b1a0f99"}
    refusal = PromptNotOpen("the prompt was answered at 2026-11-29T12:00:09Z", facts=facts)

    assert faults.to_problem(refusal, instance_id="default") == (golden["_http"]["status"], golden["body"])
