"""Which level of isolation can this host keep, layer by layer, and which one does a run get?

Three levels, the weakest first. `none`: a session, limits and sure death, nothing else. `standard`: Landlock, a system call
filter and no new privileges besides, all applied by the spawner's forked child to itself. `strict`: the same inside
namespaces that bubblewrap makes.

A level is never weakened. It is what was asked for, or a stronger one (said on the task), or the task is rejected with the
reason and what would help. What counts is what a real child found (`selftest`): a call that returned 0 proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

import attrs

from sandboxd.errors import Problem
from sandboxd.policy.model import Isolation
from sandboxd.values import frozen

Layer = Literal["limits", "no-new-privileges", "landlock", "seccomp", "cgroup", "bubblewrap", "concealment", "witness"]
LAYERS: Final[tuple[Layer, ...]] = get_args(Layer)
BUBBLEWRAP: Final = "/usr/bin/bwrap"

# Scopes came with Landlock ABI 6 (Linux 6.12). Below it a run could signal the daemon, whose user it shares: only a pid
# namespace takes that away.
STANDARD_LEAST_ABI: Final = 6
# Truncating came with ABI 3 (Linux 6.2), device calls with 5. Inside bubblewrap the mounts forbid both, so any ABI will do.
STRICT_LEAST_ABI: Final = 1


@frozen
class Ability:
    """What a self-test found of one layer on this host.

    `detail`: what there is, such as a version. `reason` and `cure` are set when it does not work: why, and what an operator
    can do about it.
    """

    layer: Layer
    works: bool
    detail: str = ""
    reason: str = ""
    cure: str = ""
    controllers: frozenset[str] = frozenset()  # of a cgroup: those whose limits a child has met


@frozen
class Host:
    """What this host can keep. `landlock_abi` 0: there is none."""

    abilities: Mapping[Layer, Ability] = attrs.field(factory=dict)
    landlock_abi: int = 0

    def why_not(self, layer: Layer) -> Ability | None:
        """The ability that is missing; None: the layer works. What was never tried does not work."""
        found = self.abilities.get(layer)
        if found is None:
            return Ability(layer, works=False, reason="it was not tried on this host")
        return None if found.works else found


@frozen
class Kept:
    """The level that a run gets; `note` says so where it is another one than was asked for."""

    level: Isolation
    note: str = ""


def resolve(wanted: Isolation, host: Host) -> Kept | Problem:
    """The level that this host keeps for a run that wants at least `wanted`, or why it keeps none."""
    if wanted == "none":
        return Kept("none")
    missing = _missing("standard", host)
    if wanted == "standard":
        if not missing:
            return Kept("standard")
        if not _missing("strict", host):
            return Kept("strict", f"isolation is `strict`, which is stronger than `standard` asks for: {_told(missing[0])}")
    missing = _missing("strict", host) if wanted == "strict" else [*missing, *_missing("strict", host)]
    if not missing:
        return Kept("strict")
    why = "; ".join(dict.fromkeys(_told(ability) for ability in missing))
    cures = "; ".join(dict.fromkeys(ability.cure for ability in missing if ability.cure))
    return Problem(
        "isolation", f"this host cannot keep `{wanted}`: {why}" + (f". What helps: {cures}" if cures else ""), "isolation"
    )


def _missing(level: Isolation, host: Host) -> list[Ability]:
    """The layers of that level which do not work here."""
    layers: tuple[Layer, ...] = ("no-new-privileges", "limits", "seccomp", "landlock")
    if level == "strict":
        layers += ("bubblewrap",)
    missing = [ability for layer in layers if (ability := host.why_not(layer)) is not None]
    if level == "standard" and not missing and host.landlock_abi < STANDARD_LEAST_ABI:
        reason = f"ABI {host.landlock_abi} here, and below ABI {STANDARD_LEAST_ABI} a run could signal the daemon"
        missing.append(Ability("landlock", works=False, reason=reason, cure="Linux 6.12 or newer"))
    return missing


def _told(ability: Ability) -> str:
    return f"{ability.layer}: {ability.reason}"
