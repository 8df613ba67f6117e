"""Which path leads where, and who may go there?

The one route table: method, path, handler, who gets in (`OPEN`, `KNOWN`), and which A2A version the path speaks. Every row
stands twice, at the root for the default instance and below `/agents/{instance}`. The order for each request: the version's
gate, then credentials, then parameters, then the operation; all of it before the first header.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import attrs
import quart
from quart_trio import QuartTrio

from sandboxd.a2a import versions
from sandboxd.a2a.extensions import activated
from sandboxd.a2a.jsonrpc import CallId, id_of
from sandboxd.errors import Refusal, VersionNotSupported
from sandboxd.http import artifacts, compat, jsonrpc, ops, rest
from sandboxd.http.answers import JSON, as_refusal, refusal_answer, style_of
from sandboxd.http.auth import NOBODY, PEER
from sandboxd.http.doors import Doors, read_json
from sandboxd.http.edge import Edge
from sandboxd.http.once import act_once
from sandboxd.operations.host import Caller

Handler = Callable[..., Awaitable[quart.Response]]
Access = Literal["open", "known"]
OPEN: Final[Access] = "open"
KNOWN: Final[Access] = "known"


@attrs.frozen
class Route:
    """One row of the table; `speaks` None: the path is none of A2A's, so it has no version."""

    methods: str
    path: str
    handler: Handler
    access: Access
    speaks: versions.Version | None = None


def routes() -> tuple[Route, ...]:
    """The table of every instance."""
    task, push = "/tasks/<ref>", "/tasks/<ref>/pushNotificationConfigs"
    return (
        Route("POST", "/", jsonrpc.call, KNOWN, "1.0"),
        Route("POST", "/rpc", jsonrpc.call, KNOWN, "1.0"),
        Route("POST", "/message:send", rest.send_message, KNOWN, "1.0"),
        Route("POST", "/message:stream", rest.stream_message, KNOWN, "1.0"),
        Route("GET", "/tasks", rest.tasks, KNOWN, "1.0"),
        Route("GET", task, rest.read_task, KNOWN, "1.0"),
        Route("POST", task, rest.act_on_task, KNOWN, "1.0"),
        Route("GET POST", push, rest.push_configs, KNOWN, "1.0"),
        Route("GET DELETE", f"{push}/<config>", rest.push_configs, KNOWN, "1.0"),
        Route("GET", "/extendedAgentCard", rest.extended_card, KNOWN, "1.0"),
        Route("GET", "/.well-known/agent-card.json", rest.agent_card, OPEN),
        Route("GET", f"{task}/artifacts/<artifact_id>", artifacts.artifact, KNOWN),
        Route("POST", "/messages:send", compat.send_message, KNOWN, "0.3"),
        Route("POST", "/v1/messages:send", compat.send_message, KNOWN, "0.3"),
        Route("GET", f"/v1{task}", compat.read_task, KNOWN, "0.3"),
        Route("POST", f"/v1{task}", compat.act_on_task, KNOWN, "0.3"),
        Route("POST", f"/v1{task}/cancel", compat.cancel_task, KNOWN, "0.3"),
        Route("GET", f"/v1{task}/artifacts", compat.artifacts, KNOWN, "0.3"),
        Route("GET", f"/v1{task}/artifacts/<artifact_id>", artifacts.artifact, KNOWN),
    )


def host_routes() -> tuple[Route, ...]:
    """The table of the daemon itself, at the root alone."""
    return (
        Route("GET", "/healthz", ops.health, OPEN),
        Route("GET", "/readyz", ops.Readiness(), OPEN),
        Route("GET", "/metrics", ops.measure, KNOWN),
    )


def make_app(doors: Doors) -> Edge:
    """The ASGI application; `server.serve` runs it. Its lifespan and its nursery are never used: both swallow errors."""
    app = QuartTrio(__name__, static_folder=None)
    app.config["BODY_TIMEOUT"] = doors.settings.body_timeout_s
    app.config["MAX_CONTENT_LENGTH"] = None  # the edge counts
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    for route in host_routes():
        _add(app, doors, route, "")
    for route in routes():
        _add(app, doors, route, "")
        _add(app, doors, route, "/agents/<instance>")
    app.register_error_handler(Exception, _refuse)
    return Edge(app, max_body_bytes=doors.settings.max_body_bytes)


def _add(app: QuartTrio, doors: Doors, route: Route, prefix: str) -> None:
    async def view(instance: str = doors.host.default_instance, **where: str) -> quart.Response:
        if route.speaks is not None:
            _check_version(route.speaks)
        peer = PEER.get()
        known = NOBODY if route.access == OPEN else doors.gate.admit(peer, quart.request.headers)
        quart.g.is_admitted = True
        if route.access == KNOWN:
            doors.pace.take(known.principal)
        caller = Caller(known.principal, _activated(), known.grants, peer.door)

        async def respond(caller: Caller) -> quart.Response:
            try:
                return await route.handler(doors, caller, instance, **where)
            except Exception as error:
                return await _refuse(error)

        return await act_once(doors, caller, instance, respond)

    path = prefix + route.path
    methods = route.methods.split()
    app.add_url_rule(path, f"{route.methods} {path}", view, methods=methods, provide_automatic_options=False)


def _check_version(speaks: versions.Version) -> None:
    said = quart.request.headers.getlist(versions.HEADER)
    asked = [value for name, value in quart.request.args.items(multi=True) if name.lower() == versions.HEADER.lower()]
    versions.negotiate(said, asked, served=(speaks,))


def _activated() -> frozenset[str]:
    headers = quart.request.headers
    return activated([*headers.getlist("A2A-Extensions"), *headers.getlist("X-A2A-Extensions")])


async def _refuse(error: Exception) -> quart.Response:
    """Every error that a handler, or the way to it, let through."""
    refusal, status = as_refusal(error)
    style = style_of(quart.request.path)
    call_id = await _call_id(refusal) if style == "rpc" else None
    made = refusal_answer(refusal, style, quart.request.path, call_id=call_id, status=status)
    allowed: Any = getattr(error, "valid_methods", None)  # 405: RFC 9110 §15.5.6 wants them named
    if allowed:
        made.headers["Allow"] = ", ".join(sorted(allowed))
    return made


async def _call_id(refusal: Refusal) -> CallId:
    """The id of a call that was refused on its way; whoever is not known has nothing of theirs read, but for its version."""
    if not isinstance(refusal, VersionNotSupported) and not quart.g.get("is_admitted"):
        return None
    try:
        return id_of(await read_json(quart.request, media_types=(JSON,)))
    except Exception:
        return None
