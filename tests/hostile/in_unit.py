"""What do the attacks come to against a daemon that systemd runs?

    python -m tests.hostile.in_unit '{"pid": …, "config": …, "policy": …, "port": …, "token": …}'

Run as root inside the machine; the victim is another process of the daemon's user, outside of the unit. The verdicts come as
JSON.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import attrs

from tests.hostile.attacks.craft import ATTACKS
from tests.hostile.attacks.runner import ROOMS
from tests.hostile.hostile_daemon import HostileDaemon
from tests.hostile.range import Range

USER = "sandboxd"


class UnitDaemon(HostileDaemon):
    """The one that runs already. Its door is TCP, whose socket systemd holds."""

    def __init__(self, where: dict[str, Any]) -> None:
        self.workspace, self.sibling = Path("/srv/workspace"), Path("/srv/workspace-of-somebody-else")
        self.state, self.socket = Path("/var/lib/sandboxd"), Path("/run/sandboxd/sandboxd.sock")
        self.config, self.policy = Path(where["config"]), Path(where["policy"])
        self.level = "standard"  # or stronger
        self.url = f"http://127.0.0.1:{where['port']}"
        self._pid: int = where["pid"]
        self._token: str = where["token"]
        self._names = itertools.count()

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def token(self) -> str:
        return self._token


def main(where: dict[str, Any]) -> None:
    ground = Range(Path("/srv/range"), UnitDaemon(where), home=Path("/home/victim"), user=USER)
    try:
        assert ROOMS, "the attacks register where they are imported"
        verdicts = ground.attack(list(ATTACKS), leave="the-tree")
    finally:
        ground.end()
    told = attrs.asdict(verdicts)
    told["through"] = {name: how for name in verdicts.own if (how := verdicts.got_through(name))}
    json.dump({name: list(value) if isinstance(value, frozenset) else value for name, value in told.items()}, sys.stdout)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
