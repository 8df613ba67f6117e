"""How is systemd told what goes on?

sd_notify(3): a datagram of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names. Few lines of our own rather than a
package: libsystemd's binding needs a compiler and its headers, and the pure ones on the index have had no release for years.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Final

from sandboxd import logs

_STATUS_MAX_CHARS: Final = 200  # one line of `systemctl status`

_log = logs.logger(__name__)


class Notifier:
    """Sends word to the service manager; without an address it does nothing. Never blocks and never raises.

    `address`: a path, or `@name` for a socket in the abstract namespace.
    """

    def __init__(self, address: str = "") -> None:
        self._address = ("\0" + address[1:]) if address.startswith("@") else address
        self._socket: socket.socket | None = None  # held open: a daemon without free descriptors is alive, too
        self._has_failed = False
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)

    def __repr__(self) -> str:
        return f"<Notifier {'on' if self._socket else 'off'}>"

    def ready(self, status: str) -> None:
        """The doors are open; also the end of a reload."""
        self._send("READY=1", _status(status))

    def reloading(self) -> None:
        """A reload has begun; `ready` ends it."""
        # Type=notify-reload (systemd 253) wants the moment.
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}", _status("reloading"))

    def stopping(self, status: str) -> None:
        """The end has begun."""
        self._send("STOPPING=1", _status(status))

    def alive(self, status: str) -> None:
        """Feed the watchdog."""
        self._send("WATCHDOG=1", _status(status))

    def failed(self, status: str) -> None:
        """Why it cannot go on, for `systemctl status`."""
        self._send(_status(status))

    def close(self) -> None:
        """Say nothing more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, *lines: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            if not self._has_failed:  # one line, not one a second
                _log.warning("Cannot tell the service manager", why=os.strerror(error.errno or 0).lower())
            self._has_failed = True


def _status(text: str) -> str:
    """One line, whatever is in it: a second line would be another message to systemd."""
    return "STATUS=" + " ".join(text.split())[:_STATUS_MAX_CHARS]
