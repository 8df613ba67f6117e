"""How does a command talk to the daemon?

A2A 1.0 over HTTP+JSON, at the unix socket or at a loopback port with a bearer token: what is sent here is meant for this host's
daemon and nobody else (`reaching`). Every wait is bounded; a stream that breaks is resumed after the last sequence number that
was seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote

import attrs
import httpx

from sandboxd.a2a.extensions import HITL_PROMPT, REISSUE
from sandboxd.cli.exits import Failure, of_response
from sandboxd.cli.facts import TERMINAL_STATES, state_name
from sandboxd.cli.reaching import CONNECT_S, Target, open_client, reaching
from sandboxd.cli.streams import resumed, server_sent_events
from sandboxd.errors import Problem
from sandboxd.values import frozen

_SILENCE_S: Final = 12.0  # the daemon sends a comment every 3 s on an idle stream: four missed, and it is gone
_PAGE: Final = 100  # A2A 1.0, 3.1.4: the largest page


@frozen
class Address:
    """Where the daemon is: a unix socket, or a URL with a token. `instance` empty: the default one, at the root."""

    socket: str = ""
    url: str = ""
    token: str = attrs.field(default="", repr=False)
    instance: str = ""

    def __str__(self) -> str:
        return self.url or self.socket


@frozen
class News:
    """One event of a stream; `seq` is its number on the task, where the daemon gave one."""

    seq: int | None
    item: Mapping[str, Any]


class Daemon:
    """One connection to the daemon; every method raises `Failure` with the exit code that fits."""

    def __init__(self, address: Address, *, timeout_s: float = 30.0) -> None:
        headers = {"A2A-Version": "1.0", "A2A-Extensions": HITL_PROMPT, "Accept": "application/json"}
        if address.token:
            headers["Authorization"] = f"Bearer {address.token}"
        self._target = Target("daemon", str(address), _START, _DOOR)
        self._prefix = f"/agents/{quote(address.instance, safe='')}" if address.instance else ""
        self._http = open_client(
            url=address.url or "http://sandboxd", socket=address.socket, headers=headers, timeout_s=timeout_s
        )

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.close()

    def task(self, task_id: str, *, what: str = "") -> Mapping[str, Any]:
        """The task, by its whole id. `what`: what it is for."""
        return self._ask(what or f"show task `{task_id}`", "GET", f"/tasks/{_segment(task_id)}")

    def tasks(
        self, *, state: str = "", limit: int = 1000, history: bool = False, what: str = "list tasks"
    ) -> list[Mapping[str, Any]]:
        """Up to `limit` tasks, newest change first, page by page. `state`: the wire's spelling; `what`: what they are for."""
        found: list[Mapping[str, Any]] = []
        token = ""
        while len(found) < limit:
            query = {"pageSize": str(min(_PAGE, limit - len(found)))}
            query |= {"status": state} if state else {}
            query |= {"pageToken": token} if token else {}
            query |= {} if history else {"historyLength": "0"}
            page = self._ask(what, "GET", "/tasks", query=query)
            found += [task for task in page.get("tasks", []) if isinstance(task, Mapping)]
            token = str(page.get("nextPageToken", ""))
            if not token:
                break
        return found

    def send(self, message: Mapping[str, Any], *, what: str) -> Mapping[str, Any]:
        """Send a message without waiting for the task's end; the task as it then stands."""
        body = {"message": message, "configuration": {"returnImmediately": True, "historyLength": 0}}
        answer = self._ask(what, "POST", "/message:send", body=body)
        task = answer.get("task")
        return task if isinstance(task, Mapping) else answer

    def cancel(self, task_id: str, reason: str) -> Mapping[str, Any]:
        """Cancel the task; the task as it then stands."""
        body: dict[str, Any] = {"id": task_id}
        if reason:
            body["metadata"] = {"reason": reason}
        return self._ask(f"cancel task `{task_id}`", "POST", f"/tasks/{_segment(task_id)}:cancel", body=body)

    def reissue(self, task_id: str, prompt_id: str, *, what: str) -> Mapping[str, Any]:
        """Have a question asked again (`urn:sandboxd:reissue:v1`); the task as it then stands."""
        body = {"id": task_id, "promptId": prompt_id}
        return self._ask(what, "POST", f"/tasks/{_segment(task_id)}:reissue", body=body, more=(REISSUE,))

    def audit(self, *, after: int | None = None, limit: int) -> Mapping[str, Any]:
        """Records of who did what: the last ones, or those after a number."""
        query = {"limit": str(limit)} | ({} if after is None else {"after": str(after)})
        return self._ask("read the audit record", "GET", "/audit", query=query, of_host=True)

    def dead_pushes(self, *, limit: int) -> Mapping[str, Any]:
        """Push notifications that were given up, the newest first."""
        return self._ask("list dead letters", "GET", "/push/dead", query={"limit": str(limit)}, of_host=True)

    def retry_push(self, number: int) -> Mapping[str, Any]:
        """Send a dead letter once more; whether it got through, and why not."""
        return self._ask(f"send dead letter {number} again", "POST", f"/push/dead/{number}/retry", of_host=True)

    def artifact(self, task_id: str, artifact_id: str, *, start: int = 0) -> Iterator[bytes]:
        """The artifact's kept bytes from that one on, piece by piece; none where there are no more."""
        what = f"read artifact `{artifact_id}` of task `{task_id}`"
        path = f"/tasks/{_segment(task_id)}/artifacts/{_segment(artifact_id)}"
        headers = {"Accept": "*/*"} | ({"Range": f"bytes={start}-"} if start else {})
        with reaching(what, self._target), self._http.stream("GET", self._prefix + path, headers=headers) as response:
            if start and response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                return
            if response.status_code != (httpx.codes.PARTIAL_CONTENT if start else httpx.codes.OK):
                raise _failure(what, response.status_code, response.read())
            yield from response.iter_bytes()

    def follow(self, task_id: str, *, after: int) -> Iterator[News]:
        """The task as it stood at `after`, then every update up to its end, over as many connections as it takes."""
        what, seen, is_first = f"follow task `{task_id}`", after, True

        def unseen() -> Iterator[News]:
            for news in self._stream(what, task_id, seen):
                if (
                    is_first or news.seq is None or news.seq > seen
                ):  # else the Task as it stood, at the head of a resumed stream
                    yield news

        for news in resumed(unseen, what=what, target=self._target):
            seen, is_first = max(seen, news.seq or 0), False
            yield news
            if _is_end(news.item):
                return

    def _stream(self, what: str, task_id: str, after: int) -> Iterator[News]:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        timeout = httpx.Timeout(_SILENCE_S, connect=CONNECT_S)
        path = f"{self._prefix}/tasks/{_segment(task_id)}:subscribe"
        with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
            if response.status_code != httpx.codes.OK:
                raise _failure(what, response.status_code, response.read())
            for event in server_sent_events(response.iter_bytes()):
                if event.kind == "error":
                    raise _failure(what, 0, event.data.encode())
                yield News(event.number, _object(what, event.data.encode()))

    def _ask(
        self,
        what: str,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        of_host: bool = False,
        more: Sequence[str] = (),
    ) -> Mapping[str, Any]:
        headers = {"A2A-Extensions": ", ".join((HITL_PROMPT, *more))}
        with reaching(what, self._target):
            response = self._http.request(
                method, path if of_host else self._prefix + path, params=query, json=body, headers=headers
            )
        if not response.is_success:
            raise _failure(what, response.status_code, response.content)
        return _object(what, response.content)


