"""How does a request go through Quart in the one task that it came in?

As Quart's `asgi_http_class`. Quart's own runs a handler beside a task that takes the body in and waits for the client to
leave: two tasks and a nursery, a tenth of what a short request costs. Here the body is read by whoever wants it
(`Exchange.body`; Quart's `request.get_data` and `request.form` would wait for ever), and the connection says that the client
has left.
"""

from __future__ import annotations

from typing import Any

import quart
import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable
from quart import Quart
from werkzeug.datastructures import Headers
from werkzeug.wrappers import Response

from sandboxd.serving.exchange import CURRENT


def go_in_one_task(app: Quart) -> None:
    """Have every request of the application handled so; each is inside its `Exchange`."""
    app.asgi_http_class = InOneTask


class InOneTask:
    """One request, inside its `Exchange`."""

    def __init__(self, app: Quart, scope: Any) -> None:
        self._app = app
        self._scope = scope

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Have it handled, and send the answer (ASGI)."""
        exchange = CURRENT.get()
        exchange.end_when_left()
        made = await self._app.handle_request(self._request())
        timeout_s = getattr(made, "timeout", ...)  # werkzeug's own answers have none
        if timeout_s is ...:
            timeout_s = self._app.config["RESPONSE_TIMEOUT"]
        if timeout_s is not None:
            exchange.handling.deadline = trio.current_time() + timeout_s
        await _send(made, send)

    def _request(self) -> quart.Request:
        scope = self._scope
        headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]])
        if scope["http_version"] < "1.1":  # which needs none
            headers.setdefault("Host", self._app.config["SERVER_NAME"] or "")
        return self._app.request_class(
            *(scope["method"], scope["scheme"], scope["path"], scope["query_string"], headers),
            *(scope["root_path"], scope["http_version"], scope),
            send_push_promise=_push_nothing,
        )


async def _send(made: quart.Response | Response, send: ASGISendCallable) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in made.headers.items()]
    await send({"type": "http.response.start", "status": made.status_code, "headers": headers})
    if not isinstance(made, quart.Response):
        await send({"type": "http.response.body", "body": made.get_data(), "more_body": False})
        return
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
