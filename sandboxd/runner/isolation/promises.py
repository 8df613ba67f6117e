"""What can this host promise about a run at each level, and what can it not?

A promise counts where the layers that keep it hold, and they hold only where a child has met their refusal (`selftest`). The
words are those of SECURITY.md, where each has its test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from sandboxd.policy.decide import LEVELS
from sandboxd.policy.model import Isolation as Level
from sandboxd.runner.isolation.levels import Host, Kept, resolve
from sandboxd.values import frozen

Word = Literal["yes", "part", "no"]


@frozen
class Promise:
    """One promise about runs: whether it is `kept` at each level, and what to know about it on this host."""

    what: str
    kept: Mapping[Level, Word]
    note: str = ""


_CONFINED: Final = (
    "reads nothing but its workspace and the system's programs",
    "writes nothing but what the policy names, and its own /tmp",
    "uses no network, unless the policy says so",
    "signals, traces and reads no process outside",
    "reaches no keyring, queue or shared memory of others",
    "makes no namespace and mounts nothing",
    "types into no terminal",
)


def promises(host: Host, controllers: frozenset[str]) -> tuple[Promise, ...]:
    """Every promise for every level. `controllers`: those of cgroup2 that runs get here."""
    levels = {level: _kept_as(level, host) for level in LEVELS}
    has_cgroup = host.why_not("cgroup") is None

    def words(*, none: Word, standard: Word, strict: Word) -> dict[Level, Word]:
        """The word for the level that is really kept; none is kept: nothing is promised."""
        by_level: Mapping[Level, Word] = {"none": none, "standard": standard, "strict": strict}
        return {asked: by_level[real] if real else "no" for asked, real in levels.items()}

    def everywhere(word: Word) -> dict[Level, Word]:
        return words(none=word, standard=word, strict=word)

    def bounded(what: str, controller: str, otherwise: dict[Level, Word], note: str) -> Promise:
        if controller in controllers:
            return Promise(what, everywhere("yes"))
        return Promise(what, otherwise, f"no {controller} controller is delegated here: {note}")

    sweep = "a task at `none` may leave its cgroup" if has_cgroup else "no cgroup can be made here"
    return (
        *(Promise(what, words(none="no", standard="yes", strict="yes")) for what in _CONFINED),
        Promise(
            "changes no mode, time or attribute of a file that it may only read",
            words(none="no", standard="part", strict="yes"),
            "`standard`: not by name; by an open descriptor only a unit's read-only mounts keep it from that",
        ),
        Promise(
            "gains no privileges by a setuid program, and leaves none behind", words(none="part", standard="yes", strict="yes")
        ),
        Promise("finds nothing of the daemon in its environment and descriptors", everywhere("yes")),
        Promise(
            "leaves no process behind",
            words(none="part", standard="yes" if has_cgroup else "part", strict="yes"),
            f"{sweep}: then a sweep ends what it left, which a tree that forks fast enough can outrun",
        ),
        bounded(
            "has no more memory than its policy says",
            "memory",
            everywhere("part"),
            "the bound holds for each process, not for their sum",
        ),
        bounded(
            "has no more processes than its policy says",
            "pids",
            words(none="no", standard="part", strict="yes"),
            "at `standard` the user's other processes are counted in, at `none` nothing is",
        ),
        bounded("has no more processor time at once than its policy says", "cpu", everywhere("no"), "there is no such bound"),
        Promise(
            "fills no disk",
            words(none="no", standard="part", strict="part"),
            "what its policy lets it write has no size; its temporary files have: kept at `strict`, measured at `standard`",
        ),
    )


def _kept_as(level: Level, host: Host) -> Level | None:
    """The level that a run really gets which asks for that one."""
    kept = resolve(level, host)
    return kept.level if isinstance(kept, Kept) else None
