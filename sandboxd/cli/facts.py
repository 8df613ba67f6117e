"""What does the daemon's JSON say about a task, in the words that people and scripts read?

A2A 1.0 JSON in, flat values out: what `--json` prints and what tables show are made from the same value. Absent fields are
no error: a daemon may leave out what it has nothing to say about. Texts are as they came; whoever prints them makes them safe.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from sandboxd.a2a.extensions import ARTIFACT_CUT, HITL_PROMPT, HITL_RESPONSE_FOR, OUTCOME, PROMPT_FACTS, PROMPT_NEWS, RUN_FACTS
from sandboxd.a2a.wire import parse_rfc3339, rfc3339
from sandboxd.hitl.answer import Choice
from sandboxd.values import frozen

TERMINAL_STATES: Final = frozenset({"completed", "failed", "canceled", "rejected"})
_DEFAULT_MARK: Final = " (default)"  # hitl/answer.py writes it behind the title of the default choice


@frozen
class Question:
    """An open question: what is asked, what may be answered, until when. `schema` is the envelope's response schema."""

    prompt_id: str
    text: str
    schema: Mapping[str, Any]
    deadline: datetime | None = None
    kind: str = ""
    choices: tuple[Choice, ...] = ()
    default: str | None = None
    task_id: str = ""
    context_id: str = ""
    asked_at: datetime | None = None

    def as_json(self) -> dict[str, Any]:
        """The question as `--json` prints it."""
        return {
            "schema": "sandboxd.prompt/1",
            "prompt_id": self.prompt_id,
            "task_id": self.task_id,
            "context_id": self.context_id,
            "question": self.text,
            "kind": self.kind,
            "choices": [{"text": choice.text, "title": choice.title} for choice in self.choices],
            "default": self.default,
            "deadline": rfc3339(self.deadline) if self.deadline else None,
            "asked_at": rfc3339(self.asked_at) if self.asked_at else None,
            "response_schema": dict(self.schema),
        }


@frozen
class ArtifactFacts:
    """An artifact's name, and how many bytes were cut from its middle, at which of its kept bytes."""

    artifact_id: str
    cut: int = 0
    cut_at: int = 0


@frozen
class TaskFacts:
    """A task as lists and `show` need it. `outcome` is set at the end; `run` says what was started and by which policy."""

    id: str
    context_id: str
    state: str
    since: datetime | None
    summary: str
    outcome: Mapping[str, Any]
    run: Mapping[str, Any]
    artifacts: tuple[ArtifactFacts, ...] = ()
    question: Question | None = None
    closed_prompt: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def has_ended(self) -> bool:
        """Whether the task is in a terminal state."""
        return self.state in TERMINAL_STATES

    def as_json(self) -> dict[str, Any]:
        """The task as `--json` prints it."""
        return {
            "schema": "sandboxd.task/1",
            "id": self.id,
            "context_id": self.context_id,
            "state": self.state,
            "since": rfc3339(self.since) if self.since else None,
            "summary": self.summary,
            "outcome": dict(self.outcome) or None,
            "run": dict(self.run),
            "artifacts": [{"id": artifact.artifact_id, "cut": artifact.cut} for artifact in self.artifacts],
            "question": self.question.as_json() if self.question else None,
        }


def task_facts(task: Mapping[str, Any]) -> TaskFacts:
    """The facts of a 1.0 `Task` or of anything with its `id`/`taskId`, `contextId` and `status`."""
    status = _mapping(task.get("status"))
    message = _mapping(status.get("message"))
    metadata = _mapping(message.get("metadata"))
    state, since = state_name(status), _moment(status.get("timestamp"))
    task_id, context_id = str(task.get("id") or task.get("taskId") or ""), str(task.get("contextId") or "")
    question = question_of(metadata, task_id=task_id, context_id=context_id, asked_at=since)
    return TaskFacts(
        id=task_id,
        context_id=context_id,
        state=state,
        since=since,
        summary=message_text(message),
        outcome=_mapping(metadata.get(OUTCOME)),
        run=_mapping(_mapping(task.get("metadata")).get(RUN_FACTS)),
        artifacts=tuple(artifact_facts(artifact) for artifact in _objects(task.get("artifacts"))),
        question=question if state == "input-required" else None,
        closed_prompt=_mapping(metadata.get(PROMPT_NEWS)),
    )


def state_name(status: Mapping[str, Any]) -> str:
    """`input-required` for `TASK_STATE_INPUT_REQUIRED`."""
    return str(status.get("state", "")).removeprefix("TASK_STATE_").lower().replace("_", "-")


