"""Which requests does a fuzzer send? Valid ones of every door, changed a little, and bytes that were never valid.

Requests name a finished task, a task that asks and its prompt by the placeholders below, which the sender fills in.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import attrs
from hypothesis import strategies as st

from tests.support.daemon import ADAPTER, HITL, RUNNER
from tests.support.wire import Door

FINISHED, ASKING, PROMPT, TOKEN = "FINISHED-TASK", "ASKING-TASK", "OPEN-PROMPT", "THE-TOKEN"
IDEMPOTENCY = "https://agentic-sandbox.aiwg.io/extensions/idempotency/v1"

Headers = tuple[tuple[str, bytes], ...]


@attrs.frozen
class Sent:
    """One request. `body` None: none; bytes: as they are; anything else: as JSON."""

    door: Door
    method: str
    path: bytes
    headers: Headers = ()
    query: bytes = b""
    body: Any = None

    def data(self, known: dict[str, str]) -> bytes:
        """What goes over the wire, with the placeholders filled in."""
        body = self.body if isinstance(self.body, bytes) else b"" if self.body is None else spell(self.body)
        for name, value in known.items():
            body = body.replace(name.encode(), value.encode())
        usual = {"Host": b"localhost", "Authorization": f"Bearer {TOKEN}".encode(), "Connection": b"close"}
        if self.body is not None:
            usual |= {"Content-Type": b"application/json", "Content-Length": str(len(body)).encode()}
        given = {name.lower() for name, _ in self.headers}
        lines = [(name, value) for name, value in usual.items() if name.lower() not in given] + list(self.headers)
        head = self.method.encode() + b" " + self.path + (b"?" + self.query if self.query else b"") + b" HTTP/1.1\r\n"
        head += b"".join(name.encode() + b": " + value + b"\r\n" for name, value in lines)
        for name, value in known.items():
            head = head.replace(name.encode(), value.encode())
        return head + b"\r\n" + body


def spell(value: Any) -> bytes:
    """As JSON; a lone surrogate as its escape, and NaN as Python has it."""
    return json.dumps(value).encode()


def _message(version: str, **more: Any) -> dict[str, Any]:
    part = {"1.0": {"text": "hello"}, "0.3": {"kind": "text", "text": "hello"}}[version]
    role = {"1.0": "ROLE_USER", "0.3": "user"}[version]
    kind = {} if version == "1.0" else {"kind": "message"}
    return {"messageId": "fuzz", "role": role, "parts": [part], **kind, **more}


def _sends(version: str) -> list[dict[str, Any]]:
    command: dict[str, Any] = {
        "adapter": "sandbox-agent-runner",
        "mode": "plan",
        "command": ["node", RUNNER, "--request", "none.json"],
    }
    command |= {"working_dir": "/workspace", "timeout_seconds": 5, "input_mode": "text-line"}
    answer = {"hitl_response_for": {"prompt_id": PROMPT, "payload": {"text": "y"}}}
    waits = {"returnImmediately": True} if version == "1.0" else {"blocking": False}
    push = {"1.0": "taskPushNotificationConfig", "0.3": "pushNotificationConfig"}[version]
    return [
        {"message": _message(version, contextId="c", referenceTaskIds=[FINISHED], extensions=[HITL])},
        {"message": _message(version, metadata={ADAPTER: command}), "configuration": waits},
        {"message": _message(version, taskId=ASKING, metadata=answer), "configuration": waits},
        {"message": _message(version, taskId=FINISHED), "metadata": {"k": 1}},
        {
            "message": _message(version),
            "configuration": {**waits, "historyLength": 1, "acceptedOutputModes": ["text/plain"], push: _PUSH},
        },
    ]


_PUSH: dict[str, Any] = {
    "id": "p",
    "url": "http://127.0.0.1:9/hook",
    "token": "t",
    "authentication": {"scheme": "Bearer", "schemes": ["Bearer"], "credentials": "c"},
    "secret": "s" * 32,
    "eventTypes": ["task.completed"],
    "configId": "p",
}


def _proto(send: dict[str, Any]) -> dict[str, Any]:
    """The same as 0.3's REST spells it."""
    message = {name: value for name, value in send["message"].items() if name not in ("parts", "kind")}
    return {"request": {**message, "role": "ROLE_USER", "content": [{"text": "hello"}]}, "configuration": {"blocking": False}}


