"""What does an agent card say about one instance?

A2A 1.0 §4.4 and §8. A merged card can also be read by clients of A2A 0.3: beside 1.0's fields stand 0.3's top-level ones, and
the interfaces of both versions. A strict one is 1.0 and nothing else. Every interface's URL is the instance's base URL: doors
of both versions answer there, and clients that append `/v1/…` to what an HTTP+JSON interface names get to a path that is. Only
in `additionalInterfaces`, which nobody but 0.3's SDKs goes by, HTTP+JSON has a URL of its own: they say nothing in a plain
`GET /v1/tasks/{id}` by which it could be told from one of the `messages:send` dialect's.

The card is public, so it names no path, no policy and no program; adapter-command/v1 is on it only where a policy allows
anything, and a security scheme only where it is in force. The extended card, for callers that are known, also tells what the
host is like (`HOST_FACTS`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from sandboxd.a2a.extensions import (
    ADAPTER_COMMAND,
    HITL_PROMPT,
    HOST_FACTS,
    IDEMPOTENCY,
    IDEMPOTENCY_MAX_ENTRIES,
    IDEMPOTENCY_TTL_S,
    MISSION,
    REISSUE,
)
from sandboxd.a2a.jsontext import canonical_json
from sandboxd.values import frozen

BINDINGS: Final = ("JSONRPC", "HTTP+JSON")  # preferred first
UNCONFINED: Final = "It runs WITHOUT ISOLATION, with all rights of the daemon's user."
OWN_03: Final = "/0.3"  # below an instance's base URL: A2A 0.3 over HTTP+JSON, whatever else is said


@frozen
class CardFacts:
    """What differs between cards. `url` is the instance's base URL; `commands` the (adapter, mode) pairs that are allowed.

    `unconfined`: the adapters whose commands run without isolation. `host`: what an extended card tells beyond the public one.
    """

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
    output_modes: tuple[str, ...] = ("text/plain",)
    needs_certificate: bool = False
    is_merged: bool = False
    unconfined: frozenset[str] = frozenset()
    host: Mapping[str, Any] | None = None


def agent_card(facts: CardFacts) -> dict[str, Any]:
    """The card's JSON."""
    url = facts.url.rstrip("/")
    versions = ("1.0", "0.3") if facts.is_merged else ("1.0",)
    interfaces = [(binding, version) for version in versions for binding in BINDINGS]
    card: dict[str, Any] = {
        "name": facts.instance,
        "description": "Runs one allowed command, carries its questions to a person and the answers back.",
        "supportedInterfaces": [
            {"url": url, "protocolBinding": binding, "protocolVersion": version} for binding, version in interfaces
        ],
        "version": facts.version,
        "capabilities": {
            "streaming": facts.streaming,
            "pushNotifications": facts.push_notifications,
            "extendedAgentCard": facts.extended_card,
            "extensions": [*_extensions(facts.commands), *_required(facts.required_extensions)],
        },
        "defaultInputModes": list(facts.input_modes),
        "defaultOutputModes": list(facts.output_modes),
        "skills": _skills(facts.commands, facts.unconfined),
    }
    if facts.host is not None:
        card["capabilities"]["extensions"].append(_host_facts(facts.host))
    schemes = _schemes(facts)
    if schemes:
        card["securitySchemes"] = schemes
        card["securityRequirements"] = [{"schemes": {name: {"list": []}}} for name in schemes]
    if facts.is_merged:
        card |= {
            "protocolVersion": "0.3.0",
            "url": url,
            "preferredTransport": BINDINGS[0],
            "additionalInterfaces": [
                {"url": url, "transport": BINDINGS[0]},
                {"url": url + OWN_03, "transport": BINDINGS[1]},
            ],
            "supportsAuthenticatedExtendedCard": facts.extended_card,
        }
        if schemes:
            card["security"] = [{name: []} for name in schemes]
    return card


def etag(card: dict[str, Any]) -> str:
    """A strong entity tag: the same for equal cards, quotes included."""
    return f'"{digest(canonical_json(card))}"'


def digest(data: bytes) -> str:
    """SHA-256, lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def _schemes(facts: CardFacts) -> dict[str, Any]:
    """By name, any one of which will do. Merged, each has both spellings; what they say must then be the same."""
    schemes: dict[str, Any] = {}
    if facts.needs_bearer:
        bearer = {"scheme": "Bearer"}
        schemes["bearer"] = {"httpAuthSecurityScheme": bearer} | ({"type": "http", **bearer} if facts.is_merged else {})
    if facts.needs_certificate:
        mutual = {"description": "A client certificate that this host knows."}
        schemes["mtls"] = {"mtlsSecurityScheme": mutual} | ({"type": "mutualTLS", **mutual} if facts.is_merged else {})
    return schemes


def _host_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {"uri": HOST_FACTS, "description": "What this host is like.", "required": False, "params": dict(facts)}


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
    if commands:
        why = "The command finds the id of its mission, where its message names one."
        listed.append({"uri": MISSION, "description": why, "required": False, "params": {}})
        why = "A question that a program still waits at is asked again, under a new prompt id; the old id takes no answer."
        listed.append({"uri": REISSUE, "description": why, "required": False, "params": {}})
    return listed


def _required(uris: tuple[str, ...]) -> list[dict[str, Any]]:
    why = "A message that does not activate it is refused."
    return [{"uri": uri, "description": why, "required": True} for uri in uris]


def _skills(commands: tuple[tuple[str, str], ...], unconfined: frozenset[str]) -> list[dict[str, Any]]:
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
            "description": f"Runs the `{adapter}` adapter command in `{mode}` mode; may ask a person."
            + (f" {UNCONFINED}" if adapter in unconfined else ""),
            "tags": ["adapter-command", mode],
        }
        for adapter, mode in commands
    ]
    return [*runs, echo]


def _first(commands: tuple[tuple[str, str], ...], index: int) -> list[str]:
    """Each value once, in the order of its first mention."""
    return list(dict.fromkeys(command[index] for command in commands))
