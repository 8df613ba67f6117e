"""Which A2A version does a request speak?

A2A 1.0 §3.6: `A2A-Version: Major.Minor` as a header, or as a query parameter where a client cannot set headers (the header
wins); nothing said means 0.3. The patch number says nothing about the wire, so `1.0.3` is `1.0`. What is served is decided
for each URL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from sandboxd.errors import VersionNotSupported

Version = Literal["1.0", "0.3"]

HEADER: Final = "A2A-Version"
SERVED: Final[tuple[Version, ...]] = ("1.0", "0.3")
_SPELLING: Final = re.compile(r"(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})(\.[0-9]{1,9})?")


def negotiate(header: Sequence[str], query: Sequence[str] = (), *, served: Sequence[Version] = SERVED) -> Version:
    """The version of a request, given every `A2A-Version` header line and query value that it has."""
    said = [value for value in (value.strip() for value in header) if value]
    said = said or [value for value in (value.strip() for value in query) if value]
    if len(said) > 1:
        raise _refusal(", ".join(said), "it names more than one", served)
    asked = said[0] if said else ""
    spelled = _SPELLING.fullmatch(asked)
    wanted = f"{spelled[1]}.{spelled[2]}" if spelled else ("0.3" if not asked else None)
    for version in served:
        if version == wanted:
            return version
    if not asked:
        raise _refusal("", f"no `{HEADER}` header means 0.3", served)
    raise _refusal(asked, "it is not served here" if spelled else "it is not spelled Major.Minor", served)


def _refusal(asked: str, why: str, served: Sequence[Version]) -> VersionNotSupported:
    what = f"A2A version `{asked[:64]}`" if asked else "the request"
    return VersionNotSupported(
        f"cannot speak {what}: {why}; served here: {', '.join(served)}", facts={"supported_versions": list(served)}
    )
