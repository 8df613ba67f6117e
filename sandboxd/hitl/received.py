"""Is this the envelope of a prompt that may be asked?

hitl-prompt/v1, Prompt Envelope, read by whoever asks the people. Everything that the spec does not allow makes it malformed,
and a malformed prompt is shown with its reasons and never asked: keys beside the five, an id that is no UUID, a schema above
its bounds (S-2) or one that leads out of itself. Patterns of responders that nobody knows are kept as they are: `route` drops
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sandboxd.a2a.canonical import canonical
from sandboxd.a2a.extensions import HITL_PROMPT
from sandboxd.a2a.wire import parse_rfc3339
from sandboxd.errors import Problem
from sandboxd.hitl.envelope import PromptEnvelope, is_uuid
from sandboxd.hitl.foreign import refuse_schema

_KEYS: Final = frozenset({"prompt_id", "prompt", "response_schema", "deadline", "allowed_responders"})
QUESTION_MAX_CHARS: Final = 65_536  # the spec's 4,096 are a SHOULD; a page shows what is longer in pieces
RESPONDERS_MAX: Final = 256


def parse_envelope(value: Any) -> PromptEnvelope | tuple[Problem, ...]:
    """The envelope, or everything that is wrong with it. Whether its deadline has passed is for whoever has a clock."""
    if not isinstance(value, Mapping):
        return (Problem("", "must be an object"),)
    problems = [Problem(str(key)[:64], "unknown key: the envelope has five") for key in value if key not in _KEYS]
    if not is_uuid(value.get("prompt_id")):
        problems.append(Problem("prompt_id", "must be a UUID (RFC 4122)"))
    question = value.get("prompt")
    if not isinstance(question, str) or not question.strip():
        problems.append(Problem("prompt", "must be a text that is not empty"))
    elif len(question) > QUESTION_MAX_CHARS:
        problems.append(Problem("prompt", f"has {len(question)} characters, at most {QUESTION_MAX_CHARS} are taken"))
    schema = value.get("response_schema")
    if isinstance(schema, Mapping) and schema.get("type") != "object":
        problems.append(Problem("response_schema", "must declare `type: object`"))
    problems += [Problem(f"response_schema{one.field}", one.reason) for one in refuse_schema(schema)]
    deadline = _deadline(value, problems)
    responders = _responders(value, problems)
    if not problems:
        problems += _unspeakable(value)
    if problems:
        return tuple(problems)
    return PromptEnvelope(str(value["prompt_id"]).lower(), str(question), dict(value["response_schema"]), deadline, responders)


def envelope_in(message: Any) -> Any:
    """What a status message carries under the extension's URI, whatever it is; None: nothing."""
    metadata = message.get("metadata") if isinstance(message, Mapping) else None
    return metadata.get(HITL_PROMPT) if isinstance(metadata, Mapping) else None


def asks_secret(schema: Any) -> bool:
    """Whether any part of an answer is `writeOnly`: then nothing of it may be kept."""
    if isinstance(schema, Mapping):
        return schema.get("writeOnly") is True or any(asks_secret(part) for part in schema.values())
    return isinstance(schema, list | tuple) and any(asks_secret(part) for part in schema)


def _deadline(value: Mapping[str, Any], problems: list[Problem]) -> datetime | None:
    if "deadline" not in value:
        return None
    try:
        return parse_rfc3339(value["deadline"])
    except (ValueError, TypeError):
        problems.append(Problem("deadline", "must be an RFC 3339 time"))
        return None


def _responders(value: Mapping[str, Any], problems: list[Problem]) -> tuple[str, ...]:
    listed = value.get("allowed_responders", ["any"])
    if not isinstance(listed, list) or not listed or not all(isinstance(one, str) for one in listed):
        problems.append(Problem("allowed_responders", "must be a list of texts that is not empty"))
        return ()
    if len(listed) > RESPONDERS_MAX:
        problems.append(Problem("allowed_responders", f"has {len(listed)} entries, at most {RESPONDERS_MAX} are taken"))
    return tuple(listed)


def _unspeakable(value: Mapping[str, Any]) -> list[Problem]:
    try:
        canonical(value)
    except (ValueError, RecursionError) as error:  # a number that no double holds, a lone surrogate
        return [Problem("", f"has no canonical spelling: {error}")]
    return []
