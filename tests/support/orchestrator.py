"""A hand-written orchestrator of the kind that the dialect is made for: strict where such a client is strict.

In 0.3 it sends no version, names extensions by `A2A-Extensions`, and puts `/v1` behind its interface's URL. In 1.0 it refuses a
2xx that is not `application/a2a+json`. Its event parser throws on a number that does not grow by exactly one, on an event that
is none of the known ones, and on a status message without id, role or parts.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import httpx

from tests.support.daemon import ADAPTER, HITL

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
A2A_JSON = "application/a2a+json"
TERMINAL = ("completed", "failed", "canceled", "rejected")


class Broken(Exception):
    """The server said something that this client does not take."""


class Orchestrator:
    """One instance's client, in one version."""

    def __init__(self, url: str, token: str, *, version: Literal["0.3", "1.0"] = "0.3", alias: str = "/v1") -> None:
        self.is_10 = version == "1.0"
        self._prefix = "" if self.is_10 else alias
        headers = {"Authorization": f"Bearer {token}", "A2A-Extensions": f"{HITL}, {ADAPTER}"}
        if self.is_10:
            headers |= {"a2a-version": "1.0", "Accept": f"{A2A_JSON}, text/event-stream", "Content-Type": A2A_JSON}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=20, trust_env=False)

    def __enter__(self) -> Orchestrator:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def send(self, message: Mapping[str, Any], *, expect: int = 202) -> dict[str, Any]:
        """The task that the message made or answered."""
        if self.is_10:
            body = {"message": {**message, "role": "ROLE_USER"}, "configuration": {"returnImmediately": True}}
            return self._json(self._post("/message:send", body), 200)["task"]
        answer = self._post("/messages:send", {"message": {**message, "role": "user"}})
        task = self._json(answer, expect)
        if expect == 202 and not answer.headers["location"].endswith(f"/v1/tasks/{task['id']}"):
            raise Broken(f"the location is {answer.headers['location']}")
        return task

    def command(self, envelope: Any) -> dict[str, Any]:
        part: dict[str, Any] = {"text": "Run it."} if self.is_10 else {"kind": "text", "text": "Run it."}
        return {"messageId": str(uuid.uuid4()), "parts": [part], "metadata": {ADAPTER: envelope}}

    def answer(self, task: Mapping[str, Any], prompt: Mapping[str, Any], text: str) -> dict[str, Any]:
        payload = {"text": text}
        return {
            "messageId": str(uuid.uuid4()),
            "taskId": task["id"],
            "contextId": task["contextId"],
            "parts": [{"data": payload} if self.is_10 else {"type": "data", "data": payload}],
            "metadata": {"hitl_response_for": {"prompt_id": prompt["prompt_id"], "payload": payload}},
        }

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        return self._json(self.http.get(f"{self._prefix}{path}", params=params), 200)

    def cancel(self, task_id: str) -> dict[str, Any]:
        path = f"/tasks/{task_id}:cancel" if self.is_10 else f"/tasks/{task_id}/cancel"
        return self._json(self._post(path, {}), 200)

    def subscribe(self, task_id: str, *, after: int | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Every event with its number, checked."""
        method, path = ("POST", f"/tasks/{task_id}:subscribe") if self.is_10 else ("GET", f"/tasks/{task_id}/subscribe")
        return self._follow(method, path, None, after)

    def stream(self, message: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        if self.is_10:
            return self._follow("POST", "/message:stream", {"message": {**message, "role": "ROLE_USER"}})
        return self._follow("POST", "/messages:stream", {"message": {**message, "role": "user"}})

    def _follow(self, method: str, path: str, body: Any, after: int | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        headers = {"Last-Event-ID": str(after)} if after is not None else {}
        with self.http.stream(method, f"{self._prefix}{path}", json=body, headers=headers) as answer:
            if answer.status_code != 200 or not answer.headers["content-type"].startswith("text/event-stream"):
                raise Broken(f"{answer.status_code} {answer.read().decode()}")
            before: int | None = None
            number = -1
            for line in answer.iter_lines():
                if line.startswith("id:"):
                    number = int(line[3:])
                elif line.startswith("data:"):
                    if before is not None and number != before + 1:
                        raise Broken(f"event {number} follows {before}")
                    event = json.loads(line[5:])
                    self._check(event, is_first=before is None)
                    before = number
                    yield number, event

    def _check(self, event: dict[str, Any], *, is_first: bool) -> None:
        if self.is_10:
            (kind,) = event
            body = event[kind]
            if kind not in ("task", "message", "statusUpdate", "artifactUpdate") or (is_first and kind != "task"):
                raise Broken(f"an event `{kind}`")
            if kind.endswith("Update") and not body.get("contextId"):
                raise Broken(f"an update without a context: {event}")
        else:
            kind, body = str(event.get("kind")), event
            if kind not in ("task", "status-update", "artifact-update", "task-state"):
                raise Broken(f"an event of the kind {kind}")
        if "artifact" in body and not (body["artifact"]["artifactId"] and body["artifact"]["parts"]):
            raise Broken(f"an artifact without id or parts: {event}")
        said = body.get("status", {}).get("message")
        if said is not None and not (said.get("messageId") and said.get("role") and said.get("parts")):
            raise Broken(f"an incomplete status message: {said}")

    def _post(self, path: str, body: Any) -> httpx.Response:
        return self.http.post(f"{self._prefix}{path}", json=body)

    def _json(self, answer: httpx.Response, status: int) -> dict[str, Any]:
        if answer.status_code != status:
            raise Broken(f"{answer.status_code} {answer.text}")
        if self.is_10 and answer.headers["content-type"] != A2A_JSON:
            raise Broken(f"the content type is {answer.headers['content-type']}")
        missing = {HITL, ADAPTER} - {uri.strip() for uri in answer.headers.get("a2a-extensions", "").split(",")}
        if missing:
            raise Broken(f"not echoed: {missing}")
        return answer.json()


def state_in(event: Mapping[str, Any]) -> str | None:
    """The state that an event of either version tells, in 0.3's spelling."""
    body = event if "kind" in event else next(iter(event.values()))
    state = body.get("status", {}).get("state")
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-") if state else None


def prompt_in(event: Mapping[str, Any]) -> dict[str, Any]:
    """The prompt envelope of an event; its id must be one that such clients take."""
    body = event if "kind" in event else next(iter(event.values()))
    prompt = body["status"]["message"]["metadata"][HITL]
    if not UUID.fullmatch(prompt["prompt_id"]):
        raise Broken(f"the prompt's id is {prompt['prompt_id']}")
    return prompt
