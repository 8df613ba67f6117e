"""Does the target keep adapter-command/v1, as far as it can be seen from outside? AC-1 to AC-14."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import Any, Final

from sandboxd.a2a.extensions import ADAPTER_COMMAND
from sandboxd.conformance import sentences
from sandboxd.conformance.bench import RUNNER, Bench, shown
from sandboxd.conformance.codec import Seen
from sandboxd.conformance.door import Refused
from sandboxd.conformance.finding import find_key
from sandboxd.conformance.hitl import read_time
from sandboxd.conformance.scenario import Scenario
from sandboxd.conformance.sentences import Sentence
from sandboxd.conformance.site import EXAMPLES

_FAILING: Final = f"{EXAMPLES}/assess-failing-request.json"
_BOTH_MODES: Final = f"{EXAMPLES}/cycle-005-request.json"  # has steps for a plan and checks for an assess run
_MODES: Final = ("plan", "assess")
_DEADLINE_S: Final = 300  # adapter-command/v1: the default of timeout_seconds
_SLACK_S: Final = 10.0  # for the clocks of two machines, and for a target that ends a process tree with patience
_TEXT_MAX_BYTES: Final = 4096


def echoes(bench: Bench) -> None:
    """AC-1."""
    bench.at("send a message without the envelope")
    said = f"echo {uuid.uuid4()}"
    seen = bench.send(bench.message(text=said))
    if isinstance(seen, Refused):
        bench.fail("the text is echoed", sentences.ECHO, seen)
    seen = bench.wait(seen, lambda task: task.has_ended or task.asks)
    bench.expect(seen.state == "completed", "the task completes", sentences.ECHO, shown(seen))
    bench.expect(said in bench.words(seen), "the text in an artifact or in the agent's message", sentences.ECHO, shown(seen))


def refuses_malformed(bench: Bench) -> None:
    """AC-2."""
    whole = bench.envelope()
    for what, envelope in (
        ("a text", "plan"),
        ("a list", [whole]),
        ("empty", {}),
        ("without `mode`", bench.envelope(mode=...)),
        ("without `command`", bench.envelope(command=...)),
        ("`command` as one text", bench.envelope(command=" ".join(whole["command"]))),
        ("`command` empty", bench.envelope(command=[])),
    ):
        _expect_refusal(bench, what, envelope, sentences.VALIDATED)


def refuses_other_modes(bench: Bench) -> None:
    """AC-3."""
    for mode in ("apply", "PLAN", "", 1, None):
        _expect_refusal(bench, f"mode {mode!r}", bench.envelope(mode=mode), sentences.MODE)


def refuses_other_commands(bench: Bench) -> None:
    """AC-4."""
    request = bench.asking
    for what, command in (
        ("another program", ["bash", RUNNER, "--request", request]),
        ("a program by path", ["/usr/bin/node", RUNNER, "--request", request]),
        ("another runner", ["node", ".aiwg/ops/runs/runner.mjs", "--request", request]),
        ("an option of node", ["node", "--eval", "process.exit(0)"]),
        ("one argument more", ["node", RUNNER, "--request", request, "--verbose"]),
        ("one argument less", ["node", RUNNER, "--request"]),
        ("another option", ["node", RUNNER, "--config", request]),
        ("a shell's line", ["node", RUNNER, "--request", f"{request}; true"]),
    ):
        _expect_refusal(bench, what, bench.envelope(command=command), sentences.SHAPE)


def confines_requests(bench: Bench) -> None:
    """AC-5."""
    for path in (
        "/etc/hostname",
        "README.md",
        "../request.json",
        ".aiwg/ops/runs/../../../README.md",
        ".aiwg/ops/adapters/sandbox-agent-runner/../../../../README.md",
        ".aiwg/ops/adapters/another-adapter/request.json",
        ".aiwg/ops/runs-of-somebody-else/request.json",
        "..\\request.json",
        "",
    ):
        command = ["node", RUNNER, "--request", path]
        _expect_refusal(bench, f"request `{path}`", bench.envelope(command=command), sentences.CONFINED)


def bounds_timeouts(bench: Bench) -> None:
    """AC-6."""
    for value in (0, -1, 901, 86_400, "soon"):  # the spec does not say what 1.5, "300" or null are
        _expect_refusal(bench, f"timeout_seconds {value!r}", bench.envelope(timeout_seconds=value), sentences.TIMEOUT)
    for value in (1, 900):
        bench.at(f"timeout_seconds {value} is within the bounds")
        taken = bench.send(bench.message(bench.envelope(timeout_seconds=value)))
        if isinstance(taken, Refused):
            bench.fail("the command is dispatched", sentences.TIMEOUT, taken)
        if taken.state == "rejected":
            bench.note(f"timeout_seconds {value} was rejected: an operator may bound it further; {shown(taken)}")


def never_echoes_denied(bench: Bench) -> None:
    """AC-7."""
    for what, envelope in (
        ("an adapter that does not exist", bench.envelope(adapter=f"no-such-adapter-{uuid.uuid4()}")),
        ("a request that does not exist", bench.envelope(f".aiwg/ops/runs/{uuid.uuid4()}.json")),
    ):
        _expect_refusal(bench, what, envelope, sentences.TRUTHFUL)


def completes_on_zero(bench: Bench) -> None:
    """AC-8."""
    bench.at("answer every question of the command")
    seen = bench.finish_off(bench.prompt(), sentences.EXIT_ZERO)
    code = find_key(seen.raw, "exit_code", "exitCode")
    if code is None and not bench.is_example:
        bench.skip("the exit code of this request is not known, and the target does not tell it")
    bench.at("the exit code decides the state")
    if code in (0, None):
        bench.expect(seen.state == "completed", "completed", sentences.EXIT_ZERO, shown(seen))
    else:
        bench.expect(seen.state == "failed", f"failed, since the exit code is {code}", sentences.EXIT_OTHER, shown(seen))
    bench.at("what the command printed is an artifact")
    bench.expect(bool(bench.output(seen).strip()), "its output in the task's artifacts", sentences.CAPTURED, shown(seen))


def fails_on_other_codes(bench: Bench) -> None:
    """AC-9."""
    bench.at("run a request whose checks fail (exit code 1)")
    envelope = bench.envelope(_FAILING, mode="assess", input_mode=...)
    seen = bench.wait(bench.start(envelope), lambda task: task.has_ended)
    bench.expect(seen.state == "failed", "failed", sentences.EXIT_OTHER, shown(seen))
    expect_kind(bench, seen, "application", sentences.EXIT_OTHER)
    bench.at("its output is an artifact")
    bench.expect("failed" in bench.output(seen), "its report in the task's artifacts", sentences.CAPTURED, shown(seen))


def exposes_mode(bench: Bench) -> None:
    """AC-10."""
    both = _BOTH_MODES if bench.is_example else bench.asking
    printed = {}
    for mode in _MODES:
        bench.at(f"run the command in {mode} mode")
        seen = bench.start(bench.envelope(both, mode=mode, input_mode=..., timeout_seconds=30))
        seen = bench.wait(seen, lambda task: task.has_ended, for_s=45)
        printed[mode] = bench.output(seen)
    told = {mode: _mode_told(text) for mode, text in printed.items()}
    if not any(told.values()):
        bench.skip("this runner prints nothing that depends on the mode")
    for mode in _MODES:
        bench.at(f"the runner was told `{mode}`")
        bench.expect(told[mode] in (mode, None), f"AIWG_A2A_ADAPTER_MODE={mode}", sentences.MODE_EXPOSED, printed[mode][:300])


def asks_only_when_told(bench: Bench) -> None:
    """AC-11."""
    bench.at("run the command that asks, without input_mode")
    seen = bench.start(bench.envelope(input_mode=..., timeout_seconds=10))
    seen = bench.wait(seen, lambda task: task.has_ended or task.asks, for_s=10 + _SLACK_S)
    bench.expect(not seen.asks, "it never becomes input-required", sentences.OPT_IN, shown(seen))
    bench.expect(seen.has_ended, "it ends, by itself or by its deadline", sentences.DEADLINE_APPLIES, shown(seen))
    bench.at("run it with input_mode, without activating hitl-prompt/v1")
    taken = bench.send(bench.message(bench.envelope(timeout_seconds=10)), extensions=(ADAPTER_COMMAND,))
    if isinstance(taken, Seen):
        taken = bench.wait(taken, lambda task: task.has_ended or task.asks, for_s=10, extensions=())
        bench.expect(taken.envelope is None, "a refusal, or a task without the envelope", sentences.ACTIVATE, shown(taken))


def limits_text(bench: Bench) -> None:
    """AC-12."""
    bench.at("drive the command until it asks")
    seen = bench.prompt()
    payload = bench.valid(seen)
    if not isinstance(payload.get("text"), str):
        bench.fail('a payload of the form {"text": "…"}', sentences.TEXT_LIMITS, payload)
    for what, text in (
        ("a newline", "y\nn"),
        ("a carriage return", "y\r"),
        ("an escape", "\x1b[A"),
        ("a NUL", "y\x00"),
        ("a DEL", "y\x7f"),
        ("4097 bytes", "y" * (_TEXT_MAX_BYTES + 1)),
        ("4098 bytes in fewer characters", "é" * (_TEXT_MAX_BYTES // 2 + 1)),
    ):
        bench.at(f"answer with {what}")
        refused = bench.answer(seen, {"text": text})
        if isinstance(refused, Seen):
            bench.fail("a refusal", sentences.TEXT_LIMITS, f"it was accepted: {shown(refused)}")
        bench.expect(refused.is_by_caller, "a refusal that calls the answer wrong", sentences.TEXT_LIMITS, refused)
        now = bench.get(seen.id)
        bench.expect(now.still_asks(seen.prompt_id), "the prompt stays open", sentences.STILL_OPEN, shown(now))
    bench.at("a good answer is still taken")
    bench.accept(seen, sentences.CF3_RETRY)


def matches_ids(bench: Bench) -> None:
    """AC-13."""
    bench.at("drive the command until it asks")
    seen = bench.prompt()
    payload = bench.valid(seen)
    for what, changes in (
        ("another context", {"context_id": str(uuid.uuid4())}),
        ("a task that nobody has", {"task_id": str(uuid.uuid4()), "context_id": ""}),
    ):
        bench.at(f"answer under {what}")
        refused = bench.answer(seen, payload, **changes)
        if isinstance(refused, Seen):
            bench.fail("a refusal", sentences.MATCH, f"it was accepted: {shown(refused)}")
        bench.expect(refused.is_by_caller, "a refusal that calls the answer wrong", sentences.MATCH, refused)
    bench.at("answer it, and see whether the task asks again")
    later = bench.accept(seen, sentences.STALE)
    later = bench.wait(later, lambda task: task.has_ended or (task.asks and task.prompt_id != seen.prompt_id), for_s=5)
    bench.expect(not later.still_asks(seen.prompt_id), "a later prompt has a new id", sentences.NEW_ID, shown(later))
    bench.at("a stale answer is refused, and changes nothing")
    stale = bench.answer(seen, payload)
    if isinstance(stale, Seen):
        bench.fail("a refusal", sentences.STALE, f"it was accepted: {shown(stale)}")
    now = bench.get(seen.id)
    same = now.state == later.state and now.prompt_id == later.prompt_id
    bench.expect(same, f"it is still {later.state}", sentences.STALE, shown(now))


def ends_by_deadline(bench: Bench) -> None:
    """AC-14."""
    bench.at("leave a question open, without timeout_seconds")
    began = datetime.now(UTC)
    seen = bench.prompt(timeout_seconds=...)
    deadline = read_time(seen.envelope.get("deadline")) if isinstance(seen.envelope, dict) else None
    if deadline is None:
        bench.note("the envelope has no deadline, so the default of 300 s was not seen")
    else:
        left_s = (deadline - began).total_seconds()
        told = f"{left_s:.0f} s were left when it asked"
        bench.expect(left_s <= _DEADLINE_S + _SLACK_S, "a deadline of at most 300 s", sentences.TIMEOUT, told)
    bench.at("leave a question open past timeout_seconds 2")
    seen = bench.start(bench.envelope(timeout_seconds=2))
    asked = bench.wait(seen, lambda task: task.asks or task.has_ended)
    at = time.monotonic()
    ended = bench.wait(asked, lambda task: task.has_ended, for_s=2 + _SLACK_S)
    bench.expect(ended.has_ended, f"it ends within {2 + _SLACK_S:.0f} s", sentences.DEADLINE_APPLIES, shown(ended))
    bench.figures["deadline_2s_took_s"] = round(time.monotonic() - at, 1)
    bench.expect(ended.state != "completed", "it has not completed", sentences.DEADLINE_APPLIES, shown(ended))
    if asked.asks and asked.prompt_id:
        bench.at("answer the question of the task that ended")
        late = bench.answer(asked, bench.valid(asked))
        if isinstance(late, Seen):
            bench.fail("409", sentences.STALE, f"it was accepted: {shown(late)}")
        bench.expect(late.is_conflict, "409 / hitl_already_answered_or_unknown", sentences.CONFLICT, late)


def expect_kind(bench: Bench, seen: Seen, kind: str, by: Sentence) -> None:
    """The kind of failure, where it is told: the spec demands it and gives it no name on the wire."""
    told = find_key(seen.raw, "fail_kind", "failKind")
    if told is None:
        bench.note(f"the task does not tell that the failure is of the {kind} kind (no `fail_kind`)")
        return
    bench.expect(str(told).lower() == kind, f"`fail_kind` {kind}", by, f"fail_kind {told}; {shown(seen)}")


def _expect_refusal(bench: Bench, what: str, envelope: Any, by: Sentence) -> None:
    """Refused, or a task that failed or was rejected; never completed, never echoed, and no fault of the server's own."""
    bench.at(f"send an envelope: {what}")
    said = f"denied {uuid.uuid4()}"
    taken = bench.send(bench.message(envelope, said))
    if isinstance(taken, Refused):
        if taken.came.status in (502, 503):
            bench.note(f"refused with HTTP {taken.came.status}, which tells the client to try the same again")
        else:
            bench.expect(taken.is_by_caller, "a refusal that calls the request wrong", by, taken)
        return
    taken = bench.wait(taken, lambda task: task.has_ended or task.asks, for_s=5)
    echoed = said in bench.words(taken)
    bench.expect(not echoed, "no echo of the text", sentences.TRUTHFUL, shown(taken))
    bench.expect(taken.state in ("failed", "rejected"), "an error, or a task that is failed or rejected", by, shown(taken))


