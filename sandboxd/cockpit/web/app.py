"""Which path of the cockpit leads where, and who may go there?

The one route table. Whoever goes to a path of the API is known; the page itself holds nothing of anybody's, and is open. The
strictest content policy stands on every answer: no script, style or picture but our own, no frame, no form.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import quart
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from sandboxd.a2a.jsontext import dump_json
from sandboxd.cockpit.web import metrics_api, missions_api, news_api, push_api, questions_api, session_api, tasks_api
from sandboxd.cockpit.web.answers import HOUSE, JSON, refusal_answer, refusal_json
from sandboxd.cockpit.web.desk import Desk
from sandboxd.cockpit.web.pages import Pages, find_xterm
from sandboxd.errors import InvalidRequest, Refusal
from sandboxd.serving.exchange import App, Exchange, Header, Receive, Send
from sandboxd.serving.peer import PEER
from sandboxd.serving.refusals import headers_of
from sandboxd.values import frozen

Handler = Callable[..., Awaitable[quart.Response]]
BODY_MAX_BYTES: Final = 1024 * 1024

_HEADERS: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), clipboard-read=()"),
)
# For everything but the page, which has one of its own: an answer of the API shows and does nothing in a browser.
_NOTHING: Final = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


@frozen
class Route:
    """One row of the table. `is_open`: whoever it is; the handler is then called without a guest."""

    methods: str
    path: str
    handler: Handler
    is_open: bool = False


def routes(pages: Pages) -> tuple[Route, ...]:
    """The table."""
    question, mission = "/api/prompts/<name>", "/api/missions/<name>"
    return (
        Route("GET", "/", pages.page, is_open=True),
        Route("GET", "/static/<name>", pages.asset, is_open=True),
        Route("GET", "/api/me", session_api.me),
        Route("POST", "/api/session", session_api.sign_in, is_open=True),
        Route("DELETE", "/api/session", session_api.sign_out),
        Route("GET", "/api/prompts", questions_api.list_questions),
        Route("GET", question, questions_api.show_question),
        Route("POST", f"{question}/answer", questions_api.give_answer),
        Route("POST", f"{question}/cancel", questions_api.cancel),
        Route("POST", f"{question}/resume", questions_api.resume),
        Route("POST", f"{question}/settle", questions_api.settle),
        Route("POST", f"{question}/reissue", questions_api.reissue),
        Route("GET", "/api/missions", missions_api.list_missions),
        Route("POST", "/api/missions", missions_api.start_mission),
        Route("GET", mission, missions_api.show_mission),
        Route("POST", f"{mission}/resume", missions_api.resume_mission),
        Route("POST", f"{mission}/cancel", missions_api.cancel_mission),
        Route("GET", f"{mission}/result", missions_api.mission_result),
        Route("POST", "/push/<host>", push_api.pushed, is_open=True),
        Route("GET", "/api/sightings", questions_api.list_sightings),
        Route("GET", "/api/news", news_api.news),
        Route("GET", "/metrics", metrics_api.measure),
        Route("GET", "/api/tasks/<host>/<path:task>/terminal", tasks_api.watch_task),
    )


def make_app(desk: Desk, more: tuple[Route, ...] = ()) -> Edge:
    """The ASGI application, for `server.serve`; `more`: other tables beside this one."""
    app = QuartTrio(__name__, static_folder=None)
    app.config["BODY_TIMEOUT"] = desk.settings.body_timeout_s
    app.config["MAX_CONTENT_LENGTH"] = None  # the edge counts
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    for route in (*routes(Pages(find_xterm())), *more):
        _add(app, desk, route)
    app.register_error_handler(Exception, _refuse)
    return Edge(app)


def _add(app: QuartTrio, desk: Desk, route: Route) -> None:
    async def view(**where: str) -> quart.Response:
        if route.is_open:
            return await route.handler(desk, **where)
        request = quart.request
        guest = desk.gate.admit(PEER.get(), request.method, request.headers, request.cookies)
        desk.pace.take(guest.principal.name)
        return await route.handler(desk, guest, **where)

    methods = route.methods.split()
    app.add_url_rule(route.path, f"{route.methods} {route.path}", view, methods=methods, provide_automatic_options=False)


async def _refuse(error: Exception) -> quart.Response:
    return refusal_answer(error)


class Edge:
    """Wraps the application: what is true of every request and every answer."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        exchange = _Exchange(scope, receive, send, BODY_MAX_BYTES)
        if (flaw := exchange.flaw()) is not None:
            await exchange.refuse(flaw)
            return
        with exchange.handling:
            try:
                await self._app(scope, exchange.receive, exchange.send)
            except* HTTPException:  # a `Host` that is none: raised before Quart's error handlers are in place
                exchange.refusal = InvalidRequest("cannot read the request: its headers are ill-formed")
        if exchange.refusal is not None and not exchange.has_answered:
            await exchange.refuse(exchange.refusal)


class _Exchange(Exchange):
    """One request and its answer."""

    async def refuse(self, refusal: Refusal) -> None:
        """Answer without the application."""
        status, body = refusal_json(refusal)
        more = [(name.lower().encode(), value.encode()) for name, value in headers_of(refusal, HOUSE).items()]
        await self.say(status, JSON, dump_json(body), *more)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """The next piece of the answer."""
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            policy = [] if b"content-security-policy" in names else [(b"content-security-policy", _NOTHING)]
            usual = [header for header in _HEADERS if header[0] not in names]
            message["headers"] = [*message["headers"], *policy, *usual]
        await super().send(message)
