"""Where do clients come in: how are the sockets made, and how are they given back?

The daemon makes its own, so that no child inherits them, nobody else's socket is taken over, and the file of the Unix
socket has its mode from its first moment and is gone at the end. Or the service manager made them and hands them over
(`handed_unix`, `handed_tcp`): then they have to be those that the config names, and stay when the daemon goes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import socket
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import attrs

from sandboxd.errors import Unable

BACKLOG: Final = 100
_UNIX_PATH_MAX_BYTES: Final = 107  # unix(7): sun_path is 108 bytes with its NUL
MENDS: Final = "`sandboxd install-units` writes the units that fit the config"

Door = Literal["unix", "tcp"]


class CannotListen(Unable):
    """A socket could not be made; the message says which and why."""


@attrs.define(eq=False)
class Listener:
    """A listening socket. `open_access`: TCP without any credentials (loopback only). `tls` None: it speaks clear text.

    A reload may give it other certificates; connections that are there keep theirs.
    """

    socket: socket.socket
    door: Door
    address: str
    open_access: bool = False
    tls: ssl.SSLContext | None = None

    @property
    def asks_certificate(self) -> bool:
        """Whether every client must show a certificate."""
        return self.tls is not None and self.tls.verify_mode is ssl.CERT_REQUIRED

    @property
    def url(self) -> str:
        """By what URL it is reached; empty: by none."""
        if self.door == "unix":
            return ""
        return f"{'http' if self.tls is None else 'https'}://{self.address}"


@contextlib.contextmanager
def unix_listener(path: Path, *, mode: int = 0o600) -> Iterator[Listener]:
    """Listen on a Unix socket. A stale file is replaced only when nobody listens on it; unlinked at exit."""
    if len(os.fsencode(path)) > _UNIX_PATH_MAX_BYTES:
        raise CannotListen(f"cannot listen on `{path}`: longer than {_UNIX_PATH_MAX_BYTES} bytes")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.closing(sock):
        sock.setblocking(False)
        sock.set_inheritable(False)
        with _lock(path):
            _remove_stale(path)
            try:
                _bind(sock, path, mode)
            except OSError as error:
                raise CannotListen(f"cannot listen on `{path}`: {_why(error)}") from error
            sock.listen(BACKLOG)
            mine = _identity(path)
        try:
            yield Listener(sock, "unix", str(path))
        finally:
            if _identity(path) == mine:  # never somebody else's
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def tcp_listener(
    host: str, port: int, *, stall_s: float = 30, open_access: bool = False, tls: ssl.SSLContext | None = None
) -> Iterator[Listener]:
    """Listen on an address, without TLS a loopback one. Port 0: one that is free; the address says which."""
    if not is_loopback(host) and (tls is None or open_access):
        why = "clear text, and a door without credentials, is for loopback only; give it TLS, or put a TLS proxy before it"
        raise CannotListen(f"cannot listen on `{host}:{port}`: {why}")
    address = "127.0.0.1" if host == "localhost" else host.strip("[]")
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    with contextlib.closing(sock):
        sock.setblocking(False)
        sock.set_inheritable(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _tune(sock, stall_s)
        try:
            sock.bind((address, port))
            sock.listen(BACKLOG)
        except OSError as error:
            raise CannotListen(f"cannot listen on `{host}:{port}`: {_why(error)}") from error
        bound = sock.getsockname()[1]
        yield Listener(sock, "tcp", f"[{address}]:{bound}" if ":" in address else f"{address}:{bound}", open_access, tls)


def handed_unix(sock: socket.socket, path: Path) -> Listener:
    """The Unix socket that the service manager listens on; `CannotListen` when it is not the one at `path`."""
    _check_family(sock, "unix", socket.AF_UNIX)
    name = sock.getsockname()
    if name != str(path):
        raise CannotListen(f"cannot listen on `{path}`: the socket that was handed over is at `{name}`; {MENDS}")
    return Listener(sock, "unix", name)


def handed_tcp(
    sock: socket.socket,
    host: str,
    port: int,
    *,
    stall_s: float = 30,
    open_access: bool = False,
    tls: ssl.SSLContext | None = None,
) -> Listener:
    """The TCP socket that the service manager listens on; `CannotListen` when it is not the one at that address."""
    _check_family(sock, "tcp", socket.AF_INET6 if ":" in host else socket.AF_INET)
    at, at_port = sock.getsockname()[:2]
    if (ipaddress.ip_address(at), at_port) != (ipaddress.ip_address(host), port):
        raise CannotListen(f"cannot listen on `{host}:{port}`: the socket that was handed over is at `{at}:{at_port}`; {MENDS}")
    _tune(sock, stall_s)
    return Listener(sock, "tcp", f"[{at}]:{at_port}" if ":" in at else f"{at}:{at_port}", open_access, tls)


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine alone."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _tune(sock: socket.socket, stall_s: float) -> None:
    """Accepted sockets inherit these. A peer that takes nothing, or is gone, is noticed by the kernel (tcp(7))."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(stall_s * 1000))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _check_family(sock: socket.socket, door: Door, family: socket.AddressFamily) -> None:
    if (sock.family, sock.type) != (family, socket.SOCK_STREAM):
        what = f"{sock.family.name}, {sock.type.name}"
        raise CannotListen(f"cannot listen on the socket that was handed over as `{door}`: it is {what}; {MENDS}")


def _bind(sock: socket.socket, path: Path, mode: int) -> None:
    """The file has its mode from its first moment. The umask is the process's: the doors open before any task runs."""
    before = os.umask(0o777 & ~mode)
    try:
        sock.bind(str(path))
    finally:
        os.umask(before)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """One daemon at a time looks at the file and replaces it: two that start at once cannot both find it stale."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise CannotListen(f"cannot listen on `{path}`: {_why(error)}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # closing the descriptor releases it
        yield
    except BlockingIOError:
        raise CannotListen(f"cannot listen on `{path}`: another daemon is starting there") from None
    finally:
        os.close(folder)


def _remove_stale(path: Path) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise CannotListen(f"cannot listen on `{path}`: a file that is no socket is there")
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()  # nobody listens
            return
        except OSError as error:
            raise CannotListen(f"cannot listen on `{path}`: {_why(error)}") from error
    raise CannotListen(f"cannot listen on `{path}`: another daemon listens there")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the address is in use"
    return (error.strerror or str(error)).lower()
