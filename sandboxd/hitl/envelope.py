"""What goes out to the people who answer, and what comes back?

`hitl-prompt/v1`: the prompt envelope has the spec's five keys and no other; the response envelope is exactly
`{prompt_id, payload}` under `message.metadata.hitl_response_for`. Ids and times are passed in.
"""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sandboxd.a2a.extensions import HITL_RESPONSE_FOR
from sandboxd.a2a.wire import rfc3339
from sandboxd.errors import InvalidParams, Problem
from sandboxd.values import frozen

PROMPT_MAX_CHARS: Final = 4096  # hitl-prompt/v1: SHOULD; the published JSON schema makes it hard, so it is hard here
# Up to the last `@` before the path: a password may hold an `@` of its own, and no part of it may be left.
_URL_CREDENTIALS: Final = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,30}://)[^\s/?#]{1,1024}@", re.IGNORECASE)
# Bidi controls, and the tag block, which spells ASCII that nobody sees.
_INVISIBLE: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c") | frozenset(
    map(chr, range(0xE0000, 0xE0080))
)
_SPACES: Final = frozenset("\t\r\n\u0085\u2028\u2029")  # part words, so they become blanks


@frozen
class PromptEnvelope:
    """The envelope of hitl-prompt/v1; `deadline` is an aware UTC time or None, `prompt_id` a version-4 UUID in text."""

    prompt_id: str
    prompt: str
    response_schema: Mapping[str, Any]
    deadline: datetime | None
    allowed_responders: tuple[str, ...] = ("any",)


def envelope_json(envelope: PromptEnvelope) -> dict[str, Any]:
    """The envelope as it stands under the extension's URI: the five keys, `deadline` only when there is one."""
    spelled: dict[str, Any] = {
        "prompt_id": envelope.prompt_id,
        "prompt": envelope.prompt,
        "response_schema": dict(envelope.response_schema),
    }
    if envelope.deadline is not None:
        spelled["deadline"] = rfc3339(envelope.deadline)
    spelled["allowed_responders"] = list(envelope.allowed_responders)
    return spelled


@frozen
class Response:
    """A well-formed `hitl_response_for`; whether the prompt is open and the payload fits is not known yet."""

    prompt_id: str
    payload: Mapping[str, Any]


def plain_text(line: str) -> str:
    """The question as plain text: no control or bidi characters, URL credentials masked, at most 4,096 characters.

    May be empty, when nothing printable is left: then there is no question to raise.
    """
    kept = "".join(
        " " if char in _SPACES else char
        for char in line
        if char in _SPACES or (unicodedata.category(char) not in ("Cc", "Cs") and char not in _INVISIBLE)
    )
    masked = _URL_CREDENTIALS.sub(lambda found: f"{found['scheme']}***@", kept).strip()
    if len(masked) <= PROMPT_MAX_CHARS:
        return masked
    return "…" + masked[-(PROMPT_MAX_CHARS - 1) :]  # the end is where the question is


def parse_response(value: Any, task_id: str | None) -> Response:
    """Decode the value under `hitl_response_for`; `InvalidParams` names every field that is wrong."""
    at = f"message.metadata.{HITL_RESPONSE_FOR}"
    problems = []
    if not task_id:
        problems.append(Problem("message.taskId", "required with an answer: it names the task that asked"))
    if not isinstance(value, Mapping):
        problems.append(Problem(at, "must be an object with `prompt_id` and `payload`"))
        raise InvalidParams("cannot take the answer: it is malformed", problems=problems)
    prompt_id, payload = value.get("prompt_id"), value.get("payload")
    if not is_uuid(prompt_id):
        problems.append(Problem(f"{at}.prompt_id", "must be a UUID, as it stands in the prompt envelope"))
    if not isinstance(payload, Mapping):
        problems.append(Problem(f"{at}.payload", "must be an object that fits the prompt's response_schema"))
    problems += [
        Problem(f"{at}.{key}", "unknown key: only `prompt_id` and `payload` are allowed")
        for key in sorted(value.keys() - {"prompt_id", "payload"})
    ]
    if problems:
        raise InvalidParams("cannot take the answer: it is malformed", problems=problems)
    return Response(str(prompt_id).lower(), dict(payload))  # type: ignore[arg-type]  # checked two lines above


def is_uuid(value: object) -> bool:
    """Whether it is an RFC 4122 UUID in the usual spelling, of any version."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", value):
        return False
    return uuid.UUID(value).variant == uuid.RFC_4122
