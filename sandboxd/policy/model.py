"""What does a policy allow, and what is the plan that comes out of it?

Values only: `load` makes a `Policy` from TOML text, `decide` makes a `Decision` from a policy and an adapter command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from sandboxd.errors import Problem

Isolation = Literal["none", "standard", "strict"]
OnExpiry = Literal["wait", "fail"]


@attrs.frozen
class CheckedPath:
    """A path below the instance's root that the spawner opens race-free before anything starts.

    `hole`: what it is called in reasons (`runner`, `request`, `working_dir`). `kind`: what it must be.
    """

    hole: str
    path: str
    kind: Literal["file", "directory"]


@attrs.frozen
class Limits:
    """Bounds of one run. Sizes in bytes; `memory` and `processes` None: not set by the policy."""

    timeout_s: int = 300
    output_bytes: int = 16 * 1024 * 1024
    file_bytes: int | None = None
    open_files: int = 1024
    memory_bytes: int | None = None
    processes: int | None = None


@attrs.frozen
class PromptRules:
    """How questions of this command are found and what happens when nobody answers.

    `detectors`: names of packs, tried in this order. `timeout_s` None: only the command's own limit counts.
    """

    detectors: tuple[str, ...] = ()
    timeout_s: int | None = None
    on_expiry: OnExpiry = "wait"
    max_prompts: int = 100


@attrs.frozen
class LaunchPlan:
    """What will be executed, fully resolved: built from the policy and its holes, never from the caller's argv.

    `program` is an absolute path from the config's `[programs]`; `argv[0]` is what the program sees as its name. `cwd` is
    relative to the instance's root (`.`: the root). `env` is the whole environment. `terminal`: pty, else two pipes.
    """

    adapter: str
    mode: str
    program: str
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    paths: tuple[CheckedPath, ...]
    limits: Limits
    prompts: PromptRules
    terminal: bool
    isolation: Isolation
    policy: str
    policy_digest: str  # "sha256:…" of the policy file as it was read


@attrs.frozen
class Allowed:
    """The policy says yes, to exactly this."""

    plan: LaunchPlan


@attrs.frozen
class Denied:
    """The policy says no; every reason at once."""

    reasons: tuple[Problem, ...]


Decision = Allowed | Denied
