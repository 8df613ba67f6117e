"""Who is at the other end of a connection?"""

from __future__ import annotations

import os
import socket
from contextvars import ContextVar

import attrs
import trio

from sandboxd.serving.ancestry import peer_credentials
from sandboxd.serving.listeners import Door, Listener
from sandboxd.values import frozen


@frozen
class Peer:
    """The other end of a connection. `refusal`: why a Unix peer may not come in; empty: it may.

    `certificate`: the common name in the client's certificate, which a CA of the config's has signed. `listener`: where it came
    in by TCP.
    """

    door: Door
    principal: str | None = None
    refusal: str = ""
    open_access: bool = False
    certificate: str | None = None
    listener: Listener | None = attrs.field(default=None, eq=False, repr=False)


PEER: ContextVar[Peer] = ContextVar("PEER")  # of the connection whose request it is


def peer_uid(accepted: trio.socket.SocketType) -> int:
    """The user of a Unix peer; of one that this user namespace does not know, the overflow id (user_namespaces(7))."""
    with socket.socket(fileno=os.dup(accepted.fileno())) as sock:
        return peer_credentials(sock).uid
