"""Does the `messages:send` dialect read what its clients send, and write what they look for?"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from sandboxd.a2a import v03
from sandboxd.a2a.model import Artifact, ArtifactUpdate, Message, Part, PushConfig, StatusUpdate, Task, TaskState, TaskStatus
from sandboxd.errors import InvalidParams

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def body(*parts: Any, **changes: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m1", "role": "user", "parts": list(parts) or [{"kind": "text", "text": "x"}]} | changes}


def refused(sent: Any) -> list[str]:
    with pytest.raises(InvalidParams) as caught:
        v03.decode_send(sent)
    return [problem.field for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("part", "read"),
    [
        ({"kind": "text", "text": "hi"}, Part("text", "hi")),
        ({"type": "text", "text": "hi"}, Part("text", "hi")),
        ({"text": "hi"}, Part("text", "hi")),
        ({"kind": "text", "text": ""}, Part("text", "")),
        ({"kind": "data", "data": {"text": "y"}}, Part("data", {"text": "y"})),
        ({"type": "data", "data": {"text": "y"}}, Part("data", {"text": "y"})),
        ({"data": {"text": "y"}}, Part("data", {"text": "y"})),
        ({"kind": "text", "type": "text", "text": "hi"}, Part("text", "hi")),
        ({"kind": "file", "file": {"bytes": "/w==", "mimeType": "a/b", "name": "n"}}, Part("raw", b"\xff", "n", "a/b")),
        ({"type": "file", "file": {"uri": "https://example.com"}}, Part("url", "https://example.com")),
        ({"file": {"fileWithUri": "https://example.com"}}, Part("url", "https://example.com")),
        ({"raw": "/w==", "filename": "n", "mediaType": "a/b"}, Part("raw", b"\xff", "n", "a/b")),
        ({"url": "https://example.com"}, Part("url", "https://example.com")),
        ({"kind": "text", "text": "hi", "metadata": {"a": 1}}, Part("text", "hi", metadata={"a": 1})),
    ],
)
def test_a_part_is_read_whatever_its_tag(part: dict[str, Any], read: Part) -> None:
    assert v03.decode_send(body(part)).message.parts == (read,)


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({}, "message.parts[0]"),
        ({"text": "a", "data": {}}, "message.parts[0]"),
        ({"kind": "video", "text": "a"}, "message.parts[0].kind"),
        ({"type": "video", "text": "a"}, "message.parts[0].type"),
        ({"kind": "text", "type": "data", "text": "a"}, "message.parts[0].kind"),
        ({"kind": "text"}, "message.parts[0].text"),
        ({"kind": "text", "text": 1}, "message.parts[0].text"),
        ({"kind": "data"}, "message.parts[0].data"),
        ({"kind": "file"}, "message.parts[0].file"),
        ({"kind": "file", "file": {}}, "message.parts[0].file"),
        ({"kind": "file", "file": {"bytes": "?"}}, "message.parts[0].file.bytes"),
        ({"kind": "file", "file": {"uri": ""}}, "message.parts[0].file.uri"),
        ({"kind": 1}, "message.parts[0].kind"),
        (None, "message.parts[0]"),
    ],
)
def test_an_ill_formed_part_is_named(part: Any, field: str) -> None:
    assert refused(body(part)) == [field]


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ([], ""),
        ({}, "message"),
        (body(role="agent"), "message.role"),
        (body(messageId=None), "message.messageId"),
        (body(parts=[]), "message.parts"),
        (body(contextId="\n"), "message.contextId"),
        (body() | {"configuration": {"blocking": 1}}, "configuration.blocking"),
    ],
)
def test_an_ill_formed_body_is_named(sent: Any, field: str) -> None:
    assert refused(sent) == [field]


def test_the_configuration_is_read() -> None:
    configuration = {
        "blocking": False,
        "historyLength": 2,
        "acceptedOutputModes": ["text"],
        "pushNotificationConfig": {"url": "https://a.test/"},
    }
    request = v03.decode_send(body(role="ROLE_USER") | {"configuration": configuration})

    assert (request.return_immediately, request.history_length, request.push) == (
        True,
        2,
        PushConfig("https://a.test/", style="0.3"),
    )
    assert request.accepted_output_modes == ("text",)
    assert v03.decode_send(body() | {"configuration": {"historyLength": 0}}).history_length is None
    assert v03.decode_send(body()).return_immediately is False


def test_the_outcome_stands_beside_the_state() -> None:
    outcome = {"reason": "exit", "fail_kind": "application", "exit_code": 3, "summary": "exited 3", "signal": None}
    task = Task("t", "c", TaskStatus(TaskState.FAILED, NOW, None, outcome))

    assert v03.encode_task(task) == {
        "id": "t",
        "kind": "task",
        "contextId": "c",
        "status": {
            "state": "failed",
            "timestamp": "2026-11-29T12:00:00.000Z",
            "fail_kind": "application",
            "exit_code": 3,
            "summary": "exited 3",
        },
    }


def test_exit_code_zero_is_told() -> None:
    task = Task("t", "c", TaskStatus(TaskState.COMPLETED, NOW, None, {"reason": "exit", "exit_code": 0}))

    assert v03.encode_task(task)["status"]["exit_code"] == 0


@pytest.mark.parametrize("state", list(TaskState))
def test_a_status_update_is_final_when_the_turn_is_over(state: TaskState) -> None:
    spelled = v03.encode_stream_item(StatusUpdate("t", "c", TaskStatus(state, NOW)))

    assert spelled["kind"] == "status-update"
    assert spelled["final"] is (state not in (TaskState.SUBMITTED, TaskState.WORKING))


def test_an_artifact_update_says_whether_it_continues_and_ends() -> None:
    spelled = v03.encode_stream_item(ArtifactUpdate("t", "c", Artifact("stdout", (Part("raw", b"\xff"),)), append=True))

    assert spelled == {
        "kind": "artifact-update",
        "taskId": "t",
        "contextId": "c",
        "artifact": {"artifactId": "stdout", "parts": [{"kind": "file", "file": {"bytes": "/w=="}}]},
        "append": True,
        "lastChunk": False,
    }


def test_every_part_has_a_03_spelling() -> None:
    parts = (Part("text", "a"), Part("data", [1]), Part("data", {"k": 1}), Part("url", "u:x", "n", "a/b", {"m": 1}))
    message = Message("m", "agent", parts, "c", "t", {"urn:x": 1}, ("urn:x",), ("t0",))

    assert v03.encode_message(message) == {
        "kind": "message",
        "messageId": "m",
        "role": "agent",
        "taskId": "t",
        "contextId": "c",
        "parts": [
            {"kind": "text", "text": "a"},
            {"kind": "data", "data": {"value": [1]}},
            {"kind": "data", "data": {"k": 1}},
            {"kind": "file", "file": {"uri": "u:x", "mimeType": "a/b", "name": "n"}, "metadata": {"m": 1}},
        ],
        "metadata": {"urn:x": 1},
        "extensions": ["urn:x"],
        "referenceTaskIds": ["t0"],
    }


def test_artifacts_and_history_are_there_when_asked_for() -> None:
    task = Task("t", "c", TaskStatus(TaskState.WORKING, NOW), (Artifact("a", (Part("text", "x"),)),), (), {"k": 1})

    spelled = v03.encode_stream_item(task)

    assert spelled["artifacts"] == [{"artifactId": "a", "parts": [{"kind": "text", "text": "x"}]}]
    assert spelled["history"] == []
    assert spelled["metadata"] == {"k": 1}
