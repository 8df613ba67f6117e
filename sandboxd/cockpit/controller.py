"""How does a question come to people, and their answer to the asker?

The controller owns the record and the calls. Channels bring an authenticated principal, its own name and a payload to `answer`,
and hear what came of it; none of them decides anything. Everything that is under way can be killed at any time: the record says
what is to be done, and `run` begins by finding out what became of what was being done.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs
import trio

from sandboxd import logs, metrics
from sandboxd.a2a.canonical import canonical
from sandboxd.a2a.extensions import REISSUE
from sandboxd.a2a.links import NO_LINKS, Links
from sandboxd.approvals.events import CancelAsked, Moved, Received, ResumeAsked, Settled, Voted
from sandboxd.approvals.record import Payload, Question, payload
from sandboxd.approvals.routing import Principal
from sandboxd.cockpit.agent import Agent
from sandboxd.cockpit.calls import call
from sandboxd.cockpit.context import CHANNEL, Known, resolve_context
from sandboxd.cockpit.intake import Asks, not_its_own, postponed, read_question
from sandboxd.cockpit.links import known_links
from sandboxd.cockpit.missions.desk import Missions
from sandboxd.cockpit.missions.mission import TRIES_MAX, Mission
from sandboxd.cockpit.push_source import PushSource
from sandboxd.cockpit.reading import Refused, Seen, Unreachable, Unread, Unreadable
from sandboxd.cockpit.receipts.desk import Receipts
from sandboxd.cockpit.record import Heard, Pending, Place, Record
from sandboxd.cockpit.records import Records
from sandboxd.cockpit.redact import redacted
from sandboxd.cockpit.room import ROOMY, Doorkeeper, Full, Room
from sandboxd.cockpit.rules import Resolved, RuleBook, resolve, terms_of
from sandboxd.cockpit.seats import Seats
from sandboxd.cockpit.sightings import Sightings
from sandboxd.cockpit.vault import Vault
from sandboxd.errors import Problem
from sandboxd.schemas.judge import Judge, Judged, Unjudged

CALLS_MAX: Final = 16  # to one host
FINDS_MAX: Final = 4  # questions of one host for which an answer is looked for
LOOK_S: Final = 30.0  # the wall clock is looked at this often at least: it can be set, and a machine suspended
_NOTHING: Final = Payload("", "", is_secret=True)
JUDGE_TRIES: Final = 6  # a worker has a quarter of a second, which a busy machine may give to somebody else
JUDGE_WAIT_S: Final = 0.1  # before the second try, then twice as long each time: some 3 s in all
_SELF: Final = Principal("cockpit:question-cap", "cockpit:question-cap", may_answer=False)

_log = logs.logger(__name__)


class CannotReissue(Exception):
    """A question is not asked again. `code`: not-allowed, open, answered, unsupported, gone (nobody waits at it), host."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"cannot ask it again: {why}")
        self.code = code


