"""What does a policy allow, and what is the plan that comes out of it?

Values only: `load` makes a `Policy` from TOML text, `decide` makes a `Decision` from a policy and an adapter command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from sandboxd.errors import Problem
from sandboxd.values import frozen

HANDED_FIRST: Final = 3  # the first descriptor after the standard streams
HANDED_MAX: Final = 8  # files of one command that are handed over as descriptors

Isolation = Literal["none", "standard", "strict"]
OnExpiry = Literal["wait", "fail"]
Secrets = Literal["wait", "fail", "relay"]


@frozen
class CheckedPath:
    """A path below the instance's root that the spawner opens race-free before anything starts.

    `hole`: what it is called in reasons (`runner`, `request`, `working_dir`). `kind`: what it must be. `pins`: the digests
    (`sha256:…`) that the policy takes for its bytes; none: any. `hands_bytes`: as `PathUnder` has it; the command finds those
    files as descriptors from `HANDED_FIRST` on, in the plan's order.
    """

    hole: str
    path: str
    kind: Literal["file", "directory"]
    pins: tuple[str, ...] = ()
    hands_bytes: bool = False


@frozen
class Limits:
    """Bounds of one run. Sizes in bytes, `cpu_percent` of one processor; None: not set by the policy."""

    timeout_s: int = 300
    output_bytes: int = 16 * 1024 * 1024
    file_bytes: int | None = None
    open_files: int = 1024
    memory_bytes: int | None = None
    processes: int | None = None
    cpu_percent: int | None = None


@frozen
class PromptRules:
    """How questions of this command are found and what happens when nobody answers.

    `detectors`: names of packs, tried in this order. `timeout_s` None: only the command's own limit counts. `max_invalid`: so
    many answers to one prompt may not fit; one more, and the task fails. `schema`: what an answer's text has to fit besides,
    evaluated by `sandboxd.schemas` alone. `secrets`: whether a question for a secret is kept from people (the command waits on,
    or fails) or relayed to them.
    """

    detectors: tuple[str, ...] = ()
    timeout_s: int | None = None
    on_expiry: OnExpiry = "wait"
    max_prompts: int = 100
    secrets: Secrets = "wait"
    max_invalid: int = 20
    schema: Mapping[str, Any] | None = None


@frozen
class Template:
    """A text of a policy with at most one hole in it: `before{hole}after`, or all literal (`hole` None)."""

    before: str
    hole: str | None = None
    after: str = ""

    def render(self, values: Mapping[str, str]) -> str:
        """The text with its hole filled."""
        return self.before if self.hole is None else f"{self.before}{values[self.hole]}{self.after}"

    def match(self, text: str) -> str | None:
        """What stands in the hole when `text` has this shape; None: it has not. Only for a template with a hole."""
        if not (text.startswith(self.before) and text.endswith(self.after)):
            return None
        end = len(text) - len(self.after)
        return text[len(self.before) : end] if end >= len(self.before) else None

    def __str__(self) -> str:
        return self.before if self.hole is None else f"{self.before}{{{self.hole}}}{self.after}"


@frozen
class OneOf:
    """A hole that takes one of some words."""

    words: tuple[str, ...]


@frozen
class PathUnder:
    """A hole that takes the path of a regular file strictly below one of some folders (`.`: anywhere).

    `hands_bytes`: the command does not get the path, but a descriptor of a copy that nobody can change.
    """

    folders: tuple[str, ...]
    suffix: str = ""
    hands_bytes: bool = False


Hole = OneOf | PathUnder


TMP_BYTES: Final = 64 * 1024 * 1024


@frozen
class IsolationRules:
    """What the policy asks of the sandbox: a least level (None: what the config says), and what the run may reach.

    `network` None and `writable` None: nothing, at every level but `none`, which keeps neither. `writable`: folders relative to
    the instance's root. `tmp_bytes`: the size of the run's own /tmp.
    """

    level: Isolation | None = None
    network: bool | None = None
    writable: tuple[str, ...] | None = None
    tmp_bytes: int = TMP_BYTES


@frozen
class Example:
    """A proof inside the policy: these values of the holes are allowed, or denied `because` of one reason."""

    values: Mapping[str, str]
    because: str | None = None  # None: allowed
    working_dir: str | None = None
    timeout_s: int | None = None


@frozen
class Policy:
    """One adapter's permission to run one command, as the operator wrote it.

    All paths are relative to `cwd`, which is itself relative to the instance's root. `runner`: the literal argument that must
    be a regular file before anything starts. `working_dirs`: where the caller may let it run instead of `cwd`. `pins`: the
    digests that the bytes of the runner, or of the file in a hole, may have; what is not in there may be anything.
    """

    name: str
    source: str
    digest: str
    adapter: str
    program: str
    argv: tuple[Template, ...]
    runner: str | None
    cwd: str
    working_dirs: tuple[str, ...]
    env: Mapping[str, Template]
    terminal: Literal["text-line", "always"]
    holes: Mapping[str, Hole]
    limits: Limits
    timeout_max_s: int
    prompts: PromptRules
    isolation: IsolationRules
    examples: tuple[Example, ...]
    pins: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that are allowed, for the agent card."""
        hole = self.holes["mode"]
        assert isinstance(hole, OneOf)  # the loader lets nothing else stand there
        return hole.words


@frozen
class LaunchPlan:
    """What will be executed, fully resolved: built from the policy and its holes, never from the caller's argv.

    `program` is an absolute path from the config's `[programs]`; `argv[0]` is what the program sees as its name. `cwd` is
    relative to the instance's root (`.`: the root). `env` is the whole environment. `terminal`: pty, else two pipes.
    `isolation` is the level that is asked for, and once the spawner has admitted the run, the one that it keeps. `writable`:
    folders relative to the instance's root.
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
    isolation_notes: tuple[str, ...] = ()  # what is kept otherwise than the policy says, or not at all, to be said loudly
    network: bool = False
    writable: tuple[str, ...] = ()
    tmp_bytes: int = TMP_BYTES


@frozen
class Allowed:
    """The policy says yes, to exactly this."""

    plan: LaunchPlan


@frozen
class Denied:
    """The policy says no; every reason at once."""

    reasons: tuple[Problem, ...]


Decision = Allowed | Denied
