"""Where do bearer tokens come from, and who may read them?

One token a file, made on first start with mode 0600; its name (without a suffix) is the principal's. A file that others can
read is refused, since whoever reads it can start commands here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from sandboxd.errors import LoadError, Problem

_MIN_CHARS: Final = 32
_MAX_BYTES: Final = 4096
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750 §2.1
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


@attrs.frozen
class Token:
    """A principal's token, as its SHA-256: the token itself is not kept."""

    name: str
    digest: bytes = attrs.field(repr=False)


def load_tokens(paths: Sequence[Path]) -> tuple[Token, ...]:
    """Read every token file; one that is missing is made. `LoadError` names the first that cannot be used."""
    tokens = []
    for path in paths:
        with contextlib.suppress(FileExistsError):
            _make(path)
        tokens.append(Token(_name(path), hashlib.sha256(read_token(path).encode()).digest()))
    if len({token.name for token in tokens}) < len(tokens):
        raise LoadError(str(paths[-1]), [Problem("", "two token files have the same name, which is the principal's")])
    return tuple(tokens)


def read_token(path: Path) -> str:
    """The token in a file, for a client of this machine; `LoadError` when the file is not safe or holds none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _unusable(path, (error.strerror or str(error)).lower()) from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unusable(path, "it is no regular file")
        if status.st_uid not in (0, os.getuid()):
            raise _unusable(path, "it belongs to another user")
        if status.st_mode & 0o077:
            raise _unusable(path, f"others can use it (mode {stat.S_IMODE(status.st_mode):04o}); `chmod 600` it")
        text = file.read(_MAX_BYTES).decode(errors="replace").strip()
    if len(text) < _MIN_CHARS or not _TOKEN.fullmatch(text):
        raise _unusable(path, f"it holds no token of at least {_MIN_CHARS} characters")
    return text


def _make(path: Path) -> None:
    """Write a new token; the file appears whole or not at all, and never over another one."""
    try:
        if path.exists():
            return
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
                file.flush()
                os.fsync(file.fileno())
            path.hardlink_to(draft)  # fails where the name was taken meanwhile
        finally:
            draft.unlink()
    except FileExistsError:
        raise
    except OSError as error:
        raise _unusable(path, f"it cannot be made: {(error.strerror or str(error)).lower()}") from error


def _name(path: Path) -> str:
    if not _NAME.fullmatch(path.stem):
        raise _unusable(path, "its name is a principal's, so it has letters, digits, `.`, `_` and `-` alone")
    return path.stem


def _unusable(path: Path, why: str) -> LoadError:
    return LoadError(str(path), [Problem("", why)])
