"""Where may clients come in, by the config, and with which tokens? (part of `config`)"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Final

from sandboxd.policy.exec_text import shown
from sandboxd.policy.table import Table
from sandboxd.values import frozen

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
CREDENTIALS: Final = "$CREDENTIALS_DIRECTORY"  # systemd.exec(5): where the service manager puts what `LoadCredential=` names
_UNIX_MAX_BYTES: Final = 107  # unix(7): sun_path has 108 bytes, one of them the closing NUL


@frozen
class TcpAddress:
    """An IP address and a port; port 0 lets the kernel choose."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def is_wildcard(self) -> bool:
        """Whether it is all of this machine's addresses, and so none that a client could be told."""
        return ipaddress.ip_address(self.host).is_unspecified

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@frozen
class Tls:
    """What the TCP listener speaks with: PEM files. `client_ca`: every client must show a certificate that this CA signed."""

    cert: Path
    key: Path
    client_ca: Path | None = None


@frozen
class Listen:
    """Where clients connect. `unauthenticated`: TCP without a token, loopback only. `allow_root`: run as root all the same."""

    unix: Path | None = None
    tcp: TcpAddress | None = None
    unauthenticated: bool = False
    allow_root: bool = False
    tls: Tls | None = None


def read_listen(table: Table, folder: Path, state_dir: Path) -> Listen:
    """The `[listen]` table."""
    tcp = read_tcp(table) if table.has("tcp") else None
    unix = read_path(table, "unix", folder) if table.has("unix") else None
    if unix is None and tcp is None:
        unix = state_dir / "sandboxd.sock"
    if unix is not None and (size := len(str(unix).encode())) > _UNIX_MAX_BYTES:
        table.problem("unix", f"the path has {size} bytes, and a unix socket's name has at most {_UNIX_MAX_BYTES}")
    unauthenticated = table.flag("unauthenticated", False) is True
    tls = read_tls(table.table("tls"), folder) if table.has("tls") else None
    if tls is not None and tcp is None:
        table.problem("tls", "is for `tcp`, which is not set")
    if tcp is not None and not tcp.is_loopback:
        if tls is None:
            why = "clear text is for loopback only; add `[listen.tls]`, or put a TLS proxy before a loopback address"
            table.problem("tcp", f"`{tcp}` can be reached from elsewhere: {why}")
        if unauthenticated:
            table.problem("unauthenticated", f"`{tcp}` can be reached from elsewhere, so callers must say who they are")
    allow_root = table.flag("allow_root", False) is True
    table.close()
    return Listen(unix, tcp, unauthenticated, allow_root, tls)


def read_tokens(table: Table, folder: Path, state_dir: Path) -> dict[str, Path]:
    """Without any, one for the command line, in the state folder; whoever starts the daemon makes it."""
    files = table.mapping("tokens")
    names = table.table("tokens") if files else table
    for name in files:
        if not NAME.fullmatch(name):
            names.problem(name, "is no name for a token: at most 64 letters, digits, `.`, `_`, `+`, `-`")
    if len(set(files.values())) < len(files):
        table.problem("tokens", "two names share a file, so nobody could tell who called")
    tokens = {name: resolve_secret(names, name, folder, file) for name, file in files.items()}
    table.close()
    return tokens or {"cli": state_dir / "cli.token"}


def read_path(table: Table, key: str, folder: Path, default: str | None = None) -> Path:
    """The path under the key, relative to the config's folder; without a default it is required."""
    text = table.text(key, default)
    if not text and default is None:  # told already
        return folder
    return resolve(table, key, folder, text)


def credential_name(path: Path) -> str:
    """The name of the credential that the path means; empty: it is an ordinary path."""
    return path.parts[1] if len(path.parts) == 2 and path.parts[0] == CREDENTIALS else ""


def resolve_secret(table: Table, key: str, folder: Path, text: str) -> Path:
    """The same for a file that may be a credential: `$CREDENTIALS_DIRECTORY/NAME` stays as it is."""
    if not text.startswith("$"):
        return resolve(table, key, folder, text)
    if not NAME.fullmatch(credential_name(Path(text))):
        table.problem(key, f"{shown(text)} must be spelled out: of variables only `{CREDENTIALS}/NAME` is read")
    return Path(text)


def resolve(table: Table, key: str, folder: Path, text: str) -> Path:
    """The path that the text means, as the config spells it."""
    if text.startswith("~"):
        table.problem(key, f"{shown(text)} must be spelled out: `~` is not read")
    if not text:
        table.problem(key, "must not be empty")
    return folder / text


def read_tls(table: Table, folder: Path) -> Tls:
    """A TLS table; whether the files can be used is found out when they are."""
    tls = Tls(
        cert=resolve_secret(table, "cert", folder, table.text("cert")),
        key=resolve_secret(table, "key", folder, table.text("key")),
        client_ca=resolve_secret(table, "client_ca", folder, table.text("client_ca")) if table.has("client_ca") else None,
    )
    table.close()
    return tls


def read_tcp(table: Table) -> TcpAddress | None:
    """The address under `tcp`."""
    text = table.text("tcp")
    found = re.fullmatch(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<v4>[0-9.]+|localhost)):(?P<port>[0-9]{1,5})", text)
    if found and int(found["port"]) <= 65_535:
        host = "127.0.0.1" if found["v4"] == "localhost" else found["v6"] or found["v4"]
        try:
            ipaddress.ip_address(host)
        except ValueError:
            pass
        else:
            return TcpAddress(host, int(found["port"]))
    if text:
        table.problem("tcp", f'{shown(text)} is no IP address with a port, such as "127.0.0.1:8765" or "[::1]:8765"')
    return None
