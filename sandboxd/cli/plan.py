"""What does a person see before anything runs?

Pure functions from a decision to lines and to JSON. Nothing is promised here that this run does not keep: at isolation level
`none` the program can do whatever the person who typed `run` can.
"""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final, assert_never

import attrs

from sandboxd.cli.console import size
from sandboxd.errors import Problem
from sandboxd.policy.model import Allowed, Decision, Denied, LaunchPlan
from sandboxd.values import frozen

_TICK: Final = "✓"
_CROSS: Final = "✗"
_VALUE_MAX_CHARS: Final = 120
_LATER: Final = ("AIWG_A2A_TASK_ID", "AIWG_MISSION_ID")  # a preview has no task yet


@frozen
class Setting:
    """What a plan is shown with: whose instance, which folder, where the permission comes from, who answers."""

    request: str
    instance: str
    root: Path
    source: str
    answered_by: str
    own_env: Collection[str]


def decision_lines(decision: Decision, setting: Setting) -> list[str]:
    """The plan, or every reason against it, for a person."""
    match decision:
        case Allowed(plan=plan):
            return plan_lines(plan, setting)
        case Denied(reasons=reasons):
            return refusal_lines(reasons, setting)
        case _:
            assert_never(decision)


def decision_json(decision: Decision, setting: Setting) -> dict[str, Any]:
    """The same for a program."""
    match decision:
        case Allowed(plan=plan):
            return plan_json(plan, setting)
        case Denied(reasons=reasons):
            return refusal_json(reasons, setting)
        case _:
            assert_never(decision)


def plan_lines(plan: LaunchPlan, setting: Setting) -> list[str]:
    """What will run, its environment, its limits, and every check that it passed."""
    limits, dropped = plan.limits, len(set(setting.own_env) - set(plan.env))
    bounds = [
        f"{limits.timeout_s} s",
        f"output {size(limits.output_bytes)}",
        f"{limits.open_files} open files",
        f"files {size(limits.file_bytes)}" if limits.file_bytes is not None else "",
        f"memory {size(limits.memory_bytes)}" if limits.memory_bytes is not None else "",
        f"{limits.processes} processes" if limits.processes is not None else "",
        f"{limits.cpu_percent} % of a processor" if limits.cpu_percent is not None else "",
    ]
    asks = (
        f"input text-line, questions answered {setting.answered_by}"
        if plan.terminal
        else "no input: whatever it reads is at its end"
    )
    said = f"{_TICK} adapter  {_TICK} mode  {_TICK} command shape  {_TICK} timeout"
    checks = [said, *[f"{_TICK} {path.hole}: {path.path}" for path in plan.paths]]
    lines = [
        f"{plan.mode}  {setting.request}",
        *_field("allowed by", f"{plan.policy}, {setting.source}"),
        *_field("", f"policy {plan.policy_digest}"),
        *_field("will run", shlex.join(plan.argv)),
        *_field("program", plan.program),
        *_field("in", os.path.normpath(setting.root / plan.cwd)),
        *_field("isolation", _isolation(plan)),
        *[line for note in plan.isolation_notes for line in _field("", f"note: {note}")],
        *_environment(dict(plan.env), dropped),
        *_field("limits", ", ".join(bound for bound in bounds if bound)),
        *_field("", asks),
    ]
    return lines + [line for number, check in enumerate(checks) for line in _field("checks" if number == 0 else "", check)]


def refusal_lines(reasons: Sequence[Problem], setting: Setting) -> list[str]:
    """Why it will not run: every reason."""
    lines = [f"refused  {setting.request}", *_field("asked of", f"{setting.source}, root {setting.root}")]
    return lines + [
        line for number, it in enumerate(reasons) for line in _field("checks" if number == 0 else "", f"{_CROSS} {it}")
    ]


def plan_json(plan: LaunchPlan, setting: Setting) -> dict[str, Any]:
    """The same for a program."""
    return {
        "schema": "sandboxd.plan/1",
        "allowed": True,
        "request": setting.request,
        "instance": setting.instance,
        "root": str(setting.root),
        "adapter": plan.adapter,
        "mode": plan.mode,
        "policy": plan.policy,
        "policy_digest": plan.policy_digest,
        "source": setting.source,
        "program": plan.program,
        "argv": list(plan.argv),
        "cwd": plan.cwd,
        "env": dict(plan.env),
        "paths": [{"hole": path.hole, "path": path.path, "kind": path.kind} for path in plan.paths],
        "limits": attrs.asdict(plan.limits),
        "terminal": plan.terminal,
        "isolation": plan.isolation,
        "isolation_notes": list(plan.isolation_notes),
        "network": plan.network,
        "writable": list(plan.writable),
        "tmp_bytes": plan.tmp_bytes,
    }


def refusal_json(reasons: Sequence[Problem], setting: Setting) -> dict[str, Any]:
    """The reasons for a program."""
    return {
        "schema": "sandboxd.plan/1",
        "allowed": False,
        "request": setting.request,
        "instance": setting.instance,
        "root": str(setting.root),
        "source": setting.source,
        "reasons": [{"field": reason.field, "reason": reason.reason} for reason in reasons],
    }


def _field(name: str, value: str) -> list[str]:
    return [f"  {name:<10} {value}"]


def _isolation(plan: LaunchPlan) -> str:
    """The level that is kept, in so many words; whoever runs the engine in the foreground is its user."""
    if plan.isolation == "none":
        return "NONE: it runs with your own rights"
    reach = f"writes {', '.join(plan.writable) or 'nothing'} and a /tmp of {size(plan.tmp_bytes)}"
    return f"{plan.isolation}: {reach}, {'uses the network' if plan.network else 'no network'}"


def _environment(env: dict[str, str], dropped: int) -> list[str]:
    told = f"{len(env)} variables, built from the policy; {dropped} of yours are not passed on"
    lines = _field("env", told)
    for name, value in sorted((env | {name: "(given at the start)" for name in _LATER if name in env}).items()):
        short = value if len(value) <= _VALUE_MAX_CHARS else value[: _VALUE_MAX_CHARS - 1] + "…"
        first, *more = short.split("\n")
        lines += _field("", f"{name}={first}" + ("…" if more else ""))
    return lines
