"""What may a caller ask of this cockpit, and how do questions get to it and its answers back?

A caller's task is a mission of ours. Where its question finds no answer here (no context, no rule), it is asked of the caller
in our own words, under an id, a schema and an earlier end of its own, at most `ASKINGS_MAX` times; people here may answer it
all the same, and who is first counts. The caller's answer is translated and goes the way of every answer: checked, on record,
delivered once. Everything stands in the cockpit's file; the next start goes on with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import attrs
import trio

from sandboxd import logs
from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_RESPONSE_FOR, RELAY
from sandboxd.a2a.links import Links, read_links
from sandboxd.a2a.model import SendRequest
from sandboxd.approvals.routing import Principal
from sandboxd.cockpit import rows as question_rows
from sandboxd.cockpit.audit import Entry
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.missions import rows as mission_rows
from sandboxd.cockpit.missions.mission import Order
from sandboxd.cockpit.missions.rows import Kept
from sandboxd.cockpit.record import Heard, Record
from sandboxd.cockpit.relay import rows
from sandboxd.cockpit.relay.config import Caller, RelayConfig
from sandboxd.cockpit.relay.restate import Restated, restate
from sandboxd.cockpit.relay.rows import RelayQuestion, RelayTask
from sandboxd.errors import (
    AnswerInvalid,
    Forbidden,
    InvalidParams,
    Problem,
    PromptNotOpen,
    TaskNotCancelable,
    TaskNotFound,
    TooBusy,
    UnsupportedOperation,
)
from sandboxd.hitl.envelope import parse_response
from sandboxd.policy.adapter import parse_adapter_command
from sandboxd.values import frozen

CHANNEL: Final = "relay"
ASKINGS_MAX: Final = 3  # of one question: then no valid answer is to be had, and the task fails
MISFITS_MAX: Final = 5  # of one asking
VIA_MAX: Final = 8  # cockpits, one behind the other
SHARE: Final = 0.25  # of the time left, and at most `EARLIER`: how much sooner than ours the caller's question ends
EARLIER: Final = timedelta(seconds=30)
LEAST: Final = timedelta(seconds=1)
LISTED_MAX: Final = 200
LOOK_S: Final = 30.0
_NO_ANSWER: Final = "the caller gave no valid answer"

_log = logs.logger(__name__)


class _Known(Exception):  # a message that was taken before
    def __init__(self, task_id: str) -> None:
        super().__init__(task_id)
        self.task_id = task_id


@frozen
class Story:
    """A caller's task as it stands at one moment; `asks`: the question that is open."""

    task: RelayTask
    kept: Kept
    questions: Sequence[RelayQuestion]

    @property
    def asks(self) -> RelayQuestion | None:
        """The question that the caller may answer."""
        return next((one for one in self.questions if one.state == "open"), None)

    @property
    def is_final(self) -> bool:
        """Whether nothing changes it any more."""
        return self.task.gave_up_at is not None or self.kept.mission.standing.is_final


