"""Does every legal spelling of a request mean the same, and is what is written read back as it was, in both versions?"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2, types
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxd.a2a import v03, v03proto, v10
from sandboxd.a2a.codec import Codec
from sandboxd.a2a.faults import to_rest, to_rest_03
from sandboxd.a2a.model import (
    Artifact,
    ArtifactUpdate,
    ListRequest,
    Message,
    Part,
    PushConfig,
    SendRequest,
    StatusUpdate,
    StreamItem,
    Task,
    TaskState,
    TaskStatus,
)
from sandboxd.errors import (
    AnswerInvalid,
    ContentTypeNotSupported,
    ExtendedCardNotConfigured,
    InvalidParams,
    Problem,
    PromptNotOpen,
    PushNotificationNotSupported,
    TaskNotCancelable,
    TaskNotFound,
    UnsupportedOperation,
    VersionNotSupported,
)

Draw = Callable[[st.SearchStrategy[Any]], Any]
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)

unhurried = settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])  # machines differ
SCALARS = st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.text(max_size=6)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2), max_leaves=6
)
OBJECTS = st.dictionaries(st.text(min_size=1, max_size=4), JSON, min_size=1, max_size=2)
METADATA = st.none() | OBJECTS
NAMES = st.none() | st.text(min_size=1, max_size=6)
IDS = st.text(alphabet="abcXYZ019-_.", min_size=1, max_size=12)
# What both versions can say: 0.3 has a name and a media type for files alone, and only objects as data.
PARTS = st.one_of(
    st.builds(Part, st.just("text"), st.text(max_size=8), st.none(), st.none(), METADATA),
    st.builds(Part, st.just("raw"), st.binary(max_size=8), NAMES, NAMES, METADATA),
    st.builds(Part, st.just("url"), st.text(min_size=1, max_size=8), NAMES, NAMES, METADATA),
    st.builds(Part, st.just("data"), OBJECTS, st.none(), st.none(), METADATA),
)
MESSAGES = st.builds(
    Message,
    IDS,
    st.just("user"),
    st.lists(PARTS, min_size=1, max_size=3).map(tuple),
    st.none() | IDS,
    st.none() | IDS,
    METADATA,
    st.lists(IDS, max_size=2).map(tuple),
)
REQUESTS = st.builds(
    SendRequest,
    MESSAGES,
    st.booleans(),
    st.none() | st.integers(1, 2**31 - 1),
    st.lists(IDS, max_size=2).map(tuple),
    st.none() | st.just(PushConfig("https://example.com")),
    METADATA,
)


class Speller:
    """Writes a request as one of the clients that there are might."""

    def __init__(self, draw: Draw, tag: str | None = None, *, is_proto: bool = False) -> None:
        self._draw = draw
        self.tag = tag
        self.is_proto = is_proto

    def one_of(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def fields(self, **known: Any) -> dict[str, Any]:
        """An object: names in camelCase or snake_case, what says nothing left out or null, and a name that nobody knows."""
        spelled: dict[str, Any] = {"somethingNew": [1]} if self.one_of(True, False) else {}
        for name, value in known.items():
            if value is None or value == ():
                if self.one_of(True, False):
                    spelled[name] = None
                continue
            snake = "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
            spelled[self.one_of(name, snake)] = list(value) if isinstance(value, tuple) else value
        return spelled

    def integer(self, value: int | None) -> Any:
        return None if value is None else self.one_of(value, float(value), str(value))

    def base64(self, data: bytes) -> str:
        encode = self.one_of(base64.b64encode, base64.urlsafe_b64encode)
        text: str = encode(data).decode()
        return self.one_of(text, text.rstrip("="))

    def part_10(self, part: Part) -> dict[str, Any]:
        value = self.base64(part.value) if part.kind == "raw" else part.value
        rest = self.fields(filename=part.filename, mediaType=part.media_type, metadata=part.metadata)
        return {part.kind: value, **rest}

    def part_03(self, part: Part) -> dict[str, Any]:
        tagged: dict[str, Any] = {}
        if self.tag and not self.is_proto:
            tagged[self.tag] = "file" if part.kind in ("raw", "url") else part.kind
        match part.kind:
            case "text":
                content = {"text": part.value}
            case "data":
                content = {"data": {"data": part.value} if self.is_proto else part.value}
            case _:
                content = {"file": self._file(part)}
        return {**content, **tagged, **self.fields(metadata=part.metadata)}

    def _file(self, part: Part) -> dict[str, Any]:
        known = self.fields(mimeType=part.media_type, name=part.filename)
        if part.kind == "url":
            return {"fileWithUri" if self.is_proto else "uri": part.value, **known}
        if self.is_proto:  # as its SDKs do: base64 text in the proto's bytes
            return {"fileWithBytes": self.base64(base64.b64encode(part.value)), **known}
        return {"bytes": self.base64(part.value), **known}

    def message(self, message: Message, parts_name: str, parts: list[dict[str, Any]], *roles: Any) -> dict[str, Any]:
        return {
            parts_name: parts,
            **self.fields(
                messageId=message.message_id,
                role=self.one_of(*roles),
                contextId=message.context_id,
                taskId=message.task_id,
                metadata=message.metadata,
                extensions=message.extensions,
            ),
        }


@unhurried
@given(REQUESTS, st.data())
def test_every_spelling_of_10_means_the_same(request: SendRequest, data: st.DataObject) -> None:
    speller = Speller(data.draw)
    parts = [speller.part_10(part) for part in request.message.parts]
    configuration = speller.fields(
        returnImmediately=request.return_immediately or None,
        historyLength=speller.integer(request.history_length),
        acceptedOutputModes=request.accepted_output_modes,
        taskPushNotificationConfig={"url": "https://example.com"} if request.push else None,
    )
    spelled = speller.fields(
        message=speller.message(request.message, "parts", parts, "ROLE_USER", 1, 1.0),
        configuration=configuration,
        metadata=request.metadata,
    )

    assert v10.decode_send(spelled) == request


@pytest.mark.parametrize(
    ("tag", "is_proto"), [("kind", False), ("type", False), (None, False), (None, True)], ids=["kind", "type", "bare", "proto"]
)
@unhurried
@given(REQUESTS, st.data())
def test_every_spelling_of_03_means_the_same(
    tag: str | None, is_proto: bool, request: SendRequest, data: st.DataObject
) -> None:
    speller = Speller(data.draw, tag, is_proto=is_proto)
    parts = [speller.part_03(part) for part in request.message.parts]
    blocking: bool | None = not request.return_immediately
    if is_proto and request.return_immediately:
        blocking = speller.one_of(False, None)  # proto3 leaves it out
    push = speller.one_of("pushNotificationConfig", "pushNotification")
    configuration = speller.fields(
        historyLength=speller.integer(request.history_length),
        acceptedOutputModes=request.accepted_output_modes,
        **{push: {"url": "https://example.com"} if request.push else None},
    )
    if blocking is not None:
        configuration["blocking"] = blocking
    names = ("content", speller.one_of("message", "request")) if is_proto else ("parts", "message")
    spelled = {
        names[1]: speller.message(request.message, names[0], parts, "user", "ROLE_USER", 1),
        "configuration": configuration,
        **speller.fields(metadata=request.metadata),
    }

    meant = attrs.evolve(request, push=request.push and attrs.evolve(request.push, style="0.3"))
    for codec in (v03, v03proto):
        assert codec.decode_send(spelled) == meant


@pytest.mark.parametrize("codec", [v10, v03, v03proto], ids=lambda codec: codec.__name__)
@unhurried
@given(MESSAGES)
def test_a_message_is_read_back_as_it_was_written(codec: Any, message: Message) -> None:
    name = "request" if codec is v03proto else "message"

    assert codec.decode_send({name: codec.encode_message(message)}).message == message


@unhurried
@given(st.none() | IDS, st.none() | st.sampled_from(TaskState), st.integers(1, 100), st.text(max_size=5), st.data())
def test_a_list_is_asked_for_alike_in_every_spelling(
    context_id: str | None, state: TaskState | None, size: int, token: str, data: st.DataObject
) -> None:
    speller = Speller(data.draw)
    wanted = ListRequest(context_id=context_id, state=state, page_size=size, page_token=token)
    name = f"TASK_STATE_{state.name}" if state else None
    new = speller.fields(contextId=context_id, status=name, pageSize=speller.integer(size), pageToken=token or None)
    old = speller.fields(
        contextId=context_id, state=state.value if state else None, limit=speller.integer(size), cursor=token or None
    )

    assert v10.decode_list(new) == wanted
    assert v03.decode_list(old) == wanted


STATUSES = st.builds(
    TaskStatus,
    st.sampled_from(TaskState),
    st.just(NOW),
    st.none() | MESSAGES.map(lambda made: attrs.evolve(made, role="agent")),
)
ARTIFACTS = st.builds(Artifact, IDS, st.lists(PARTS, min_size=1, max_size=2).map(tuple), NAMES, NAMES, METADATA)
ITEMS: st.SearchStrategy[StreamItem] = st.one_of(
    st.builds(Task, IDS, IDS, STATUSES, st.lists(ARTIFACTS, max_size=2).map(tuple), st.lists(MESSAGES, max_size=2).map(tuple)),
    MESSAGES,
    st.builds(StatusUpdate, IDS, IDS, STATUSES, METADATA),
    st.builds(ArtifactUpdate, IDS, IDS, ARTIFACTS, st.booleans(), st.booleans(), METADATA),
)


@unhurried
@given(ITEMS)
def test_the_proto_of_03_knows_every_name_that_is_written(item: StreamItem) -> None:
    """Its SDK refuses a name that it does not know, and takes the rest for what it is."""
    parsed = ParseDict(v03proto.encode_stream_item(item), a2a_v0_3_pb2.StreamResponse())

    again = MessageToDict(parsed)
    assert set(again) == set(v03proto.encode_stream_item(item))


@unhurried
@given(ITEMS)
def test_the_types_of_03_take_every_event(item: StreamItem) -> None:
    told = {"jsonrpc": "2.0", "id": 1, "result": v03.encode_stream_item(item)}

    parsed = types.SendStreamingMessageSuccessResponse.model_validate(told)
    assert parsed.result.kind == told["result"]["kind"]  # type: ignore[index]  # a codec's JSON is `object` to mypy


def test_every_codec_is_one() -> None:
    codecs: tuple[Codec, ...] = (v10, v03, v03proto)

    assert [codec.VERSION for codec in codecs] == ["1.0", "0.3", "0.3"]


@pytest.mark.parametrize(
    ("refusal", "status", "name"),
    [
        (TaskNotFound("cannot find it"), 404, "TaskNotFoundError"),
        (TaskNotCancelable("it is over"), 409, "TaskNotCancelableError"),
        (PushNotificationNotSupported("there are none"), 501, "PushNotificationNotSupportedError"),
        (UnsupportedOperation("it asks nothing"), 501, "UnsupportedOperationError"),
        (ContentTypeNotSupported("no files", problems=[Problem("parts", "why")]), 415, "ContentTypeNotSupportedError"),
        (ExtendedCardNotConfigured("there is none"), 404, "ExtendedAgentCardNotConfiguredError"),
        (InvalidParams("it is wrong"), 400, "InvalidParamsError"),
        (VersionNotSupported("cannot speak it"), 400, "VersionNotSupportedError"),
        (PromptNotOpen("it is closed"), 409, "hitl_already_answered_or_unknown"),
        (AnswerInvalid("it does not fit", problems=[Problem("/text", "why", "type")]), 422, "hitl_response_invalid"),
    ],
)
def test_a_refusal_over_http_in_03_is_told_both_ways(refusal: Any, status: int, name: str) -> None:
    found, body = to_rest_03(refusal)

    assert (found, body["type"]) == (status, name)
    assert body["message"].startswith(refusal.message)
    assert body["error"] == {**to_rest(refusal)[1]["error"], "code": status}
