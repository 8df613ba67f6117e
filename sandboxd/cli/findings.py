"""Does what the operator wrote hold?

Config, policies and detector packs, each with its own examples, checked as the daemon checks them at its start. Every problem
is found in one go; nothing is started and nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandboxd import packs
from sandboxd.config import Config, Instance, load_config
from sandboxd.detect.load import Pack, load_pack
from sandboxd.detect.load import check_examples as check_pack_examples
from sandboxd.errors import LoadError, Problem
from sandboxd.policy.load import check_examples, check_together, load_policy
from sandboxd.policy.model import CheckedPath, Policy
from sandboxd.policy.paths import join
from sandboxd.runner import paths
from sandboxd.schemas.evaluate import misuse
from sandboxd.service.counted import against_what_counts
from sandboxd.values import frozen


@frozen
class Finding:
    """One thing that was looked at, and everything that is wrong with it; `note` says more where nothing is."""

    what: str
    name: str
    problems: tuple[Problem, ...] = ()
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """The finding as `--json` prints it."""
        return {
            "what": self.what,
            "name": self.name,
            "ok": self.holds,
            "note": self.note,
            "problems": [{"field": problem.field, "reason": problem.reason} for problem in self.problems],
        }


def of_everything(path: Path | None) -> list[Finding]:
    """The config and all that it names, and every detector pack of this host; no config: what is shipped."""
    pack_findings, detectors = of_packs()
    if path is None:
        shipped = [of_policy(file, detectors) for file in sorted(packs.shipped("policies").glob("*.toml"))]
        return [*pack_findings, *[finding for finding, _ in shipped]]
    return [*of_config(path, detectors), *pack_findings]


def of_config(path: Path, detectors: Mapping[str, Pack]) -> list[Finding]:
    """The config, its programs, its instances and their policies."""
    try:
        packs.read(path)  # it grants execution: the daemon takes only a file that nobody else could have written
        config = load_config(path)
    except LoadError as error:
        return [Finding("config", str(path), error.problems)]
    findings = [Finding("config", str(path))]
    findings += [Finding("program", name, _program(program), program) for name, program in sorted(config.programs.items())]
    for instance in config.instances:
        findings += _of_instance(config, instance, detectors)
    return findings


def of_reload(path: Path) -> list[Finding]:
    """The config beside the one that counts in the daemon that runs; nothing where it does not load, which others say."""
    try:
        config = load_config(path)
    except LoadError:
        return []
    try:
        problems, note = against_what_counts(config)
    except LoadError as error:
        return [Finding("reload", error.source, error.problems)]
    return [Finding("reload", str(path), problems, note)]


def of_policy(path: Path, detectors: Mapping[str, Pack]) -> tuple[Finding, Policy | None]:
    """One policy and its examples; the policy where it loads."""
    try:
        file = packs.read(path)
        policy = load_policy(str(path), file.text, file.digest)
    except LoadError as error:
        return Finding("policy", str(path), error.problems), None
    unknown = [name for name in policy.prompts.detectors if name not in detectors]
    known = ", ".join(f"`{name}`" for name in detectors) or "none"
    problems = [
        Problem("prompts.detectors", f"there is no detector pack `{name}` on this host; known: {known}") for name in unknown
    ]
    if policy.prompts.schema is not None and (why := misuse(policy.prompts.schema)):
        problems.append(Problem("prompts.schema", f"is no schema of draft 2020-12: {why}"))
    count = len(policy.examples)
    note = f"adapter {policy.adapter}, {count} example{'s' if count != 1 else ''} hold, {policy.digest[:19]}…"
    return Finding("policy", str(path), (*check_examples(policy), *problems), note), policy


def of_packs(extra: Path | None = None) -> tuple[list[Finding], dict[str, Pack]]:
    """Every detector pack of this host by itself, then their examples with all of them loaded; `extra` joins or replaces."""
    findings, loaded = [], dict[str, Pack]()
    try:
        files = {file.name: file for file in packs.search("detectors")}
        if extra is not None:
            files[extra.stem] = packs.read(extra)
    except LoadError as error:
        return [Finding("detectors", error.source, error.problems)], {}
    for name, file in sorted(files.items()):
        try:
            loaded[name] = load_pack(str(file.path), file.text)
        except LoadError as error:
            findings.append(Finding("detectors", str(file.path), error.problems))
            continue
        rules = loaded[name].rules
        examples = sum(len(rule.asks) + len(rule.silent) for rule in rules)
        findings.append(Finding("detectors", str(file.path), note=f"{len(rules)} rules, {examples} examples"))
    return [*findings, _together(list(loaded.values()))], loaded


def _together(loaded: Sequence[Pack]) -> Finding:
    try:
        problems = check_pack_examples(loaded)
    except LoadError as error:
        problems = error.problems
    return Finding("detectors", "all together", problems, f"every example holds with all {len(loaded)} packs loaded")


def _of_root(root: Path) -> list[Problem]:
    try:
        os.close(os.open(root / ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))  # `.`: it can be entered, too
    except PermissionError:
        return [Problem("root", f"`{root}` may not be opened by the user who checks (uid {os.geteuid()})")]
    except OSError:
        return [Problem("root", f"`{root}` is no folder on this host")]
    return []


def _of_instance(config: Config, instance: Instance, detectors: Mapping[str, Pack]) -> list[Finding]:
    problems = _of_root(instance.root)
    results = [of_policy(path, detectors) for path in instance.policies]
    policies = [policy for _, policy in results if policy is not None]
    problems += check_together(policies)
    missing = sorted({policy.program for policy in policies} - config.programs.keys())
    problems += [Problem("policies", f"`[programs]` does not say where `{name}` is, so it cannot run") for name in missing]
    pinned = [_of_pin(instance, policy) for policy in policies if policy.runner and "runner" in policy.pins]
    note = f"root {instance.root}" + ("" if instance.policies else "; no policy: nothing may run here")
    return [Finding("instance", instance.id, tuple(problems), note), *[finding for finding, _ in results], *pinned]


def _of_pin(instance: Instance, policy: Policy) -> Finding:
    """Whether the runner that stands in the workspace now is one that the policy pins."""
    assert policy.runner is not None  # the caller has looked
    checked = CheckedPath("runner", join(policy.cwd, policy.runner), "file", policy.pins["runner"])
    name = f"{checked.path} of {instance.id}"
    try:
        root_fd = paths.open_root(str(instance.root))
    except OSError:
        return Finding("pin", name, (Problem("pin.runner", "cannot be compared: the instance's root cannot be opened"),))
    try:
        opened = paths.open_all(root_fd, policy.cwd, [checked])
    finally:
        os.close(root_fd)
    if isinstance(opened, paths.Opened):
        os.close(opened.folder_fd)
        return Finding("pin", name, note=f"{opened.digests['runner'][:19]}… as {policy.name} pins it")
    return Finding("pin", name, tuple(Problem(f"pin.{problem.field}", problem.reason) for problem in opened))


def _program(path: str) -> tuple[Problem, ...]:
    if os.access(path, os.X_OK) and Path(path).is_file():  # is_file() raises where a folder may not be searched
        return ()
    return (Problem("", f"`{path}` is no program that can be run"),)
