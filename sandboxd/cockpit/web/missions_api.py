"""How are missions started, shown and ended? (`/api/missions…`)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import quart

from sandboxd.a2a.links import TRACEPARENT, Links, is_link, trace_of
from sandboxd.a2a.wire import rfc3339
from sandboxd.cockpit.context import Preseed, check_preseeds
from sandboxd.cockpit.missions.desk import NotEnded
from sandboxd.cockpit.missions.mission import Mission, Order
from sandboxd.cockpit.missions.rows import Kept
from sandboxd.cockpit.reading import Refused, Unreachable, Unreadable
from sandboxd.cockpit.web.answers import answer
from sandboxd.cockpit.web.desk import Desk, Kind, check_may_act, read_object
from sandboxd.cockpit.web.gate import Guest
from sandboxd.errors import DeliveryFailed, InvalidParams, Problem, PromptNotOpen, TaskNotFound
from sandboxd.policy.adapter import parse_adapter_command

SCHEMA: Final = "sandboxd.mission/1"
PAGE: Final = 50
PAGE_MAX: Final = 200
TEXT_MAX_CHARS: Final = 64 * 1024
REASON_MAX_CHARS: Final = 500
_LINKS: Final = ("flow", "issue", "trace")  # the rest is for this cockpit to say
_ENVELOPE: Final = ("adapter", "mode", "command", "working_dir", "timeout_seconds", "input_mode")


async def list_missions(desk: Desk, guest: Guest) -> quart.Response:
    """`GET /api/missions[?before=NUMBER&limit=N]`, the newest first."""
    limit, before = _number("limit", PAGE), _number("before", 0)
    found = await desk.controller.missions.newest(min(max(limit, 1), PAGE_MAX), before=before or None)
    return answer({"schema": "sandboxd.missions/1", "now": desk.now(), "missions": [mission_json(kept) for kept in found]})


async def start_mission(desk: Desk, guest: Guest) -> quart.Response:
    """`POST /api/missions`: `{host, adapter, mode, command, text?, working_dir?, timeout_seconds?, input_mode?, answers?, …}`.

    `links?`: `{flow?, issue?, trace?}`, what it belongs to; a `traceparent` header names the trace too.
    """
    check_may_act(guest.principal.may_answer)
    texts: dict[str, Kind] = dict.fromkeys(("host", "adapter", "mode", "text", "working_dir", "input_mode"), "a text")
    body = await read_object(
        known={**texts, "command": "a list", "timeout_seconds": "a whole number", "answers": "a list", "links": "an object"}
    )
    order = _order(body)
    if order.host not in desk.controller.hosts:
        known = ", ".join(f"`{name}`" for name in desk.controller.hosts)
        raise InvalidParams("cannot start the mission: no such host", problems=[Problem("host", f"is none of {known}")])
    kept = await desk.controller.missions.start(order, guest.principal, guest.channel)
    return answer({"schema": SCHEMA, **mission_json(kept)}, status=201)


async def show_mission(desk: Desk, guest: Guest, name: str) -> quart.Response:
    """`GET /api/missions/{number|id}`; a beginning of the id will do."""
    return answer({"schema": SCHEMA, "now": desk.now(), **mission_json(await _find(desk, name))})


async def resume_mission(desk: Desk, guest: Guest, name: str) -> quart.Response:
    """`POST /api/missions/{name}/resume`."""
    check_may_act(guest.principal.may_answer)
    before = await _find(desk, name)
    after = await desk.controller.missions.resume(before, guest.principal, guest.channel)
    return _told(before, after, "resume")


async def cancel_mission(desk: Desk, guest: Guest, name: str) -> quart.Response:
    """`POST /api/missions/{name}/cancel`: `{"reason"?}`."""
    check_may_act(guest.principal.may_answer)
    reason = str((await read_object(known={"reason": "a text"})).get("reason", "")).strip()
    if len(reason) > REASON_MAX_CHARS:
        raise InvalidParams(f"cannot keep the reason: at most {REASON_MAX_CHARS} characters are taken")
    before = await _find(desk, name)
    after = await desk.controller.missions.cancel(before, guest.principal, guest.channel, reason)
    return _told(before, after, "cancel")


async def mission_result(desk: Desk, guest: Guest, name: str) -> quart.Response:
    """`GET /api/missions/{name}/result`: the artifacts of its task, as its host shows them, once both have ended."""
    kept = await _find(desk, name)
    try:
        result = await desk.controller.missions.result(kept)
    except NotEnded as error:
        raise PromptNotOpen(f"cannot show the mission's result: {error}") from error
    except (Refused, Unreachable, Unreadable) as error:
        raise DeliveryFailed(f"cannot show the mission's result: {error}") from error
    shown = {"state": result.state.value, "artifacts": list(result.artifacts)}
    return answer({"schema": "sandboxd.mission-result/1", "mission_id": kept.mission.mission_id, **shown})


def mission_json(kept: Kept) -> dict[str, Any]:
    """One mission as people see it; what is answered beforehand is for its starter's record, not for a list."""
    mission, order, standing = kept.mission, kept.mission.order, kept.mission.standing
    return {
        "number": kept.number,
        "mission_id": mission.mission_id,
        "state": standing.state,
        "reason": standing.reason,
        "way_out": standing.way_out,
        "host": order.host,
        "adapter": order.adapter,
        "mode": order.mode,
        "command": list(order.command),
        "text": order.text,
        "answers_given": len(order.preseeds),
        "links": {name: value for name, value in attrs.asdict(mission.links).items() if value is not None},
        "started_by": mission.starter,
        "person": mission.person,
        "started_at": rfc3339(mission.started_at),
        "ended_at": None if mission.ended_at is None else rfc3339(mission.ended_at),
        "task_id": mission.task_id,
        "task_state": mission.task_state or None,
        "tries": mission.tries,
        "is_cancelled_by": mission.cancel or None,
        "questions": [{"number": one.number, "prompt_id": one.prompt_id} for one in mission.questions],
        "rev": mission.rev,
    }


