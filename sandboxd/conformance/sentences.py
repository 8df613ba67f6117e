"""By which sentence of which spec is a target judged?

Every finding names one of these, so whoever is judged can look it up. The texts are the specs' own, cut where they run on.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from sandboxd.values import frozen


@frozen
class Sentence:
    """One sentence of a spec, and where it stands."""

    spec: str
    section: str
    text: str

    def __str__(self) -> str:
        return f"{self.spec}, {self.section}: “{self.text}”"

    def as_json(self) -> dict[str, Any]:
        """The sentence as a JSON report holds it."""
        return attrs.asdict(self)


def _hitl(section: str, text: str) -> Sentence:
    return Sentence("hitl-prompt/v1", section, text)


def _adapter(section: str, text: str) -> Sentence:
    return Sentence("adapter-command/v1", section, text)


def _idempotency(section: str, text: str) -> Sentence:
    return Sentence("idempotency/v1", section, text)


# ── A2A itself: only what the scenarios stand on; A2A's own kit judges the rest ──
READABLE: Final = Sentence("A2A", "data model", "an answer is a Task, a Message or an error, as the version spells them")

# ── hitl-prompt/v1 ──
DECLARED: Final = _hitl("Activation", "Agents that support this extension MUST declare it in their AgentCard")
NOT_REQUIRED: Final = _hitl("Activation", "The extension MUST be declared with `required: false`")
NO_PARAMS: Final = _hitl("Activation", "The `params` object MUST be empty (`{}`)")
ECHOED: Final = _hitl("Activation", "the agent MUST echo the URI in its response `A2A-Extensions` header")
NOT_ACTIVATED: Final = _hitl("Activation", "Agents that have not had this extension activated MUST NOT emit the envelope")
POPULATED: Final = _hitl("Prompt Envelope", "it MUST populate `TaskStatus.message.metadata` with a key equal to this URI")
PROMPT_ID: Final = _hitl("Prompt Envelope", "prompt_id: MUST; RFC 4122 UUID")
UNIQUE: Final = _hitl("Prompt Envelope", "prompt_id: Unique within the agent's lifetime")
PROMPT: Final = _hitl("Prompt Envelope", "prompt: MUST; Human-readable question. MUST NOT be empty")
SCHEMA: Final = _hitl("Prompt Envelope", 'response_schema: MUST declare `type: "object"` at the top level')
SCHEMA_2020: Final = _hitl("Prompt Envelope", "response_schema: A JSON Schema (draft 2020-12)")
SCHEMA_SIZE: Final = _hitl("Security Considerations S-2", "`response_schema` whose serialized JSON exceeds 64 KiB: MUST NOT")
DEADLINE: Final = _hitl("Prompt Envelope", "deadline: RFC 3339 timestamp, MUST be in the future at emission time")
RESPONDERS: Final = _hitl("Responder policy", "Each entry MUST match `^(any|specific:[^\\s]+|consensus:[1-9][0-9]*)$`")
CLOSED: Final = _hitl("Prompt Envelope", "The envelope MUST NOT contain additional properties beyond those listed above")
RESPONSE_CLOSED: Final = _hitl("Response Envelope", "The `hitl_response_for` object MUST NOT contain additional properties")
OPEN_ID: Final = _hitl("Response Envelope", "prompt_id: MUST equal the `prompt_id` from a still-open prompt envelope")
RESUMED: Final = _hitl("Acceptance and rejection", "it MUST transition out of `INPUT_REQUIRED` within 1 second of accepting")
ONCE: Final = _hitl("Acceptance and rejection", "MUST NOT subsequently accept a second response for the same `prompt_id`")
CONFLICT: Final = _hitl(
    "Acceptance and rejection",
    "unknown or already answered: MUST reject with HTTP `409 Conflict`"
    ' (or JSON-RPC `code: -32010, message: "hitl_already_answered_or_unknown"`)',
)
INVALID: Final = _hitl(
    "Acceptance and rejection",
    "If `payload` fails schema validation: MUST reject with HTTP `422 Unprocessable Entity`"
    ' (or JSON-RPC `code: -32011, message: "hitl_response_invalid"`)',
)
ERRORS_LISTED: Final = _hitl("Acceptance and rejection", "The error envelope MUST include a `validation_errors` array")
STILL_OPEN: Final = _hitl("Acceptance and rejection", "the Task MUST remain in `INPUT_REQUIRED` so the orchestrator may retry")
REPLAYED: Final = _hitl("Outbox / Replay", "the prompt envelope MUST be included in the buffered status update")
OPEN_UNTIL: Final = _hitl("Outbox / Replay", "MUST treat the prompt as still open until a valid response or the deadline")
CF1_ACCEPTS: Final = _hitl("CF-1 step 5", "Assert the agent accepts the response and resumes")
CF1_REJECTS: Final = _hitl("CF-1 step 7", "Assert the agent rejects with `409 Conflict` / `hitl_already_answered_or_unknown`")
CF2_SUCCESS: Final = _hitl("CF-2 step 3", "Assert HTTP `200 OK` (or JSON-RPC success)")
CF2_LEAVES: Final = _hitl("CF-2 step 4", "Assert the Task transitions out of `INPUT_REQUIRED`")
CF3_REFUSES: Final = _hitl("CF-3 step 3", "Assert HTTP `422 Unprocessable Entity` with `validation_errors` populated")
CF3_STAYS: Final = _hitl("CF-3 step 4", "Assert the Task remains in `INPUT_REQUIRED`")
CF3_RETRY: Final = _hitl("CF-3 step 5", "Assert a subsequent valid response with the same `prompt_id` is still accepted")
CF4_BOUND: Final = _hitl("CF-4 step 4", "Assert `t1 - t0 ≤ 1000 ms` (95th-percentile across at least 20 trials)")
CF5_NO_UI: Final = _hitl("CF-5 step 2", "Assert no field references a UI, delivery channel, or human identity directory")
CF6_REPLAYED: Final = _hitl("CF-6 step 4", "Assert the envelope is replayed with identical `prompt_id` and `response_schema`")
CF6_ACCEPTED: Final = _hitl("CF-6 step 5", "Send a valid response and assert acceptance")
CF7_GREEN: Final = _hitl("CF-7 step 2", "Assert the harness reports a green run for all of CF-1..CF-6")

# ── adapter-command/v1 ──
ECHO: Final = _adapter(
    "Semantics", "If the envelope is absent, `messages:send` preserves the default echo-backed text dispatch"
)
VALIDATED: Final = _adapter("Semantics", "If the envelope is present, the server validates it before dispatch")
TRUTHFUL: Final = _adapter(
    "Semantics", "Unsupported or unsafe envelopes fail truthfully; they must not be downgraded to echo success"
)
MODE: Final = _adapter("Semantics", "`mode` must be one of `plan` or `assess`")
MODE_EXPOSED: Final = _adapter("Semantics", "the selected value is exposed to the command as `AIWG_A2A_ADAPTER_MODE`")
SHAPE: Final = _adapter("Semantics", "The only supported command shape: node … runner.mjs --request <relative-request-path>")
CONFINED: Final = _adapter(
    "Semantics",
    "`<relative-request-path>` must stay under `.aiwg/ops/adapters/sandbox-agent-runner/` or `.aiwg/ops/runs/`",
)
TIMEOUT: Final = _adapter("Semantics", "`timeout_seconds` defaults to `300` and must be between `1` and `900`")
EXIT_ZERO: Final = _adapter("Task State", "exit code `0` transitions the task to `completed`")
EXIT_OTHER: Final = _adapter("Task State", "non-zero exit transitions the task to `failed` with application failure")
INFRASTRUCTURE: Final = _adapter(
    "Task State", "dispatch/runtime failures transition the task to `failed` with infrastructure failure"
)
CAPTURED: Final = _adapter("Task State", "Stdout and stderr chunks are captured as task artifacts")
OPT_IN: Final = _adapter("Optional text input", "Without this field, output is never treated as an input request")
ACTIVATE: Final = _adapter(
    "Optional text input", "Activate `hitl-prompt/v1` in the `A2A-Extensions` header and set `input_mode`"
)
DETECTED: Final = _adapter("Optional text input", "prompts on the last output line are exposed as an A2A `input-required` task")
TEXT_LIMITS: Final = _adapter("Optional text input", "text is limited to 4096 bytes and cannot contain control characters")
MATCH: Final = _adapter("Optional text input", "The prompt ID, instance, task and context must match")
DEADLINE_APPLIES: Final = _adapter("Optional text input", "the command's deadline applies")
EXACTLY: Final = _adapter("Optional text input", "deliver input to that exact running command")
STALE: Final = _adapter("Optional text input", "Duplicate or stale replies are rejected")
NEW_ID: Final = _adapter("Optional text input", "A later prompt receives a new ID")
NO_REATTACH: Final = _adapter(
    "Optional text input",
    "management restart cannot silently reattach input to a different process"
    " and instead rejects delivery without a matching live binding",
)

# ── idempotency/v1 ──
SAME: Final = _idempotency("same id, same body", "stored status, headers, body unchanged plus `Idempotent-Replayed: true`")
FIRST: Final = _idempotency("replay header", 'header absent otherwise, never "false"')
OTHER: Final = _idempotency("same id, other body", "422 (JSON-RPC -32422) with both hashes, and the stored row is kept")
MALFORMED_ID: Final = _idempotency("messageId", "UUID-shaped, else 400 `IDEMPOTENCY_MESSAGE_ID_MALFORMED`")
SURVIVES: Final = _idempotency("durability", "survives restart")