def wire_state(name: str) -> str:
    """`TASK_STATE_INPUT_REQUIRED` for `input-required`."""
    return "TASK_STATE_" + name.upper().replace("-", "_")


def question_of(
    metadata: Mapping[str, Any], *, task_id: str = "", context_id: str = "", asked_at: datetime | None = None
) -> Question | None:
    """The question that a status message's metadata carries; None when it carries no envelope."""
    envelope = _mapping(metadata.get(HITL_PROMPT))
    if not envelope.get("prompt_id"):
        return None
    facts = _mapping(metadata.get(PROMPT_FACTS))
    default = facts.get("default")
    question = question_of_schema(
        prompt_id=str(envelope["prompt_id"]),
        text=str(envelope.get("prompt", "")),
        schema=_mapping(envelope.get("response_schema")),
        deadline=_moment(envelope.get("deadline")),
        kind=str(facts.get("kind", "")),
        task_id=task_id,
        context_id=context_id,
        asked_at=asked_at,
    )
    return attrs.evolve(question, default=default) if isinstance(default, str) else question


def question_of_schema(*, schema: Mapping[str, Any], **about: Any) -> Question:
    """A question whose choices and default are those that its schema names; `about`: the other fields of `Question`."""
    choices, marked = _choices(schema)
    return Question(schema=schema, choices=choices, default=marked, **about)


def past_prompts(task: Mapping[str, Any]) -> Iterator[str]:
    """The ids of all prompts in the task's history, open or not."""
    for message in _objects(task.get("history")):
        envelope = _mapping(_mapping(message.get("metadata")).get(HITL_PROMPT))
        if envelope.get("prompt_id"):
            yield str(envelope["prompt_id"])


def past_turns(task: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Every question and every answer in the task's history, in order: `turn`, `prompt_id`, `message_id`, `text`."""
    for message in _objects(task.get("history")):
        metadata = _mapping(message.get("metadata"))
        asked, said = _mapping(metadata.get(HITL_PROMPT)), _mapping(metadata.get(HITL_RESPONSE_FOR))
        prompt_id = str(asked.get("prompt_id") or said.get("prompt_id") or "")
        if prompt_id:
            text = str(asked.get("prompt", "")) if asked else json.dumps(said.get("payload"), ensure_ascii=False)
            about = {"turn": "asked" if asked else "answered", "prompt_id": prompt_id}
            yield about | {"message_id": str(message.get("messageId", "")), "text": text}


def message_text(message: Mapping[str, Any]) -> str:
    """The text parts of a message, one a line."""
    return "\n".join(part["text"] for part in _objects(message.get("parts")) if isinstance(part.get("text"), str))


def artifact_bytes(artifact: Mapping[str, Any]) -> bytes:
    """The bytes of an artifact's parts: `raw` is base64, `text` is itself; parts of other kinds have none."""
    pieces = []
    for part in _objects(artifact.get("parts")):
        if isinstance(part.get("text"), str):
            pieces.append(part["text"].encode("utf-8", "surrogatepass"))
        elif isinstance(part.get("raw"), str):
            try:
                pieces.append(base64.b64decode(part["raw"], altchars=b"-_" if set(part["raw"]) & set("-_") else None))
            except binascii.Error:
                continue
    return b"".join(pieces)


def artifact_facts(artifact: Mapping[str, Any]) -> ArtifactFacts:
    """What an artifact, or a piece of one, says about itself."""
    cut = _mapping(_mapping(artifact.get("metadata")).get(ARTIFACT_CUT))
    dropped, at = cut.get("bytes"), cut.get("at")
    return ArtifactFacts(
        str(artifact.get("artifactId", "")),
        int(dropped) if isinstance(dropped, int | float) else 0,
        int(at) if isinstance(at, int | float) else 0,
    )


def _choices(schema: Mapping[str, Any]) -> tuple[tuple[Choice, ...], str | None]:
    """The texts that surely answer, from the `const`s beside the free string; and the one that is marked as default."""
    text = _mapping(_mapping(schema.get("properties")).get("text"))
    named = [branch for branch in _objects(text.get("anyOf")) if isinstance(branch.get("const"), str)]
    titles = [str(branch.get("title", branch["const"])) for branch in named]
    marked = next((branch["const"] for branch, title in zip(named, titles, strict=True) if title.endswith(_DEFAULT_MARK)), None)
    choices = tuple(
        Choice(branch["const"], title.removesuffix(_DEFAULT_MARK)) for branch, title in zip(named, titles, strict=True)
    )
    return choices, marked


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: object) -> Sequence[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def _moment(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return parse_rfc3339(value)
    except ValueError:
        return None