def _is_end(item: Mapping[str, Any]) -> bool:
    kind = item.get("task") or item.get("statusUpdate") or {}
    return state_name(kind.get("status") or {}) in TERMINAL_STATES  # nothing follows a terminal state, not even after a Task


def _failure(what: str, status: int, body: bytes) -> Failure:
    """What an error answer says: google.rpc.Status, with its reason and every field that is wrong."""
    try:
        spelled = json.loads(body)
    except ValueError:
        spelled = None
    error = spelled.get("error") if isinstance(spelled, Mapping) else None
    if not isinstance(error, Mapping):
        return Failure(f"cannot {what}: the daemon answered HTTP {status}", of_response(status, ""))
    reason, problems = "", list[Problem]()
    for detail in error.get("details") or error.get("data") or []:
        if not isinstance(detail, Mapping):
            continue
        reason = str(detail.get("reason") or reason)
        problems += [
            Problem(str(it.get("field", "")), str(it.get("description", ""))) for it in detail.get("fieldViolations", [])
        ]
        value = detail.get("value")
        listed = value.get("validation_errors", []) if isinstance(value, Mapping) else []
        problems += [Problem(str(it.get("path", "")), str(it.get("message", "")), str(it.get("keyword", ""))) for it in listed]
    message = str(error.get("message", "")) or f"the daemon answered HTTP {status}"
    if not message.startswith("cannot "):
        message = f"cannot {what}: {message}"
    return Failure(message, of_response(status, reason), hint=_HINTS.get(status, ""), problems=problems)


_DOOR: Final = "the socket is for root and for the daemon's own user"
_HINTS: Final = {
    401: "name the file that holds the token: --token-file FILE, or SANDBOXD_TOKEN_FILE",
    403: f"{_DOOR}; over TCP a token decides",
}
_START: Final = "is it running? Start it with `sandboxd serve`, or say where it is: --socket PATH, or --url URL"


def _object(what: str, body: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, Mapping):
        raise Failure(f"cannot {what}: the daemon's answer is no JSON object")
    return value


def _segment(part: str) -> str:
    return quote(part, safe="")
