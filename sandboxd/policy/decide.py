"""May this command run here, and as what exactly?

Pure: policies, a well-formed adapter command and the instance that it is for, in; a `Decision` out. The caller's argv is
matched against the policy and then thrown away: the plan is built from the policy and what stood in its holes. A denial names
every reason at once, each under the name of the hole or field and the kind of rule that failed (`request: path-under`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, assert_never

import attrs

from sandboxd.errors import Problem
from sandboxd.policy.adapter import MESSAGE_VARIABLE, AdapterCommand
from sandboxd.policy.exec_text import shown, unfit
from sandboxd.policy.model import (
    HANDED_FIRST,
    Allowed,
    CheckedPath,
    Decision,
    Denied,
    Hole,
    Isolation,
    LaunchPlan,
    OneOf,
    PathUnder,
    Policy,
)
from sandboxd.policy.paths import is_below, join, not_plain
from sandboxd.policy.table import listed
from sandboxd.values import frozen

# Weakest first.
LEVELS: Final[tuple[Isolation, ...]] = ("none", "standard", "strict")


@frozen
class Subject:
    """Whom the decision is for: the task, its instance, and what this host offers.

    `root_shown` is the name of the instance's root for clients, `root_real` its real path. `programs` are the config's
    `[programs]`. `isolation` is the level that the config asks for: a policy can ask for a stronger
    one, never for a weaker. `mission_id`: what the client says that the task belongs to; None: it says nothing.
    """

    instance: str
    task_id: str
    context_id: str
    message_text: str
    root_shown: str
    root_real: str
    programs: Mapping[str, str]
    isolation: Isolation
    mission_id: str | None = None


def decide(policies: Sequence[Policy], command: AdapterCommand, subject: Subject) -> Decision:
    """The plan of the one policy for this adapter, or every reason against it."""
    fitting = [policy for policy in policies if policy.adapter == command.adapter]
    if len(fitting) != 1:
        return Denied((_no_single_policy(policies, fitting, command.adapter),))
    policy = fitting[0]
    program, program_reasons = _find_program(policy, subject.programs)
    values, argv_reasons = _match_argv(policy, command)
    folder, folder_reasons = _find_folder(policy, command.working_dir, subject)
    timeout_s = policy.limits.timeout_s if command.timeout_s is None else command.timeout_s
    hole_reasons = [reason for name, value in values.items() for reason in [*_check_hole(name, policy.holes[name], value)]]
    reasons = [
        *hole_reasons,
        *argv_reasons,
        *folder_reasons,
        *_check_timeout(timeout_s, policy.timeout_max_s),
        *program_reasons,
    ]
    if reasons:
        return Denied(tuple(reasons))
    level = max(subject.isolation, policy.isolation.level or "none", key=LEVELS.index)
    paths = _checked_paths(policy, values, folder)
    handed = [checked.hole for checked in paths if checked.hands_bytes]
    values |= {name: f"/proc/self/fd/{number}" for number, name in enumerate(handed, HANDED_FIRST)}
    plan = LaunchPlan(
        adapter=policy.adapter,
        mode=command.mode,
        program=program,
        argv=tuple(template.render(values) for template in policy.argv),
        cwd=folder,
        env=_environment(policy, values, command, subject),
        paths=paths,
        limits=attrs.evolve(policy.limits, timeout_s=timeout_s),
        prompts=policy.prompts,
        terminal=command.text_line or policy.terminal == "always",
        isolation=level,
        policy=policy.name,
        policy_digest=policy.digest,
        isolation_notes=_isolation_notes(policy, level),
        network=policy.isolation.network is True,
        writable=policy.isolation.writable or (),
        tmp_bytes=policy.isolation.tmp_bytes,
    )
    if unfit_reasons := _check_exec(plan):
        return Denied(unfit_reasons)
    return Allowed(plan)


def _no_single_policy(policies: Sequence[Policy], fitting: Sequence[Policy], adapter: str) -> Problem:
    if fitting:
        names = listed(policy.name for policy in fitting)  # not their paths: a reason goes to the client
        return Problem("adapter", f"several active policies are for {shown(adapter)} ({names}), so none counts", "adapter")
    if not policies:
        return Problem("adapter", f"no policy is active here, so nothing may run, not even {shown(adapter)}", "adapter")
    known = listed(sorted({policy.adapter for policy in policies}))
    return Problem("adapter", f"no active policy is for {shown(adapter)}; allowed here: {known}", "adapter")


def _find_program(policy: Policy, programs: Mapping[str, str]) -> tuple[str, list[Problem]]:
    path = programs.get(policy.program, "")
    if path.startswith("/"):
        return path, []
    how = f'set `[programs] {policy.program} = "/absolute/path"` in the config'
    return "", [Problem("program", f"no program {shown(policy.program)} is configured on this host: {how}", "program")]


def _match_argv(policy: Policy, command: AdapterCommand) -> tuple[dict[str, str], list[Problem]]:
    """What stands in the holes, and where the caller's argv has another shape than the policy's."""
    values = {"mode": str(command.mode)}
    reasons = []
    if len(command.command) != len(policy.argv):
        shape = " ".join(str(template) for template in policy.argv)
        why = f"has {len(command.command)} elements, expected {len(policy.argv)}: {shown(shape)}"
        reasons.append(Problem("command", why, "argv"))
    for index, (template, given) in enumerate(zip(policy.argv, command.command, strict=False)):
        if template.hole is None:
            if given != template.before:
                reasons.append(_other_shape(index, shown(template.before), given))
            continue
        value = template.match(given)
        if value is None:
            reasons.append(_other_shape(index, shown(str(template)), given))
        elif values.setdefault(template.hole, value) != value:
            reasons.append(_other_shape(index, f"{shown(template.render(values))}, as elsewhere in this request", given))
    return values, reasons


def _other_shape(index: int, expected: str, given: str) -> Problem:
    return Problem(f"command.{index}", f"expected {expected}, got {shown(given)}", "argv")


def _check_hole(name: str, hole: Hole, value: str) -> list[Problem]:
    match hole:
        case OneOf(words=words):
            if value in words:
                return []
            return [Problem(name, f"{shown(value)} is not allowed, only {listed(words)}", "one-of")]
        case PathUnder(folders=folders, suffix=suffix):
            if why := not_plain(value):
                return [Problem(name, f"the path {shown(value)} {why}", "path-under")]
            if not is_below(value, folders):
                return [Problem(name, f"the path {shown(value)} is not below {listed(folders)}", "path-under")]
            if not value.endswith(suffix):
                return [Problem(name, f"the path {shown(value)} does not end in `{suffix}`", "suffix")]
            return []
        case _:
            assert_never(hole)


def _find_folder(policy: Policy, working_dir: str | None, subject: Subject) -> tuple[str, list[Problem]]:
    """The folder to run in, relative to the instance's root."""
    if working_dir is None:
        return policy.cwd, []
    allowed = (policy.cwd, *policy.working_dirs)
    named = working_dir.rstrip("/")
    for root in (subject.root_shown.rstrip("/"), subject.root_real.rstrip("/")):
        for folder in allowed:
            if root and named == (root if folder == "." else f"{root}/{folder}"):
                return folder, []
    root = subject.root_shown.rstrip("/")
    names = listed(root if folder == "." else f"{root}/{folder}" for folder in allowed)
    return "", [Problem("working_dir", f"{shown(working_dir)} is not allowed, only {names}", "working-dir")]


