"""Which path leads where, and who may go there?

The one route table: method, path, handler, who gets in (`OPEN`, `KNOWN`), and which A2A versions the path speaks. An
instance's rows count at the root, for the default one, and below `/agents/{instance}`, which the edge takes off: werkzeug
compiles every rule, a fifth of a millisecond each, so none stands twice. The order for each request: the version's gate, then
credentials, then parameters, then the operation; all of it before the first header.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import quart
from quart_trio import QuartTrio
from werkzeug.routing import BaseConverter

from sandboxd.a2a import versions
from sandboxd.a2a.card import OWN_03
from sandboxd.a2a.jsonrpc import CallId, id_of
from sandboxd.a2a.versions import Version
from sandboxd.errors import Refusal, VersionNotSupported
from sandboxd.http import artifacts, audit, card_routes, compat, jsonrpc, ops, push, rest
from sandboxd.http.answers import JSON, as_refusal, refusal_answer
from sandboxd.http.auth import NOBODY
from sandboxd.http.doors import Doors, read_json
from sandboxd.http.edge import Edge
from sandboxd.http.head import HEAD, Head
from sandboxd.http.manners import EXTENSIONS, EXTENSIONS_03, said_in
from sandboxd.http.once import act_once
from sandboxd.http.presence import GUEST
from sandboxd.operations.host import Caller
from sandboxd.serving.one_task import InOneTask
from sandboxd.serving.peer import PEER
from sandboxd.values import frozen

Handler = Callable[..., Awaitable[quart.Response]]
Access = Literal["open", "known"]
OPEN: Final[Access] = "open"
KNOWN: Final[Access] = "known"


BOTH: Final = versions.SERVED
NEW: Final[tuple[Version, ...]] = ("1.0",)
OLD: Final[tuple[Version, ...]] = ("0.3",)


@frozen
class Route:
    """One row of the table; `speaks` empty: the path is none of A2A's, so no version is asked for."""

    methods: str
    path: str
    handler: Handler
    access: Access
    speaks: tuple[Version, ...] = ()


def routes() -> tuple[Route, ...]:
    """The table of every instance."""
    task = "/tasks/<ref>"
    return (
        Route("POST", "/", jsonrpc.call, KNOWN, BOTH),
        Route("POST", "/rpc", jsonrpc.call, KNOWN, BOTH),
        Route("POST", "/v1", jsonrpc.call, KNOWN, OLD),
        Route("POST", "/v1/rpc", jsonrpc.call, KNOWN, OLD),
        *_a2a("", BOTH),
        *_a2a("/v1", OLD),
        *_a2a(OWN_03, OLD),
        *_a2a(f"{OWN_03}/v1", OLD),
        *_a2a("/<tenant:tenant>", NEW),  # a2a.proto: a client copies it from the card; ours names none, and any is taken
        Route("GET", "/v1/card", rest.extended_card, KNOWN, OLD),
        Route("GET", f"{OWN_03}/v1/card", rest.extended_card, KNOWN, OLD),
        Route("GET", "/.well-known/agent-card.json", card_routes.agent_card, OPEN),
        Route("GET", "/.well-known/agent.json", card_routes.old_agent_card, OPEN),
        Route("GET", "/.well-known/jwks.json", card_routes.jwks, OPEN),
        Route("GET", "/schemas/<path:name>", card_routes.schema, OPEN),
        *(
            Route(methods, f"{under}{path}", handler, KNOWN, speaks)
            for under in ("", "/v1", f"{OWN_03}/v1")
            for methods, path, handler, speaks in (
                ("POST", "/messages:send", compat.send_message, OLD),
                ("POST", "/messages:stream", rest.stream_message, OLD),
                ("POST", f"{task}/cancel", compat.cancel_task, OLD),
                ("GET", f"{task}/subscribe", compat.subscribe, OLD),
                ("GET", f"{task}/artifacts", compat.artifacts, ()),
                ("GET", f"{task}/artifacts/<artifact_id>", artifacts.artifact, ()),
            )
        ),
    )


