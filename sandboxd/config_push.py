"""May clients have notifications sent, and where to? (part of `config`)"""

from __future__ import annotations

import ipaddress
from typing import Final, Literal, get_args

from sandboxd.policy.exec_text import shown
from sandboxd.policy.table import Table
from sandboxd.targets import Network
from sandboxd.values import frozen

CourierForm = Literal["child", "unit"]
COURIER_FORMS: Final[tuple[CourierForm, ...]] = get_args(CourierForm)
SOCKET_NAME: Final = "courier.sock"
LOOPBACK: Final[tuple[Network, ...]] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


@frozen
class Push:
    """Push notifications. `allow`: networks beside the public ones that they may go to.

    `courier`: who sends them, a child of the daemon or a process that connects to its `courier.sock`. `tries`: how often one
    is sent before it becomes a dead letter.
    """

    enabled: bool = True
    allow: tuple[Network, ...] = ()
    courier: CourierForm = "child"
    tries: int = 12


def read_push(table: Table) -> Push:
    """The `[push]` table."""
    standard = Push()
    text = table.text("courier", standard.courier)
    courier = next((form for form in COURIER_FORMS if form == text), None)
    if courier is None:
        table.problem("courier", f"{shown(text)} must be one of " + ", ".join(f"`{form}`" for form in COURIER_FORMS))
    push = Push(
        enabled=table.flag("enabled", standard.enabled) is True,
        allow=tuple(network for item in table.texts("allow") if (network := _network(table, item)) is not None),
        courier=courier or standard.courier,
        tries=table.number("tries", standard.tries, most=30),
    )
    table.close()
    return push


def push_json(push: Push) -> dict[str, object]:
    """The table by the file's own keys."""
    return {
        "enabled": push.enabled,
        "allow": [str(network) for network in push.allow],
        "courier": push.courier,
        "tries": push.tries,
    }


def _network(table: Table, text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        table.problem("allow", f'{shown(text)} is no network, such as "127.0.0.0/8" or "fd00::/8"')
        return None
