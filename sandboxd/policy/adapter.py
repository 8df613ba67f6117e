"""Is the adapter-command envelope well-formed?

adapter-command/v1, Request Envelope. Malformed is the caller's mistake (`InvalidParams`, no task); whether a well-formed
command may run is `decide`'s business. The value under the extension's URI is the caller's JSON: anything may stand there,
and nothing but `InvalidParams` comes out of here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, Literal, get_args

from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT, MISSION
from sandboxd.a2a.model import Message, SendRequest
from sandboxd.errors import InvalidParams, Problem
from sandboxd.policy.exec_text import MAX_ARG_BYTES, shown, unfit
from sandboxd.values import frozen

Mode = Literal["plan", "assess"]
MODES: Final[tuple[str, ...]] = get_args(Mode)

TIMEOUT_MAX_S: Final = 900  # adapter-command/v1: between 1 and 900
TIMEOUT_DEFAULT_S: Final = 300  # adapter-command/v1; a policy may set another
MESSAGE_VARIABLE: Final = "AIWG_A2A_MESSAGE"

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_AT: Final = f"message.metadata.{ADAPTER_COMMAND}"
_KEYS: Final = ("adapter", "mode", "command", "working_dir", "timeout_seconds", "input_mode")
_REQUIRED: Final = ("adapter", "mode", "command")
_LISTED_MAX: Final = 32  # of one kind of problem: a body full of bad elements must not come back ten times as long


@frozen
class AdapterCommand:
    """A well-formed envelope: `working_dir` None means the instance's root, `timeout_s` None the policy's default."""

    adapter: str
    mode: Mode
    command: tuple[str, ...]
    working_dir: str | None = None
    timeout_s: int | None = None
    text_line: bool = False


def find_envelope(request: SendRequest) -> Any | None:
    """The value under the extension's URI in the message's metadata, activated or not; None: no envelope, so echo.

    `InvalidParams` when it stands in the request's own metadata alone, or is `null`: neither may become an echo.
    """
    inner, outer = request.message.metadata or {}, request.metadata or {}
    if ADAPTER_COMMAND in inner:
        if inner[ADAPTER_COMMAND] is None:
            raise _malformed([Problem(_AT, "must be an object, not null")])
        return inner[ADAPTER_COMMAND]
    if ADAPTER_COMMAND in outer:
        why = f"the envelope belongs into the message's own metadata, as `{_AT}`"
        raise _malformed([Problem(f"metadata.{ADAPTER_COMMAND}", why)])
    return None


def read_dispatch(
    request: SendRequest, *, hitl_active: bool, mission_active: bool = False
) -> tuple[AdapterCommand, str, str | None] | None:
    """The command, the message's text for it, and its mission's id; None: no envelope, so echo.

    `InvalidParams` names what is wrong in all of them. Without the mission extension active, or without an id, there is none.
    """
    value = find_envelope(request)
    if value is None:
        return None
    problems: list[Problem] = []
    facts: dict[str, Any] = {}
    try:
        command = parse_adapter_command(value, hitl_active=hitl_active)
    except InvalidParams as refused:
        problems += refused.problems
    try:
        text = message_text(request.message)
    except InvalidParams as refused:
        problems += refused.problems
        facts = refused.facts
    mission_id = (request.message.metadata or {}).get(MISSION) if mission_active else None
    problems += _check_mission(mission_id)
    if problems:
        raise InvalidParams("cannot dispatch the adapter command: the request is malformed", problems=problems, facts=facts)
    return command, text, mission_id["mission_id"].lower() if mission_id is not None else None


def parse_adapter_command(value: Any, *, hitl_active: bool) -> AdapterCommand:
    """Decode the envelope; `InvalidParams` names every field that is wrong. `hitl_active`: hitl-prompt/v1, this request."""
    if not isinstance(value, Mapping):
        raise _malformed([Problem(_AT, f"must be an object with {_listed(_REQUIRED)}")])
    problems = list(_bounded(_unknown_keys(value), _AT))
    problems += [Problem(f"{_AT}.{key}", "is missing") for key in _REQUIRED if key not in value]
    for key, check in (
        ("adapter", _check_adapter),
        ("mode", _check_mode),
        ("command", _check_command),
        ("working_dir", _check_text),
        ("timeout_seconds", _check_timeout),
        ("input_mode", _check_input_mode),
    ):
        if key in value:
            problems += _bounded(check(f"{_AT}.{key}", value[key]), f"{_AT}.{key}")
    if value.get("input_mode") == "text-line" and not hitl_active:
        why = f"needs hitl-prompt/v1 in the same request: send the header `A2A-Extensions: {HITL_PROMPT}`"
        problems.append(Problem(f"{_AT}.input_mode", why))
    if problems:
        raise _malformed(problems)
    timeout_s = value.get("timeout_seconds")
    return AdapterCommand(
        adapter=value["adapter"],
        mode=value["mode"],
        command=tuple(value["command"]),
        working_dir=value.get("working_dir"),
        timeout_s=None if timeout_s is None else int(timeout_s),
        text_line="input_mode" in value,
    )


def message_text(message: Message) -> str:
    """The text parts, joined by newlines, as the command sees them; `InvalidParams` when exec could not carry them."""
    texts = [(index, str(part.value)) for index, part in enumerate(message.parts) if part.kind == "text"]
    # A part that is only too long is told with the sum of all, below.
    problems = [
        Problem(f"message.parts.{index}.text", str(unfit(text)))
        for index, text in texts
        if "\0" in text or _has_surrogate(text)
    ]
    joined = "\n".join(text for _, text in texts)
    facts: dict[str, Any] = {}
    if not problems:
        why = unfit(joined, overhead_bytes=len(MESSAGE_VARIABLE) + 1)
        problems += [Problem("message.parts", f"the text {why}")] if why else []
        if why:
            facts = {"bound": "max_text", "limit": MAX_ARG_BYTES}
    if problems:
        why = "cannot hand the message to the command: exec could not carry it"
        raise InvalidParams(why, problems=problems[:_LISTED_MAX], facts=facts)
    return joined


def _unknown_keys(value: Mapping[Any, Any]) -> Iterable[Problem]:
    for key in value:
        if key not in _KEYS:
            yield Problem(f"{_AT}.{shown(str(key))[1:-1]}", f"unknown key: only {_listed(_KEYS)} are allowed")


def _check_mission(value: Any) -> Iterable[Problem]:
    at = f"message.metadata.{MISSION}"
    if value is None:
        return
    if not isinstance(value, Mapping) or value.keys() != {"mission_id"}:
        yield Problem(at, "must be an object with `mission_id` and nothing else")
    elif not isinstance(value["mission_id"], str) or not _UUID.fullmatch(value["mission_id"]):
        yield Problem(f"{at}.mission_id", "must be a UUID")


def _check_text(at: str, value: Any) -> Iterable[Problem]:
    if not isinstance(value, str):
        yield Problem(at, "must be a string")
    elif why := unfit(value):
        yield Problem(at, why)


def _check_adapter(at: str, value: Any) -> Iterable[Problem]:
    if value == "":
        yield Problem(at, "must not be empty")
    yield from _check_text(at, value)


def _check_mode(at: str, value: Any) -> Iterable[Problem]:
    if not isinstance(value, str) or value not in MODES:
        yield Problem(at, f"must be one of {_listed(MODES)}")


def _check_command(at: str, value: Any) -> Iterable[Problem]:
    if not isinstance(value, list | tuple) or not value:
        yield Problem(at, "must be a list of strings with at least one element")
        return
    for index, element in enumerate(value):
        yield from _check_text(f"{at}.{index}", element)


def _check_timeout(at: str, value: Any) -> Iterable[Problem]:
    # JSON has one kind of number, and SDK clients send 300 as 300.0. `is_integer` is False for inf and nan.
    is_whole = (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    if not is_whole or not 1 <= value <= TIMEOUT_MAX_S:
        yield Problem(at, f"must be an integer from 1 to {TIMEOUT_MAX_S}")


def _check_input_mode(at: str, value: Any) -> Iterable[Problem]:
    if value != "text-line":
        yield Problem(at, "must be `text-line`, or left out")


def _bounded(problems: Iterable[Problem], at: str) -> Iterable[Problem]:
    rest = iter(problems)
    yield from islice(rest, _LISTED_MAX)
    if more := sum(1 for _ in rest):
        yield Problem(at, f"{more} more problems of this kind are not listed")


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _malformed(problems: list[Problem]) -> InvalidParams:
    return InvalidParams("cannot dispatch the adapter command: its envelope is malformed", problems=problems)
