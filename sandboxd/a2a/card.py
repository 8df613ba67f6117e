"""What does an agent card say about one instance?

A2A 1.0 §4.4 and §8, strictly: none of 0.3's top-level fields. The card is public, so it names no path, no policy and no
program; adapter-command/v1 is on it only where a policy allows anything, and a bearer scheme only where a token is in force.
"""

from __future__ import annotations

import hashlib
from typing import Any

import attrs

from sandboxd.a2a.extensions import (
    ADAPTER_COMMAND,
    HITL_PROMPT,
    IDEMPOTENCY,
    IDEMPOTENCY_MAX_ENTRIES,
    IDEMPOTENCY_TTL_S,
)
from sandboxd.a2a.jsontext import canonical_json


@attrs.frozen
class CardFacts:
    """What differs between cards. `url` is the instance's base URL; `commands` the (adapter, mode) pairs that are allowed."""

    instance: str
    url: str
    version: str
    commands: tuple[tuple[str, str], ...] = ()
    needs_bearer: bool = False
    streaming: bool = True
    push_notifications: bool = False
    extended_card: bool = False
    required_extensions: tuple[str, ...] = ()
    input_modes: tuple[str, ...] = ("text/plain", "application/json")


def agent_card(facts: CardFacts) -> dict[str, Any]:
    """The card's JSON."""
    url = facts.url.rstrip("/")
    bindings = ("JSONRPC", "HTTP+JSON")  # preferred first
    card: dict[str, Any] = {
        "name": facts.instance,
        "description": "Runs one allowed command, carries its questions to a person and the answers back.",
        "supportedInterfaces": [{"url": url, "protocolBinding": binding, "protocolVersion": "1.0"} for binding in bindings],
        "version": facts.version,
        "capabilities": {
            "streaming": facts.streaming,
            "pushNotifications": facts.push_notifications,
            "extendedAgentCard": facts.extended_card,
            "extensions": [*_extensions(facts.commands), *_required(facts.required_extensions)],
        },
        "defaultInputModes": list(facts.input_modes),
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": _skills(facts.commands),
    }
    if facts.needs_bearer:
        card["securitySchemes"] = {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        card["securityRequirements"] = [{"schemes": {"bearer": {"list": []}}}]
    return card


def etag(card: dict[str, Any]) -> str:
    """A strong entity tag: the same for equal cards, quotes included."""
    return f'"{hashlib.sha256(canonical_json(card)).hexdigest()}"'


def _extensions(commands: tuple[tuple[str, str], ...]) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = [
        {
            "uri": HITL_PROMPT,
            "description": "Structured HITL prompt envelope on INPUT_REQUIRED state.",
            "required": False,
            "params": {},  # the extension's spec: MUST be empty
        }
    ]
    if commands:
        listed.append(
            {
                "uri": ADAPTER_COMMAND,
                "description": "Runs an allowlisted adapter command instead of echoing the message.",
                "required": False,
                "params": {"adapters": _first(commands, 0), "modes": _first(commands, 1)},
            }
        )
    listed.append(
        {
            "uri": IDEMPOTENCY,
            "description": "A message that is sent again under its id is acted on once; the answer is replayed.",
            "required": False,
            "params": {"ttl_seconds": IDEMPOTENCY_TTL_S, "max_entries": IDEMPOTENCY_MAX_ENTRIES},
        }
    )
    return listed


def _required(uris: tuple[str, ...]) -> list[dict[str, Any]]:
    why = "A message that does not activate it is refused."
    return [{"uri": uri, "description": why, "required": True} for uri in uris]


def _skills(commands: tuple[tuple[str, str], ...]) -> list[dict[str, Any]]:
    echo = {
        "id": "echo",
        "name": "Echo",
        "description": "Returns the text of a message that carries no command.",
        "tags": ["echo"],
    }
    runs = [
        {
            "id": f"{adapter}.{mode}",
            "name": f"{adapter} {mode}",
            "description": f"Runs the `{adapter}` adapter command in `{mode}` mode; may ask a person.",
            "tags": ["adapter-command", mode],
        }
        for adapter, mode in commands
    ]
    return [*runs, echo]


def _first(commands: tuple[tuple[str, str], ...], index: int) -> list[str]:
    """Each value once, in the order of its first mention."""
    return list(dict.fromkeys(command[index] for command in commands))
