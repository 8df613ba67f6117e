"""Which file is meant by `$CREDENTIALS_DIRECTORY/NAME` in the config?

The one that `LoadCredential=NAME:…` of the unit puts there (systemd.exec(5)): root keeps the secret where the daemon's user
cannot read it, and the daemon gets a copy in memory for as long as it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

from sandboxd.config import Config
from sandboxd.config_doors import CREDENTIALS, credential_name
from sandboxd.errors import LoadError, Problem


def named(config: Config) -> dict[str, str]:
    """The name of each credential that the config asks for, with the config's key for it."""
    return {credential_name(path): key for key, path in _secrets(config) if credential_name(path)}


def placed(config: Config, folder: Path | None) -> Config:
    """The config with the files that are meant; `LoadError` when one is not there. `folder` None: nobody gave credentials."""
    problems = []
    for name, key in named(config).items():
        if folder is None:
            problems.append(Problem(key, f"`{CREDENTIALS}/{name}`: no credentials were given; they come from a unit"))
        elif not (folder / name).exists():
            problems.append(Problem(key, f"`{CREDENTIALS}/{name}`: the unit has no `LoadCredential={name}:…`"))
    if problems:
        raise LoadError(str(config.source or ""), problems)
    if folder is None:
        return config
    tokens = {name: _at(folder, path) for name, path in config.tokens.items()}
    tls = config.listen.tls
    if tls is not None:
        client_ca = None if tls.client_ca is None else _at(folder, tls.client_ca)
        tls = attrs.evolve(tls, cert=_at(folder, tls.cert), key=_at(folder, tls.key), client_ca=client_ca)
    return attrs.evolve(config, tokens=tokens, listen=attrs.evolve(config.listen, tls=tls))


def _secrets(config: Config) -> Iterator[tuple[str, Path]]:
    yield from ((f"auth.tokens.{name}", path) for name, path in config.tokens.items())
    if tls := config.listen.tls:
        yield from (("listen.tls.cert", tls.cert), ("listen.tls.key", tls.key))
        if tls.client_ca is not None:
            yield "listen.tls.client_ca", tls.client_ca


def _at(folder: Path, path: Path) -> Path:
    name = credential_name(path)
    return folder / name if name else path