class Controller:
    """One cockpit's; `agents` are its hosts by their names."""

    def __init__(
        self,
        records: Records,
        agents: Mapping[str, Agent],
        judge: Judge,
        clock: Callable[[], datetime],
        *,
        rules: RuleBook,
        questions_max: int,
        room: Room = ROOMY,
        mission_tries: int = TRIES_MAX,
        pushes: PushSource | None = None,
    ) -> None:
        self.pushes = pushes
        self.records = records
        self.receipts = Receipts(records)
        self.missions = Missions(records, agents, clock, tries_max=mission_tries, has_begun=self._look_now)
        self._agents = agents
        self._judge = judge
        self.clock = clock
        self.rules = rules  # a reload changes them; a question keeps the terms by which it was first asked
        self._questions_max = questions_max
        self.room = room
        self._doorkeeper = Doorkeeper()
        self._vault = Vault()
        self._secrets = trio.Lock()  # a secret is in the vault and not yet in the record only while it is held
        self.sightings = Sightings(records, questions_max)
        self._looks: dict[Place, trio.Lock] = {}
        self._said: dict[Place, Links] = {}
        self._clashes: dict[int, set[str]] = {}  # by a question's number: other questions that came under its prompt id

    @property
    def hosts(self) -> Sequence[str]:
        """The names of its hosts, in the order of the config."""
        return list(self._agents)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Find out what was under way, then make calls and keep times, for ever. Nothing may be answered before it started."""
        await self.records.restart()
        await self.sightings.restart()
        async with trio.open_nursery() as nursery:  # its end is the controller's end
            nursery.start_soon(self._keep_times)
            nursery.start_soon(self._make_calls)
            nursery.start_soon(self._find_answers)
            await nursery.start(self.missions.run)
            task_status.started()

    # ── what channels bring ──

    def agent(self, host: str) -> Agent | None:
        """The client of that host; None: it is not configured."""
        return self._agents.get(host)

    async def answer(
        self, record: Record, principal: Principal, channel: str, value: Mapping[str, Any], *, note: str = ""
    ) -> Heard:
        """Somebody answers; the last mark says what came of it. `note`: for the audit alone."""
        approval = record.approval
        if not approval.is_eligible(principal):  # nobody ever becomes eligible, so what they say is not even looked at
            return await self.records.hear(
                record, Voted(principal, channel, _NOTHING, unjudged="it was not looked at", note=note)
            )
        match await self._judged(record, value):
            case Unjudged(why=why):
                return await self.records.hear(record, Voted(principal, channel, _NOTHING, unjudged=why, note=note))
            case Judged(problems=problems) if problems:
                kept = redacted(problems, record.envelope["response_schema"])
                shown = problems if approval.terms.payload_class == "public" else kept
                heard = await self.records.hear(record, Voted(principal, channel, _NOTHING, shown, note=note))
                return attrs.evolve(heard, problems=kept if approval.terms.payload_class == "secret" else problems)
        if approval.terms.payload_class != "secret":
            return await self.records.hear(record, Voted(principal, channel, payload(value), note=note))
        async with self._secrets:
            said = self._vault.keep(record.number, value)
            heard = await self.records.hear(record, Voted(principal, channel, said, note=note))
            after = heard.record.approval
            names = {vote.payload.body for vote in after.votes} | {verdict.payload.body for verdict in after.verdicts}
            self._vault.forget(record.number, but=names)
        return heard

    async def cancel(self, record: Record, principal: Principal, channel: str, reason: str) -> Heard:
        """Somebody wants the question, and the task that asks it, to end."""
        return await self.records.hear(record, CancelAsked(principal, channel, reason))

    async def resume(self, record: Record, principal: Principal, channel: str) -> Heard:
        """Somebody wants it to go on where it is held."""
        return await self.records.hear(record, ResumeAsked(principal, channel))

    async def settle(self, record: Record, principal: Principal, channel: str, reason: str) -> Heard:
        """Somebody takes it on themselves to close what cannot be found out."""
        return await self.records.hear(record, Settled(principal, channel, reason))

    async def reissue(self, record: Record, principal: Principal, channel: str) -> str:
        """Somebody wants a question asked again that is closed here, and at which its program waits still; the new prompt's id.

        `CannotReissue` says why not. It grants nothing: the new question is asked on the rules' terms, as any other.
        """
        try:
            asked_as = await self._reissue(record, principal)
        except CannotReissue as refused:
            await self.records.note(record, "reissueasked", refused.code, principal, channel)
            raise
        await self.records.note(record, "reissueasked", "reissued", principal, channel)
        return asked_as

    async def _reissue(self, record: Record, principal: Principal) -> str:
        approval, agent = record.approval, self._agents.get(record.place.host)
        if not principal.may_answer:
            raise CannotReissue("not-allowed", f"{principal.name} may not answer questions")
        if approval.phase != "closed":
            raise CannotReissue("open", "it is open here: answer it")
        if approval.status == "responded":
            raise CannotReissue("answered", "it was answered")
        if agent is None:
            raise CannotReissue("host", f"the host `{record.place.host}` is no longer configured")
        try:
            if await agent.declared(REISSUE) is None:
                raise CannotReissue("unsupported", "its host does not declare that it can ask a question again")
            return await agent.reissue(record.place.task_id, record.prompt_id)
        except Refused as refused:
            code = "gone" if refused.is_conflict or refused.is_unknown_task else "host"
            raise CannotReissue(code, f"{refused}: {refused.words}") from refused
        except (Unreachable, Unreadable) as error:
            raise CannotReissue("host", str(error)) from error

    # ── what hosts say ──

    async def saw(self, agent: Agent, seen: Seen) -> None:
        """A host shows a task, perhaps as it was some time ago: what would close a question is looked at anew first."""
        place = Place(agent.name, seen.task_id, seen.context_id)
        if seen.links != NO_LINKS:  # news of a stream says nothing of it
            self._said[place] = seen.links
        async with self._looks.setdefault(place, trio.Lock()):
            asked, waits = await self._take(agent, place, seen)
            others = [one for one in await self.records.of_task(agent.name, seen.task_id) if one.prompt_id != asked]
            if any(one.approval.phase != "delivering" for one in others):
                await self._look_anew(agent, place, others)
        await self.receipts.saw(agent.name, seen)
        await self.missions.saw(agent.name, seen, waits=waits)
        if seen.state.is_terminal:
            self._looks.pop(place, None)
            self._said.pop(place, None)
            self.sightings.forget(place)

    async def cannot_read(self, agent: Agent, unread: Sequence[Unread]) -> None:
        """A host shows tasks that cannot be read; what they asked stays as it is."""
        await self.sightings.unread(agent, unread, Links(provider=agent.provider, sandbox=agent.name))

    async def passed(self, agent: Agent, task_id: str) -> None:
        """A task is no longer there, and with it what could not be asked."""
        await self.sightings.take(agent, Place(agent.name, task_id, ""), None, Links(sandbox=agent.name))

    async def vanished(self, record: Record) -> None:
        """The host says that it does not know the task."""
        await self.records.hear(record, Moved("the host does not know the task any more"))

    async def _look_anew(self, agent: Agent, place: Place, others: list[Record]) -> None:
        try:
            now = await agent.get(place.task_id)
        except (Refused, Unreachable, Unreadable):
            return  # the next look will tell
        asked, _ = await self._take(agent, place, now)
        for record in others:
            if record.prompt_id != asked:
                why = f"the task is {now.state.value}" + (", and asks something else" if asked else "")
                heard = await self.records.hear(record, Moved(why, has_failed=now.state.value == "failed"))
                self._forget_closed(heard.record)

    async def _take(self, agent: Agent, place: Place, seen: Seen) -> tuple[str | None, str]:
        """Put on record what a task asks; the prompt's id, and why it is not asked yet, where it waits for room."""
        asks = read_question(seen)
        known = await self.records.find(place.host, asks.envelope.prompt_id) if isinstance(asks, Asks) else None
        if isinstance(asks, Asks) and known is not None and known.place.task_id != place.task_id:
            asks = not_its_own(asks, seen)
        if isinstance(asks, Asks):
            full = await self._receive(agent, place, asks, known)
            asked, other = asks.envelope.prompt_id, None if full is None else postponed(asks, self.room.why)
        else:
            full, asked, other = None, None, asks
        if self.sightings.is_news(place, other):
            if full is not None:
                self._doorkeeper.turned_away(place.host, full)
            await self.sightings.take(agent, place, other, self._links(place, await self._mission_of(place)))
        return asked, "" if full is None else self.room.why

    def _was_told(self, known: Record, digest: str) -> bool:
        """Whether people know that this prompt id came with that other question, or with too many others."""
        others = self._clashes.setdefault(known.number, set())
        if digest not in others and len(others) < self._questions_max:
            others.add(digest)
            return False
        approval = known.approval
        return approval.held or approval.closing is not None or approval.phase == "closed"

    async def _mission_of(self, place: Place) -> Mission | None:
        kept = await self.missions.of_place(place)
        return kept.mission if kept else None

    async def _receive(self, agent: Agent, place: Place, asks: Asks, known: Record | None) -> Full | None:
        envelope = asks.envelope
        if known is not None and (known.approval.question.digest == asks.digest or self._was_told(known, asks.digest)):
            return None
        if known is None and (full := await self.records.full(place, self.room)) is not None:
            return full  # nothing is written with each look while it waits
        mission = await self._mission_of(place)
        terms = terms_of(self.rules, place.host, envelope, mission.person if mission else None)
        question = Question(envelope.prompt_id, asks.digest, envelope.allowed_responders, envelope.deadline)
        event = Received(question, terms, secrets.token_hex(16))
        links = self._links(place, mission)
        heard = await self.records.receive(place, asks.raw, event, links, most=self._questions_max, room=self.room)
        if isinstance(heard, Full):
            return heard
        self._doorkeeper.let_in(place.host)
        if heard is None:
            await self.sightings.stop(agent, place)
        elif heard.asked > self._questions_max:
            metrics.BOUNDS.labels(bound="max_questions").inc()
            why = f"the task has asked more than {self._questions_max} questions"
            await self.records.hear(heard.record, CancelAsked(_SELF, "cockpit", why))
        return None

    def _links(self, place: Place, mission: Mission | None) -> Links:
        """What a task, and so its question, belongs to."""
        agent, said = self._agents.get(place.host), self._said.get(place, NO_LINKS)
        provider = agent.provider if agent else None
        return known_links(said, host=place.host, provider=provider, mission=mission.links if mission else None)

    def _look_now(self, host: str) -> None:
        if self.pushes is not None and self.pushes.serves(host):
            self.pushes.tell(host)

    # ── what has to be done ──

    async def _keep_times(self) -> None:
        while True:
            since, due = self.records.changes, await self.records.next_due()
            left = LOOK_S if due is None else min((due - self.clock()).total_seconds(), LOOK_S)
            with trio.move_on_after(max(left, 0)):
                await self.records.wait_changed(since)
            if due is not None and self.clock() >= due:
                await self.records.tick()

    async def _find_answers(self) -> None:
        """Each new question by itself: one whose schema takes long to evaluate holds up no other host's."""
        busy = set[int]()
        seats = Seats(FINDS_MAX)
        async with trio.open_nursery() as nursery:  # one task for each question
            while True:
                since = self.records.changes
                for record in await self.records.untold():
                    if record.number not in busy:
                        busy.add(record.number)
                        nursery.start_soon(self._find_answer, record, busy, seats.of(record.place.host))
                await self.records.wait_changed(since)

    async def _find_answer(self, record: Record, busy: set[int], seats: trio.CapacityLimiter) -> None:
        """What its mission knows first, then a rule, and people only when neither answers it."""
        async with seats:
            if not await self._answer_from_context(record) and not await self._answer_by_rule(record):
                await self.records.tell_people(record)
        busy.discard(record.number)
        self.records.touch()  # it may be open once more, by now

    async def _answer_by_rule(self, record: Record) -> bool:
        found = resolve(self.rules, record.place.host, record.envelope["prompt"], record.approval)
        if not isinstance(found, Resolved) or record.approval.verdicts:  # once: what was refused is for people
            return False
        heard = await self.answer(record, found.rule.principal, "policy", found.answer)
        if heard.decided.marks[-1].outcome == "decided":
            return True
        _log.warning("Cannot answer by a rule", rule=found.rule.name, host=record.place.host, prompt=record.prompt_id)
        return False

    async def _answer_from_context(self, record: Record) -> bool:
        kept = await self.missions.of_place(record.place)
        if kept is None or record.approval.verdicts:  # once: what was refused is for people
            return False
        mission = kept.mission
        found = resolve_context(mission.order.preseeds, mission.principal, record.envelope["prompt"], record.approval)
        if not isinstance(found, Known):
            return False
        heard = await self.answer(record, found.principal, CHANNEL, found.preseed.answer)
        if heard.decided.marks[-1].outcome == "decided":
            return True
        _log.warning("Cannot answer from a mission's context", mission=mission.mission_id, prompt=record.prompt_id)
        return False

    async def _make_calls(self) -> None:
        """One call of a question at a time; the next one is made once the outcome of this one is on disk."""
        busy = set[int]()
        seats = Seats(CALLS_MAX)
        async with trio.open_nursery() as nursery:  # one task for each call under way
            while True:
                since = self.records.changes
                for pending in await self.records.pending():
                    if pending.record.number not in busy:
                        busy.add(pending.record.number)
                        nursery.start_soon(self._call, pending, busy, seats.of(pending.record.place.host))
                await self.records.wait_changed(since)

    async def _call(self, pending: Pending, busy: set[int], seats: trio.CapacityLimiter) -> None:
        record = pending.record
        async with seats:
            began = trio.current_time()
            event = await call(self._agents.get(record.place.host), pending, self._vault)
            lasted_ms = int((trio.current_time() - began) * 1000)
        heard = await self.records.hear(record, event, done=pending.rev, lasted_ms=lasted_ms)
        self._forget_closed(heard.record)
        busy.discard(record.number)
        self.records.touch()  # what came while this call was under way is to be made now

    async def _judged(self, record: Record, value: Mapping[str, Any]) -> Judged | Unjudged:
        try:
            canonical(value)
        except (ValueError, RecursionError):
            return Judged((Problem("", "has no canonical spelling"),))
        judged: Judged | Unjudged = Unjudged("it was not looked at")
        for tried in range(JUDGE_TRIES):
            if tried:
                await trio.sleep(JUDGE_WAIT_S * 2 ** (tried - 1))
            judged = await self._judge.judge(record.envelope["response_schema"], value)
            if isinstance(judged, Judged):
                break
        return judged

    def _forget_closed(self, record: Record) -> None:
        if record.approval.phase == "closed":
            self._vault.forget(record.number, but=set())
