"""What becomes of a task where scripts are played instead of commands?

The public kit (a2aproject/a2a-tck) tells an agent what to do by the beginning of a message's id. A daemon in the kit's profile
does exactly that and starts no process: the events are real, and go through recorder, store and feed like any run's.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

import trio

from sandboxd.a2a.model import Message
from sandboxd.errors import Problem
from sandboxd.hitl.answer import AnswerForm, response_schema
from sandboxd.hitl.envelope import PromptEnvelope
from sandboxd.live.clock import Clock
from sandboxd.live.recorder import Recorder, Ticket
from sandboxd.live.verdict import Ending
from sandboxd.store.base import PushEntry
from sandboxd.tasks.events import Answered, Asked, FailKind, Finished, Rejected, Started, Wrote
from sandboxd.values import frozen

LIFE_MAX_S: Final = 300.0  # the kit leaves tasks behind that wait for input
LONG_S: Final = 5.0  # twice the 0.3 kit's streaming timeout, and some more


@frozen
class Show:
    """Bring out an artifact, piece by piece; its id says how it looks (`tasks.output`)."""

    artifact_id: str
    pieces: tuple[bytes, ...]


@frozen
class Hold:
    """Work for a while."""

    seconds: float


@frozen
class Ask:
    """Wait for the client's next message."""


@frozen
class Reject:
    """Refuse the task."""


Step = Show | Hold | Ask | Reject
Script = tuple[Step, ...]

_SAYS: Final = "Hello from TCK"
_BY_PREFIX: Final[Mapping[str, Script]] = {
    "tck-complete-task": (),
    "tck-artifact-text": (Show("text", (b"Generated text content",)),),
    "tck-artifact-file": (Show("file:output.txt", (b"Generated file content",)),),
    "tck-artifact-file-url": (Show("link:output.txt", (b"https://example.com/output.txt",)),),
    "tck-artifact-data": (Show("data:result", (b'{"key":"value","count":42}',)),),
    "tck-input-required": (Ask(),),
    "tck-reject-task": (Reject(),),
    "tck-stream-001": (Show("text", (b"Stream hello from TCK",)),),
    "tck-stream-003": (Show("text", (b"Stream task lifecycle",)),),
    "tck-stream-ordering-001": (Show("text", (b"Ordered output",)),),
    "tck-stream-artifact-text": (Show("text", (b"Streamed text content",)),),
    "tck-stream-artifact-file": (Show("file:output.txt", (b"Streamed file content",)),),
    "tck-stream-artifact-chunked": (Show("text", (b"chunk-1 ", b"chunk-2")),),
    "test-resubscribe-message-id": (Hold(LONG_S),),
}
_MESSAGES: Final[Mapping[str, str]] = {"tck-message-response": "Direct message response"}


def script_for(message_id: str) -> Script:
    """What a task that begins with this message does; an id that no script is for completes at once."""
    for prefix in sorted(_BY_PREFIX, key=len, reverse=True):
        if message_id.startswith(prefix):
            return _BY_PREFIX[prefix]
    is_of_03 = message_id.startswith("test-") or "-message-id-" in message_id  # that kit wants to go on with its tasks
    return (Ask(),) if is_of_03 else ()


def message_for(message_id: str) -> str | None:
    """The text of the bare message that answers this one; None: it is answered with a task."""
    return next((text for prefix, text in _MESSAGES.items() if message_id.startswith(prefix)), None)


class ScriptRun:
    """A task that plays a script; others call its `…_nowait` functions, as of any run."""

    def __init__(self, recorder: Recorder, clock: Clock, script: Script) -> None:
        self._recorder = recorder
        self._clock = clock
        self._script = script
        self._prompt_id: str | None = None
        self._ending: Ending | None = None
        self._playing = trio.CancelScope()
        self._followed = trio.Event()

    async def live(self) -> None:
        """Play to the end, and return once that is on disk."""
        async with trio.open_nursery() as nursery:  # the writer ends after the terminal event
            if self._script and isinstance(self._script[0], Reject):
                reasons = (Problem("message", "the kit asked for a refusal"),)
                self._recorder.record(Rejected(self._clock.now(), _new_id(), reasons))
                nursery.start_soon(self._recorder.write)
                return
            self._recorder.record(Started(self._clock.now(), {"script": True}))
            nursery.start_soon(self._recorder.write)
            self._playing.deadline = trio.current_time() + LIFE_MAX_S
            with self._playing:
                await self._play(self._script)
            self._finish()

    def follow_up_nowait(self, message: Message, principal: str, push: PushEntry | None = None) -> Ticket | None:
        """Take the client's next message: another question, or the end; None when nothing is asked. `push` came with it."""
        if self._prompt_id is None or self._ending is not None:
            return None
        ticket = self._recorder.record(Answered(self._clock.now(), self._prompt_id, message, principal), push=push)
        self._prompt_id = None
        self._script = script_for(message.message_id)
        self._followed.set()
        return ticket

    def end_nowait(self, ending: Ending) -> None:
        """Ask for the end; the first one to ask gives the reason."""
        if self._ending is None:
            self._ending = ending
            self._playing.cancel()

    async def _play(self, script: Script) -> None:
        while script:
            step, script = script[0], script[1:]
            match step:
                case Show(artifact_id, pieces):
                    self._show(artifact_id, pieces)
                case Hold(seconds):
                    await trio.sleep(seconds)
                case Ask():
                    self._ask()
                    await self._followed.wait()
                    script = self._script

    def _show(self, artifact_id: str, pieces: tuple[bytes, ...]) -> None:
        offset = 0
        for index, piece in enumerate(pieces):
            is_last = index == len(pieces) - 1
            event = Wrote(self._clock.now(), artifact_id, offset, len(piece), first=index == 0, last=is_last)
            self._recorder.record(event, piece)
            offset += len(piece)

    def _ask(self) -> None:
        self._followed = trio.Event()
        self._prompt_id = _new_id()
        envelope = PromptEnvelope(self._prompt_id, "What next?", response_schema(AnswerForm()), None)
        self._recorder.record(Asked(self._clock.now(), _new_id(), envelope, (), {"kind": "text"}))

    def _finish(self) -> None:
        now = self._clock.now()
        if self._ending is None and not self._playing.cancelled_caught:
            self._recorder.record(Finished(now, _new_id(), "script", None, _SAYS))
            return
        ending = self._ending or Ending("timeout")
        kind: FailKind | None = None if ending.reason == "canceled" else "infrastructure"
        said = "Canceled." if ending.reason == "canceled" else f"The script ended: {ending.reason}."
        self._recorder.record(Finished(now, _new_id(), ending.reason, kind, said, detail=ending.detail))


def _new_id() -> str:
    return str(uuid.uuid4())
