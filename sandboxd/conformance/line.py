"""How does a request reach the target?

httpx, one connection pool that can be dropped as a client that goes away drops it. No proxy, no redirect, and never another
origin than the one that was named: a target's card must not lead the token elsewhere. Every wait is bounded.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import httpx

from sandboxd.conformance.door import Asked, Came

ANSWER_S: Final = 30.0  # as long as a target may take over one answer
_BUSY_MAX: Final = 5  # times that a request is sent again
_BODY_MAX_BYTES: Final = 32 * 1024 * 1024


class Line:
    """A client of the target. `close` is what a client that vanishes looks like; the next request connects anew."""

    def __init__(self, *, token: str = "", answer_s: float = ANSWER_S) -> None:
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = httpx.Timeout(answer_s, connect=5.0)
        self._http: httpx.Client | None = None

    def ask(self, url: str, asked: Asked, headers: Mapping[str, str]) -> Came:
        """One request and its whole answer; a connection that fails is an answer with status 0.

        A target that has had too many (429) did nothing, so it is asked again when it says so.
        """
        came = self._ask(url, asked, headers)
        for _ in range(_BUSY_MAX):
            if came.status != 429:
                break
            time.sleep(_retry_after_s(came.headers.get("Retry-After", "")))
            came = self._ask(url, asked, headers)
        return came

    def _ask(self, url: str, asked: Asked, headers: Mapping[str, str]) -> Came:
        began = time.monotonic()
        try:
            with self._client().stream(asked.method, url + asked.path, json=asked.body, headers=dict(headers)) as answer:
                data = _read(answer)
                return _came(asked, answer, data, time.monotonic() - began)
        except (httpx.HTTPError, _TooLong) as error:
            why = str(error) or type(error).__name__
            return Came(asked, 0, {}, f"no answer: {why}", None, time.monotonic() - began)

    @contextmanager
    def follow(
        self, url: str, asked: Asked, headers: Mapping[str, str], *, for_s: float
    ) -> Iterator[tuple[Came, Iterator[tuple[str, Any]]]]:
        """A stream: its head, and its (`id:`, data) pairs for as long; an answer that is no stream comes as the head alone."""
        began = time.monotonic()
        ends_at = began + for_s
        timeout = httpx.Timeout(for_s, connect=5.0)
        sent = {"Accept": "text/event-stream", **headers}
        try:
            with self._client().stream(
                asked.method, url + asked.path, json=asked.body, headers=sent, timeout=timeout
            ) as answer:
                if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                    yield _came(asked, answer, _read(answer), time.monotonic() - began), iter(())
                    return
                head = Came(asked, answer.status_code, answer.headers, "a stream", None, time.monotonic() - began)
                yield head, _events(answer, ends_at)
        except (httpx.HTTPError, _TooLong) as error:
            yield Came(asked, 0, {}, f"no answer: {str(error) or type(error).__name__}", None, 0.0), iter(())

    def close(self) -> None:
        """Drop every connection."""
        if self._http is not None:
            self._http.close()
            self._http = None

    def _client(self) -> httpx.Client:
        if self._http is None:
            self._http = httpx.Client(headers=self._headers, timeout=self._timeout, trust_env=False, follow_redirects=False)
        return self._http


def _retry_after_s(said: str) -> float:
    return min(float(said), 10.0) if said.isascii() and said.isdigit() else 1.0


class _TooLong(Exception):
    pass


def _read(answer: httpx.Response) -> bytes:
    data = bytearray()
    for chunk in answer.iter_bytes():
        data += chunk
        if len(data) > _BODY_MAX_BYTES:
            raise _TooLong(f"its body is longer than {_BODY_MAX_BYTES} bytes")
    return bytes(data)


def _came(asked: Asked, answer: httpx.Response, data: bytes, took_s: float) -> Came:
    text = data.decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    return Came(asked, answer.status_code, answer.headers, text, body, took_s)


def _events(answer: httpx.Response, ends_at: float) -> Iterator[tuple[str, Any]]:
    """The events until the time is over or the stream ends, however it ends: what is missing then, the caller misses."""
    number, lines = "", []
    try:
        for line in answer.iter_lines():
            if line.startswith("id:"):
                number = line[3:].strip()
            elif line.startswith("data:"):
                lines.append(line[5:].removeprefix(" "))
            elif not line and lines:
                try:
                    yield number, json.loads("\n".join(lines))
                except ValueError:
                    yield number, None
                lines = []
            if time.monotonic() > ends_at:
                return
    except httpx.HTTPError:
        return
