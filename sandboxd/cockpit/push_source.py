"""How does a host tell a cockpit that there is news, where no stream is held open to it?

By a push notification, to the URL under which that host reaches this cockpit. What a notification says is never believed: one
that brings the host's own token (and, where it is signed, a signature that holds) makes the cockpit look at that host's tasks
anew, over its own connection, and nothing else. So whoever could forge one could have us look, and no more. Token and signing
key of a host follow from one secret in the state folder, so they outlive a restart, and no two hosts have the same.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trio

from sandboxd import logs
from sandboxd.cockpit.agent import Agent, HostAddress
from sandboxd.cockpit.reading import Refused, Unreachable, Unreadable
from sandboxd.serving.bearer import new_token, read_token
from sandboxd.serving.private_file import make_private

KEY_NAME: Final = "push.key"  # within the state folder, mode 0600; who deletes it has every task's config made anew
NAMED_BY: Final = "X-A2A-Notification-Token"  # A2A 1.0 §13.2
SIGNED_BY: Final = "X-AIWG-Signature"  # docs/push.md
OLD_S: Final = 300.0  # a signed notification may be so old, or so much ahead
LOOK_EVERY_S: Final = 10.0  # what no notification tells: tasks that are new
_SIGNATURE: Final = re.compile(r"t=(?P<at>[0-9]{1,12}),v1=(?P<mac>[0-9a-f]{64})")

_log = logs.logger(__name__)


class PushSource:
    """One cockpit's. `LoadError` when its secret cannot be kept."""

    def __init__(self, state_dir: Path, hosts: Mapping[str, HostAddress]) -> None:
        self._urls = {name: host.push_url for name, host in hosts.items() if host.push_url}
        self._told = {name: trio.Event() for name in self._urls}
        self._counts = dict.fromkeys(self._urls, 0)
        self._asked: dict[str, set[str]] = {name: set() for name in self._urls}
        self._key = b""
        if self._urls:
            path = state_dir / KEY_NAME
            make_private(path, new_token() + "\n")
            self._key = read_token(path).encode()

    def __repr__(self) -> str:
        return f"<PushSource of {', '.join(self._urls) or 'no host'}>"

    def serves(self, host: str) -> bool:
        """Whether that host is to push, and does not refuse to."""
        return host in self._urls

    def is_from(self, host: str, headers: Mapping[str, str], body: bytes, now_s: float) -> bool:
        """Whether a notification comes from that host; compared in constant time. `headers`: their names in small letters."""
        named = headers.get(NAMED_BY.lower(), "").encode()
        if host not in self._urls or not hmac.compare_digest(named, self._of("token", host).encode()):
            return False
        signed = headers.get(SIGNED_BY.lower())
        if signed is None:  # a host that signs nothing has brought its token, as A2A has it
            return True
        found = _SIGNATURE.fullmatch(signed)
        if found is None or abs(now_s - int(found["at"])) > OLD_S:
            return False
        mac = hmac.new(self._of("sign", host).encode(), found["at"].encode() + b"." + body, hashlib.sha256)
        return hmac.compare_digest(mac.hexdigest(), found["mac"])

    def tell(self, host: str) -> None:
        """There is news at that host: whoever waits looks now."""
        self._counts[host] += 1
        self._told[host].set()
        self._told[host] = trio.Event()

    def count(self, host: str) -> int:
        """How often it was told of news there; for `wait_told`, taken before one looks."""
        return self._counts[host]

    async def wait_told(self, host: str, since: int, most_s: float) -> None:
        """Return once `count` is no longer `since`, or so long after."""
        with trio.move_on_after(most_s):
            while self._counts[host] == since:
                await self._told[host].wait()

    async def follow(self, agent: Agent, task_id: str) -> bool:
        """Have the host tell of that task's news, once; False: it does not, now or for good."""
        if task_id in self._asked[agent.name]:
            return True
        name = f"cockpit-{self._of('config', agent.name)[:16]}"
        try:
            await agent.have_pushed(
                task_id,
                config_id=name,
                url=self._urls[agent.name],
                token=self._of("token", agent.name),
                secret=self._of("sign", agent.name),
            )
        except Refused as refused:
            if refused.is_unknown_task:
                return True  # it has ended: the next list says so
            _log.warning(
                "The host does not push, and is followed by streams", host=agent.name, why=f"{refused}: {refused.words}"
            )
            del self._urls[agent.name]
            return False
        except (Unreachable, Unreadable):
            return True  # the next look tries again
        self._asked[agent.name].add(task_id)
        self.tell(agent.name)  # what came since the list was made, and before that was asked for, comes by no notification
        return True

    def forget(self, host: str, going_on: set[str]) -> None:
        """Only these tasks of that host go on."""
        self._asked[host] &= going_on

    def _of(self, what: str, host: str) -> str:
        return hmac.new(self._key, f"{what}:{host}".encode(), hashlib.sha256).hexdigest()