def _mode_told(text: str) -> str | None:
    for mode in _MODES:
        if f"AIWG_A2A_ADAPTER_MODE={mode}" in text or any(line.startswith(f"{mode.title()} ") for line in text.splitlines()):
            return mode
    return None


_ADAPTER: Final = ("adapter",)
_PROMPT: Final = ("prompt",)
SCENARIOS: Final = (
    Scenario("AC-1", "without an envelope the text is echoed", echoes),
    Scenario("AC-2", "a malformed envelope is refused", refuses_malformed, _ADAPTER),
    Scenario("AC-3", "no mode but plan and assess", refuses_other_modes, _ADAPTER),
    Scenario("AC-4", "no command but the one shape", refuses_other_commands, _ADAPTER),
    Scenario("AC-5", "no request outside its two folders", confines_requests, _ADAPTER),
    Scenario("AC-6", "timeout_seconds from 1 to 900", bounds_timeouts, _PROMPT),
    Scenario("AC-7", "what is denied is never echoed", never_echoes_denied, _ADAPTER),
    Scenario("AC-8", "exit code 0 completes the task", completes_on_zero, _PROMPT),
    Scenario("AC-9", "another exit code fails it, as the application's failure", fails_on_other_codes, ("example",)),
    Scenario("AC-10", "the command is told its mode", exposes_mode, _PROMPT),
    Scenario("AC-11", "output is no question unless input_mode says so", asks_only_when_told, _PROMPT),
    Scenario("AC-12", "an answer is one line of at most 4096 bytes", limits_text, _PROMPT),
    Scenario("AC-13", "prompt, task and context match, later prompts are new", matches_ids, _PROMPT),
    Scenario("AC-14", "the command's deadline ends its question", ends_by_deadline, _PROMPT),
)
