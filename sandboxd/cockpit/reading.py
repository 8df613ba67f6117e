"""What does a host say about a task, and how does it refuse? (A2A 1.0, read by its client)

Read tolerantly: a host that leaves something out is still understood. What is taken for a question is judged elsewhere
(`intake`), and of a refusal's words only keywords and places are kept, since a host may quote an answer in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sandboxd.a2a.extensions import HITL_RESPONSE_FOR, REISSUED_AS, RUN_FACTS
from sandboxd.a2a.links import NO_LINKS, Links
from sandboxd.a2a.model import TaskState
from sandboxd.cockpit.apart import Fault
from sandboxd.cockpit.links import read_links
from sandboxd.errors import Problem
from sandboxd.hitl.envelope import plain_text
from sandboxd.values import frozen

_STATES: Final = {f"TASK_STATE_{state.name}": state for state in TaskState}
CONFLICT: Final = -32010  # hitl-prompt/v1, Acceptance and rejection
INVALID: Final = -32011
_UNDELIVERED: Final = -32012  # it fits, and could not be typed; where the prompt is gone by then, the next try is told so
_INTERNAL: Final = -32603
_NO_TASK: Final = -32001
_LEVELS_MAX: Final = 16
WORDS_MAX_CHARS: Final = 1000
TEXT_MAX_CHARS: Final = 64 * 1024  # to look through more costs time with every look
ID_MAX_CHARS: Final = 256  # as much as a sandboxd takes for one


class Unreadable(Exception):
    """What came is no answer of A2A 1.0; the text says why."""


class Unreachable(Exception):
    """Nothing came, or nothing that says what became of the request; another try may go better.

    `never_left`: no connection was made, so the host cannot have seen the request.
    """

    def __init__(self, why: str, *, never_left: bool = False) -> None:
        super().__init__(why)
        self.never_left = never_left


class Refused(Exception):
    """The host said no. `status` is HTTP's, `code` JSON-RPC's where there is one."""

    def __init__(self, status: int, code: int | None, body: Any) -> None:
        super().__init__(f"the host refused it (HTTP {status}{'' if code is None else f', error {code}'})")
        self.status = status
        self.code = code
        self.body = body

    @property
    def is_conflict(self) -> bool:
        """Unknown, answered, or expired there: another try of the same cannot be taken, unless it is ours that was."""
        return self.code == CONFLICT or (self.code is None and self.status in (409, 410))

    @property
    def is_misfit(self) -> bool:
        """The payload does not fit, and the prompt is open."""
        return self.code == INVALID or (self.code is None and self.status == 422)

    @property
    def is_unknown_task(self) -> bool:
        """Whether the host says that there is no such task (A2A 1.0 §3.3.2)."""
        return self.code == _NO_TASK or (self.code is None and self.status == 404)

    @property
    def is_passing(self) -> bool:
        """Whether the same request may be taken another time."""
        return self.code in (_INTERNAL, _UNDELIVERED) or self.status in (408, 425, 429) or self.status >= 500

    @property
    def accepted_message_id(self) -> str | None:
        """Which message was accepted for the prompt, where the host tells."""
        return self._fact(
            "accepted_message_id", "acceptedMessageId"
        )  # in google.rpc.ErrorInfo, names are spelled the second way

    @property
    def reissued_as(self) -> str | None:
        """Under which prompt id the question was asked again, where the host tells."""
        return self._fact(REISSUED_AS, "reissuedAs")

    def _fact(self, *names: str) -> str | None:
        found = next((value for name in names for value in _values(self.body, name)), None)
        return found[:ID_MAX_CHARS] if isinstance(found, str) else None

    @property
    def words(self) -> str:
        """What the host says of it, as plain text; only for a request that holds no answer, which it might quote."""
        said = [value for name in ("message", "detail") for value in _values(self.body, name) if isinstance(value, str)]
        return plain_text(said[0])[:WORDS_MAX_CHARS] if said else ""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Where the payload does not fit, and by which keyword; the host's own words are left out."""
        errors = next(_values(self.body, "validation_errors"), None)
        listed = [one for one in errors if isinstance(one, Mapping)] if isinstance(errors, list) else []
        pairs = [(str(one.get("path", ""))[:64], str(one.get("keyword", "invalid"))[:32]) for one in listed[:8]]
        return tuple(Problem(path, keyword, keyword) for path, keyword in pairs)

    @property
    def misfits(self) -> str:
        """The same in words."""
        places = [f"{problem.field or '/'}: {problem.reason}" for problem in self.problems]
        return "; ".join(places) or "the host does not say where"


