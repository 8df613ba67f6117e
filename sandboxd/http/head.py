"""What does the head of the current request say?

Read once, where the request comes in: what a request speaks, who sends it and what it activates is asked for at every step of
its way, and the framework's own request goes through all of its headers each time.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from werkzeug.sansio.utils import get_host

from sandboxd.a2a.extensions import activated
from sandboxd.http.manners import EXTENSIONS, EXTENSIONS_03, Speech, speech_of


class Head:
    """Path, query, headers and activated extensions of one request (ASGI); `getlist` and `get` take a name in any case."""

    def __init__(self, scope: MutableMapping[str, Any]) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._scheme: str = scope["scheme"]
        self.instance: str | None = None  # that the path names; the edge says it
        self._query: bytes = scope.get("query_string", b"")
        self._headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:  # the names are in lower case
            self._headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        self.extensions = activated([*self.getlist(EXTENSIONS), *self.getlist(EXTENSIONS_03)])
        self._speech: Speech | None = None

    def get(self, key: str, default: str | None = None) -> str | None:
        """The first value of a header."""
        found = self._headers.get(key.lower())
        return found[0] if found else default

    def getlist(self, key: str) -> Sequence[str]:
        """Every value of a header."""
        return self._headers.get(key.lower(), ())

    @property
    def host(self) -> str | None:
        """Where the client believes to be, as werkzeug reads it, empty where it does not say; None: what it says is no host."""
        return _host(self._scheme, self.get("Host"))

    @property
    def arguments(self) -> dict[str, str]:
        """The first value of each parameter of the query."""
        text = self._query.decode("latin-1")
        return dict(reversed(parse_qsl(text, keep_blank_values=True, errors="werkzeug.url_quote")))

    @property
    def query(self) -> Sequence[tuple[str, str]]:
        """Every parameter of the query, empty ones too."""
        return parse_qsl(self._query.decode("latin-1"), keep_blank_values=True) if self._query else ()

    @property
    def speech(self) -> Speech:
        """How the request speaks."""
        if self._speech is None:
            self._speech = speech_of(self.path, self, self.query)
        return self._speech


@lru_cache(maxsize=256)
def _host(scheme: str, said: str | None) -> str | None:
    host = get_host(scheme, said)
    try:
        host.partition(":")[0].encode("idna")
    except UnicodeError:
        return None
    return host


HEAD: ContextVar[Head] = ContextVar("HEAD")  # of the request whose context it is