class Relay:
    """One cockpit's; `own_id` is what it is called in the lists of cockpits that a task came through."""

    def __init__(self, controller: Controller, config: RelayConfig, own_id: str, clock: Callable[[], datetime]) -> None:
        self.config = config
        self._controller = controller
        self._own_id = own_id
        self._clock = clock
        self.records = controller.records

    async def run(self) -> None:
        """Pass questions on, and take back those that are over, for ever."""
        while True:
            since = self.records.changes
            ends_at = await self._look()
            left = LOOK_S if ends_at is None else min((ends_at - self._clock()).total_seconds(), LOOK_S)
            with trio.move_on_after(max(left, 0.01)):
                await self.records.wait_changed(since)

    # ── what callers ask ──

    async def send(self, caller: Caller, request: SendRequest, *, trace: str | None = None) -> Story:
        """A new task, or an answer; a message that was taken before begins nothing new. `trace`: the request's own, of W3C."""
        message = request.message
        if HITL_RESPONSE_FOR in (message.metadata or {}):
            return await self._answer(caller, request)
        if message.task_id is not None:
            story = await self.story(caller, message.task_id)
            raise UnsupportedOperation(f"cannot take the message: task `{story.task.task_id}` takes answers alone")
        order = self._order(caller, request, trace)
        context_id, task_id = message.context_id or str(uuid.uuid4()), str(uuid.uuid4())

        def beside(connection: Any, kept: Kept, now: datetime) -> None:
            if (known := rows.find_message(connection, caller.name, message.message_id)) is not None:
                raise _Known(known.task_id)
            mission_id = kept.mission.mission_id
            task = RelayTask(0, task_id, caller.name, context_id, message.message_id, mission_id, now)
            rows.insert_task(connection, task)

        try:
            await self._controller.missions.start(order, caller.principal, CHANNEL, beside)
        except _Known as known:
            return await self.story(caller, known.task_id)
        return await self.story(caller, task_id)

    async def story(self, caller: Caller, task_id: str) -> Story:
        """The caller's task as it stands; `TaskNotFound`."""

        def work(connection: Any) -> Story | None:
            task = rows.find_task(connection, caller.name, task_id)
            return None if task is None else _story(connection, task)

        found = await self.records.read(work)
        if found is None:
            raise TaskNotFound(f"cannot find task `{task_id[:64]}`: there is none of that id")
        return found

    async def stories(self, caller: Caller) -> Sequence[Story]:
        """The caller's tasks, the newest first."""
        return await self.records.read(
            lambda connection: [_story(connection, task) for task in rows.tasks_of(connection, caller.name, LISTED_MAX)]
        )

    async def cancel(self, caller: Caller, task_id: str, reason: str) -> Story:
        """End the task and what is done for it."""
        story = await self.story(caller, task_id)
        if story.is_final:
            raise TaskNotCancelable(f"cannot cancel task `{task_id}`: it has ended already")
        await self._controller.missions.cancel(story.kept, caller.principal, CHANNEL, reason)
        return await self.story(caller, task_id)

    async def results(self, caller: Caller, story: Story) -> Sequence[Mapping[str, Any]]:
        """The texts that the task left, and nothing else of whoever did it."""
        if not caller.gets_results:
            return ()
        return (await self._controller.missions.result(story.kept)).artifacts

    def _order(self, caller: Caller, request: SendRequest, trace: str | None) -> Order:
        message = request.message
        metadata = message.metadata or {}
        via = _via(metadata.get(RELAY))
        if self._own_id in via or len(via) >= VIA_MAX:
            why = "it came through this cockpit already" if self._own_id in via else f"it came through {len(via)} cockpits"
            raise Forbidden(f"cannot take the task: {why}")
        if ADAPTER_COMMAND not in metadata:
            raise InvalidParams(
                "cannot take the task: it names no command",
                problems=[Problem(f"message.metadata.{ADAPTER_COMMAND}", "is missing")],
            )
        command = parse_adapter_command(metadata[ADAPTER_COMMAND], hitl_active=True)
        text = "\n".join(str(part.value) for part in message.parts if part.kind == "text")
        return Order(
            host=caller.host,
            adapter=command.adapter,
            mode=command.mode,
            command=command.command,
            text=text,
            working_dir=command.working_dir,
            timeout_s=command.timeout_s,
            text_line=command.text_line,
            via=(*via, self._own_id),
            links=_links(read_links([metadata]), trace),
        )

    # ── answers ──

    async def _answer(self, caller: Caller, request: SendRequest) -> Story:
        message = request.message
        response = parse_response((message.metadata or {})[HITL_RESPONSE_FOR], message.task_id)
        question, record = await self._open_question(caller, request, response.prompt_id)
        try:
            payload = question.restated.translate(response.payload)
        except AnswerInvalid:
            await self._count_misfit(caller, question, record)
            raise
        begun = await self.records.write(
            lambda connection, _: rows.begin_answer(connection, question.number, message.message_id)
        )
        if not begun:
            await self._note_late(caller, question, record)
            raise _not_open(question)
        heard = await self._controller.answer(record, caller.principal, CHANNEL, payload)
        outcome = heard.decided.marks[-1].outcome
        if outcome in ("decided", "counted"):
            await self.records.write(lambda connection, _: rows.end_answer(connection, question.number, "answered"))
            return await self.story(caller, str(message.task_id))
        if outcome in ("invalid", "unjudged"):
            await self.records.write(lambda connection, _: rows.end_answer(connection, question.number, "open"))
            raise _misfit(heard)
        await self.records.write(lambda connection, _: rows.end_answer(connection, question.number, "closed"))
        raise _not_open(attrs.evolve(question, message_id=None))

    async def _open_question(self, caller: Caller, request: SendRequest, prompt_id: str) -> tuple[RelayQuestion, Record]:
        """The open question that the answer is for, and what it stands for; whatever is wrong with that is one 409."""
        message = request.message
        unknown = PromptNotOpen("cannot take the answer: no such question is open", facts={"prompt_id": prompt_id})
        try:
            story: Story | None = await self.story(caller, str(message.task_id))
        except TaskNotFound:
            story = None
        found = next((one for one in story.questions if one.prompt_id == prompt_id), None) if story else None
        if story is None or found is None or message.context_id not in (None, story.task.context_id):
            who = (caller.principal.name, CHANNEL)
            links = story.kept.mission.links if story else Links(sandbox=caller.host)
            entry = Entry(self._clock(), caller.host, None, str(message.task_id), "", "voted", "unknown", *who, links=links)
            await self.records.write(lambda connection, _: rows.note_stray(connection, entry, prompt_id))
            raise unknown
        number = found.record
        record = await self.records.read(lambda connection: question_rows.by_number(connection, number))
        if found.state != "open" or self._clock() >= found.ends_at:
            await self._note_late(caller, found, record)
            raise _not_open(found)
        return found, record

    async def _note_late(self, caller: Caller, question: RelayQuestion, record: Record) -> None:
        why = f"as {question.prompt_id}, which is no longer open"
        await self._note(record, "voted", "closed", caller.principal, why)

    async def _note(self, record: Record, event: str, outcome: str, principal: Principal | None, why: str) -> None:
        def work(connection: Any, now: datetime) -> None:
            question_rows.note(
                connection, record, event=event, outcome=outcome, principal=principal, channel=CHANNEL, now=now, why=why
            )

        await self.records.write(work)

    async def _count_misfit(self, caller: Caller, question: RelayQuestion, record: Record) -> None:
        await self.records.write(lambda connection, _: rows.end_answer(connection, question.number, "open"))
        why = f"as {question.prompt_id}: it does not fit the words in which that was asked"
        await self._note(record, "voted", "invalid", caller.principal, why)
        if question.misfits + 1 >= MISFITS_MAX:
            await self._give_up(question, f"{MISFITS_MAX} answers to one question did not fit")

    # ── what has to be done ──

    async def _look(self) -> datetime | None:
        """Pass on what is to be passed on; when the next question ends."""
        ends: list[datetime] = []
        untold = {record.number for record in await self.records.untold()}
        for task in await self.records.read(rows.going_on):
            story, records = await self.records.read(partial(_with_records, task=task))
            asks = await self._retire(story, records)
            if asks is None:
                asks = await self._pass_on(story, [one for one in records if one.number not in untold])
            if asks is not None:
                ends.append(asks.ends_at)
        return min(ends, default=None)

    async def _retire(self, story: Story, records: Sequence[Record]) -> RelayQuestion | None:
        """Take back the open question where ours is no longer open, or its time is over; what stays open."""
        asks = story.asks
        if asks is None:
            return None
        record = next((one for one in records if one.number == asks.record), None)
        if record is not None and record.approval.phase == "open" and self._clock() < asks.ends_at:
            return asks
        number, is_ours = asks.number, asks.message_id is not None and await self._was_taken(asks, story.task.caller)
        await self.records.write(lambda connection, _: rows.close(connection, number, "answered" if is_ours else "closed"))
        return None

    async def _was_taken(self, question: RelayQuestion, caller: str) -> bool:
        """Whether the caller's answer, which was begun before a kill, is on record."""
        record = await self.records.read(lambda connection: question_rows.by_number(connection, question.record))
        return any(f"caller:{caller}" in verdict.persons for verdict in record.approval.verdicts)

    async def _pass_on(self, story: Story, records: Sequence[Record]) -> RelayQuestion | None:
        caller = next((one for one in self.config.callers if one.name == story.task.caller), None)
        record = next((one for one in records if one.approval.phase == "open"), None)
        if caller is None or record is None or not record.approval.is_eligible(caller.principal):
            return None
        if any(vote.principal.person == caller.principal.person for vote in record.approval.votes):
            return None  # it has said what it has to say; others must agree
        words = restate(self.config.wordings, record.place.host, record.envelope)
        asked = [one for one in story.questions if one.record == record.number]
        if words is None or any(one.state == "closed" for one in asked):
            return None  # it stays with the people of this cockpit
        if len(asked) >= ASKINGS_MAX:
            await self._give_up(asked[-1], f"one question was asked {ASKINGS_MAX} times, and no answer was good")
            return None
        return await self._ask(story.task, record, words)

    async def _ask(self, task: RelayTask, record: Record, words: Restated) -> RelayQuestion | None:
        now, closes_at = self._clock(), record.approval.closes_at
        left = closes_at - now
        if left <= LEAST:
            return None
        question = RelayQuestion(
            number=0,
            prompt_id=str(uuid.uuid4()),
            task=task.number,
            record=record.number,
            restated=words,
            at=now,
            ends_at=closes_at - min(left * SHARE, EARLIER),
            state="open",
        )

        def work(connection: Any, at: datetime) -> None:
            rows.insert_question(connection, question)
            why = f"asked of caller:{task.caller}, task {task.task_id}, as {question.prompt_id}"
            question_rows.note(
                connection, record, event="told", outcome="asked", principal=None, channel=CHANNEL, now=at, why=why
            )

        await self.records.write(work)
        return question

    async def _give_up(self, question: RelayQuestion, why: str) -> None:
        """No valid answer is to be had: the task ends, and says so."""

        def work(connection: Any, now: datetime) -> Kept:
            rows.close(connection, question.number, "closed")
            rows.give_up(connection, question.task, now)
            (mission_id,) = connection.execute(
                "SELECT mission_id FROM relay_tasks WHERE number = ?", (question.task,)
            ).fetchone()
            (kept,) = mission_rows.find(connection, mission_id, 1)
            return kept

        kept = await self.records.write(work)
        _log.warning("Cannot get an answer from a caller", mission=kept.mission.mission_id, why=why)
        mission = kept.mission
        await self._controller.missions.cancel(kept, mission.principal, CHANNEL, f"{_NO_ANSWER}: {why}")


