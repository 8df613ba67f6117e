"""What is a bearer token, and what is kept of it?"""

from __future__ import annotations

import hashlib
import re
import secrets
from pathlib import Path
from typing import Final

from sandboxd.serving.private_file import read_private, unusable

MIN_CHARS: Final = 32
MAX_CHARS: Final = 4096
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750 §2.1


def digest_of(token: str) -> bytes:
    """What is kept of a token: its SHA-256.

    A plain hash is enough. What makes a slow one (scrypt, Argon2) necessary is that people's passwords can be guessed; these
    tokens are 256 random bits, which nobody can, and a slow hash would let anyone make the daemon work by sending wrong ones.
    """
    return hashlib.sha256(token.encode(errors="replace")).digest()


def new_token() -> str:
    """A token that nobody can guess: 256 random bits."""
    return secrets.token_urlsafe(32)


def read_token(path: Path) -> str:
    """The token in a file, for a client of this machine; `LoadError` when the file is not safe or holds none."""
    text = read_private(path).strip()
    if not MIN_CHARS <= len(text) <= MAX_CHARS or not _TOKEN.fullmatch(text):
        raise unusable(path, f"it holds no token of at least {MIN_CHARS} characters")
    return text
