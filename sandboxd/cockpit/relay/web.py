"""How do callers reach the relay? (A2A 1.0, JSON-RPC §9 and HTTP+JSON §11, below `/a2a`)

The codecs and refusals are those of the daemon's doors. A caller's token is told apart from a person's: neither opens the
other's doors. Push notifications are not done here, as the card says; a caller follows its task by its stream, or asks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
import quart

from sandboxd.a2a import v10, versions
from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT, HITL_RESPONSE_FOR, activated
from sandboxd.a2a.faults import to_rest
from sandboxd.a2a.jsonrpc import CallId, failure, id_of, parse_call, result
from sandboxd.a2a.links import TRACEPARENT, trace_of
from sandboxd.a2a.model import Artifact, ArtifactUpdate, StatusUpdate, StreamItem, Task, TaskPage
from sandboxd.cockpit.missions.desk import NotEnded
from sandboxd.cockpit.reading import Refused, Unreachable, Unreadable
from sandboxd.cockpit.relay.config import Caller
from sandboxd.cockpit.relay.desk import Relay, Story
from sandboxd.cockpit.relay.shown import artifacts_of, mark_of, status_of, task_of
from sandboxd.cockpit.web.answers import HOUSE, JSON, answer, as_refusal
from sandboxd.cockpit.web.app import Route
from sandboxd.cockpit.web.desk import Desk
from sandboxd.errors import (
    ExtensionSupportRequired,
    MethodNotFound,
    NotReady,
    PushNotificationNotSupported,
    Refusal,
    Unauthenticated,
    UnsupportedOperation,
)
from sandboxd.serving.body import body_of, read_json, read_optional_object
from sandboxd.serving.refusals import headers_of
from sandboxd.serving.streaming import Tell, event, stream_answer
from sandboxd.values import frozen

BASE: Final = "/a2a"
A2A_JSON: Final = "application/a2a+json"
_MEDIA_TYPES: Final = (JSON, A2A_JSON)


@frozen
class _Stream:
    """A stream that is to be followed; `ends_when_asked`: as one that answers a send does (§11.7)."""

    story: Story
    ends_when_asked: bool


@frozen
class _Call:
    desk: Desk
    caller: Caller
    active: bool
    params: Any


@frozen
class RelayDoor:
    """The routes of callers."""

    relay: Relay
    version: str

    def routes(self) -> tuple[Route, ...]:
        """For the app's table; each lets in callers alone, but for the card."""
        card = self.card
        return (
            Route("GET", "/.well-known/agent-card.json", card, is_open=True),
            Route("GET", f"{BASE}/.well-known/agent-card.json", card, is_open=True),
            Route("POST", BASE, self.rpc, is_open=True),
            Route("POST", f"{BASE}/message:send", self._rest(self._send), is_open=True),
            Route("POST", f"{BASE}/message:stream", self._rest(self._stream), is_open=True),
            Route("GET", f"{BASE}/tasks", self._rest(self._list), is_open=True),
            Route("GET", f"{BASE}/tasks/<ref>", self._rest(self._get), is_open=True),
            Route("POST", f"{BASE}/tasks/<ref>", self._rest(self._act), is_open=True),
            Route("GET POST", f"{BASE}/tasks/<ref>/pushNotificationConfigs", self._rest(_no_pushes), is_open=True),
            Route("GET DELETE", f"{BASE}/tasks/<ref>/pushNotificationConfigs/<config>", self._rest(_no_pushes), is_open=True),
        )

    async def rpc(self, desk: Desk) -> quart.Response:
        """JSON-RPC: every refusal is HTTP 200, but that of who is asking."""
        methods: Mapping[str, Callable[[_Call], Awaitable[Any]]] = {
            "SendMessage": self._send,
            "SendStreamingMessage": self._stream,
            "GetTask": self._get,
            "ListTasks": self._list,
            "CancelTask": self._cancel,
            "SubscribeToTask": self._subscribe,
        }
        body: Any = None
        try:
            caller = self._caller(desk)
            body = await read_json(body_of(quart.request), quart.request.headers, (JSON,))
            parsed = parse_call(body)
            method = methods.get(parsed.method)
            if method is None and "PushNotificationConfig" in parsed.method:
                method = _no_pushes
            if method is None:
                raise MethodNotFound(f"cannot call `{parsed.method[:64]}`: A2A 1.0 has no such method here")
            found = await method(self._call(desk, caller, parsed.params))
        except Exception as error:
            refusal, _ = as_refusal(error)
            status = 401 if isinstance(refusal, Unauthenticated) else 200
            return _refuse(refusal, failure(id_of(body), refusal, version="1.0"), status)
        if isinstance(found, _Stream):
            call_id: CallId = parsed.id
            return self._follow(desk, caller, found, lambda item: result(call_id, v10.encode_stream_item(item)))
        return answer(result(parsed.id, found))

    def _rest(self, operation: Callable[[_Call], Awaitable[Any]]) -> Callable[..., Awaitable[quart.Response]]:
        async def handle(desk: Desk, ref: str = "", config: str = "") -> quart.Response:
            try:
                caller = self._caller(desk)
                found = await operation(self._call(desk, caller, await _params(ref)))
            except Exception as error:
                refusal, _ = as_refusal(error)
                status, body = to_rest(refusal)
                return _refuse(refusal, body, status)
            if isinstance(found, _Stream):
                return self._follow(desk, caller, found, v10.encode_stream_item)
            return answer(found)

        return handle

    async def card(self, desk: Desk) -> quart.Response:
        """The agent card; it says what is done here, and nothing of by whom."""
        origin = desk.settings.public_url or quart.request.host_url.rstrip("/")
        url = f"{origin.rstrip('/')}{BASE}"
        interfaces = [
            {"url": url, "protocolBinding": binding, "protocolVersion": "1.0"} for binding in ("JSONRPC", "HTTP+JSON")
        ]
        asks = "A task asks its caller what cannot be answered here, in the words of this agent."
        commands = "Has an allowed adapter command run."
        return answer(
            {
                "name": "cockpit",
                "description": "Has commands run for other agents, and passes their questions on.",
                "supportedInterfaces": interfaces,
                "version": self.version,
                "capabilities": {
                    "streaming": True,
                    "pushNotifications": False,
                    "extendedAgentCard": False,
                    "extensions": [
                        {"uri": HITL_PROMPT, "description": asks, "required": True, "params": {}},
                        {"uri": ADAPTER_COMMAND, "description": commands, "required": False, "params": {}},
                    ],
                },
                "defaultInputModes": ["text/plain", "application/json"],
                "defaultOutputModes": ["text/plain"],
                "skills": [{"id": "command", "name": "Command", "description": commands, "tags": ["adapter-command"]}],
                "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
                "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
            }
        )

    # ── operations ──

    async def _send(self, it: _Call) -> Any:
        request = v10.decode_send(it.params)
        story = await self._taken(it)
        if not request.return_immediately:
            story = await self._settled(it.caller, story)
        return v10.encode_send_response(await self._task(it, story))

    async def _stream(self, it: _Call) -> _Stream:
        return _Stream(await self._taken(it), ends_when_asked=True)

    async def _get(self, it: _Call) -> Any:
        request = v10.decode_get(it.params)
        return v10.encode_task(await self._task(it, await self.relay.story(it.caller, request.task_id)))

    async def _list(self, it: _Call) -> Any:
        request = v10.decode_list_query(it.params) if quart.request.method == "GET" else v10.decode_list(it.params)
        now = it.desk.clock()
        tasks = [task_of(story, now, active=it.active) for story in await self.relay.stories(it.caller)]
        if request.context_id is not None:
            tasks = [task for task in tasks if task.context_id == request.context_id]
        if request.state is not None:
            tasks = [task for task in tasks if task.status.state is request.state]
        start = int(request.page_token) if request.page_token.isdigit() else 0
        page = tasks[start : start + request.page_size]
        token = str(start + len(page)) if start + len(page) < len(tasks) else ""
        return v10.encode_task_page(TaskPage(tuple(page), token, request.page_size, len(tasks)))

    async def _act(self, it: _Call) -> Any:
        task_id, _, verb = str(it.params["id"]).rpartition(":")
        it = attrs.evolve(it, params={**it.params, "id": task_id})
        match verb:
            case "cancel":
                return await self._cancel(it)
            case "subscribe":
                return await self._subscribe(it)
            case _:
                raise MethodNotFound(f"cannot POST `:{verb[:64]}` to a task")

    async def _cancel(self, it: _Call) -> Any:
        request = v10.decode_cancel(it.params)
        reason = str((request.metadata or {}).get("reason") or "")[:500]
        story = await self.relay.cancel(it.caller, request.task_id, reason)
        return v10.encode_task(await self._task(it, await self._settled(it.caller, story, also_asked=False)))

    async def _subscribe(self, it: _Call) -> _Stream:
        story = await self.relay.story(it.caller, v10.decode_subscribe(it.params))
        if story.is_final:
            state = status_of(story, it.desk.clock(), active=False).state.value
            raise UnsupportedOperation(f"cannot follow the task: it is {state}", facts={"state": state})
        return _Stream(story, ends_when_asked=False)

    async def _taken(self, it: _Call) -> Story:
        request = v10.decode_send(it.params)
        if not it.active and HITL_RESPONSE_FOR not in (request.message.metadata or {}):
            why = "its task asks its caller, so hitl-prompt/v1 must be activated"
            raise ExtensionSupportRequired(f"cannot take the message: {why}", facts={"required_extensions": [HITL_PROMPT]})
        if request.push is not None:
            raise PushNotificationNotSupported("cannot take the message: a cockpit sends callers no push notifications")
        trace = trace_of(quart.request.headers.get(TRACEPARENT))
        return await self.relay.send(it.caller, request, trace=trace)

    async def _settled(self, caller: Caller, story: Story, *, also_asked: bool = True) -> Story:
        """The task once its turn is over: it has ended, or asks."""
        while True:
            since = self.relay.records.changes
            story = await self.relay.story(caller, story.task.task_id)
            if story.is_final or (also_asked and story.asks is not None):
                return story
            await self.relay.records.wait_changed(since)

    async def _task(self, it: _Call, story: Story) -> Task:
        return task_of(story, it.desk.clock(), active=it.active, artifacts=await self._left(it.caller, story))

    async def _left(self, caller: Caller, story: Story) -> tuple[Artifact, ...] | None:
        if not story.kept.mission.standing.is_final:
            return None  # what there is before the end is no result
        try:
            return artifacts_of(await self.relay.results(caller, story)) or None
        except NotEnded:
            return None  # nothing was run
        except (Refused, Unreachable, Unreadable) as error:
            raise NotReady("cannot show what the task left: it cannot be read now, ask again") from error

    def _follow(
        self, desk: Desk, caller: Caller, found: _Stream, encode: Callable[[StreamItem], Mapping[str, Any]]
    ) -> quart.Response:
        active = _is_active()

        async def tell_all(tell: Tell) -> None:
            story = await self.relay.story(caller, found.story.task.task_id)
            await tell(event(encode(task_of(story, desk.clock(), active=active))))
            mark = mark_of(story)
            while not story.is_final and not (found.ends_when_asked and story.asks is not None):
                since = self.relay.records.changes
                story = await self.relay.story(caller, story.task.task_id)
                if mark_of(story) == mark:
                    await self.relay.records.wait_changed(since)
                    continue
                mark = mark_of(story)
                ids = (story.task.task_id, story.task.context_id)
                for artifact in await self._left(caller, story) or ():
                    await tell(event(encode(ArtifactUpdate(*ids, artifact, last_chunk=True))))
                status = status_of(story, desk.clock(), active=active)
                await tell(event(encode(StatusUpdate(*ids, status))))

        return stream_answer(tell_all, closing=desk.closing, ping_s=desk.settings.ping_s)

    def _caller(self, desk: Desk) -> Caller:
        scheme, _, token = quart.request.headers.get("Authorization", "").partition(" ")
        caller = self.relay.config.by_token(token.strip()) if scheme.lower() == "bearer" and token else None
        if caller is None:
            raise Unauthenticated("cannot tell who is asking: a caller's token is needed")
        desk.pace.take(caller.principal.name)
        versions.negotiate(quart.request.headers.getlist(versions.HEADER), served=("1.0",))
        return caller

    def _call(self, desk: Desk, caller: Caller, params: Any) -> _Call:
        return _Call(desk, caller, _is_active(), params)


def _refuse(refusal: Refusal, body: Any, status: int) -> quart.Response:
    """A refusal, with what its head says: how to come in, or when it is worth asking again."""
    made = answer(body, status=status)
    made.headers.update(headers_of(refusal, HOUSE))
    return made


def _is_active() -> bool:
    return HITL_PROMPT in activated(quart.request.headers.getlist("A2A-Extensions"))


async def _no_pushes(it: _Call) -> Any:
    raise PushNotificationNotSupported("cannot do this: a cockpit sends callers no push notifications, as its card says")


async def _params(ref: str) -> Any:
    if quart.request.method == "GET":
        return quart.request.args.to_dict() | ({"id": ref} if ref else {})
    if ref:
        return {**await read_optional_object(body_of(quart.request), quart.request.headers, _MEDIA_TYPES), "id": ref}
    return await read_json(body_of(quart.request), quart.request.headers, _MEDIA_TYPES)
