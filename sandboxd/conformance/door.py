"""At which URL, in which words, does a door take a request, and how does it refuse one?

A door is the spelling of requests and the reading of answers, and holds no connection. JSON-RPC, HTTP+JSON and the
`messages:send` dialect differ here and nowhere else.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import quote

from sandboxd.conformance.codec import V03, V10, Codec, Draft, Unreadable, V03Proto
from sandboxd.conformance.finding import find_key
from sandboxd.values import frozen

NO_SUCH_METHOD: Final = -32601


@frozen
class Asked:
    """A request, ready to be sent; `path` hangs below the door's URL."""

    method: str
    path: str
    body: Any = None
    called: str = ""

    def __str__(self) -> str:
        return self.called or f"{self.method} {self.path or '/'}"


@frozen
class Came:
    """What came back; `status` 0: nothing, and `text` says why."""

    asked: Asked
    status: int
    headers: Mapping[str, str]
    text: str
    body: Any
    took_s: float

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= 600 else f"{self.text[:600]}… ({len(self.text)} characters)"
        return f"{self.asked}: HTTP {self.status}, {shown or 'no body'}" if self.status else f"{self.asked}: {shown}"


@frozen
class Refused:
    """An error, whatever its spelling; `code` and `message` are JSON-RPC's, where it is one."""

    came: Came
    code: int | None = None
    message: str = ""

    def __str__(self) -> str:
        return str(self.came)

    @property
    def is_conflict(self) -> bool:
        """Exactly as hitl-prompt/v1 has "unknown or already answered"."""
        if self.code is not None:
            return (self.code, self.message) == (-32010, "hitl_already_answered_or_unknown")
        return self.came.status == 409

    @property
    def is_invalid(self) -> bool:
        """Exactly as hitl-prompt/v1 has "fails schema validation"."""
        if self.code is not None:
            return (self.code, self.message) == (-32011, "hitl_response_invalid")
        return self.came.status == 422

    @property
    def is_other_body(self) -> bool:
        """Exactly as idempotency/v1 has "same messageId, other body"."""
        return self.code == -32422 if self.code is not None else self.came.status == 422

    @property
    def is_by_caller(self) -> bool:
        """Whether it calls the request wrong, not the server broken or the caller unknown."""
        if self.code is not None:
            return self.code not in (-32603, NO_SUCH_METHOD)
        return 400 <= self.came.status < 500 and self.came.status not in (401, 403, 429)

    @property
    def validation_errors(self) -> Any:
        """The array of hitl-prompt/v1, wherever in the error it stands."""
        return find_key(self.came.body, "validation_errors")


class Door(Protocol):
    """One way in."""

    name: str
    codec: Codec

    def send(self, draft: Draft, *, wait: bool) -> Asked:
        """Send a message."""

    def stream(self, draft: Draft) -> Asked:
        """Send a message and follow the task."""

    def subscribe(self, task_id: str) -> Asked:
        """Follow a task that exists."""

    def get(self, task_id: str) -> Asked:
        """Read a task."""

    def cancel(self, task_id: str) -> Asked:
        """Cancel a task."""

    def artifacts(self, task_id: str) -> Asked | None:
        """Read a task's artifacts, where the door has a request of its own for them."""

    def read(self, came: Came) -> Any:
        """The result in an answer, or `Refused`; raises `Unreadable`."""

    def read_event(self, value: Any) -> Any:
        """The result in one event's data."""


class JsonRpc:
    """JSON-RPC 2.0: every call is a POST to one URL."""

    name = "jsonrpc"
    _METHODS: Final = {
        "1.0": ("SendMessage", "SendStreamingMessage", "SubscribeToTask", "GetTask", "CancelTask"),
        "0.3": ("message/send", "message/stream", "tasks/resubscribe", "tasks/get", "tasks/cancel"),
    }

    def __init__(self, version: str) -> None:
        self.codec: Codec = V10() if version == "1.0" else V03()
        self._send, self._stream, self._subscribe, self._get, self._cancel = self._METHODS[version]
        self._ids = itertools.count(1)

    def send(self, draft: Draft, *, wait: bool) -> Asked:
        """Send a message."""
        return self._call(self._send, _send_body(self.codec, draft, wait=wait))

    def stream(self, draft: Draft) -> Asked:
        """Send a message and follow the task."""
        return self._call(self._stream, _send_body(self.codec, draft, wait=True))

    def subscribe(self, task_id: str) -> Asked:
        """Follow a task that exists."""
        return self._call(self._subscribe, {"id": task_id})

    def get(self, task_id: str) -> Asked:
        """Read a task."""
        return self._call(self._get, {"id": task_id})

    def cancel(self, task_id: str) -> Asked:
        """Cancel a task."""
        return self._call(self._cancel, {"id": task_id})

    def artifacts(self, task_id: str) -> Asked | None:
        """They stand in the task."""
        return None

    def read(self, came: Came) -> Any:
        """The `result`, or the `error`; a body that is neither is the HTTP layer's own refusal when the status says so."""
        body = came.body if isinstance(came.body, Mapping) else {}
        error = body.get("error")
        if isinstance(error, Mapping) and isinstance(error.get("code"), int):
            return Refused(came, error["code"], str(error.get("message", "")))
        if came.status >= 400:
            return Refused(came)
        if "result" not in body:
            raise Unreadable("it has neither `result` nor `error`")
        return body["result"]

    def read_event(self, value: Any) -> Any:
        """The `result` of one event."""
        return value.get("result") if isinstance(value, Mapping) else value

    def _call(self, method: str, params: dict[str, Any]) -> Asked:
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        return Asked("POST", "", body, called=method)


