"""Which daemon does a command mean?

First fit: `--url`, `--socket`, `SANDBOXD_URL`, `SANDBOXD_SOCKET`, the config's unix socket, the config's TCP address with the
token that the daemon made for the command line, the usual socket. A token goes out over plain HTTP only to this machine.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import attrs
import click

from sandboxd.cli.client import Address, Daemon
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.settings import find_config
from sandboxd.values import frozen

TOKEN_MAX_BYTES: Final = 4096
USUAL_SOCKET: Final = "/var/lib/sandboxd/sandboxd.sock"  # what the config says when it says nothing

Command = TypeVar("Command", bound=Callable[..., Any])


@frozen
class Reach:
    """What the command line and the environment say about where the daemon is; empty: nothing."""

    socket: str = ""
    url: str = ""
    token_file: str = ""
    instance: str = ""
    config: str = ""

    def daemon(self, *, timeout_s: float = 30.0) -> Daemon:
        """A connection to that daemon."""
        return Daemon(self.address(), timeout_s=timeout_s)

    def address(self) -> Address:
        """The daemon's address; `Failure` when it is none, or the token cannot be read or sent there."""
        if not self.url:
            return Address(socket=self.socket, instance=self.instance) if self.socket else self._configured()
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Failure(f"cannot use `{self.url}` as the daemon's URL: it needs http:// or https:// and a host", Exit.USAGE)
        token = read_token(self.token_file) if self.token_file else ""
        if token and parts.scheme == "http" and not is_loopback(parts.hostname):
            why = "over plain HTTP everybody on the way could read it"
            raise Failure(f"cannot send the token to `{parts.hostname}`: {why}", Exit.USAGE, hint="use an https:// URL")
        return Address(url=self.url.rstrip("/"), token=token, instance=self.instance)

    def _configured(self) -> Address:
        config = find_config(self.config)
        if config is None:
            return Address(socket=USUAL_SOCKET, instance=self.instance)
        if config.listen.unix is not None:
            return Address(socket=str(config.listen.unix), instance=self.instance)
        files = [self.token_file] if self.token_file else [str(file) for file in config.tokens.values()]
        token = "" if config.listen.unauthenticated else read_token(files[0])
        scheme = "http" if config.listen.tls is None else "https"
        return Address(url=f"{scheme}://{config.listen.tcp}", token=token, instance=self.instance)


def daemon_options(command: Command) -> Command:
    """Gives a command the options that say where the daemon is, and passes them on as one `reach`."""

    @functools.wraps(command)
    def with_reach(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) or "" for name in ("socket", "url", "token_file", "instance", "config")}
        return command(*args, reach=_reach(given, click.get_current_context()), **kwargs)

    for option in reversed(_OPTIONS):
        with_reach = option(with_reach)
    return cast(Command, with_reach)  # click sees the command's own signature, which wraps keeps


_OPTIONS: Final = (
    click.option("--socket", envvar="SANDBOXD_SOCKET", metavar="PATH", help="The daemon's unix socket [SANDBOXD_SOCKET]."),
    click.option("--url", envvar="SANDBOXD_URL", metavar="URL", help="The daemon's URL, instead of a socket [SANDBOXD_URL]."),
    click.option(
        "--token-file",
        envvar="SANDBOXD_TOKEN_FILE",
        metavar="FILE",
        help="File with the bearer token for --url [SANDBOXD_TOKEN_FILE].",
    ),
    click.option(
        "--instance",
        envvar="SANDBOXD_INSTANCE",
        metavar="ID",
        help="Which instance; without it the default one [SANDBOXD_INSTANCE].",
    ),
    click.option("--config", envvar="SANDBOXD_CONFIG", metavar="FILE", help="Config that names the socket [SANDBOXD_CONFIG]."),
)


def _reach(given: Mapping[str, str], context: click.Context) -> Reach:
    typed = {name for name in ("socket", "url") if is_typed(context, name)}
    if len(typed) == 2:
        raise click.UsageError("--socket and --url name two places: give one of them", context)
    reach = Reach(**given)
    return attrs.evolve(reach, url="") if typed == {"socket"} else reach


def is_typed(context: click.Context, name: str) -> bool:
    """Whether that option stands on the command line, and not in the environment or nowhere."""
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def read_token(path: str) -> str:
    """The token in that file, without the newline at its end."""
    try:
        with Path(path).open("rb") as file:
            token = file.read(TOKEN_MAX_BYTES + 1).strip().decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it holds no token"
        code = Exit.NOT_ALLOWED if isinstance(error, PermissionError) else Exit.OTHER
        raise Failure(f"cannot read the token file `{path}`: {why.lower()}", code) from error
    if not token or len(token) > TOKEN_MAX_BYTES or not token.isprintable() or " " in token:
        raise Failure(f"cannot read the token file `{path}`: it holds no token")
    return token


def is_loopback(host: str) -> bool:
    """Whether that host can only be this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
