"""How are questions listed, shown and acted on? (`/api/prompts…`, `/api/sightings`)"""

from __future__ import annotations

from typing import Any, Final, cast

import quart

from sandboxd.cockpit import listing
from sandboxd.cockpit.controller import CannotReissue
from sandboxd.cockpit.record import Heard
from sandboxd.cockpit.web.answers import answer
from sandboxd.cockpit.web.desk import Desk, check_may_act, read_object
from sandboxd.cockpit.web.gate import Guest
from sandboxd.cockpit.web.shown import question_json, sighting_json, whole_question_json
from sandboxd.errors import AnswerInvalid, DeliveryFailed, Forbidden, InvalidParams, PromptNotOpen, Refusal, TooBusy

NOTE_MAX_CHARS: Final = 500  # what the audit keeps of it
SCHEMA: Final = "sandboxd.questions/1"


async def list_questions(desk: Desk, guest: Guest) -> quart.Response:
    """`GET /api/prompts[?state=open|closed&host=&task=]`."""
    asked = quart.request.args
    state = asked.get("state")
    if state not in (None, "open", "closed"):
        raise InvalidParams("cannot list questions: `state` is `open` or `closed`")
    found = await desk.controller.records.read(
        lambda connection: listing.listed(
            connection, state=cast(listing.State | None, state), host=asked.get("host"), task_id=asked.get("task")
        )
    )
    return answer(
        {
            "schema": SCHEMA,
            "now": desk.now(),
            "number": found.number,
            "has_more": found.has_more,
            "prompts": [question_json(record, guest.principal) for record in found.records],
            "sightings": [sighting_json(sighting) for sighting in found.sightings],
        }
    )


async def list_sightings(desk: Desk, guest: Guest) -> quart.Response:
    """`GET /api/sightings`: tasks that ask what cannot be asked here."""
    found = await desk.controller.records.sightings()
    return answer({"schema": "sandboxd.sightings/1", "sightings": [sighting_json(one) for one in found]})


async def show_question(desk: Desk, guest: Guest, name: str) -> quart.Response:
    """`GET /api/prompts/{number|prompt_id}`."""
    record = await desk.record(name)
    return answer(await _whole(desk, guest, record.number))


async def give_answer(desk: Desk, guest: Guest, name: str) -> quart.Response:
    """`POST /api/prompts/{name}/answer`: `{"payload": {…}, "note"?: …}`."""
    body = await read_object(known={"payload": "an object", "note": "a text"})
    if "payload" not in body:
        raise InvalidParams("cannot read the answer: `payload` is missing")
    note = _short(body.get("note", ""), "note")
    record = await desk.record(name)
    heard = await desk.controller.answer(record, guest.principal, guest.channel, body["payload"], note=note)
    return await told(desk, guest, heard)


async def cancel(desk: Desk, guest: Guest, name: str) -> quart.Response:
    """`POST /api/prompts/{name}/cancel`: `{"reason"}`; ends the task that asks, and so every question of it."""
    check_may_act(guest.principal.may_answer)
    reason = await _reason()
    record = await desk.record(name)
    return await told(desk, guest, await desk.controller.cancel(record, guest.principal, guest.channel, reason))


async def resume(desk: Desk, guest: Guest, name: str) -> quart.Response:
    """`POST /api/prompts/{name}/resume`: goes on where it is held."""
    check_may_act(guest.principal.may_answer)
    record = await desk.record(name)
    return await told(desk, guest, await desk.controller.resume(record, guest.principal, guest.channel))


async def settle(desk: Desk, guest: Guest, name: str) -> quart.Response:
    """`POST /api/prompts/{name}/settle`: `{"reason"}`; closes it on somebody's own word."""
    check_may_act(guest.principal.may_answer)
    reason = await _reason()
    record = await desk.record(name)
    return await told(desk, guest, await desk.controller.settle(record, guest.principal, guest.channel, reason))


async def reissue(desk: Desk, guest: Guest, name: str) -> quart.Response:
    """`POST /api/prompts/{name}/reissue`: has it asked again, where it closed without an answer and its program waits still."""
    check_may_act(guest.principal.may_answer)
    record = await desk.record(name)
    try:
        asked_as = await desk.controller.reissue(record, guest.principal, guest.channel)
    except CannotReissue as error:
        if error.code == "host":
            raise DeliveryFailed(str(error)) from error
        raise PromptNotOpen(str(error), facts={"reason": error.code}) from error
    return answer({"outcome": "reissued", "reissued_as": asked_as, **await _whole(desk, guest, record.number)})


async def _whole(desk: Desk, guest: Guest, number: int) -> dict[str, Any]:
    def work(connection: Any) -> tuple[Any, Any, int]:
        (record,) = listing.find(connection, str(number))
        return record, listing.history(connection, record), listing.last_number(connection)

    record, history, last = await desk.controller.records.read(work)
    return {"now": desk.now(), "number": last, "prompt": whole_question_json(record, guest.principal, history)}


async def told(desk: Desk, guest: Guest, heard: Heard) -> quart.Response:
    """What whoever acted is told: what came of it, and the question as it stands then; the refusal where nothing did."""
    mark = heard.decided.marks[-1]
    refusals: dict[str, Refusal] = {
        "not-eligible": Forbidden(f"cannot take the answer: {mark.why}"),
        "closed": PromptNotOpen(f"cannot do this to the question: {mark.why}"),
        "nothing": PromptNotOpen(f"cannot do this to the question: {mark.why or 'it changes nothing'}"),
        "unjudged": TooBusy(f"cannot say whether the answer fits: {mark.why}"),
    }
    if mark.outcome in refusals:
        raise refusals[mark.outcome]
    if heard.problems:
        left = heard.record.approval.terms.schema_budget - heard.record.approval.misfits
        raise AnswerInvalid(
            "cannot take the answer: it does not fit", problems=heard.problems, facts={"tries_left": max(left, 0)}
        )
    return answer({"outcome": mark.outcome, "why": mark.why, **await _whole(desk, guest, heard.record.number)})


async def _reason() -> str:
    body = await read_object(known={"reason": "a text"})
    reason = _short(body.get("reason", ""), "reason")
    if not reason:
        raise InvalidParams("cannot do this without a reason: `reason` is missing or empty")
    return reason


def _short(text: str, name: str) -> str:
    if len(text) > NOTE_MAX_CHARS:
        raise InvalidParams(f"cannot keep the {name}: it has {len(text)} characters, at most {NOTE_MAX_CHARS} are taken")
    return text.strip()
