"""What does somebody else's executor look like from outside, and what when it has one flaw?

It runs nothing: its commands are scripts of questions. What stands here was written from the specs alone, so that the harness
is proved against a second reading of them. A flaw is one word that changes one behaviour. Its clock is fast: a command's
second takes a twentieth of one.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any

import attrs

HITL = "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1"
ADAPTER = "https://agentic-sandbox.aiwg.io/extensions/adapter-command/v1"
IDEMPOTENCY = "https://agentic-sandbox.aiwg.io/extensions/idempotency/v1"
FOLDER = ".aiwg/ops/adapters/sandbox-agent-runner"
SECOND_S = 0.05
SLOW_S = 1.3

QUESTIONS = {f"{FOLDER}/examples/cycle-005-request.json": 1, f"{FOLDER}/examples/several-questions-request.json": 3}
CHECKS = {f"{FOLDER}/examples/cycle-005-request.json": 0, f"{FOLDER}/examples/assess-failing-request.json": 1}


class Fault(Exception):
    """A refusal as both doors need it."""

    def __init__(self, status: int, code: int, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.extra = status, code, message, extra


@attrs.define
class FakeTask:
    id: str
    context_id: str
    state: str = "working"
    output: str = ""
    questions: int = 0
    envelope: dict[str, Any] | None = None
    shows_until: tuple[float, dict[str, Any]] | None = None  # the flaw `slow-resume`: what a read shows until then
    fail_kind: str | None = None
    exit_code: int | None = None
    ends_at: float = 0.0
    events: list[dict[str, Any]] = attrs.field(factory=list)  # (state, envelope) as they were


@attrs.define
class Executor:
    """What is behind the doors; all of it under one lock."""

    flaw: str = ""
    tasks: dict[str, FakeTask] = attrs.field(factory=dict)
    answered: set[str] = attrs.field(factory=set)
    kept: dict[str, tuple[str, Any]] = attrs.field(factory=dict)  # idempotency: hash and task by messageId
    lock: threading.RLock = attrs.field(factory=threading.RLock)

    def extensions(self) -> list[dict[str, Any]]:
        required = self.flaw == "required-on-card"
        return [
            {"uri": HITL, "required": required, "params": {}},
            {"uri": ADAPTER, "required": False, "params": {"adapters": ["sandbox-agent-runner"], "modes": ["plan", "assess"]}},
            {"uri": IDEMPOTENCY, "required": False},
        ]

    def send(self, message: Mapping[str, Any], active: frozenset[str]) -> tuple[FakeTask, bool]:
        """The task, and whether it is a replay."""
        with self.lock:
            if IDEMPOTENCY not in active:
                return self._act(message, active), False
            message_id = str(message.get("messageId"))
            if not re.fullmatch(r"[0-9a-f-]{36}", message_id) and self.flaw != "any-message-id":
                raise Fault(400, -32602, "IDEMPOTENCY_MESSAGE_ID_MALFORMED")
            digest = hashlib.sha256(json.dumps(message, sort_keys=True).encode()).hexdigest()
            if message_id in self.kept and self.flaw != "never-replays":
                was, task = self.kept[message_id]
                if was != digest and self.flaw != "replays-other-body":
                    raise Fault(422, -32422, "idempotency.key_reused", stored=was, given=digest)
                return task, True
            task = self._act(message, active)
            self.kept.setdefault(message_id, (digest, attrs.evolve(task)))
            return task, False

    def get(self, task_id: str) -> FakeTask:
        with self.lock:
            task = self.tasks.get(task_id)
            if task is None:
                raise Fault(404, -32001, "Task not found")
            is_late = task.state in ("working", "input-required") and time.monotonic() > task.ends_at
            if is_late and self.flaw != "ignores-deadline":
                self._end(task, "failed", "infrastructure")
            return task

    def cancel(self, task_id: str) -> FakeTask:
        with self.lock:
            task = self.get(task_id)
            if task.state in ("working", "input-required"):
                self._end(task, "canceled", None)
            return task

    def restart(self) -> None:
        with self.lock:
            if self.flaw == "forgets-replays":
                self.kept.clear()
            if self.flaw == "forgets-answers":
                self.answered.clear()
            for task in self.tasks.values():
                if task.state == "input-required" and task.envelope is not None:
                    self.answered.add(task.envelope["prompt_id"])  # whoever waited for it is gone
                    if self.flaw != "asks-after-restart":
                        self._end(task, "completed" if self.flaw == "completes-on-restart" else "failed", "infrastructure")

    def _act(self, message: Mapping[str, Any], active: frozenset[str]) -> FakeTask:
        metadata = message.get("metadata") or {}
        if "hitl_response_for" in metadata:
            return self._answer(message, metadata["hitl_response_for"])
        text = "".join(part.get("text", "") for part in message.get("parts") or message.get("content") or [])
        task = FakeTask(str(uuid.uuid4()), message.get("contextId") or str(uuid.uuid4()))
        if ADAPTER not in metadata:
            task.output = "" if self.flaw == "drops-echo" else text
            return self._keep(task, "completed")
        envelope = metadata[ADAPTER]
        why = self._malformed(envelope, active)
        if why and self.flaw != "echoes-denied":
            raise Fault(400, -32602, why)
        path = envelope["command"][-1] if isinstance(envelope, dict) and envelope.get("command") else ""
        known = QUESTIONS if isinstance(envelope, dict) and envelope.get("mode") == "plan" else CHECKS
        if why or envelope["adapter"] != "sandbox-agent-runner" or path not in QUESTIONS | CHECKS:
            if self.flaw == "echoes-denied":
                task.output = text
                return self._keep(task, "completed")
            return self._keep(task, "rejected")
        return self._run(task, envelope, known.get(path, 0))

    def _malformed(self, envelope: Any, active: frozenset[str]) -> str:
        if not isinstance(envelope, dict):
            return "no object"
        command, timeout = envelope.get("command"), envelope.get("timeout_seconds", 300)
        if not isinstance(command, list) or command[:3] != ["node", f"{FOLDER}/runner.mjs", "--request"] or len(command) != 4:
            if self.flaw != "any-command" or not isinstance(command, list) or not command:
                return "command"
            envelope["command"] = ["node", f"{FOLDER}/runner.mjs", "--request", f"{FOLDER}/examples/cycle-005-request.json"]
            return ""
        inside = command[3].startswith((f"{FOLDER}/", ".aiwg/ops/runs/")) and ".." not in command[3]
        if not inside:
            return "request"
        if envelope.get("mode") not in ("plan", "assess") and not (self.flaw == "any-mode" and envelope.get("mode") == "apply"):
            return "mode"
        is_whole = isinstance(timeout, int) and not isinstance(timeout, bool)
        if not (is_whole and 1 <= timeout <= 900) and self.flaw != "any-timeout":
            return "timeout"
        if not isinstance(envelope.get("working_dir", ""), str):
            return "working_dir"
        if envelope.get("input_mode") and HITL not in active and self.flaw != "shows-without-activation":
            return "input_mode"
        return ""

    def _run(self, task: FakeTask, envelope: dict[str, Any], amount: int) -> FakeTask:
        mode = "plan" if self.flaw == "always-plan" else envelope["mode"]
        timeout = envelope.get("timeout_seconds", 300)
        task.ends_at = time.monotonic() + SECOND_S * (timeout if isinstance(timeout, int) else 300)
        if self.flaw != "loses-output":
            task.output = f"{str(mode).title()} M011/cycle: {amount} failed\n"
        if envelope["mode"] != "plan":
            task.exit_code = amount
            is_good = amount == 0 or self.flaw == "completes-on-any-exit"
            task.fail_kind = "infrastructure" if self.flaw == "wrong-kind" else "application"
            return self._keep(task, "completed" if is_good else "failed")
        self._keep(task, "working")
        if "input_mode" in envelope or self.flaw == "asks-unasked":
            task.questions = amount
            self._ask(task)
        else:
            self._end(task, "completed", None)
        return task

    def _ask(self, task: FakeTask) -> None:
        if task.questions == 0:
            task.exit_code = 0
            return self._end(task, "completed", None)
        task.questions -= 1
        schema = {
            "type": "object",
            "additionalProperties": False,
            "required": ["text"],
            "properties": {"text": {"type": "string"}},
        }
        task.envelope = {"prompt_id": str(uuid.uuid4()), "prompt": "Go on? [y/N]", "response_schema": schema}
        task.envelope["deadline"] = "2099-01-01T00:00:00Z" if self.flaw == "late-deadline" else _after(300)
        if self.flaw == "names-a-button":
            task.envelope["button"] = "Yes"
        if self.flaw == "names-an-id-that-is-none":
            task.envelope["prompt_id"] = f"prompt-{len(self.tasks)}-{task.questions}"
        return self._change(task, "input-required")

    def _answer(self, message: Mapping[str, Any], response: Mapping[str, Any]) -> FakeTask:
        task = self.tasks.get(str(message.get("taskId")))
        if task is not None:
            self.get(task.id)
        stale = Fault(409, -32010, "hitl_already_answered_or_unknown")
        if self.flaw == "not-found-for-stale":
            stale = Fault(404, -32001, "Task not found")
        if task is None:
            raise stale
        if message.get("contextId") not in (None, task.context_id) and self.flaw != "any-context":
            raise stale
        prompt_id = response.get("prompt_id")
        if prompt_id in self.answered and self.flaw == "accepts-twice":
            return task
        if task.envelope is None or prompt_id in self.answered:
            if task.state == "completed" and self.flaw == "forgets-answers" and prompt_id not in self.answered:
                return task
            raise stale
        if prompt_id != task.envelope["prompt_id"] and self.flaw != "any-prompt-id":
            raise stale
        if set(response) != {"prompt_id", "payload"}:
            raise Fault(400, -32602, "hitl_response_for")
        payload = response["payload"]
        text = payload.get("text")
        is_line = isinstance(text, str) and len(text.encode()) <= 4096 and not re.search(r"[\x00-\x1f\x7f]", text)
        if self.flaw == "takes-newlines" and isinstance(text, str):
            is_line = True
        if set(payload) != {"text"} or not is_line:
            if self.flaw == "accepts-invalid":
                return task
            if self.flaw == "ends-on-invalid":
                self._end(task, "failed", "application")
            errors = {"validation_errors": [{"path": "/text", "keyword": "type", "message": "no"}]}
            raise Fault(422, -32011, "hitl_response_invalid", **({} if self.flaw == "no-validation-errors" else errors))
        if self.flaw != "forgets-answers" or task.questions == 0:
            self.answered.add(task.envelope["prompt_id"])
        if self.flaw == "slow-resume":
            task.shows_until = (time.monotonic() + SLOW_S, task.envelope)
        task.envelope = None
        self._change(task, "working")
        self._ask(task)
        return task

    def _keep(self, task: FakeTask, state: str) -> FakeTask:
        self.tasks[task.id] = task
        self._change(task, state)
        return task

    def _end(self, task: FakeTask, state: str, kind: str | None) -> None:
        task.envelope, task.fail_kind = None, kind
        self._change(task, state)

    def _change(self, task: FakeTask, state: str) -> None:
        task.state = state
        task.events.append({"state": state, "envelope": task.envelope})


def _after(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
