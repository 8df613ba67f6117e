"""Where do bearer tokens come from, and what may their bearers do?

Two places. The config names token files, one token each, made on first start with mode 0600: their bearers may do everything
(the command line has such a one). All others are in the token book (`token_book`), with scopes.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from sandboxd.http.private_file import make_private, read_private, unusable
from sandboxd.operations.access import EVERYTHING, Grants

MIN_CHARS: Final = 32
MAX_CHARS: Final = 4096
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750 §2.1


@attrs.frozen
class Token:
    """A principal's token, as its SHA-256: the token itself is not kept.

    A plain hash is enough. What makes a slow one (scrypt, Argon2) necessary is that people's passwords can be guessed; these
    tokens are 256 random bits, which nobody can, and a slow hash would let anyone make the daemon work by sending wrong ones.
    """

    name: str
    digest: bytes = attrs.field(repr=False)
    grants: Grants = EVERYTHING


def digest_of(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def new_token() -> str:
    """A token that nobody can guess: 256 random bits."""
    return secrets.token_urlsafe(32)


def load_tokens(paths: Mapping[str, Path]) -> tuple[Token, ...]:
    """Read every token file of the config, by its principal's name; one that is missing is made.

    `LoadError` names the first that cannot be used.
    """
    tokens = []
    for name, path in paths.items():
        make_private(path, new_token() + "\n")
        tokens.append(Token(name, digest_of(read_token(path))))
    return tuple(tokens)


def read_token(path: Path) -> str:
    """The token in a file, for a client of this machine; `LoadError` when the file is not safe or holds none."""
    text = read_private(path).strip()
    if not MIN_CHARS <= len(text) <= MAX_CHARS or not _TOKEN.fullmatch(text):
        raise unusable(path, f"it holds no token of at least {MIN_CHARS} characters")
    return text
