"""What is a task, a message, an artifact, whatever the version on the wire?

One neutral model: the doors decode into it and encode out of it (`v10`, `v03`), the rooms above speak only this.
A2A 1.0 §4.1; the wire's spellings (`TASK_STATE_…`, `kind`) live in the codecs alone. All times are aware UTC datetimes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import attrs

from sandboxd.values import frozen


class TaskState(enum.Enum):
    """A2A 1.0 §4.1.3; the value is the 0.3 spelling."""

    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input-required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"
    AUTH_REQUIRED = "auth-required"  # a client may filter for it; no task of ours enters it

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can follow this state."""
        return self in _TERMINAL

    @property
    def is_interrupted(self) -> bool:
        """Whether the task waits for its client."""
        return self in (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)


_TERMINAL = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED})

Metadata = Mapping[str, Any]
PartKind = Literal["text", "raw", "url", "data"]
Role = Literal["user", "agent"]


@frozen
class Part:
    """One piece of content: `value` is str for text and url, bytes for raw, any JSON value for data (A2A 1.0 §4.1.6)."""

    kind: PartKind
    value: Any
    filename: str | None = None
    media_type: str | None = None
    metadata: Metadata | None = None


@frozen
class Message:
    """A2A 1.0 §4.1.4."""

    message_id: str
    role: Role
    parts: tuple[Part, ...]
    context_id: str | None = None
    task_id: str | None = None
    metadata: Metadata | None = None
    extensions: tuple[str, ...] = ()
    reference_task_ids: tuple[str, ...] = ()


@frozen
class Artifact:
    """A2A 1.0 §4.1.7."""

    artifact_id: str
    parts: tuple[Part, ...]
    name: str | None = None
    description: str | None = None
    metadata: Metadata | None = None
    extensions: tuple[str, ...] = ()


@frozen
class TaskStatus:
    """A2A 1.0 §4.1.2.

    `outcome` has, at a terminal state, `reason`, `fail_kind`, `exit_code`, `signal`, `summary` where they apply. The 0.3
    codec spells them beside the state; in 1.0 they stand in the status message's metadata under `urn:sandboxd:outcome:v1`.
    """

    state: TaskState
    timestamp: datetime
    message: Message | None = None
    outcome: Mapping[str, Any] | None = None


@frozen
class Task:
    """A2A 1.0 §4.1.1. `artifacts`/`history` None: not asked for, so absent on the wire."""

    id: str
    context_id: str
    status: TaskStatus
    artifacts: tuple[Artifact, ...] | None = None
    history: tuple[Message, ...] | None = None
    metadata: Metadata | None = None


@frozen
class StatusUpdate:
    """A2A 1.0 §4.2.1."""

    task_id: str
    context_id: str
    status: TaskStatus
    metadata: Metadata | None = None


@frozen
class ArtifactUpdate:
    """A2A 1.0 §4.2.2: `append` continues an artifact that was sent before."""

    task_id: str
    context_id: str
    artifact: Artifact
    append: bool = False
    last_chunk: bool = False
    metadata: Metadata | None = None


Reply = Task | Message  # what a send is answered with; no command of ours is answered with a bare message
TaskNews = Task | StatusUpdate | ArtifactUpdate
StreamItem = TaskNews | Message


PushNews = Literal["status", "artifact"]
PushStyle = Literal["1.0", "0.3", "dialect"]  # how notifications are spelled: as their config was


def _hidden(value: str | None) -> str:
    return "None" if value is None else "<secret>"


@frozen
class PushConfig:
    """Where a client wants to be told of a task's news, and how the notifier shows who it is (A2A 1.0 §4.3.1).

    `id` empty: none was given. `secret` keys a signature over each notification; `news` is what to tell of, empty: everything.
    """

    url: str
    id: str = ""
    token: str | None = attrs.field(default=None, repr=_hidden)
    scheme: str | None = None
    credentials: str | None = attrs.field(default=None, repr=_hidden)
    secret: str | None = attrs.field(default=None, repr=_hidden)
    news: frozenset[PushNews] = frozenset()
    style: PushStyle = "1.0"


@frozen
class PushRequest:
    """What one push notification operation is about; `config` when it is a new one. `config_id` None: none was named."""

    task_id: str
    config_id: str | None = None
    config: PushConfig | None = None


@frozen
class PushShown:
    """A config of a task as a caller may see it."""

    task_id: str
    config: PushConfig


@frozen
class SendRequest:
    """`SendMessage` and `SendStreamingMessage` (A2A 1.0 §3.2.1, §3.2.2).

    `history_length` None: all. `push`: the push notification config that came with the message.
    """

    message: Message
    return_immediately: bool = False
    history_length: int | None = None
    accepted_output_modes: tuple[str, ...] = ()
    push: PushConfig | None = None
    metadata: Metadata | None = None
    tenant: str | None = None


@frozen
class GetRequest:
    """`GetTask` (A2A 1.0 §3.1.3). `history_length` None: all."""

    task_id: str
    history_length: int | None = None


@frozen
class CancelRequest:
    """`CancelTask` (A2A 1.0 §3.1.5)."""

    task_id: str
    metadata: Metadata | None = None


@frozen
class ListRequest:
    """`ListTasks` (A2A 1.0 §3.1.4). `page_size` is 1..100; `since` is inclusive."""

    context_id: str | None = None
    state: TaskState | None = None
    page_size: int = 50
    page_token: str = ""
    history_length: int | None = None
    since: datetime | None = None
    include_artifacts: bool = False


@frozen
class TaskPage:
    """`ListTasksResponse`: `total_size` counts what the filters let through, before paging."""

    tasks: tuple[Task, ...]
    next_page_token: str
    page_size: int
    total_size: int