def _story(connection: Any, task: RelayTask) -> Story:
    (kept,) = mission_rows.find(connection, task.mission_id, 1)
    return Story(task, kept, rows.questions_of(connection, task.number))


def _with_records(connection: Any, task: RelayTask) -> tuple[Story, Sequence[Record]]:
    story = _story(connection, task)
    mission = story.kept.mission
    if mission.task_id is None:
        return story, ()
    return story, question_rows.of_task(connection, mission.order.host, mission.task_id)


def _links(said: Links, trace: str | None) -> Links:
    """What a caller's task belongs to. Its mission is not ours, which is done for it."""
    return attrs.evolve(said, mission=None, sandbox=None, parent=said.mission or said.parent, trace=said.trace or trace)


def _via(value: Any) -> tuple[str, ...]:
    listed = value.get("via") if isinstance(value, Mapping) else () if value is None else None
    if not isinstance(listed, list | tuple) or not all(isinstance(one, str) and len(one) <= 64 for one in listed):
        at = Problem(f"message.metadata.{RELAY}", "must be an object with the list `via` of short texts")
        raise InvalidParams("cannot take the task: it does not say through whom it came", problems=[at])
    return tuple(listed)


def _not_open(question: RelayQuestion) -> PromptNotOpen:
    facts = {"prompt_id": question.prompt_id}
    if question.state == "answered" and question.message_id is not None:
        facts["accepted_message_id"] = question.message_id
    return PromptNotOpen("cannot take the answer: the question is no longer open", facts=facts)


def _misfit(heard: Heard) -> AnswerInvalid | TooBusy:
    """What does not fit the asker's schema, told in terms of ours: only that it does not."""
    if heard.decided.marks[-1].outcome == "unjudged":
        return TooBusy("cannot say whether the answer fits: try again")
    return AnswerInvalid(
        "cannot take the answer: it does not fit", problems=[Problem("/answer", "is not what is asked for", "pattern")]
    )
