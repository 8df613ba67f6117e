"""How does a version of A2A spell a message, and how are its tasks read?

One codec a version, written here and not shared with any server, so that a harness never judges a server by the server's own
reading. Answers are read tolerantly where the specs leave room, and states strictly in the version's own spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import attrs

from sandboxd.a2a.extensions import HITL_PROMPT
from sandboxd.values import frozen

ENDED: Final = frozenset({"completed", "failed", "canceled", "rejected"})
_STATES: Final = ("submitted", "working", "input-required", "auth-required", "completed", "failed", "canceled", "rejected")
_IN_10: Final = {f"TASK_STATE_{name.upper().replace('-', '_')}": name for name in _STATES}
_IN_03: Final = {name: name for name in _STATES} | {"unknown": "unknown"}


class Unreadable(Exception):
    """What came is no answer of this version; the text says why."""


@frozen
class Draft:
    """A message to be spelled. `payload`: a data part instead of the text."""

    message_id: str
    text: str = ""
    payload: Mapping[str, Any] | None = None
    task_id: str | None = None
    context_id: str | None = None
    metadata: Mapping[str, Any] = attrs.field(factory=dict)


@frozen
class Seen:
    """A task as an answer or a stream's event shows it; a bare Message is one that has completed, without an id."""

    id: str
    context_id: str
    state: str
    status: Mapping[str, Any]
    artifacts: str
    raw: Mapping[str, Any]

    @property
    def envelope(self) -> Any:
        """What stands under the hitl-prompt URI in the status message, or None."""
        message = self.status.get("message") or self.status.get("update")
        metadata = message.get("metadata") if isinstance(message, Mapping) else None
        return metadata.get(HITL_PROMPT) if isinstance(metadata, Mapping) else None

    @property
    def prompt_id(self) -> str | None:
        """The id of the prompt that is open, as far as it is told."""
        envelope = self.envelope
        found = envelope.get("prompt_id") if isinstance(envelope, Mapping) else None
        return found if isinstance(found, str) else None

    @property
    def asks(self) -> bool:
        """Whether the task waits for its client."""
        return self.state == "input-required"

    @property
    def has_ended(self) -> bool:
        """Whether the state is a terminal one."""
        return self.state in ENDED

    @property
    def said(self) -> str:
        """The text of the status message."""
        message = self.status.get("message") or self.status.get("update") or {}
        parts = message.get("parts") or message.get("content") if isinstance(message, Mapping) else None
        return "".join(text_of(part) for part in parts or [] if isinstance(part, Mapping))

    def still_asks(self, prompt_id: str | None) -> bool:
        """Whether that very prompt is open; one whose envelope is not shown is taken for it."""
        return self.asks and self.prompt_id in (prompt_id, None)


class Codec(Protocol):
    """One version's spelling."""

    version: str

    def message(self, draft: Draft) -> dict[str, Any]:
        """A message to the agent."""

    def configuration(self, *, wait: bool) -> dict[str, Any]:
        """The `configuration` of a send that waits until the task ends or asks, or does not."""

    def task(self, value: Any) -> Seen:
        """The task in an answer or an event; `Unreadable`."""


class V10:
    """A2A 1.0."""

    version = "1.0"
    states: Mapping[str, str] = _IN_10

    def message(self, draft: Draft) -> dict[str, Any]:
        """Untagged parts, roles and states by their full names."""
        part: dict[str, Any] = {"text": draft.text}
        if draft.payload is not None:
            part = {"data": dict(draft.payload), "mediaType": "application/json"}
        return _message(draft, "ROLE_USER", parts=[part])

    def configuration(self, *, wait: bool) -> dict[str, Any]:
        """Blocking is what 1.0 does unless told otherwise."""
        return {} if wait else {"returnImmediately": True}

    def task(self, value: Any) -> Seen:
        """`{task}`, `{message}`, `{statusUpdate}`, or a bare Task."""
        return read_task(value, self.states)


class V03:
    """A2A 0.3 as its JSON-RPC binding and the `messages:send` dialect spell it."""

    version = "0.3"
    states: Mapping[str, str] = _IN_03

    def message(self, draft: Draft) -> dict[str, Any]:
        """Parts tagged with their kind, lower-case roles."""
        part: dict[str, Any] = {"kind": "text", "text": draft.text}
        if draft.payload is not None:
            part = {"kind": "data", "data": dict(draft.payload)}
        return _message(draft, "user", kind="message", parts=[part])

    def configuration(self, *, wait: bool) -> dict[str, Any]:
        """0.3 leaves the default to the server, so it is always said."""
        return {"blocking": wait}

    def task(self, value: Any) -> Seen:
        """A bare Task, Message or status-update; `{task}` is understood too."""
        return read_task(value, self.states)


class V03Proto(V03):
    """A2A 0.3 as its HTTP+JSON binding spells it: the ProtoJSON of its proto, with parts under `content`."""

    states: Mapping[str, str] = _IN_10 | {"TASK_STATE_CANCELLED": "canceled"} | _IN_03

    def message(self, draft: Draft) -> dict[str, Any]:
        """The proto's own names; a data part wraps its object once more."""
        part: dict[str, Any] = {"text": draft.text}
        if draft.payload is not None:
            part = {"data": {"data": dict(draft.payload)}}
        return _message(draft, "ROLE_USER", content=[part])


def read_task(value: Any, states: Mapping[str, str]) -> Seen:
    """The task in a value, whichever of the usual wrappers it stands in."""
    if not isinstance(value, Mapping):
        raise Unreadable(f"an object was expected, `{str(value)[:80]}` came")
    for wrapper in ("task", "statusUpdate", "status_update"):
        if isinstance(value.get(wrapper), Mapping):
            return read_task(value[wrapper], states)
    if isinstance(value.get("message"), Mapping) and "status" not in value:
        return _spoken(value["message"])
    if value.get("kind") == "message":
        return _spoken(value)
    status, task_id = value.get("status"), value.get("id") or value.get("taskId") or value.get("task_id")
    if not isinstance(status, Mapping) or not isinstance(task_id, str):
        raise Unreadable("it is no Task: `id` or `status` is missing")
    spelled = status.get("state")
    state = states.get(spelled) if isinstance(spelled, str) else None
    if state is None:
        raise Unreadable(f"`{spelled}` is no task state of this version")
    context_id = value.get("contextId") or value.get("context_id") or ""
    found = value.get("artifacts")
    texts = [_artifact_text(artifact) for artifact in found] if isinstance(found, list) else []
    return Seen(task_id, str(context_id), state, status, "".join(texts), value)


def text_of(part: Mapping[str, Any]) -> str:
    """The text of a text part."""
    text = part.get("text")
    return text if isinstance(text, str) else ""


def _spoken(message: Mapping[str, Any]) -> Seen:
    return Seen("", str(message.get("contextId") or ""), "completed", {"message": message}, "", message)


def _artifact_text(artifact: Any) -> str:
    parts = artifact.get("parts") if isinstance(artifact, Mapping) else None
    return "".join(text_of(part) for part in parts or [] if isinstance(part, Mapping))


def _message(draft: Draft, role: str, **rest: Any) -> dict[str, Any]:
    spelled: dict[str, Any] = {"messageId": draft.message_id, "role": role, **rest}
    for name, value in (("taskId", draft.task_id), ("contextId", draft.context_id), ("metadata", dict(draft.metadata))):
        if value:
            spelled[name] = value
    return spelled
