"""Which extensions does a request activate, and under which URIs does our own data travel?

A2A 1.0 §4.6: by header only, per request, by exact string. `A2A-Extensions` (1.0) and `X-A2A-Extensions` (0.3) are read
alike; several lines are joined. Unknown URIs are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

HITL_PROMPT: Final = "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1"
ADAPTER_COMMAND: Final = "https://agentic-sandbox.aiwg.io/extensions/adapter-command/v1"
IDEMPOTENCY: Final = "https://agentic-sandbox.aiwg.io/extensions/idempotency/v1"

# Our own extensions, declared in the card and activated like the specs'.
MISSION: Final = "urn:sandboxd:mission:v1"  # message metadata {mission_id}: what the command finds as AIWG_MISSION_ID
REISSUE: Final = "urn:sandboxd:reissue:v1"  # a question is asked again, for the same wait, under a new prompt id
REISSUED_AS: Final = "reissued_as"  # with it, in prompt-news and in the facts of a refusal: the new id

# idempotency/v1: how long, and how many, requests are remembered.
IDEMPOTENCY_TTL_S: Final = 86_400
IDEMPOTENCY_MAX_ENTRIES: Final = 100_000

HITL_RESPONSE_FOR: Final = "hitl_response_for"  # hitl-prompt/v1, Response Envelope: a bare key of message.metadata

# Our own data beside the specs' (A2A 1.0 §4.6.3: values under keys that are URIs).
OUTCOME: Final = "urn:sandboxd:outcome:v1"  # status message of a terminal state: reason, fail_kind, exit_code, …
PROMPT_FACTS: Final = "urn:sandboxd:prompt:v1"  # status message of input-required: kind, choices, default, rule, evidence
PROMPT_NEWS: Final = "urn:sandboxd:prompt-news:v1"  # status message after a prompt closed: prompt_id, what, who, why
NOTICE: Final = "urn:sandboxd:notice:v1"  # status message while working: what else is known of a wait or an answer
RUN_FACTS: Final = "urn:sandboxd:run:v1"  # task metadata: policy, digest, isolation, instance
HOST_FACTS: Final = "urn:sandboxd:host:v1"  # extended agent card: isolation, adapters, limits, the name of the workspace
LINKS: Final = (
    "urn:sandboxd:links:v1"  # message or task metadata: what it belongs to, for the audit of whoever drives this host
)
RELAY: Final = (
    "urn:sandboxd:relay:v1"  # message metadata {via: [ids]}: through which cockpits a task came, so that none comes round
)
ARTIFACT_CUT: Final = "urn:sandboxd:cut:v1"  # artifact metadata: bytes dropped between the kept head and tail


TCK_REQUIRED: Final = "urn:a2a:tck:required-extension"  # the public kit's, for an agent that requires one

KNOWN: Final = (HITL_PROMPT, ADAPTER_COMMAND, IDEMPOTENCY, MISSION, REISSUE, TCK_REQUIRED)


def activated(header_values: Iterable[str]) -> frozenset[str]:
    """The known extensions that these header lines name."""
    named = {uri.strip() for line in header_values for uri in line.split(",")}
    return frozenset(uri for uri in KNOWN if uri in named)


def echo(active: frozenset[str]) -> str:
    """The value of the answer's `A2A-Extensions` header; empty: leave the header out."""
    return ", ".join(uri for uri in KNOWN if uri in active)
