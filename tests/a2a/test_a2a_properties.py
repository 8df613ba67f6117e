"""Whatever a client sends: is it read, or refused with a reason, and nothing else?"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxd.a2a import jsonrpc, v03, v10
from sandboxd.a2a.jsontext import dump_json
from sandboxd.a2a.model import Message, Part
from sandboxd.errors import InvalidParams, Refusal

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines differ
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)

# Random names never hit a member, so these do, with values that are sometimes right.
PART_NAMES = ("text", "raw", "url", "data", "file", "kind", "type", "filename", "mediaType", "media_type", "metadata", "bytes")
PARTS = st.dictionaries(st.sampled_from(PART_NAMES), JSON | st.sampled_from(["text", "data", "file", "AA=="]), max_size=4)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "messageId": st.just("m") | JSON,
        "role": st.sampled_from(["ROLE_USER", "user", 1, 1.0]) | JSON,
        "parts": st.lists(PARTS | JSON, max_size=3) | JSON,
        "contextId": st.just("c") | JSON,
        "context_id": JSON,
        "taskId": st.just("t") | JSON,
        "metadata": JSON,
        "extensions": st.lists(st.text(max_size=3)) | JSON,
    },
)
CONFIGURATIONS = st.dictionaries(
    st.sampled_from(["historyLength", "returnImmediately", "blocking", "acceptedOutputModes", "taskPushNotificationConfig"]),
    JSON | st.sampled_from(["1", "-1", "9" * 30, 1e300, True]),
)
REQUESTS = JSON | st.fixed_dictionaries(
    {}, optional={"message": MESSAGES | JSON, "configuration": CONFIGURATIONS | JSON, "metadata": JSON, "tenant": JSON}
)
QUERIES = st.dictionaries(
    st.sampled_from(
        ["id", "contextId", "status", "pageSize", "pageToken", "historyLength", "statusTimestampAfter", "includeArtifacts"]
    ),
    JSON | st.sampled_from(["TASK_STATE_WORKING", 2, "50", 50.0, "2026-11-29T12:00:00Z", "9999-12-31T23:59:59-23:59"]),
)

METADATA = st.none() | st.dictionaries(st.text(max_size=5), JSON, min_size=1, max_size=3)
NAMES = st.none() | st.text(min_size=1, max_size=5)
WHOLE_PARTS = st.one_of(
    st.builds(Part, st.just("text"), st.text(), NAMES, NAMES, METADATA),
    st.builds(Part, st.just("raw"), st.binary(), NAMES, NAMES, METADATA),
    st.builds(Part, st.just("url"), st.text(min_size=1), NAMES, NAMES, METADATA),
    st.builds(Part, st.just("data"), JSON, NAMES, NAMES, METADATA),
)
TOKENS = st.none() | st.text(alphabet="abcXYZ019-_.:/@", min_size=1, max_size=20)
WHOLE_MESSAGES = st.builds(
    Message,
    st.text(min_size=1, max_size=256),
    st.just("user"),
    st.lists(WHOLE_PARTS, min_size=1, max_size=3).map(tuple),
    TOKENS,
    TOKENS,
    METADATA,
    st.lists(st.text(min_size=1, max_size=5), max_size=2).map(tuple),
    st.lists(st.text(min_size=1, max_size=5), max_size=2).map(tuple),
)


@unhurried
@given(REQUESTS)
def test_any_send_request_is_read_or_refused_with_every_reason(params: Any) -> None:
    for codec in (v10, v03):
        try:
            request = codec.decode_send(params)
        except InvalidParams as refusal:
            assert refusal.problems
            assert len(set(refusal.problems)) == len(refusal.problems)
        else:
            assert request.message.message_id
            assert request.message.parts
            assert all(isinstance(part.value, bytes) is (part.kind == "raw") for part in request.message.parts)


@unhurried
@given(QUERIES | JSON)
def test_any_other_request_is_read_or_refused(params: Any) -> None:
    for decode in (v10.decode_get, v10.decode_cancel, v10.decode_subscribe, v10.decode_list):
        try:
            decode(params)
        except InvalidParams as refusal:
            assert refusal.problems


@unhurried
@given(st.dictionaries(st.sampled_from(["pageSize", "includeArtifacts", "status", "statusTimestampAfter"]), st.text()))
def test_any_query_is_read_or_refused(query: dict[str, str]) -> None:
    try:
        v10.decode_list_query(query)
    except InvalidParams as refusal:
        assert refusal.problems


@unhurried
@given(
    JSON | st.fixed_dictionaries({}, optional={"jsonrpc": st.just("2.0") | JSON, "id": JSON, "method": JSON, "params": JSON})
)
def test_any_call_is_read_or_refused_and_the_error_carries_its_id(body: Any) -> None:
    try:
        call = jsonrpc.parse_call(body)
    except Refusal as refusal:
        spelled = jsonrpc.failure(jsonrpc.id_of(body), refusal, version="1.0")
        assert spelled["error"]["code"] in (-32600, -32602)
        assert dump_json(spelled["error"])
    else:
        assert call.id is not None
        assert call.id == jsonrpc.id_of(body)


@unhurried
@given(WHOLE_MESSAGES)
def test_a_message_survives_being_written_and_read(message: Message) -> None:
    spelled = v10.encode_message(message)

    read = v10.decode_send({"message": spelled}).message

    assert repr(read) == repr(message)
    assert v10.encode_message(read) == spelled


@unhurried
@given(WHOLE_MESSAGES)
def test_the_dialect_reads_what_it_writes(message: Message) -> None:
    spelled = v03.encode_message(message)

    again = v03.encode_message(v03.decode_send({"message": spelled}).message)

    assert repr(again) == repr(spelled)
