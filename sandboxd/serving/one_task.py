"""How does a request reach its route, in the one task that it came in?

The routes, and the answers, are Quart's. On its own way a request is a task beside one that takes the body in and waits for the
client to leave, a context of the framework's with an object for the request, and a round of hooks and signals that nobody here
hears: a sixth of what a short request costs. Here a route's function is called at once. It finds what it needs in
the `Exchange`: the body is read by whoever wants it, and the connection says that the client has left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any

import quart
import trio
from quart import Quart
from werkzeug.datastructures import Headers

from sandboxd.serving.exchange import CURRENT, Receive, Send

Refuse = Callable[[Exception], Awaitable[quart.Response]]


class InOneTask:
    """The routes of a Quart application as an ASGI application, each request inside its `Exchange`.

    What they return is a `quart.Response`; `refuse` makes one of what they raise, and of a path without a route (werkzeug's
    `NotFound`, `MethodNotAllowed`). Neither Quart's `request` nor its `g` is there. No route may be added later.
    """

    def __init__(self, app: Quart, refuse: Refuse) -> None:
        # No route goes by the host. Paths come again, and to match one leaves a cycle for the search for garbage.
        self._route = lru_cache(maxsize=256)(app.url_map.bind("").match)
        self._functions: Mapping[str, Any] = app.view_functions
        self._timeout_s: float | None = app.config["RESPONSE_TIMEOUT"]
        self._refuse = refuse

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Have it handled, and send the answer (ASGI)."""
        exchange = CURRENT.get()
        exchange.end_when_left()
        try:
            name, where = self._route(scope["path"], scope["method"])
            made: quart.Response = await self._functions[name](**where)
        except Exception as error:
            made = await self._refuse(error)
        timeout_s = self._timeout_s if made.timeout is ... else made.timeout
        if timeout_s is not None:
            exchange.handling.deadline = trio.current_time() + timeout_s
        await _send(made, send)


def request_of(scope: Any) -> quart.Request:
    """The request as Quart has it, for what of Quart's wants one. Its body is not there."""
    headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]])
    return quart.Request(
        *(scope["method"], scope["scheme"], scope["path"], scope["query_string"], headers),
        *(scope["root_path"], scope["http_version"], scope),
        send_push_promise=_push_nothing,
    )


async def _send(made: quart.Response, send: Send) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in made.headers.items()]
    await send({"type": "http.response.start", "status": made.status_code, "headers": headers})
    size = made.content_length
    sent = 0
    async with made.response as pieces:
        async for piece in pieces:
            sent += len(piece)
            is_last = sent == size  # said with it, so that it needs no empty piece behind it
            await send({"type": "http.response.body", "body": piece, "more_body": not is_last})
            if is_last:
                return
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _push_nothing(path: str, headers: Headers) -> None:
    """HTTP/2 is not spoken."""