class Rest:
    """HTTP+JSON; 0.3 has it below `/v1`."""

    name = "rest"

    def __init__(self, version: str) -> None:
        self.codec: Codec = V10() if version == "1.0" else V03Proto()
        self._prefix = "" if version == "1.0" else "/v1"

    def send(self, draft: Draft, *, wait: bool) -> Asked:
        """Send a message."""
        return Asked("POST", f"{self._prefix}/message:send", _send_body(self.codec, draft, wait=wait))

    def stream(self, draft: Draft) -> Asked:
        """Send a message and follow the task."""
        return Asked("POST", f"{self._prefix}/message:stream", _send_body(self.codec, draft, wait=True))

    def subscribe(self, task_id: str) -> Asked:
        """Follow a task that exists."""
        return Asked("POST", f"{self._task(task_id)}:subscribe")

    def get(self, task_id: str) -> Asked:
        """Read a task."""
        return Asked("GET", self._task(task_id))

    def cancel(self, task_id: str) -> Asked:
        """Cancel a task."""
        return Asked("POST", f"{self._task(task_id)}:cancel")

    def artifacts(self, task_id: str) -> Asked | None:
        """They stand in the task."""
        return None

    def read(self, came: Came) -> Any:
        """The body; what is not 2xx is a refusal."""
        return _by_status(came)

    def read_event(self, value: Any) -> Any:
        """The event itself."""
        return value

    def _task(self, task_id: str) -> str:
        return f"{self._prefix}/tasks/{quote(task_id, safe='')}"


class Dialect:
    """The `messages:send` dialect of the specs: A2A 0.3's words at its own paths, problem documents for refusals."""

    name = "dialect"

    def __init__(self) -> None:
        self.codec: Codec = V03()

    def send(self, draft: Draft, *, wait: bool) -> Asked:
        """Send a message; this door never waits."""
        return Asked("POST", "/messages:send", _send_body(self.codec, draft, wait=wait))

    def stream(self, draft: Draft) -> Asked:
        """Send a message and follow the task."""
        return Asked("POST", "/messages:stream", _send_body(self.codec, draft, wait=True))

    def subscribe(self, task_id: str) -> Asked:
        """Follow a task that exists."""
        return Asked("GET", f"{self._task(task_id)}/subscribe")

    def get(self, task_id: str) -> Asked:
        """Read a task."""
        return Asked("GET", self._task(task_id))

    def cancel(self, task_id: str) -> Asked:
        """Cancel a task."""
        return Asked("POST", f"{self._task(task_id)}/cancel")

    def artifacts(self, task_id: str) -> Asked | None:
        """The reference keeps them at a route of their own."""
        return Asked("GET", f"{self._task(task_id)}/artifacts")

    def read(self, came: Came) -> Any:
        """The body; what is not 2xx is a refusal."""
        return _by_status(came)

    def read_event(self, value: Any) -> Any:
        """The event itself."""
        return value

    def _task(self, task_id: str) -> str:
        return f"/tasks/{quote(task_id, safe='')}"


def name_of(door: Door) -> str:
    """The door in reports: `rest 1.0`."""
    return f"{door.name} {door.codec.version}"


def _by_status(came: Came) -> Any:
    if 200 <= came.status < 300:
        return came.body
    return Refused(came)


def _send_body(codec: Codec, draft: Draft, *, wait: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"message": codec.message(draft)}
    configuration = codec.configuration(wait=wait)
    return body | ({"configuration": configuration} if configuration else {})
