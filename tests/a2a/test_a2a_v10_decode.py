"""What does the 1.0 codec read, and what does it refuse?"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from sandboxd.a2a import v10
from sandboxd.a2a.model import ListRequest, Part, PushConfig, TaskState
from sandboxd.errors import InvalidParams


def message(**changes: Any) -> dict[str, Any]:
    """A small valid message, some of it changed; `...` takes a member out."""
    made = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hello"}]} | changes
    return {name: value for name, value in made.items() if value is not ...}


def refused(params: Any) -> list[str]:
    """The fields that decoding complains about."""
    with pytest.raises(InvalidParams) as caught:
        v10.decode_send(params)
    return [problem.field for problem in caught.value.problems]


def only_part(part: Any) -> Part:
    return v10.decode_send({"message": message(parts=[part])}).message.parts[0]


def test_a_plain_message_is_read() -> None:
    request = v10.decode_send({"message": message(contextId="c1", taskId="t1", extensions=["urn:x"], referenceTaskIds=["t0"])})

    assert request.message.message_id == "m1"
    assert request.message.role == "user"
    assert request.message.parts == (Part("text", "hello"),)
    assert (request.message.context_id, request.message.task_id) == ("c1", "t1")
    assert request.message.extensions == ("urn:x",)
    assert request.message.reference_task_ids == ("t0",)
    assert not request.return_immediately
    assert request.history_length is None


def test_snake_case_names_numeric_enums_and_integers_as_text_or_floats_are_read() -> None:
    sent = {"message_id": "m1", "role": 1, "parts": [{"text": "x", "media_type": "text/plain"}], "task_id": "t"}
    request = v10.decode_send({"message": sent, "configuration": {"history_length": "3", "return_immediately": True}})

    assert request.message.task_id == "t"
    assert request.message.parts[0].media_type == "text/plain"
    assert request.history_length == 3
    assert request.return_immediately
    assert v10.decode_get({"id": "t", "historyLength": 2.0}).history_length == 2


def test_unknown_members_are_ignored_and_null_is_absent() -> None:
    request = v10.decode_send({"message": message(contextId=None, novel=1), "configuration": None, "novel": {}})

    assert request.message.context_id is None


def test_metadata_passes_through_untouched() -> None:
    metadata = {"urn:x": {"count": 3, "ratio": 3.0, "snake_case": [1, None, {"camelCase": "é"}]}, "n": 2**70}
    request = v10.decode_send({"message": message(metadata=metadata), "metadata": {"k": 1}})

    assert request.message.metadata == metadata
    assert repr(request.message.metadata) == repr(metadata)  # 3 and 3.0 are equal, and not the same
    assert request.metadata == {"k": 1}


@pytest.mark.parametrize(
    ("part", "read"),
    [
        ({"text": ""}, Part("text", "")),
        ({"data": None}, Part("data", None)),
        ({"data": [1, 2.5]}, Part("data", [1, 2.5])),
        ({"url": "https://example.com/x", "filename": "x"}, Part("url", "https://example.com/x", "x")),
        ({"raw": "+/8="}, Part("raw", b"\xfb\xff")),
        ({"raw": "-_8"}, Part("raw", b"\xfb\xff")),
        ({"raw": ""}, Part("raw", b"")),
        ({"text": "x", "url": None}, Part("text", "x")),
        ({"text": "x", "metadata": {"a": 1}}, Part("text", "x", metadata={"a": 1})),
    ],
)
def test_a_part_has_exactly_one_content(part: dict[str, Any], read: Part) -> None:
    assert only_part(part) == read


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({}, "message.parts[0]"),
        ({"kind": "text"}, "message.parts[0]"),
        ({"text": "a", "data": None}, "message.parts[0]"),
        ({"text": "a", "raw": "AA=="}, "message.parts[0]"),
        ({"text": 1}, "message.parts[0].text"),
        ({"raw": "%"}, "message.parts[0].raw"),
        ({"raw": "A"}, "message.parts[0].raw"),
        ({"raw": []}, "message.parts[0].raw"),
        ({"url": ""}, "message.parts[0].url"),
        ("text", "message.parts[0]"),
        ({"text": "a", "metadata": []}, "message.parts[0].metadata"),
    ],
)
def test_an_ill_formed_part_is_named(part: Any, field: str) -> None:
    assert refused({"message": message(parts=[part])}) == [field]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "message"),
        ([], ""),
        ({"message": []}, "message"),
        ({"message": message(messageId=...)}, "message.messageId"),
        ({"message": message(messageId="")}, "message.messageId"),
        ({"message": message(messageId=5)}, "message.messageId"),
        ({"message": message(messageId="m" * 257)}, "message.messageId"),
        ({"message": message(message_id="m2")}, "message.messageId"),
        ({"message": message(role=...)}, "message.role"),
        ({"message": message(role="ROLE_AGENT")}, "message.role"),
        ({"message": message(role=2)}, "message.role"),
        ({"message": message(role=True)}, "message.role"),
        ({"message": message(parts=...)}, "message.parts"),
        ({"message": message(parts=[])}, "message.parts"),
        ({"message": message(parts={})}, "message.parts"),
        ({"message": message(parts=[{}] * 1001)}, "message.parts"),
        ({"message": message(extensions="urn:x")}, "message.extensions"),
        ({"message": message(contextId="with blank")}, "message.contextId"),
        ({"message": message(contextId="c" * 257)}, "message.contextId"),
        ({"message": message(taskId=7)}, "message.taskId"),
        ({"message": message(metadata="x")}, "message.metadata"),
        ({"message": message(extensions=["a", 1])}, "message.extensions[1]"),
        ({"message": message(), "configuration": {"historyLength": -1}}, "configuration.historyLength"),
        ({"message": message(), "configuration": {"historyLength": 2**31}}, "configuration.historyLength"),
        ({"message": message(), "configuration": {"historyLength": 1.5}}, "configuration.historyLength"),
        ({"message": message(), "configuration": {"historyLength": True}}, "configuration.historyLength"),
        ({"message": message(), "configuration": {"returnImmediately": "yes"}}, "configuration.returnImmediately"),
        ({"message": message(), "metadata": 1}, "metadata"),
    ],
)
def test_an_ill_formed_request_is_named(params: Any, field: str) -> None:
    assert refused(params) == [field]


def test_every_problem_is_named_at_once() -> None:
    sent = {"message": {"role": "agent", "parts": [{"text": "ok"}, {}, {"raw": "?"}]}, "configuration": {"historyLength": "x"}}

    assert sorted(refused(sent)) == [
        "configuration.historyLength",
        "message.messageId",
        "message.parts[1]",
        "message.parts[2].raw",
        "message.role",
    ]


def test_a_push_configuration_is_noticed() -> None:
    sent = {"message": message(), "configuration": {"taskPushNotificationConfig": {"url": "https://example.com"}}}

    assert v10.decode_send(sent).push == PushConfig("https://example.com")
    assert v10.decode_send({"message": message()}).push is None


def test_a_list_request_is_read_from_json_and_from_a_query() -> None:
    wanted = ListRequest("c", TaskState.WORKING, 7, "p", 0, datetime(2026, 11, 29, 12, tzinfo=UTC), True)
    sent = {
        "contextId": "c",
        "status": "TASK_STATE_WORKING",
        "pageToken": "p",
        "statusTimestampAfter": "2026-11-29T13:00:00+01:00",
    }

    assert v10.decode_list({**sent, "pageSize": 7, "historyLength": 0, "includeArtifacts": True}) == wanted
    assert v10.decode_list_query({**sent, "pageSize": "7", "historyLength": "0", "includeArtifacts": "true"}) == wanted
    assert v10.decode_list({}) == ListRequest()
    assert v10.decode_list({"status": 8}).state is TaskState.AUTH_REQUIRED
    assert v10.decode_list({"status": "TASK_STATE_UNSPECIFIED"}).state is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pageSize", 0),
        ("pageSize", 101),
        ("status", "TASK_STATE_CANCELLED"),
        ("status", "working"),
        ("status", 99),
        ("historyLength", -1),
        ("statusTimestampAfter", "yesterday"),
        ("statusTimestampAfter", "2026-11-29T12:00:00"),
        ("statusTimestampAfter", "0001-01-01T00:00:00+14:00"),
        ("includeArtifacts", "true"),
        ("pageToken", 1),
    ],
)
def test_an_ill_formed_list_request_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidParams) as caught:
        v10.decode_list({name: value})

    assert [problem.field for problem in caught.value.problems] == [name]


def test_task_requests_need_an_id() -> None:
    for decode in (v10.decode_get, v10.decode_cancel, v10.decode_subscribe):
        with pytest.raises(InvalidParams) as caught:
            decode({})
        assert [problem.field for problem in caught.value.problems] == ["id"]
    assert v10.decode_subscribe({"id": "t"}) == "t"
    assert v10.decode_cancel({"id": "t", "metadata": {"reason": "x"}}).metadata == {"reason": "x"}
