"""Which attacks get through at which level, and why is that right?

Whatever is not named here is stopped. The levels, each with the ways in which it is tried:

* `strict`: bubblewrap around Landlock and a seccomp filter.
* `standard`: Landlock and the filter; the daemon is an ordinary process.
* `standard in the unit's mounts`: the same, and the daemon sees the host as `sandboxd.service` lets it: read-only but for its
  state and the runs folder, homes hidden.
"""

from __future__ import annotations

from typing import Final

STRICT: Final = "strict"
STANDARD: Final = "standard"
IN_THE_UNIT: Final = "standard in the unit's mounts"
LEVELS: Final = (STANDARD, IN_THE_UNIT, STRICT)

_NOT_AN_ESCAPE = "no way out: what runs an interpreter runs any code"
_METADATA = "Landlock asks for opening, not for metadata: the unit's read-only mounts do that, or bubblewrap's"

ALLOWED: Final[dict[str, dict[str, str]]] = {
    STRICT: {"program_from_memory": _NOT_AN_ESCAPE},
    IN_THE_UNIT: {"program_from_memory": _NOT_AN_ESCAPE},
    STANDARD: {"program_from_memory": _NOT_AN_ESCAPE},
}