def _a2a(under: str, speaks: tuple[Version, ...]) -> tuple[Route, ...]:
    """A2A over HTTP+JSON, below a prefix."""
    task = f"{under}/tasks/<ref>"
    push = f"{task}/pushNotificationConfigs"
    return (
        Route("POST", f"{under}/message:send", rest.send_message, KNOWN, speaks),
        Route("POST", f"{under}/message:stream", rest.stream_message, KNOWN, speaks),
        Route("GET", f"{under}/tasks", rest.tasks, KNOWN, speaks),
        Route("GET", task, rest.read_task, KNOWN, speaks),
        Route("POST", task, rest.act_on_task, KNOWN, speaks),
        Route("GET POST", push, rest.push_configs, KNOWN, speaks),
        Route("GET DELETE", f"{push}/<config>", rest.push_configs, KNOWN, speaks),
        Route("GET", f"{under}/extendedAgentCard", rest.extended_card, KNOWN, speaks),
    )


def host_routes() -> tuple[Route, ...]:
    """The table of the daemon itself, at the root alone: what begins as one of these is no path of an instance."""
    return (
        Route("GET", "/healthz", ops.health, OPEN),
        Route("GET", "/readyz", ops.Readiness(), OPEN),
        Route("GET", "/metrics", ops.measure, KNOWN),
        Route("GET", "/audit", audit.show, KNOWN),
        Route("GET", "/push/dead", push.show_dead, KNOWN),
        Route("POST", "/push/dead/<number>/retry", push.retry, KNOWN),
    )


def make_app(doors: Doors) -> Edge:
    """The ASGI application; `server.serve` runs it. Its lifespan and its nursery are never used: both swallow errors."""
    app = QuartTrio(__name__, static_folder=None)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.url_map.converters["tenant"] = _Tenant
    for route in (*host_routes(), *routes()):
        _add(app, doors, route)
    limits = doors.settings
    return Edge(
        InOneTask(app, _refuse),
        doors.presence,
        max_body_bytes=limits.max_body_bytes,
        body_timeout_s=limits.body_timeout_s,
        at_root_alone=frozenset(route.path.split("/")[1] for route in host_routes()),
    )


def _add(app: QuartTrio, doors: Doors, route: Route) -> None:
    async def view(tenant: str = "", **where: str) -> quart.Response:
        head = HEAD.get()
        instance = head.instance or doors.host.default_instance
        speech = head.speech
        if route.speaks:
            _check_version(head, route.speaks)
        peer = PEER.get()
        known = NOBODY if route.access == OPEN else doors.presence.admit(peer, head)
        GUEST.get().is_admitted = True
        if route.access == KNOWN:
            doors.pace.take(known.principal)
        caller = Caller(known.principal, head.extensions, known.grants, peer.door)

        async def respond(caller: Caller) -> quart.Response:
            try:
                return await route.handler(doors, caller, instance, **where)
            except Exception as error:
                return await _refuse(error)

        made = await act_once(doors, caller, instance, respond)
        if route.speaks:
            made.headers[versions.HEADER] = speech.version
            made.headers["Vary"] = f"{versions.HEADER}, {EXTENSIONS}, {EXTENSIONS_03}, Accept"
        return made

    methods = route.methods.split()
    app.add_url_rule(route.path, f"{route.methods} {route.path}", view, methods=methods, provide_automatic_options=False)


class _Tenant(BaseConverter):
    """The first segment of a path with a tenant: any that begins no path of ours."""

    regex = (
        r"(?!(?:agents|tasks|rpc|v1|0\.3|metrics|audit|push|schemas|healthz|readyz|extendedAgentCard|\.well-known)/)"
        r"[^/:]{1,256}"
    )


def _check_version(head: Head, served: tuple[Version, ...]) -> None:
    if head.speech.refusal is None and head.speech.version in served:
        return
    versions.negotiate(head.getlist(versions.HEADER), said_in(head.query), served=served)


async def _refuse(error: Exception) -> quart.Response:
    """Every error that a handler, or the way to it, let through."""
    refusal, status = as_refusal(error)
    head = HEAD.get()
    speech = head.speech
    call_id = await _call_id(refusal) if speech.manner == "rpc" else None
    made = refusal_answer(refusal, speech, head.path, call_id=call_id, status=status)
    allowed: Any = getattr(error, "valid_methods", None)  # 405: RFC 9110 §15.5.6 wants them named
    if allowed:
        made.headers["Allow"] = ", ".join(sorted(allowed))
    return made


async def _call_id(refusal: Refusal) -> CallId:
    """The id of a call that was refused on its way; whoever is not known has nothing of theirs read, but for its version."""
    if not isinstance(refusal, VersionNotSupported) and not GUEST.get().is_admitted:
        return None
    try:
        return id_of(await read_json(media_types=(JSON,)))
    except Exception:
        return None
