"""Does the target keep hitl-prompt/v1? CF-1 to CF-6 step by step, and HP-1 to HP-5 for what no CF scenario asks."""

from __future__ import annotations

import json
import math
import re
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sandboxd.a2a.extensions import HITL_PROMPT
from sandboxd.conformance import sentences
from sandboxd.conformance.bench import POLL_S, SETTLE_S, Bench, shown
from sandboxd.conformance.codec import Seen
from sandboxd.conformance.door import Came, Refused
from sandboxd.conformance.finding import find_key
from sandboxd.conformance.payload import SCHEMA_MAX_BYTES
from sandboxd.conformance.scenario import Scenario
from sandboxd.hitl.envelope import is_uuid

RESUME_MS: Final = 1000  # CF-4
_GIVE_UP_S: Final = 15.0  # a resume that takes longer is counted as that long
_SKEW: Final = timedelta(seconds=5)  # between the clocks of the target and of the harness
_FIELDS: Final = frozenset({"prompt_id", "prompt", "response_schema", "deadline", "allowed_responders"})
_RESPONDER: Final = re.compile(r"any|specific:[^\s]+|consensus:[1-9][0-9]*")


def correlates(bench: Bench) -> None:
    """CF-1."""
    bench.at("2. drive the agent into INPUT_REQUIRED")
    seen = bench.prompt()
    bench.at("3. capture the envelope")
    bench.expect(is_uuid(seen.prompt_id), "`prompt_id` is a UUID", sentences.PROMPT_ID, seen.prompt_id)
    payload = bench.valid(seen)
    bench.at("4. send a valid response with that prompt_id")
    first = bench.answer(seen, payload)
    bench.at("5. the response is accepted and the task resumes")
    if isinstance(first, Refused):
        bench.fail("it is accepted", sentences.CF1_ACCEPTS, first)
    _expect_resumed(bench, seen, sentences.CF1_ACCEPTS)
    bench.at("6. send a second response with the same prompt_id")
    second = bench.answer(seen, payload)
    bench.at("7. it is rejected with 409")
    if isinstance(second, Seen):
        bench.fail("409 / hitl_already_answered_or_unknown", sentences.CF1_REJECTS, f"it was accepted: {shown(second)}")
    bench.expect(second.is_conflict, "409 / hitl_already_answered_or_unknown", sentences.CF1_REJECTS, second)


def accepts_valid(bench: Bench) -> None:
    """CF-2."""
    bench.at("1. drive the agent into INPUT_REQUIRED")
    seen = bench.prompt()
    bench.at("2. send a payload that fits the schema")
    came = bench.ask(bench.door.send(bench.reply(seen, bench.valid(seen)), wait=False))
    bench.at("3. HTTP 200, or JSON-RPC success")
    taken = bench.read(came)
    if isinstance(taken, Refused):
        bench.fail("the response is accepted", sentences.CF2_SUCCESS, taken)
    bench.expect(came.status == 200, "HTTP 200", sentences.CF2_SUCCESS, came)
    bench.at("4. the task leaves INPUT_REQUIRED")
    _expect_resumed(bench, seen, sentences.CF2_LEAVES)


def refuses_invalid(bench: Bench) -> None:
    """CF-3."""
    bench.at("1. drive the agent into INPUT_REQUIRED")
    seen = bench.prompt()
    wrong = bench.answers(seen).invalid()
    if not wrong:
        bench.skip("the prompt's schema takes every answer that was tried")
    for what, payload in wrong:
        bench.at(f"2. send a payload that violates the schema ({what})")
        refused = bench.answer(seen, payload)
        bench.at(f"3. 422 with validation_errors ({what})")
        if isinstance(refused, Seen):
            bench.fail("422 / hitl_response_invalid", sentences.CF3_REFUSES, f"it was accepted: {shown(refused)}")
        bench.expect(refused.is_invalid, "422 / hitl_response_invalid", sentences.INVALID, refused)
        errors = refused.validation_errors
        bench.expect(
            isinstance(errors, list) and bool(errors), "a filled `validation_errors`", sentences.ERRORS_LISTED, refused
        )
        bench.at(f"4. the task remains in INPUT_REQUIRED ({what})")
        now = bench.get(seen.id)
        bench.expect(now.still_asks(seen.prompt_id), "the same prompt is open", sentences.CF3_STAYS, shown(now))
    bench.at("5. a valid response with the same prompt_id is still accepted")
    bench.accept(seen, sentences.CF3_RETRY)
    _expect_resumed(bench, seen, sentences.CF3_RETRY)


