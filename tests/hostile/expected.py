"""Which attacks get through at which level, and why is that right?

Whatever is not named here is stopped. The levels, each with the ways in which it is tried:

* `strict`: bubblewrap around Landlock and a seccomp filter.
* `standard`: Landlock and the filter; the daemon is an ordinary process.
* `standard in the unit's mounts`: the same, and the daemon sees the host as `sandboxd.service` lets it: read-only but for its
  state and the runs folder, homes hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sandboxd.policy.model import Isolation

STRICT: Final = "strict"
STANDARD: Final = "standard"
IN_THE_UNIT: Final = "standard in the unit's mounts"
LEVELS: Final = (STANDARD, IN_THE_UNIT, STRICT)
ASKED: Final[Mapping[str, Isolation]] = {"none": "none", STANDARD: "standard", IN_THE_UNIT: "standard", STRICT: "strict"}

_NOT_AN_ESCAPE = "no way out: what runs an interpreter runs any code"
_KNOWING = "Landlock asks for opening, not for knowing: the unit hides homes, bubblewrap everything"
_BY_DESCRIPTOR = (
    "what may be opened for reading may be changed by its descriptor, for it is the user's own: a unit mounts it read-only"
)
_PER_USER = "without the pids controller the kernel counts the user's processes, and others' come and go"
_MAPPED = "Landlock asks for executing, not for mapping as code: the unit and bubblewrap mount what is written `noexec`"
_NUMBER = "the call by which programs end their children's groups; `strict` has no such process"

ALLOWED: Final[dict[str, dict[str, str]]] = {
    STRICT: {"program_from_memory": _NOT_AN_ESCAPE},
    IN_THE_UNIT: {
        "program_from_memory": _NOT_AN_ESCAPE,
        "forks": _PER_USER,
        **dict.fromkeys(("stat_state", "stat_another_workspace", "link_of_a_folder_outside"), _KNOWING),
        "group_of_other_task": _NUMBER,
    },
    STANDARD: {
        "program_from_memory": _NOT_AN_ESCAPE,
        "forks": _PER_USER,
        **dict.fromkeys(
            (
                *("stat_state", "stat_another_workspace", "link_of_a_folder_outside"),
                *("stat_key_of_the_home", "access_key_of_the_home", "enter_home", "node_enters_home"),
            ),
            _KNOWING,
        ),
        **dict.fromkeys(("program_by_the_loader", "library_from_runs", "library_from_tmp"), _MAPPED),
        **dict.fromkeys(
            ("chmod_by_an_open_descriptor", "touch_by_an_open_descriptor", "xattr_by_an_open_descriptor"), _BY_DESCRIPTOR
        ),
        "group_of_other_task": _NUMBER,
    },
}

# What a policy's `network = true` allows besides, at every level.
BY_NETWORK: Final = {
    **dict.fromkeys(("tcp", "tcp6", "tcp_of_the_daemon", "tcp_bind", "tcp_listen_without_bind", "tcp_fast_open"), "it is TCP"),
    **dict.fromkeys(("udp", "udp6"), "it is UDP"),
    **dict.fromkeys(("every_family", "family_with_high_bits"), "these two, of IPv4 and IPv6"),
    "interfaces_by_a_pair": "whose network it is may know of it",
    "pair_of_streams_bound": "the filter sees no address: a name can be taken, and nobody reached by it",
}
