"""Is what the 1.0 codec writes what A2A 1.0 says? Google's own protobuf reader, with the SDK's a2a.proto, is the judge."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
from a2a import types as sdk
from google.protobuf.json_format import MessageToDict, ParseDict

from sandboxd.a2a import v10
from sandboxd.a2a.extensions import HITL_PROMPT
from sandboxd.a2a.model import (
    Artifact,
    ArtifactUpdate,
    Message,
    Part,
    StatusUpdate,
    Task,
    TaskPage,
    TaskState,
    TaskStatus,
)

NOW = datetime(2026, 11, 29, 12, 0, 1, 5999, tzinfo=UTC)
ASKED = Message(
    "m2",
    "agent",
    (Part("text", "Go on? [y/N]"), Part("data", {"questionId": "q"}, media_type="application/json")),
    "c",
    "t",
    {HITL_PROMPT: {"prompt_id": "q"}, "urn:other": {"n": 1.5}},
    (HITL_PROMPT,),
)
ARTIFACT = Artifact("stdout", (Part("raw", b"\xfb\xff", "out.bin", "application/octet-stream"),), "stdout", metadata={"a": "b"})
TASK = Task(
    "t",
    "c",
    TaskStatus(TaskState.INPUT_REQUIRED, NOW, ASKED),
    (ARTIFACT,),
    (Message("m1", "user", (Part("text", ""),), "c", "t"), ASKED),
    {"urn:run": {"x": "y"}},
)
ITEMS = (
    TASK,
    StatusUpdate("t", "c", TaskStatus(TaskState.FAILED, NOW, ASKED, {"reason": "exit"}), {"k": "v"}),
    ArtifactUpdate("t", "c", ARTIFACT, append=True, last_chunk=True),
    ArtifactUpdate("t", "c", ARTIFACT),
)


def judged(spelled: dict[str, Any], judge: Any) -> dict[str, Any]:
    """What the SDK's protobuf type understands; unknown or ill-formed members are errors."""
    read: dict[str, Any] = MessageToDict(ParseDict(spelled, judge, ignore_unknown_fields=False))
    return read


@pytest.mark.parametrize("item", ITEMS)
def test_protobuf_reads_every_stream_item_as_it_was_written(item: Any) -> None:
    spelled = v10.encode_stream_item(item)

    assert len(spelled) == 1
    assert judged(spelled, sdk.StreamResponse()) == spelled


def test_protobuf_reads_tasks_answers_and_pages_as_they_were_written() -> None:
    page = v10.encode_task_page(TaskPage((TASK,), "next", 50, 1))

    assert judged(v10.encode_task(TASK), sdk.Task()) == v10.encode_task(TASK)
    assert judged(v10.encode_send_response(TASK), sdk.SendMessageResponse()) == {"task": v10.encode_task(TASK)}
    assert judged(page, sdk.ListTasksResponse()) == page


@pytest.mark.parametrize("state", list(TaskState))
def test_every_state_has_protobufs_name(state: TaskState) -> None:
    spelled = v10.encode_task(Task("t", "c", TaskStatus(state, NOW)))

    assert sdk.TaskState.Value(spelled["status"]["state"]) > 0
    assert v10.decode_list({"status": spelled["status"]["state"]}).state is state
    assert v10.decode_list({"status": sdk.TaskState.Value(spelled["status"]["state"])}).state is state


def test_a_task_is_spelled_like_this() -> None:
    assert v10.encode_task(TASK) == {
        "id": "t",
        "contextId": "c",
        "status": {
            "state": "TASK_STATE_INPUT_REQUIRED",
            "timestamp": "2026-11-29T12:00:01.005Z",
            "message": v10.encode_message(ASKED),
        },
        "artifacts": [
            {
                "artifactId": "stdout",
                "name": "stdout",
                "parts": [{"raw": "+/8=", "filename": "out.bin", "mediaType": "application/octet-stream"}],
                "metadata": {"a": "b"},
            }
        ],
        "history": [
            {"messageId": "m1", "role": "ROLE_USER", "taskId": "t", "contextId": "c", "parts": [{"text": ""}]},
            v10.encode_message(ASKED),
        ],
        "metadata": {"urn:run": {"x": "y"}},
    }


def test_what_was_not_asked_for_is_absent_and_what_is_empty_is_there() -> None:
    bare = Task("t", "c", TaskStatus(TaskState.WORKING, NOW))

    assert v10.encode_task(bare).keys() == {"id", "contextId", "status"}
    assert v10.encode_task(attrs.evolve(bare, artifacts=(), history=()))["artifacts"] == []
    assert v10.encode_task(attrs.evolve(bare, artifacts=(), history=()))["history"] == []


def test_a_page_always_has_its_four_keys() -> None:
    assert v10.encode_task_page(TaskPage((), "", 50, 0)) == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


def test_a_status_update_has_no_final_and_defaults_are_left_out() -> None:
    status = v10.encode_stream_item(ITEMS[1])["statusUpdate"]
    chunk = v10.encode_stream_item(ITEMS[3])["artifactUpdate"]

    assert status.keys() == {"taskId", "contextId", "status", "metadata"}
    assert chunk.keys() == {"taskId", "contextId", "artifact"}


def test_requests_of_protobuf_clients_are_read() -> None:
    request = sdk.SendMessageRequest(
        message=sdk.Message(message_id="m", role=sdk.Role.ROLE_USER, parts=[sdk.Part(raw=b"\xff"), sdk.Part(text="x")]),
        configuration=sdk.SendMessageConfiguration(history_length=0, return_immediately=True),
    )
    request.message.metadata.update({"urn:x": {"timeout_seconds": 300}})

    for preserve in (False, True):
        for numbers in (False, True):
            sent = MessageToDict(request, preserving_proto_field_name=preserve, use_integers_for_enums=numbers)
            read = v10.decode_send(sent)
            assert read.message.parts == (Part("raw", b"\xff"), Part("text", "x"))
            assert read.message.metadata == {"urn:x": {"timeout_seconds": 300.0}}
            assert (read.history_length, read.return_immediately) == (0, True)
