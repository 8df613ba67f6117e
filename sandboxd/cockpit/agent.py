"""How is a host asked and answered over A2A 1.0?

JSON-RPC or HTTP+JSON, as the host is configured. The hitl-prompt extension is opted into by its full URI on every request. No
redirect is followed, no proxy of the environment is used, and an answer has a bound. Answers leave idempotency/v1 out on
purpose: under it a host repeats a passing failure for as long as it remembers it, and the prompt id makes answers safe to send
again. What starts a task has nothing else that would, so it activates it.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal
from urllib.parse import quote

import attrs
import httpx
import trio

from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT, HITL_RESPONSE_FOR, IDEMPOTENCY, MISSION, REISSUE, RELAY
from sandboxd.a2a.links import Links, links_metadata
from sandboxd.a2a.model import TaskState
from sandboxd.cockpit.output import Output, read_output
from sandboxd.cockpit.reading import Listed, Refused, Seen, Unreachable, Unread, Unreadable, read_listed, read_task
from sandboxd.cockpit.sse import Events
from sandboxd.cockpit.transfer import Whole, drain, json_of, reaching, read_body, read_bytes, read_page
from sandboxd.hitl.received import envelope_in
from sandboxd.values import frozen

CALL_S: Final = 15.0
SILENCE_S: Final = 60.0  # of a stream; hosts send a comment every 15 s or so
PAGE_SIZES: Final = (100, 10, 1)
PAGES_MAX: Final = 60  # a look at one state
CARD_S: Final = 300.0  # as long as a sandboxd's card may be kept
_DISPATCH: Final = ", ".join((HITL_PROMPT, ADAPTER_COMMAND, IDEMPOTENCY, MISSION))
Transport = Literal["jsonrpc", "rest"]
Hear = Callable[[int | None, Seen], bool]  # the event's number, None: it has none; False: no more of them

_NOT_FINISHED: Final = (TaskState.INPUT_REQUIRED, TaskState.WORKING, TaskState.SUBMITTED)


def _hidden(token: str) -> str:
    return "<secret>" if token else "''"


@frozen
class HostAddress:
    """Where a host is: `name` is what this cockpit calls it, `url` its A2A interface's.

    `push_url`: where it is to send push notifications; empty: it is followed by streams.
    """

    name: str
    url: str
    transport: Transport = "jsonrpc"
    token: str = attrs.field(default="", repr=_hidden)
    push_url: str = ""
    provider: str | None = None  # who runs it, for the audit


class Agent:
    """One host's client, opened by `open_agent`. Every call can raise `Refused`, `Unreachable` or `Unreadable`."""

    def __init__(self, address: HostAddress, http: httpx.AsyncClient) -> None:
        self.name = address.name
        self.provider = address.provider
        self._address = address
        self._http = http
        self._ids = itertools.count(1)
        self._card: Mapping[str, Any] | None = None
        self._card_until = 0.0

    async def unfinished(self) -> Listed:
        """Every task that this client may see and that has not ended."""
        found = Listed()
        for state in _NOT_FINISHED:
            found += await self._listed({"status": f"TASK_STATE_{state.name}"})
        return found

    async def _listed(self, query: Mapping[str, Any]) -> Listed:
        """All pages of a list. One that cannot be read is asked for in smaller ones, so that what spoils it stands alone."""
        found, token, size, tokens = Listed(), "", PAGE_SIZES[0], set[str]()
        for _ in range(PAGES_MAX):
            asked = {**query, "pageSize": size} | ({"pageToken": token} if token else {})
            try:
                page = await self._call("ListTasks", "GET", "/tasks", asked, in_query=True, read=read_page)
            except Unreadable as error:
                if size == PAGE_SIZES[-1]:
                    return found + _hidden_behind(str(error))
                size = PAGE_SIZES[PAGE_SIZES.index(size) + 1]
                continue
            found += read_listed(page.get("tasks"))
            following = page.get("nextPageToken") or ""
            if following == "":
                return found
            if not isinstance(following, str) or following in tokens:
                return found + _hidden_behind("a page says nothing of where the next one is")
            token, size = following, PAGE_SIZES[0]
            tokens.add(token)
        return found + _hidden_behind(f"it has more than {PAGES_MAX} pages")

    async def get(self, task_id: str) -> Seen:
        """The task as it stands, with its history."""
        return self._task(await self._call("GetTask", "GET", f"/tasks/{_segment(task_id)}", {"id": task_id}, in_query=True))

    async def look(self, task_id: str) -> Mapping[str, Any]:
        """The task as the host spells it, with its history and its output."""
        return await self._call("GetTask", "GET", f"/tasks/{_segment(task_id)}", {"id": task_id}, in_query=True)

    async def output(self, task_id: str, artifact_id: str, *, start: int, most: int) -> Output | None:
        """What an artifact has from `start` on, by sandboxd's own door for its bytes; None: the host has none such there."""
        url = f"{self._address.url}/tasks/{_segment(task_id)}/artifacts/{_segment(artifact_id)}"
        span = {"Range": f"bytes={start}-{start + most - 1}", "Accept": "application/octet-stream"}
        with reaching(), trio.move_on_after(CALL_S * 2):
            async with self._sent(self._http.build_request("GET", url, headers=span)) as response:
                data = await read_bytes(response)
            return read_output(response.status_code, response.headers, start, data)
        raise Unreachable("the host did not answer in time")

    async def answer(
        self, *, task_id: str, context_id: str, message_id: str, prompt_id: str, payload: Any, is_secret: bool
    ) -> None:
        """Send an answer; returning means that the host has accepted it."""
        said = (
            {"text": "The answer stands in the metadata."} if is_secret else {"data": payload, "mediaType": "application/json"}
        )
        message = {
            "messageId": message_id,
            "role": "ROLE_USER",
            "taskId": task_id,
            "contextId": context_id,
            "parts": [said],
            "metadata": {HITL_RESPONSE_FOR: {"prompt_id": prompt_id, "payload": payload}},
        }
        body = {"message": message, "configuration": {"returnImmediately": True}}
        await self._call("SendMessage", "POST", "/message:send", body)

    async def dispatch(
        self,
        *,
        envelope: Mapping[str, Any],
        text: str,
        message_id: str,
        context_id: str,
        links: Links,
        via: Sequence[str] = (),
    ) -> Seen:
        """Have an adapter command started; the task that came of it. A message id is acted on once, where the host can.

        `links`: what it belongs to; its mission is also what the command finds as AIWG_MISSION_ID. `via`: through which
        cockpits it came.
        """
        message = {
            "messageId": message_id,
            "role": "ROLE_USER",
            "contextId": context_id,
            "parts": [{"text": text}],
            "metadata": {ADAPTER_COMMAND: dict(envelope), MISSION: {"mission_id": links.mission}}
            | links_metadata(links, message_id)
            | ({RELAY: {"via": list(via)}} if via else {}),
        }
        body = {"message": message, "configuration": {"returnImmediately": True}}
        return self._task(await self._call("SendMessage", "POST", "/message:send", body, active=_DISPATCH))

    async def find_in_context(self, context_id: str) -> Seen | None:
        """The task of that context, if the host shows one; the oldest of several. One that cannot be read may be it."""
        listed = await self._listed({"contextId": context_id})
        found = next((seen for seen in reversed(listed.tasks) if seen.context_id == context_id), None)
        unread = next((one for one in listed.unread if one.context_id in (context_id, "")), None)
        if found is None and unread is not None:
            raise Unreadable(f"a task that may be it cannot be read: {unread.why}")
        return found

    async def declared(self, uri: str) -> Mapping[str, Any] | None:
        """The parameters of an extension that the host's card declares; None: it does not declare it."""
        if self._card is None or trio.current_time() > self._card_until:
            self._card, self._card_until = await self._read_card(), trio.current_time() + CARD_S
        capabilities = self._card.get("capabilities")
        listed = capabilities.get("extensions") if isinstance(capabilities, Mapping) else None
        for one in listed if isinstance(listed, list) else []:
            if isinstance(one, Mapping) and one.get("uri") == uri:
                params = one.get("params")
                return params if isinstance(params, Mapping) else {}
        return None

    async def _read_card(self) -> Mapping[str, Any]:
        """Below the interface's URL, where a host shows several agents, or at the origin's well-known place (A2A 1.0 §8.2)."""
        origin = httpx.URL(self._address.url).copy_with(raw_path=b"/")
        with reaching(), trio.move_on_after(CALL_S * 2):
            for base in dict.fromkeys((self._address.url, str(origin).rstrip("/"))):
                request = self._http.build_request("GET", base + "/.well-known/agent-card.json")
                async with self._sent(request) as response:
                    body = await read_body(response)
                    if response.status_code == httpx.codes.OK and isinstance(body, Mapping):
                        return body
                    if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
                        raise Unreachable(f"the host does not show its card (HTTP {response.status_code})")
            return {}
        raise Unreachable("the host did not show its card in time")

    async def result(self, task_id: str) -> tuple[Seen, Sequence[Mapping[str, Any]]]:
        """A task, and what it left; nothing where it has not ended, for what there is by then is no result."""
        task = await self._call("GetTask", "GET", f"/tasks/{_segment(task_id)}", {"id": task_id}, in_query=True)
        seen = self._task(task)
        if not seen.state.is_terminal:
            return seen, ()
        held = task.get("task", task).get("artifacts")
        return seen, [one for one in (held if isinstance(held, list) else []) if isinstance(one, Mapping)]

    async def have_pushed(self, task_id: str, *, config_id: str, url: str, token: str, secret: str) -> None:
        """Have a task's changes of state sent there; the same id again changes what was asked for."""
        config = {
            "taskId": task_id,
            "id": config_id,
            "url": url,
            "token": token,
            "secret": secret,
            "eventTypes": ["status-update"],
        }
        path = f"/tasks/{_segment(task_id)}/pushNotificationConfigs"
        await self._call("CreateTaskPushNotificationConfig", "POST", path, config)

    async def reissue(self, task_id: str, prompt_id: str) -> str:
        """Have a question asked again that the task waits at; the new prompt id. For a host that declares `REISSUE`."""
        body = {"id": task_id, "promptId": prompt_id}
        try:
            result = await self._call(
                "ReissuePrompt", "POST", f"/tasks/{_segment(task_id)}:reissue", body, active=f"{HITL_PROMPT}, {REISSUE}"
            )
        except Refused as refused:
            if refused.reissued_as is not None:  # the reply to an earlier try was lost
                return refused.reissued_as
            raise
        raw = envelope_in(self._task(result).message)
        found = raw.get("prompt_id") if isinstance(raw, Mapping) else None
        if not isinstance(found, str) or found == prompt_id:
            raise Unreadable("the host does not say under which id it asks")
        return found

    async def cancel(self, task_id: str, reason: str) -> Seen:
        """End the task; as it then stands."""
        body = {"id": task_id, "metadata": {"reason": reason}}
        return self._task(await self._call("CancelTask", "POST", f"/tasks/{_segment(task_id)}:cancel", body))

    async def follow(self, task_id: str, hear: Hear, *, after: int | None) -> None:
        """Hear the task as it stands, then every change of its state, until the host closes the stream or `hear` has enough."""
        headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": str(after)})
        body = self._envelope("SubscribeToTask", {"id": task_id}) if self._is_rpc else None
        url = self._address.url + ("" if self._is_rpc else f"/tasks/{_segment(task_id)}:subscribe")
        timeout = httpx.Timeout(CALL_S, read=SILENCE_S)
        with reaching():
            request = self._http.build_request("POST", url, headers=headers, json=body, timeout=timeout)
            async with self._sent(request) as response:
                is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
                if response.status_code != httpx.codes.OK or not is_stream:
                    self._read(response.status_code, await read_body(response))
                    raise Unreadable("a stream was expected")
                events = Events()
                await drain(response, lambda piece: self._hear(events.feed(piece), hear))

    def _hear(self, events: Iterable[tuple[int | None, str]], hear: Hear) -> bool:
        for number, data in events:
            value = json_of(data.encode())
            seen = read_task(self._read(httpx.codes.OK, value) if self._is_rpc else value)
            if seen is not None and not hear(number, seen):
                return False
        return True

    @property
    def _is_rpc(self) -> bool:
        return self._address.transport == "jsonrpc"

    async def _call(
        self,
        method: str,
        verb: str,
        path: str,
        params: Mapping[str, Any],
        *,
        in_query: bool = False,
        active: str = HITL_PROMPT,
        read: Callable[[httpx.Response], Awaitable[Any]] = read_body,
    ) -> Mapping[str, Any]:
        with reaching():
            if self._is_rpc:
                request = self._http.build_request("POST", self._address.url, json=self._envelope(method, params))
            elif in_query:
                query = {name: str(value) for name, value in params.items() if name != "id"}
                request = self._http.build_request(verb, self._address.url + path, params=query)
            else:
                request = self._http.build_request(verb, self._address.url + path, json=params)
            request.headers["A2A-Extensions"] = active
            with trio.move_on_after(CALL_S * 2):  # httpx bounds each read, not all of them together
                async with self._sent(request) as response:
                    return self._read(response.status_code, await read(response))
        raise Unreachable("the host did not answer in time")

    @asynccontextmanager
    async def _sent(self, request: httpx.Request) -> AsyncIterator[httpx.Response]:
        request.stream = Whole(request.content)
        response = await self._http.send(request, stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    def _read(self, status: int, body: Any) -> Mapping[str, Any]:
        fields: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
        error = fields.get("error")
        if self._is_rpc and isinstance(error, Mapping) and isinstance(error.get("code"), int):
            raise Refused(status, error["code"], body)
        if status >= 300:
            raise Refused(status, None, body)
        result = fields.get("result") if self._is_rpc else fields
        if not isinstance(result, Mapping):
            raise Unreadable("it has neither a result nor an error")
        return result

    def _envelope(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": dict(params)}

    @staticmethod
    def _task(result: Mapping[str, Any]) -> Seen:
        seen = read_task(result)
        if seen is None:
            raise Unreadable("it is no Task")
        return seen


@asynccontextmanager
async def open_agent(address: HostAddress) -> AsyncIterator[Agent]:
    """A client of that host for as long as the block runs."""
    headers = {"A2A-Version": "1.0", "A2A-Extensions": HITL_PROMPT, "Accept": "application/json", "Accept-Encoding": "identity"}
    if address.token:
        headers["Authorization"] = f"Bearer {address.token}"
    limits = httpx.Limits(max_connections=256, max_keepalive_connections=16)
    async with httpx.AsyncClient(headers=headers, timeout=CALL_S, trust_env=False, limits=limits) as http:
        yield Agent(address, http)


def _hidden_behind(why: str) -> Listed:
    return Listed(unread=(Unread("", "", f"its host's list: {why}, so what stands behind that is not seen"),))


def _segment(part: str) -> str:
    return quote(part, safe="")
