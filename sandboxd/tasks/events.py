"""What can happen to a task?

Each event is one update that A2A clients see, and gets the next sequence number of its task when it is appended: 1, 2, 3 …
without a gap. Ids and times are passed in by `live/`. Bytes of output are not in the event: `Wrote` names a piece of an
artifact's kept bytes, and the store has the bytes beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import attrs

from sandboxd.a2a.model import Message
from sandboxd.errors import Problem
from sandboxd.hitl.envelope import PromptEnvelope
from sandboxd.values import frozen

FailKind = Literal["application", "infrastructure"]

# Why a task ended, machine-readable and stable. `exit` with code 0 completed; all others are told apart by name.
Reason = Literal[
    "exit",  # the program ended by itself
    "signal",  # somebody else's signal ended it
    "oom",  # the kernel ended it, for want of memory: its own limit's or the host's
    "timeout",  # the command's own limit passed
    "canceled",  # a client asked for the end
    "prompt-expired",  # nobody answered in time, and the policy says that this fails the task
    "spawn-failed",  # the program could not be started
    "secret-asked",  # it asked for a secret, and the policy says that this fails the task
    "tmp-limit",  # it had more temporary files than its policy allows
    "event-limit",  # more happened than the log of one task holds
    "prompt-limit",  # it asked more questions than the policy allows
    "no-valid-answer",  # more answers to one prompt did not fit than the policy allows
    "daemon-stopped",  # the daemon was told to stop
    "daemon-died",  # the daemon died under the task; found at the next start
    "spawner-died",  # the process that starts runs died, and every run with it
    "internal",  # a fault of ours; the log has it
    "echo",  # no envelope: the text was echoed, nothing ran
    "script",  # the public kit's profile: a script ended, nothing ran
]

# What else a client should know of a run that goes on, machine-readable and stable.
Notice = Literal[
    "waiting-undetected",  # a process waits for input, and nothing on the terminal is a question that we know
    "waiting-menu",  # a process waits for keys, which no line of text can answer
    "secret-withheld",  # the program asks for a secret, and the policy does not let it be relayed
    "answer-consumed",  # the program has read the answer
    "answer-unfinished",  # the answer's text was typed and its Enter was not: the program had gone on, or ended
    "answer-discarded",  # the program threw away what had been typed; its question is raised anew
]

# Why a prompt is no longer open without an answer.
Closure = Literal["withdrawn", "expired"]


@frozen
class Submitted:
    """A client created the task. `message` is what it sent, as it stands in the history."""

    at: datetime
    message: Message


@frozen
class Started:
    """The command runs. `facts` (policy, its digest, isolation, limits, program) become task metadata."""

    at: datetime
    facts: Mapping[str, Any]


@frozen
class Wrote:
    """Output was kept: `size` bytes from `offset` of the artifact's kept bytes.

    `artifact_id` is `terminal`, `stdout`, `stderr` or `echo`. `first`: this opens the artifact; `last`: nothing follows.
    `cut` is the number of bytes dropped just before this piece (the kept head ends, the kept tail begins).
    """

    at: datetime
    artifact_id: str
    offset: int
    size: int
    first: bool
    last: bool
    cut: int = 0


@frozen
class Asked:
    """The program asks, and a live binding is open.

    `options` are the short answers, `facts` (kind, default, rule, evidence) travel under our own metadata key. `reissues`: the
    prompt whose question this asks again, for the same wait and at the wish of `by`; that one takes no answer any more.
    """

    at: datetime
    message_id: str
    envelope: PromptEnvelope
    options: tuple[str, ...]
    facts: Mapping[str, Any]
    reissues: str | None = None
    by: str | None = None


@frozen
class Answered:
    """An answer was accepted: claimed and typed. `message` is the client's, for the history; a secret is not in it.

    `enter`: the end of the line that was typed with it (`LF`, `CR`, `none`).
    """

    at: datetime
    prompt_id: str
    message: Message
    principal: str
    enter: str = "LF"


@frozen
class Closed:
    """A prompt closed without an answer, and the task goes on. After `expired` it still waits for input."""

    at: datetime
    message_id: str
    prompt_id: str
    closure: Closure
    summary: str


@frozen
class Noticed:
    """Something about a run that goes on, and that changes no state. `line` is the live line, as plain text."""

    at: datetime
    message_id: str
    what: Notice
    line: str
    summary: str
    facts: Mapping[str, Any] = attrs.field(factory=dict)


@frozen
class Finished:
    """The end: completed, failed or canceled, and why. `detail` holds further facts, such as who canceled and their reason."""

    at: datetime
    message_id: str
    reason: Reason
    fail_kind: FailKind | None
    summary: str
    exit_code: int | None = None
    signal: str | None = None
    detail: Mapping[str, Any] = attrs.field(factory=dict)


@frozen
class Rejected:
    """Policy or file system said no: nothing ran. Every reason is on record."""

    at: datetime
    message_id: str
    reasons: tuple[Problem, ...]


Event = Submitted | Started | Wrote | Asked | Answered | Closed | Noticed | Finished | Rejected
