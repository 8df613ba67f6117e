"""What did systemd hand over at the start?

Sockets (sd_listen_fds(3)), where to send word (sd_notify(3)), how often the watchdog wants to hear (sd_watchdog_enabled(3)),
credentials (systemd.exec(5)). All of it comes by environment variables, and `take` removes every one of them: no child of the
daemon learns where the notify socket or the credentials are, nor that descriptors were passed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

import attrs

from sandboxd.errors import Unable
from sandboxd.service.notify import Notifier
from sandboxd.values import frozen

_FIRST_FD: Final = 3  # SD_LISTEN_FDS_START
_OWN: Final = ("SYSTEMD_EXEC_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", "WATCHDOG_USEC")


class BadHandover(Unable):
    """What was handed over cannot be what systemd hands over; the message says why."""


@frozen
class Manager:
    """What there is of it. Without systemd: nothing, and all of it can be used all the same.

    `is_unit`: this process is a unit's main process. `sockets`: listening ones, each with its FileDescriptorName.
    `watchdog_s` None: nobody watches. `credentials` None: there are none.
    """

    is_unit: bool = False
    sockets: tuple[tuple[str, socket.socket], ...] = ()
    notifier: Notifier = attrs.field(factory=Notifier)
    watchdog_s: float | None = None
    credentials: Path | None = None


def take(environ: MutableMapping[str, str], pid: int) -> Manager:
    """Take it out of the environment; `BadHandover`. The descriptors are this process's alone from now on."""
    said = {name: environ.pop(name, "") for name in (*_OWN, "NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY")}
    mine = str(pid)
    credentials = said["CREDENTIALS_DIRECTORY"]
    return Manager(
        is_unit=said["SYSTEMD_EXEC_PID"] == mine,
        sockets=_sockets(said["LISTEN_FDS"], said["LISTEN_FDNAMES"]) if said["LISTEN_PID"] == mine else (),
        notifier=Notifier(said["NOTIFY_SOCKET"]),
        # Without WATCHDOG_PID it is for whoever got the variable.
        watchdog_s=_seconds(said["WATCHDOG_USEC"]) if said["WATCHDOG_PID"] in ("", mine) else None,
        credentials=Path(credentials) if credentials else None,
    )


def _sockets(count: str, names: str) -> tuple[tuple[str, socket.socket], ...]:
    if not count.isdecimal() or int(count) > 64:  # the unit has two
        raise BadHandover(f"cannot take the sockets that were handed over: LISTEN_FDS is `{count[:32]}`")
    called = names.split(":") if names else []
    taken = []
    for index in range(int(count)):
        descriptor = _FIRST_FD + index
        name = called[index] if index < len(called) else "unknown"
        try:
            os.set_inheritable(descriptor, False)
            sock = socket.socket(fileno=descriptor)
            is_listening = bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise BadHandover(f"cannot take descriptor {descriptor} (`{name}`) that was handed over: {why}") from error
        if not is_listening:
            raise BadHandover(f"cannot take descriptor {descriptor} (`{name}`) that was handed over: it does not listen")
        sock.setblocking(False)
        taken.append((name, sock))
    return tuple(taken)


def _seconds(microseconds: str) -> float | None:
    return int(microseconds) / 1e6 if microseconds.isdecimal() and int(microseconds) > 0 else None
