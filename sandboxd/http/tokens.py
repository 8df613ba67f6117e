"""Where do bearer tokens come from, and what may their bearers do?

Two places. The config names token files, one token each, made on first start with mode 0600: their bearers may do everything
(the command line has such a one). All others are in the token book (`token_book`), with scopes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from sandboxd.operations.access import EVERYTHING, Grants
from sandboxd.serving.bearer import digest_of, new_token, read_token
from sandboxd.serving.private_file import make_private
from sandboxd.values import frozen


@frozen
class Token:
    """A principal's token, as its hash (`bearer.digest_of`): the token itself is not kept."""

    name: str
    digest: bytes = attrs.field(repr=False)
    grants: Grants = EVERYTHING


def load_tokens(paths: Mapping[str, Path]) -> tuple[Token, ...]:
    """Read every token file of the config, by its principal's name; one that is missing is made.

    `LoadError` names the first that cannot be used.
    """
    tokens = []
    for name, path in paths.items():
        make_private(path, new_token() + "\n")
        tokens.append(Token(name, digest_of(read_token(path))))
    return tuple(tokens)