def _call(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


_V10: Headers = (("A2A-Version", b"1.0"), ("A2A-Extensions", f"{HITL}, {ADAPTER}, {IDEMPOTENCY}".encode()))
_V03: Headers = (("A2A-Version", b"0.3"), ("X-A2A-Extensions", f"{HITL}, {ADAPTER}, {IDEMPOTENCY}".encode()))
_DIALECT: Headers = (("A2A-Extensions", f"{HITL}, {ADAPTER}, {IDEMPOTENCY}".encode()),)


def rpc_10() -> list[Sent]:
    """JSON-RPC of A2A 1.0."""
    named, push = {"id": ASKING, "historyLength": 2}, {"taskId": FINISHED, "id": "p"}
    calls = [_call(method, send) for send in _sends("1.0") for method in ("SendMessage", "SendStreamingMessage")]
    calls += [_call(method, named) for method in ("GetTask", "SubscribeToTask")] + [_call("CancelTask", {"id": FINISHED})]
    wanted = {"contextId": "c", "status": "TASK_STATE_COMPLETED", "pageSize": 3, "pageToken": "", "historyLength": 0}
    calls += [_call("ListTasks", {**wanted, "statusTimestampAfter": "2026-01-01T00:00:00Z", "includeArtifacts": True})]
    calls += [_call("CreateTaskPushNotificationConfig", {"taskId": ASKING, **_PUSH})]
    calls += [_call(f"{verb}TaskPushNotificationConfig", push) for verb in ("Get", "Delete")]
    calls += [_call("ListTaskPushNotificationConfigs", push), _call("GetExtendedAgentCard", {})]
    return [Sent("rpc", "POST", b"/", _V10, body=call) for call in calls]


def rpc_03() -> list[Sent]:
    """JSON-RPC of A2A 0.3."""
    named, push = {"id": ASKING, "historyLength": 2}, {"id": FINISHED, "pushNotificationConfigId": "p"}
    calls = [_call(method, send) for send in _sends("0.3") for method in ("message/send", "message/stream")]
    calls += [_call(f"tasks/{verb}", named) for verb in ("get", "resubscribe")] + [_call("tasks/cancel", {"id": FINISHED})]
    calls += [_call("tasks/pushNotificationConfig/set", {"taskId": ASKING, "pushNotificationConfig": _PUSH})]
    calls += [_call(f"tasks/pushNotificationConfig/{verb}", push) for verb in ("get", "list", "delete")]
    calls += [_call("agent/getAuthenticatedExtendedCard", {})]
    return [Sent("rpc", "POST", b"/v1" if index % 2 else b"/", _V03, body=call) for index, call in enumerate(calls)]


def rest_10() -> list[Sent]:
    """HTTP+JSON of A2A 1.0."""
    found = [
        Sent("rest", "POST", path, _V10, body=send)
        for send in _sends("1.0")
        for path in (b"/message:send", b"/t/message:stream")
    ]
    task, done = f"/tasks/{ASKING}".encode(), f"/tasks/{FINISHED}".encode()
    wanted = b"contextId=c&status=TASK_STATE_COMPLETED&pageSize=3&pageToken=&historyLength=0&includeArtifacts=true"
    return [
        *found,
        Sent("rest", "GET", b"/tasks", _V10, wanted + b"&statusTimestampAfter=2026-01-01T00:00:00Z"),
        Sent("rest", "GET", task, _V10, b"historyLength=1"),
        Sent("rest", "GET", task + b":subscribe", (*_V10, ("Last-Event-ID", b"1"))),
        Sent("rest", "POST", task + b":subscribe", _V10),
        Sent("rest", "POST", done + b":cancel", _V10, body={"metadata": {"reason": "why"}}),
        Sent("rest", "POST", task + b"/pushNotificationConfigs", _V10, body=_PUSH),
        Sent("rest", "GET", task + b"/pushNotificationConfigs", _V10, b"pageSize=1&pageToken="),
        Sent("rest", "DELETE", done + b"/pushNotificationConfigs/p", _V10),
        Sent("rest", "GET", b"/extendedAgentCard", _V10),
    ]


def rest_03() -> list[Sent]:
    """REST of A2A 0.3."""
    found = [
        Sent("rest", "POST", path, _V03, body=_proto(send))
        for send in _sends("0.3")
        for path in (b"/v1/message:send", b"/v1/message:stream")
    ]
    task, done = f"/v1/tasks/{ASKING}".encode(), f"/v1/tasks/{FINISHED}".encode()
    named = {"parent": f"tasks/{ASKING}", "configId": "p", "config": {"name": "p", "pushNotificationConfig": _PUSH}}
    return [
        *found,
        Sent("rest", "GET", task, _V03, b"historyLength=1"),
        Sent("rest", "GET", task + b":subscribe", _V03),
        Sent("rest", "POST", done + b":cancel", _V03, body={"name": f"tasks/{FINISHED}"}),
        Sent("rest", "POST", task + b"/pushNotificationConfigs", _V03, body=named),
        Sent("rest", "GET", task + b"/pushNotificationConfigs/p", _V03),
        Sent("rest", "GET", b"/v1/card", _V03),
    ]


def dialect() -> list[Sent]:
    """The `messages:send` dialect."""
    under = b"/agents/default/v1"
    found = [Sent("dialect", "POST", under + b"/messages:send", _DIALECT, body=send) for send in _sends("0.3")]
    found += [Sent("dialect", "POST", under + b"/messages:stream", _DIALECT, body=send) for send in _sends("0.3")]
    task, done = under + f"/tasks/{ASKING}".encode(), under + f"/tasks/{FINISHED}".encode()
    return [
        *found,
        Sent("dialect", "GET", task, _DIALECT),
        Sent("dialect", "GET", task + b"/subscribe", (*_DIALECT, ("Last-Event-ID", b"1"))),
        Sent("dialect", "POST", done + b"/cancel", _DIALECT, body={}),
        Sent("dialect", "GET", done + b"/artifacts", _DIALECT),
        Sent("dialect", "GET", done + b"/artifacts/terminal", (*_DIALECT, ("Range", b"bytes=0-3"))),
        Sent("dialect", "POST", task + b"/pushNotificationConfigs", _DIALECT, body=_PUSH),
    ]


def host() -> list[Sent]:
    """What the daemon itself says."""
    card: Headers = (("If-None-Match", b'"x"'), ("If-Modified-Since", b"Mon, 30 Nov 2026 00:00:00 GMT"))
    paths = [b"/.well-known/agent-card.json", b"/.well-known/agent.json", b"/.well-known/jwks.json", b"/schemas/x.json"]
    found = [Sent("any", "GET", path, card) for path in (*paths, b"/healthz", b"/readyz", b"/metrics")]
    return [
        *found,
        Sent("any", "GET", b"/audit", query=b"limit=3&after=0"),
        Sent("any", "GET", b"/push/dead", query=b"limit=3"),
    ]


# ── values ──

_texts = st.text(st.characters(exclude_categories=()), max_size=12)
_odd = st.sampled_from(
    ["", "\0", "\ud800", "\u202e", "../../etc/passwd", "%", "1e999", "-1", "9" * 30, "x" * 300, "{}", FINISHED, ASKING, PROMPT]
)
_numbers = st.one_of(
    st.integers(), st.floats(), st.sampled_from([2**31, 2**53 + 1, -(2**63), 10**400, 1e308, float("nan"), float("inf")])
)
leaves = st.one_of(st.none(), st.booleans(), _numbers, _texts, _odd)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts | _odd, inner, max_size=4), max_leaves=12
)
bodies = st.one_of(
    st.binary(max_size=80),
    values.map(spell),
    st.sampled_from(
        [b"[" * 50_000, b'{"a":' * 5_000, b"\xef\xbb\xbf{}", b'{"a":1,"a":2}', b"1" * 5_000, b'"\\ud800"', b"{} {}"]
    ),
)