def _order(body: Mapping[str, Any]) -> Order:
    missing = [Problem(name, "is missing") for name in ("host", "adapter", "mode", "command") if name not in body]
    if missing:
        raise InvalidParams("cannot start the mission: it is incomplete", problems=missing)
    text = str(body.get("text", "Run it."))
    if len(text) > TEXT_MAX_CHARS:
        raise InvalidParams(
            "cannot start the mission", problems=[Problem("text", f"has more than {TEXT_MAX_CHARS} characters")]
        )
    envelope = {name: body[name] for name in _ENVELOPE if name in body}
    command = parse_adapter_command(envelope, hitl_active=True)
    preseeds = _preseeds(body.get("answers", []))
    return Order(
        *(body["host"], command.adapter, command.mode, command.command, text),
        *(command.working_dir, command.timeout_s),
        text_line=command.text_line,
        preseeds=preseeds,
        links=_links(body.get("links", {})),
    )


def _links(said: Mapping[str, Any]) -> Links:
    problems = [Problem(f"links.{name}"[:64], f"is none of {', '.join(_LINKS)}") for name in said if name not in _LINKS]
    problems += [Problem(f"links.{name}", "is no id") for name in _LINKS if name in said and not is_link(said[name])]
    if problems:
        raise InvalidParams("cannot start the mission", problems=problems)
    return Links(**({"trace": trace_of(quart.request.headers.get(TRACEPARENT))} | dict(said)))


def _preseeds(listed: Sequence[Any]) -> tuple[Preseed, ...]:
    problems, found = list[Problem](), list[Preseed]()
    for index, one in enumerate(listed):
        fits = isinstance(one, Mapping) and one.keys() == {"question", "answer"}
        if fits and isinstance(one["question"], str) and isinstance(one["answer"], Mapping):
            found.append(Preseed(one["question"], one["answer"]))
        else:
            problems.append(Problem(f"answers.{index}", "must be an object with `question`, a text, and `answer`, an object"))
    problems += check_preseeds(found)
    if problems:
        raise InvalidParams("cannot start the mission: what it answers beforehand cannot be used", problems=problems)
    return tuple(found)


async def _find(desk: Desk, name: str) -> Kept:
    found = await desk.controller.missions.find(name)
    if not found:
        raise TaskNotFound("cannot find the mission: none has that number, and none's id begins so")
    if len(found) > 1:
        raise InvalidParams(f"cannot tell which mission is meant: {len(found)} or more begin so")
    return found[0]


def _told(before: Kept, after: Kept, verb: str) -> quart.Response:
    mission: Mission = after.mission
    if mission == before.mission:
        why = f"it is {mission.standing.state}" + (", and goes on by itself" if not mission.standing.is_final else "")
        raise PromptNotOpen(f"cannot {verb} the mission: {why}")
    return answer({"schema": SCHEMA, **mission_json(after)})


def _number(name: str, usual: int) -> int:
    text = quart.request.args.get(name, str(usual))
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise InvalidParams(f"cannot list missions: `{name}` must be a number")
    return int(text)
