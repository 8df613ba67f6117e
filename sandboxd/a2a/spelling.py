"""What do all codecs write alike, and by what do they differ?

A task, its status, a message and an artifact have the same members in every version and manner; what differs are the names of
states and roles, how a part is spelled, and a few members that only one has. Each codec is a `Spelling`, and writes the frames
around these itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sandboxd.a2a.model import Artifact, Message, Part, Role, Task, TaskState, TaskStatus
from sandboxd.a2a.wire import rfc3339
from sandboxd.values import frozen

Json = dict[str, Any]


@frozen
class Spelling:
    """`parts`: what a message's parts are called. `is_tagged`: a `kind` says what an object is.

    `has_references`: messages have room for references to other tasks. `shows_empty`: a task's lists are written when they are
    empty, absent only where they were not asked for. `beside_the_state`: what of an outcome stands there.
    """

    states: Mapping[TaskState, str]
    roles: Mapping[Role, str]
    part: Callable[[Part], Json]
    parts: str = "parts"
    is_tagged: bool = False
    has_references: bool = True
    shows_empty: bool = True
    beside_the_state: tuple[str, ...] = ()

    def task(self, task: Task) -> Json:
        """A Task (A2A 1.0 §4.1.1)."""
        spelled = {"id": task.id, **self._tag("task"), "contextId": task.context_id, "status": self.status(task.status)}
        if task.artifacts is not None and (task.artifacts or self.shows_empty):
            spelled["artifacts"] = [self.artifact(artifact) for artifact in task.artifacts]
        if task.history is not None and (task.history or self.shows_empty):
            spelled["history"] = [self.message(message) for message in task.history]
        return said(spelled, metadata=free(task.metadata))

    def status(self, status: TaskStatus) -> Json:
        """A TaskStatus (§4.1.2)."""
        spelled: Json = {"state": self.states[status.state], "timestamp": rfc3339(status.timestamp)}
        outcome = status.outcome or {}
        spelled |= {name: outcome[name] for name in self.beside_the_state if outcome.get(name) is not None}
        return said(spelled, message=self.message(status.message) if status.message else None)

    def message(self, message: Message) -> Json:
        """A Message (§4.1.4)."""
        spelled = {**self._tag("message"), "messageId": message.message_id, "role": self.roles[message.role]}
        spelled = said(spelled, taskId=message.task_id, contextId=message.context_id)
        spelled = said(spelled, **{self.parts: [self.part(part) for part in message.parts]})
        references = list(message.reference_task_ids) if self.has_references else []
        return said(spelled, metadata=free(message.metadata), extensions=list(message.extensions), referenceTaskIds=references)

    def artifact(self, artifact: Artifact) -> Json:
        """An Artifact (§4.1.7)."""
        return said(
            {"artifactId": artifact.artifact_id},
            name=artifact.name,
            description=artifact.description,
            parts=[self.part(part) for part in artifact.parts],
            metadata=free(artifact.metadata),
            extensions=list(artifact.extensions),
        )

    def _tag(self, kind: str) -> Json:
        return {"kind": kind} if self.is_tagged else {}


def said(spelled: Json, **optional: Any) -> Json:
    """`spelled`, and of `optional` what says anything (proto3: a default value is left out)."""
    return spelled | {name: value for name, value in optional.items() if value}


def free(metadata: Mapping[str, Any] | None) -> Json | None:
    """Somebody else's object, as it is."""
    return dict(metadata) if metadata else None


def is_final(status: TaskStatus) -> bool:
    """Whether 0.3's stream ends its turn there."""
    return status.state.is_terminal or status.state.is_interrupted
