"""How is a push notification config spelled, in every version?

Read here, whatever the version: 1.0's flat config, 0.3's `{taskId, pushNotificationConfig}`, the 0.3 proto's `{parent,
config}`, and the flat config of the `messages:send` dialect, `{url, secret?, token?, authentication?, eventTypes?, configId?}`.
What is secret in a config is never written: no encoder has `credentials` or `secret`, and only its creator sees `token`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from sandboxd.a2a.fields import Fields, refuse
from sandboxd.a2a.model import PushConfig, PushNews, PushRequest, PushShown, PushStyle
from sandboxd.errors import Problem

SECRET_MAX_CHARS: Final = 4096
_PRINTABLE: Final = re.compile(r"[ -~]*")
_SCHEME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")  # RFC 9110, 11.1: a token
_NAMED: Final[Mapping[str, PushNews]] = {
    "status-update": "status",
    "status": "status",
    "statusUpdate": "status",
    "task": "status",
    "task-state": "status",
    "artifact-update": "artifact",
    "artifact": "artifact",
    "artifactUpdate": "artifact",
}
_NEVER_SENT: Final = ("message",)


def decode_create(params: Any, *, style: PushStyle) -> PushRequest:
    """A new config for a task; `InvalidParams` names every field that is wrong."""
    problems: list[Problem] = []
    request = Fields(params, "", problems)
    holder = _inner(request)
    task_id = request.identifier("taskId") or _parent(request)
    made = PushRequest(
        request.required("taskId", task_id) or "", config=read(holder, style), config_id=request.token("configId")
    )
    refuse("set up push notifications", problems)
    return made


def decode_one(params: Any) -> PushRequest:
    """1.0's `{taskId, id}`, for get and delete."""
    problems: list[Problem] = []
    request = Fields(params, "", problems)
    task_id = request.required("taskId", request.identifier("taskId")) or ""
    made = PushRequest(task_id, config_id=request.required("id", request.identifier("id")))
    refuse("find the push notification config", problems)
    return made


def decode_one_03(params: Any) -> PushRequest:
    """0.3's `{id, pushNotificationConfigId?}`: `id` is the task's. Over HTTP both stand in the path, as in 1.0."""
    if isinstance(params, Mapping) and "taskId" in params:
        return decode_one(params)
    problems: list[Problem] = []
    request = Fields(params, "", problems)
    task_id = request.required("id", request.identifier("id")) or ""
    made = PushRequest(task_id, config_id=request.identifier("pushNotificationConfigId"))
    refuse("find the push notification config", problems)
    return made


def decode_all(params: Any) -> PushRequest:
    """1.0's `{taskId}`; the list has one page, so paging is not looked at."""
    problems: list[Problem] = []
    request = Fields(params, "", problems)
    made = PushRequest(request.required("taskId", request.identifier("taskId")) or "")
    refuse("list push notification configs", problems)
    return made


def decode_all_03(params: Any) -> PushRequest:
    """0.3's `{id}`; over HTTP as in 1.0."""
    return decode_all(params) if isinstance(params, Mapping) and "taskId" in params else decode_one_03(params)


def read(fields: Fields, style: PushStyle) -> PushConfig:
    """The config itself, alone or within a send; problems go to the reader's list."""
    scheme, credentials, secret = _authentication(fields)
    return PushConfig(
        url=fields.required("url", fields.text("url")) or "",
        id=fields.token("id") or fields.token("configId") or _named_id(fields) or "",
        token=_header(fields, "token"),
        scheme=scheme,
        credentials=credentials,
        secret=_header(fields, "secret") or secret,
        news=_news(fields),
        style=style,
    )


def encode(shown: PushShown) -> dict[str, Any]:
    """1.0's flat config."""
    config = shown.config
    spelled = {"taskId": shown.task_id, "id": config.id, "url": config.url}
    return _with(spelled, token=config.token, authentication={"scheme": config.scheme} if config.scheme else None)


def encode_03(shown: PushShown) -> dict[str, Any]:
    """0.3's JSON-RPC."""
    return {"taskId": shown.task_id, "pushNotificationConfig": _inner_03(shown)}


def encode_03_proto(shown: PushShown) -> dict[str, Any]:
    """ProtoJSON of the 0.3 proto, which knows a config by its resource name."""
    name = f"tasks/{shown.task_id}/pushNotificationConfigs/{shown.config.id}"
    return {"name": name, "pushNotificationConfig": _inner_03(shown)}


def encode_dialect(shown: PushShown) -> dict[str, Any]:
    """The dialect's flat config: its clients read `configId`."""
    spelled = {**encode(shown), "configId": shown.config.id}
    return _with(spelled, eventTypes=[f"{news}-update" for news in sorted(shown.config.news)])


def _inner(request: Fields) -> Fields:
    """The object that holds `url`, from the outside in."""
    holder = request
    for name in ("config", "pushNotificationConfig"):
        holder = holder.child(name) or holder
    return holder


def _parent(request: Fields) -> str | None:
    """The 0.3 proto's `tasks/{id}`."""
    found = re.fullmatch(r"tasks/([^/]{1,256})", request.text("parent") or "")
    return found[1] if found else None


def _named_id(fields: Fields) -> str | None:
    metadata = fields.child("metadata")
    ours = metadata.child("aiwg") if metadata else None
    return ours.token("configId") if ours else None


def _authentication(fields: Fields) -> tuple[str | None, str | None, str | None]:
    """Scheme, credentials and the secret of `authentication`, or of the reference's `auth: {type, secret}`."""
    reference = fields.child("auth")
    if reference is not None:
        kind = reference.enum("type", {"bearer": "bearer", "hmac": "hmac", "none": "none"}, {})
        secret = _header(reference, "secret")
        if kind == "bearer":
            return "Bearer", secret, None
        return None, None, secret if kind == "hmac" else None
    found = fields.child("authentication")
    if found is None:
        return None, None, None
    schemes = found.texts("schemes")
    scheme = found.text("scheme") or (schemes[0] if schemes else None)
    if scheme is None:
        found.problem("scheme", "is required")
    elif not _SCHEME.fullmatch(scheme):
        found.problem("scheme", "is no name of an authentication scheme, such as `Bearer`")
    return scheme, _header(found, "credentials"), None


def _header(fields: Fields, name: str) -> str | None:
    """A text that goes into a header, or keys its signature; what is wrong with it is told without it."""
    value = fields.identifier(name, max_chars=SECRET_MAX_CHARS)
    if value is not None and (not _PRINTABLE.fullmatch(value) or value != value.strip()):
        fields.problem(name, "must be printable ASCII that neither begins nor ends with a blank")
        return None
    return value


def _news(fields: Fields) -> frozenset[PushNews]:
    named = fields.texts("eventTypes")
    for index, name in enumerate(named):
        if name not in _NAMED and name not in _NEVER_SENT:
            fields.problem(f"eventTypes[{index}]", "must be one of " + ", ".join(f"`{known}`" for known in _NAMED))
    return frozenset(_NAMED[name] for name in named if name in _NAMED)


def _inner_03(shown: PushShown) -> dict[str, Any]:
    config = shown.config
    authentication = {"schemes": [config.scheme]} if config.scheme else None
    return _with({"id": config.id, "url": config.url}, token=config.token, authentication=authentication)


def _with(spelled: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return spelled | {name: value for name, value in optional.items() if value}