def _places(value: Any, at: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [tuple(at)] + [place for key, inner in items for place in _places(inner, (*at, key))]


@st.composite
def _mutated_json(draw: st.DrawFn, value: Any) -> Any:
    found = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(_places(found)))
        if not place:
            continue
        holder = found
        for step in place[:-1]:
            holder = holder[step]
        how = draw(st.sampled_from(("replace", "replace", "drop", "wrap", "add", "spell")))
        if how == "drop":
            del holder[place[-1]]
        elif how == "wrap":
            holder[place[-1]] = draw(st.sampled_from(([holder[place[-1]]], {"": holder[place[-1]]})))
        elif how == "add" and isinstance(holder, dict):
            holder[draw(_texts | _odd)] = draw(values)
        elif how == "spell" and isinstance(place[-1], str):
            holder["".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in place[-1])] = draw(values)
        else:
            holder[place[-1]] = draw(values)
    return found


_header_values = st.one_of(
    st.binary(max_size=20).map(lambda raw: bytes(byte for byte in raw if byte not in b"\r\n\0")),
    st.sampled_from([b"", b"9" * 40, b"Bearer ", b"Basic Og==", b"a b", b"\xff", b"x" * 5000]),
    st.sampled_from(b"0.3 1.0 99.0 1.0,0.3 */* text/event-stream application/a2a+json multipart/form-data [::1 -1".split()),
    st.sampled_from([b"bytes=5-2", b"bytes=-0", b"bytes=0-0,1-1", b"bytes=0-"]),
)
_header_names = st.one_of(
    st.sampled_from(["A2A-Version", "A2A-Extensions", "X-A2A-Extensions", "Last-Event-ID", "Authorization", "Cookie"]),
    st.sampled_from(["Accept", "Content-Type", "Content-Encoding", "Expect", "Host", "Forwarded"]),
    st.sampled_from(["Range", "If-Range", "If-None-Match", "If-Modified-Since"]),
)
_header_lines = st.tuples(_header_names, _header_values)
_escaped = st.binary(max_size=6).map(lambda raw: b"".join(b"%%%02X" % byte for byte in raw))
_words = st.sampled_from(
    [
        *b"agents default v1 tasks artifacts terminal message:send messages:stream pushNotificationConfigs p cancel".split(),
        *b"subscribe rpc card .well-known agent-card.json schemas metrics audit push dead .. . %2e%2e %00 : % a%zz a:b".split(),
        *(b"", FINISHED.encode(), b"x" * 300, b"\xff", b"%F0%9F%92%A9"),
    ]
)
paths = st.lists(_words | _escaped, max_size=6).map(lambda steps: b"/" + b"/".join(steps))
_names = st.sampled_from(
    b"historyLength pageSize pageToken status contextId statusTimestampAfter includeArtifacts limit after A2A-Version "
    b"a2a-version tenant history_length id = %00".split()
)
_query_values = _escaped | st.sampled_from(
    b"1 -1 1e9 999999999999999999999999 true %zz %ff 1.0 0.3 2026-13-01T00:00:00Z".split()
)
queries = st.lists(st.tuples(_names, _query_values).map(b"=".join), max_size=4).map(b"&".join)


@st.composite
def mutants(draw: st.DrawFn, valid: Sequence[Sent]) -> Sent:
    """A valid request, changed in its body or, now and then, around it."""
    sent = draw(st.sampled_from(valid))
    hows = ["headers", "query", "path", "method"] + (["json"] * 8 + ["body"] * 2 if sent.body is not None else ["query"] * 3)
    match draw(st.sampled_from(hows)):
        case "json":
            return attrs.evolve(sent, body=draw(_mutated_json(sent.body)))
        case "body":
            return attrs.evolve(sent, body=draw(bodies))
        case "query":
            return attrs.evolve(sent, door="any", query=draw(queries))
        case "headers":
            more = tuple(draw(st.lists(_header_lines, min_size=1, max_size=3)))
            given = {name for name, _ in more}
            return attrs.evolve(sent, door="any", headers=(*(line for line in sent.headers if line[0] not in given), *more))
        case "path":
            return attrs.evolve(sent, door="any", path=draw(paths))
        case _:
            methods = ["GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"]
            return attrs.evolve(sent, door="any", method=draw(st.sampled_from(methods)))