def _check_timeout(timeout_s: int, most_s: int) -> list[Problem]:
    if 1 <= timeout_s <= most_s:
        return []
    return [Problem("timeout_seconds", f"{timeout_s} is not within the policy's 1 to {most_s}", "timeout")]


def _isolation_notes(policy: Policy, level: Isolation) -> tuple[str, ...]:
    if level != "none":
        return ()
    rules = policy.isolation
    notes = []
    if rules.network is False:
        notes.append("isolation is `none`: the policy says `network = false`, and the command can use the network all the same")
    if rules.writable is not None:
        only = listed(rules.writable) or "nothing"
        notes.append(f"isolation is `none`: the policy lets it write {only}, and it can write wherever the daemon's user can")
    return tuple(notes)


def _environment(policy: Policy, values: Mapping[str, str], command: AdapterCommand, subject: Subject) -> dict[str, str]:
    """Built from nothing: what the policy lists, and the six names of the adapter protocol."""
    return {name: template.render(values) for name, template in policy.env.items()} | {
        MESSAGE_VARIABLE: subject.message_text,
        "AIWG_A2A_TASK_ID": subject.task_id,
        "AIWG_A2A_INSTANCE_ID": subject.instance,
        "AIWG_MISSION_ID": subject.mission_id or subject.task_id,
        "AIWG_A2A_ADAPTER": policy.adapter,
        "AIWG_A2A_ADAPTER_MODE": command.mode,
    }


def _checked_paths(policy: Policy, values: Mapping[str, str], folder: str) -> tuple[CheckedPath, ...]:
    paths = [CheckedPath("working_dir", folder, "directory")]
    if policy.runner is not None:
        paths.append(CheckedPath("runner", join(folder, policy.runner), "file", policy.pins.get("runner", ())))
    paths += [
        CheckedPath(name, join(folder, values[name]), "file", policy.pins.get(name, ()), hole.hands_bytes)
        for name, hole in policy.holes.items()
        if isinstance(hole, PathUnder)
    ]
    return tuple(paths)


def _check_exec(plan: LaunchPlan) -> tuple[Problem, ...]:
    """The last look: nothing that execve would refuse or cut leaves here, whoever called."""
    found = [(f"command.{index}", unfit(text)) for index, text in enumerate(plan.argv)]
    found += [(f"env.{name}", unfit(text, overhead_bytes=len(name) + 1)) for name, text in plan.env.items()]
    return tuple(Problem(field, why, "exec") for field, why in found if why)