@frozen
class Seen:
    """A task as a host shows it.

    `message`: what stands in its status. `said`: ids of its client's messages, each with the prompt that it answers.
    `keeps_answers`: it is a sandboxd's, whose history has every answer that was accepted. `links`: what it says that it belongs
    to, where it says so. `timestamp`: since when it stands so, in the host's words.
    """

    task_id: str
    context_id: str
    state: TaskState
    message: Mapping[str, Any]
    said: tuple[tuple[str, str | None], ...] = ()
    keeps_answers: bool = False
    links: Links = NO_LINKS
    timestamp: str = ""

    @property
    def text(self) -> str:
        """The words of the status message; of very many the end, where the question is."""
        parts = self.message.get("parts")
        texts = [part.get("text") for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
        return "\n".join(text for text in texts if isinstance(text, str))[-TEXT_MAX_CHARS:]


@frozen
class Unread:
    """A task that a host lists, and that cannot be read; an id is empty where not even that can be."""

    task_id: str
    context_id: str
    why: str


@frozen
class Listed:
    """What a host lists: the tasks, and those that cannot be read."""

    tasks: tuple[Seen, ...] = ()
    unread: tuple[Unread, ...] = ()

    def __add__(self, other: Listed) -> Listed:
        return Listed(self.tasks + other.tasks, self.unread + other.unread)


def read_listed(values: Any) -> Listed:
    """The tasks of one page; one that cannot be read hides none of the others."""
    tasks, unread = list[Seen](), list[Unread]()
    for value in values if isinstance(values, list) else []:
        if isinstance(value, Fault):
            unread.append(Unread(value.task_id, value.context_id, value.why))
            continue
        try:
            if (seen := read_task(value)) is None:
                raise Unreadable("it is no Task")
            tasks.append(seen)
        except Unreadable as error:
            fields = value if isinstance(value, Mapping) else {}
            ids = (one if isinstance(one := fields.get(name), str) else "" for name in ("id", "contextId"))
            task_id, context_id = ("" if len(one) > ID_MAX_CHARS else one for one in ids)
            unread.append(Unread(task_id, context_id, str(error)))
    return Listed(tuple(tasks), tuple(unread))


def read_task(value: Any) -> Seen | None:
    """The task in a result or in one event of a stream; None: an event that says nothing of its state."""
    if not isinstance(value, Mapping):
        raise Unreadable("an object was expected")
    for wrapper in ("task", "statusUpdate"):
        if isinstance(value.get(wrapper), Mapping):
            return read_task(value[wrapper])
    if "artifactUpdate" in value or "message" in value:
        return None
    status, task_id = value.get("status"), value.get("id") or value.get("taskId")
    if not isinstance(status, Mapping) or not isinstance(task_id, str):
        raise Unreadable("it is no Task: `id` or `status` is missing")
    context_id = str(value.get("contextId") or "")
    if max(len(task_id), len(context_id)) > ID_MAX_CHARS:
        raise Unreadable(f"it is no Task: an id has more than {ID_MAX_CHARS} characters")
    state = _STATES.get(str(status.get("state")))
    if state is None:
        raise Unreadable("it has no task state of A2A 1.0")
    message, history, metadata = status.get("message"), value.get("history"), value.get("metadata")
    timestamp = status.get("timestamp")
    return Seen(
        task_id,
        context_id,
        state,
        message if isinstance(message, Mapping) else {},
        tuple(_said(history)) if isinstance(history, list) else (),
        isinstance(history, list) and isinstance(metadata, Mapping) and RUN_FACTS in metadata,
        read_links(value),
        timestamp if isinstance(timestamp, str) else "",
    )


def _said(history: list[Any]) -> Iterator[tuple[str, str | None]]:
    for message in history:
        if isinstance(message, Mapping) and message.get("role") == "ROLE_USER" and isinstance(message.get("messageId"), str):
            prompt_id = next(_values(_values_of(message, HITL_RESPONSE_FOR), "prompt_id"), None)
            yield message["messageId"][:ID_MAX_CHARS], prompt_id.lower() if isinstance(prompt_id, str) else None


def _values_of(message: Mapping[str, Any], key: str) -> Any:
    metadata = message.get("metadata")
    return metadata.get(key) if isinstance(metadata, Mapping) else None


def _values(value: Any, name: str, levels: int = _LEVELS_MAX) -> Iterator[Any]:
    """Every value under that name, wherever it stands."""
    if levels and isinstance(value, Mapping):
        if name in value:
            yield value[name]
        for member in value.values():
            yield from _values(member, name, levels - 1)
    elif levels and isinstance(value, list):
        for member in value:
            yield from _values(member, name, levels - 1)