def resumes_in_time(bench: Bench) -> None:
    """CF-4. Each trial: the time from just before the send until a read of the task shows that it went on."""
    trials = bench.options.trials
    bound_ms = RESUME_MS + bench.options.tolerance_ms
    spare = trials - math.ceil(0.95 * trials)  # so many may be late before the 95th percentile is
    taken_ms: list[float] = []
    seen: Seen | None = None
    while len(taken_ms) < trials and sum(took > bound_ms for took in taken_ms) <= spare:
        bench.at("1. drive the agent into INPUT_REQUIRED")
        if seen is None or not seen.asks or seen.prompt_id is None:
            bench.clean_up()
            seen = bench.prompt()
        draft = bench.reply(seen, bench.valid(seen))
        bench.at(f"2. send a valid response (trial {len(taken_ms) + 1})")
        asked = bench.door.send(draft, wait=False)
        began = time.monotonic()
        taken = bench.read(bench.ask(asked))
        if isinstance(taken, Refused):
            bench.fail("the response is accepted", sentences.OPEN_UNTIL, taken)
        bench.at(f"3. observe the task leave INPUT_REQUIRED (trial {len(taken_ms) + 1})")
        now = bench.get(seen.id)
        while now.still_asks(seen.prompt_id) and time.monotonic() - began < _GIVE_UP_S:
            time.sleep(POLL_S)
            now = bench.get(seen.id)
        taken_ms.append((time.monotonic() - began) * 1000)
        seen = bench.wait(now, lambda task: task.has_ended or task.asks)
    taken_ms.sort()
    p95_ms = taken_ms[math.ceil(0.95 * len(taken_ms)) - 1]
    bench.figures |= {
        "resume_trials": len(taken_ms),
        "resume_p50_ms": round(taken_ms[(len(taken_ms) - 1) // 2], 1),
        "resume_p95_ms": round(p95_ms, 1),
        "resume_max_ms": round(taken_ms[-1], 1),
    }
    bench.at("4. the 95th percentile is at most 1000 ms")
    told = f"p95 {p95_ms:.0f} ms, slowest {taken_ms[-1]:.0f} ms, after {len(taken_ms)} of {trials} trials"
    bench.expect(
        len(taken_ms) == trials and p95_ms <= bound_ms,
        f"p95 at most {RESUME_MS} ms" + (f" + {bench.options.tolerance_ms} ms tolerance" if bench.options.tolerance_ms else ""),
        sentences.CF4_BOUND,
        told,
    )


def is_transport_only(bench: Bench) -> None:
    """CF-5. That the spec itself obliges no agent to display anything (step 3) is no question to a target."""
    bench.at("1. inspect the envelope")
    began = datetime.now(UTC)
    seen = bench.prompt()
    envelope = seen.envelope
    if not isinstance(envelope, Mapping):
        bench.fail("an object", sentences.POPULATED, envelope)
    bench.at("2. no field but the spec's five, each as it is described")
    extra = sorted(set(envelope) - _FIELDS)
    bench.expect(not extra, "no additional property, so none that names a UI, channel or person", sentences.CLOSED, extra)
    bench.expect(is_uuid(envelope.get("prompt_id")), "a UUID", sentences.PROMPT_ID, envelope.get("prompt_id"))
    prompt = envelope.get("prompt")
    bench.expect(isinstance(prompt, str) and bool(prompt), "a text that is not empty", sentences.PROMPT, prompt)
    _check_schema(bench, envelope.get("response_schema"))
    bench.answers(seen)
    if "deadline" in envelope:
        deadline = read_time(envelope["deadline"])
        told = f"`{envelope['deadline']}` at {began:%Y-%m-%dT%H:%M:%SZ}"
        if deadline is None:
            bench.fail("an RFC 3339 timestamp", sentences.DEADLINE, told)
        bench.expect(deadline > began - _SKEW, "a time in the future", sentences.DEADLINE, told)
    if "allowed_responders" in envelope:
        entries = envelope["allowed_responders"]
        fits = isinstance(entries, list) and all(isinstance(entry, str) and _RESPONDER.fullmatch(entry) for entry in entries)
        bench.expect(fits, "a list of `any`, `specific:…` and `consensus:N`", sentences.RESPONDERS, entries)


def survives_disconnect(bench: Bench) -> None:
    """CF-6."""
    bench.at("1. drive the agent into INPUT_REQUIRED, on a stream where there are streams")
    draft = bench.message(bench.envelope())
    first: Seen | None = None
    before_prompt = last = ""
    with bench.follow(bench.door.stream(draft)) as (came, events):
        if _is_stream(came):
            for number, seen in events:
                if seen is not None and seen.asks:
                    first, before_prompt = seen, last
                    bench.own(seen)
                    break
                last = number
    bench.at("2. disconnect")
    bench.site.line.close()
    if first is None:
        bench.note(f"no prompt came on a stream of this door ({came.asked}: HTTP {came.status}); replay was judged by reads")
        first = bench.prompt()
    bench.expect(isinstance(first.envelope, Mapping), "the update holds the envelope", sentences.REPLAYED, shown(first))
    bench.at("3. reconnect and ask for a replay")
    replayed = _replay(bench, first, after="")
    if before_prompt:
        _expect_same(bench, first, _replay(bench, first, after=before_prompt), f"with Last-Event-ID {before_prompt}")
    bench.at("4. the envelope is replayed as it was")
    _expect_same(bench, first, replayed, "on a new connection")
    _expect_same(bench, first, bench.get(first.id), "by a read of the task")
    bench.at("5. a valid response is accepted")
    bench.accept(first, sentences.CF6_ACCEPTED)
    _expect_resumed(bench, first, sentences.CF6_ACCEPTED)


def is_declared(bench: Bench) -> None:
    """HP-1."""
    bench.at("the card's capabilities.extensions")
    found = bench.site.extension(HITL_PROMPT)
    if found is None:
        bench.fail("the extension's URI", sentences.DECLARED, "the card does not list it")
    bench.expect(found.get("required", False) is False, "`required: false`", sentences.NOT_REQUIRED, found)
    bench.expect(found.get("params", {}) in ({}, None), "empty `params`", sentences.NO_PARAMS, found)


def is_echoed(bench: Bench) -> None:
    """HP-2."""
    bench.at("send a command with the extension activated")
    came = bench.ask(bench.door.send(bench.message(bench.envelope()), wait=False))
    seen = bench.read(came)
    if isinstance(seen, Refused):
        bench.fail("the command is dispatched", sentences.VALIDATED, seen)
    _expect_echo(bench, came)
    seen = bench.wait(seen, lambda task: task.asks or task.has_ended)
    bench.at("read the task")
    _expect_echo(bench, bench.ask(bench.door.get(seen.id)))
    if not seen.asks:
        bench.fail("the task becomes input-required", sentences.DETECTED, shown(seen))
    bench.at("answer it, twice")
    draft = bench.reply(seen, bench.valid(seen))
    _expect_echo(bench, bench.ask(bench.door.send(draft, wait=False)))
    _expect_echo(bench, bench.ask(bench.door.send(bench.reply(seen, bench.valid(seen)), wait=False)))


def is_silent_unless_activated(bench: Bench) -> None:
    """HP-3."""
    bench.at("read a task that asks, without the extension")
    seen = bench.prompt()
    plain = bench.ask(bench.door.get(seen.id), extensions=())
    found = find_key(plain.body, HITL_PROMPT)
    bench.expect(found is None, "no envelope in the answer", sentences.NOT_ACTIVATED, plain)


def refuses_foreign_ids(bench: Bench) -> None:
    """HP-4."""
    bench.at("answer with a prompt_id that nobody has")
    seen = bench.prompt()
    payload = bench.valid(seen)
    _expect_conflict(bench, bench.answer(seen, payload, prompt_id=str(uuid.uuid4())), sentences.CONFLICT)
    bench.at("answer with the prompt_id of another task")
    other = bench.prompt()
    bench.expect(other.prompt_id != seen.prompt_id, "each prompt has an id of its own", sentences.UNIQUE, other.prompt_id)
    _expect_conflict(bench, bench.answer(seen, payload, prompt_id=other.prompt_id), sentences.OPEN_ID)
    bench.at("both prompts are still open")
    for asked in (seen, other):
        now = bench.get(asked.id)
        bench.expect(now.still_asks(asked.prompt_id), "the prompt is still open", sentences.OPEN_UNTIL, shown(now))
    bench.at("answer with a further property beside prompt_id and payload")
    if isinstance(bench.answer(seen, payload, responder="somebody"), Seen):
        bench.note(f"a further property of hitl_response_for was accepted ({sentences.RESPONSE_CLOSED})")


def takes_one_of_two(bench: Bench) -> None:
    """HP-5."""
    bench.at("send four valid responses at once")
    seen = bench.prompt()
    payload = bench.valid(seen)
    asked = [bench.door.send(bench.reply(seen, payload), wait=False) for _ in range(4)]
    with ThreadPoolExecutor(len(asked)) as pool:
        came = list(pool.map(bench.ask, asked))
    read = [bench.read(one) for one in came]
    accepted = [one for one in read if isinstance(one, Seen)]
    bench.at("one is accepted, three are rejected with 409")
    bench.expect(len(accepted) == 1, "exactly one is accepted", sentences.ONCE, f"{len(accepted)} were accepted")
    for one in read:
        if isinstance(one, Refused):
            bench.expect(one.is_conflict, "409 / hitl_already_answered_or_unknown", sentences.CONFLICT, one)


def read_time(value: Any) -> datetime | None:
    """An RFC 3339 timestamp; None when it is none."""
    if not isinstance(value, str) or not re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", value):
        return None
    try:
        return datetime.fromisoformat(value.upper())
    except ValueError:
        return None


def _check_schema(bench: Bench, schema: Any) -> None:
    is_object = isinstance(schema, Mapping) and schema.get("type") == "object"
    bench.expect(is_object, "a schema of type `object`", sentences.SCHEMA, schema)
    size = len(json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode())
    bench.expect(size <= SCHEMA_MAX_BYTES, f"at most {SCHEMA_MAX_BYTES} bytes", sentences.SCHEMA_SIZE, f"{size} bytes")
    if schema.get("additionalProperties") is not False:
        bench.note("response_schema leaves additionalProperties open (SHOULD be false)")


def _expect_resumed(bench: Bench, asked: Seen, by: sentences.Sentence) -> None:
    assert asked.prompt_id is not None
    now = bench.wait(bench.get(asked.id), lambda task: not task.still_asks(asked.prompt_id), for_s=SETTLE_S)
    bench.expect(not now.still_asks(asked.prompt_id), "the task leaves INPUT_REQUIRED", by, shown(now))


def _expect_conflict(bench: Bench, read: Seen | Refused, by: sentences.Sentence) -> None:
    if isinstance(read, Seen):
        bench.fail("409 / hitl_already_answered_or_unknown", by, f"it was accepted: {shown(read)}")
    bench.expect(read.is_conflict, "409 / hitl_already_answered_or_unknown", by, read)


def _expect_echo(bench: Bench, came: Came) -> None:
    said = ", ".join(came.headers.get(name, "") for name in ("A2A-Extensions", "X-A2A-Extensions"))
    echoed = {uri.strip() for uri in said.split(",")}
    told = f"{came.asked}: HTTP {came.status}, A2A-Extensions: {said.strip(', ') or '(none)'}"
    bench.expect(HITL_PROMPT in echoed, "the URI in the answer's header", sentences.ECHOED, told)


def _is_stream(came: Came) -> bool:
    return came.status == 200 and came.body is None and came.text == "a stream"


def _replay(bench: Bench, first: Seen, *, after: str) -> Seen:
    """What a new subscription shows of the prompt; a door that cannot subscribe is read instead."""
    with bench.follow(bench.door.subscribe(first.id), after=after, for_s=5.0) as (came, events):
        if not _is_stream(came):
            bench.note(f"this door has no subscription ({came.asked}: HTTP {came.status}); replay was judged by reads")
            return bench.get(first.id)
        shows = None
        for _, seen in events:
            shows = seen or shows
            if seen is not None and seen.asks and isinstance(seen.envelope, Mapping):
                break
    if shows is None:
        bench.fail("the status update with the envelope", sentences.REPLAYED, f"{came.asked}: nothing about the task in 5 s")
    return shows


def _expect_same(bench: Bench, first: Seen, again: Seen, where: str) -> None:
    old, new = first.envelope, again.envelope
    for name in ("prompt_id", "response_schema"):
        was, now = old.get(name), new.get(name) if isinstance(new, Mapping) else None
        bench.expect(
            was == now, f"the same `{name}` {where}", sentences.CF6_REPLAYED, f"it was {was}, now {now}; {shown(again)}"
        )


_PROMPT: Final = ("prompt",)
SCENARIOS: Final = (
    Scenario("CF-1", "prompt_id correlates answer and question", correlates, _PROMPT),
    Scenario("CF-2", "a schema-valid response is accepted", accepts_valid, _PROMPT),
    Scenario("CF-3", "a schema-invalid response is 422, the prompt stays open", refuses_invalid, _PROMPT),
    Scenario("CF-4", "the task resumes within a second", resumes_in_time, _PROMPT),
    Scenario("CF-5", "the envelope is transport-only", is_transport_only, _PROMPT),
    Scenario("CF-6", "replay survives a disconnect", survives_disconnect, _PROMPT),
    Scenario("HP-1", "the extension is declared on the card", is_declared),
    Scenario("HP-2", "the activated URI is echoed", is_echoed, _PROMPT),
    Scenario("HP-3", "no envelope without activation", is_silent_unless_activated, _PROMPT),
    Scenario("HP-4", "only the id of a prompt that is open on that task", refuses_foreign_ids, _PROMPT),
    Scenario("HP-5", "of answers at the same time one is accepted", takes_one_of_two, _PROMPT),
)
