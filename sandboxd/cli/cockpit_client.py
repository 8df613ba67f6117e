"""How does a command talk to a cockpit?

Its JSON API, at a URL with a person's token or at its Unix socket, where the kernel says who asks. What is refused comes back
as a `Failure` with the exit code that the same refusal of a host has.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import click
import httpx

from sandboxd.a2a.wire import parse_rfc3339
from sandboxd.cli.connect import is_loopback, read_token
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.facts import Question, question_of_schema
from sandboxd.cli.reaching import CONNECT_S, Target, open_client, reaching
from sandboxd.cli.streams import ServerSentEvent, resumed, server_sent_events
from sandboxd.errors import Problem

Command = TypeVar("Command", bound=Callable[..., Any])
_SILENCE_S: Final = 40.0  # the cockpit sends a comment every 10 s on an idle stream
_START: Final = "is it running? Start it with `sandboxd cockpit --config FILE`"
_DOOR: Final = "the socket is for root, and for those whom a `[[person]]` of its config names by `uid`"
_GONE: Final = ("expired", "cancelled")
_CODES: Final = {
    401: Exit.NOT_ALLOWED,
    403: Exit.NOT_ALLOWED,
    404: Exit.NOT_FOUND,
    409: Exit.CONFLICT,
    422: Exit.INVALID_ANSWER,
    502: Exit.PENDING,  # it goes on trying
    503: Exit.UNREACHABLE,
}


def cockpit_option(command: Command) -> Command:
    """Gives a command the option that names a cockpit instead of a host, beside `daemon_options`."""
    option = click.option(
        "--cockpit",
        envvar="SANDBOXD_COCKPIT_URL",
        default="",
        metavar="URL|SOCKET",
        help="A cockpit instead of a host: its URL, with --token-file, or its socket [SANDBOXD_COCKPIT_URL].",
    )
    return option(command)


class CockpitClient:
    """One connection to a cockpit; every method raises `Failure`."""

    def __init__(self, where: str, token_file: str, *, timeout_s: float = 60.0) -> None:
        url, socket, headers = "http://cockpit", "", {"Accept": "application/json", "Sandboxd-Channel": "cli"}
        if "://" in where:
            url = where.rstrip("/")
            headers |= _bearer(url, token_file)
        else:
            socket = where
        self._target = Target("cockpit", where, _START, _DOOR)
        self._http = open_client(url=url, socket=socket, headers=headers, timeout_s=timeout_s)

    def __enter__(self) -> CockpitClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.close()

    def listed(self, *, state: str = "open", what: str = "list questions") -> Mapping[str, Any]:
        """The questions, and what cannot be asked there (`GET /api/prompts`)."""
        return self._ask(what, "GET", "/api/prompts", query={"state": state} if state else {})

    def question(self, name: str, *, what: str) -> Mapping[str, Any]:
        """One question with everything about it."""
        found = self._ask(what, "GET", f"/api/prompts/{quote(name, safe='')}")["prompt"]
        assert isinstance(found, Mapping)
        return found

    def act(self, name: str, verb: str, body: Mapping[str, Any], *, what: str) -> Mapping[str, Any]:
        """Do something about a question: `answer`, `cancel`, `resume`, `settle`, `reissue`; what came of it."""
        return self._ask(what, "POST", f"/api/prompts/{quote(name, safe='')}/{verb}", body=body)

    def missions(self, limit: int) -> Mapping[str, Any]:
        """The last missions, the newest first."""
        return self._ask("list missions", "GET", "/api/missions", query={"limit": str(limit)})

    def mission(self, name: str) -> Mapping[str, Any]:
        """One mission, by its number or a beginning of its id."""
        return self._ask(f"show mission `{name}`", "GET", f"/api/missions/{quote(name, safe='')}")

    def mission_result(self, name: str) -> Mapping[str, Any]:
        """What its task left, once it has ended."""
        return self._ask(f"show what mission `{name}` left", "GET", f"/api/missions/{quote(name, safe='')}/result")

    def start_mission(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Start one; as it then stands."""
        return self._ask("start the mission", "POST", "/api/missions", body=body)

    def act_on_mission(self, name: str, verb: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """`resume` or `cancel`; as it then stands."""
        return self._ask(f"{verb} mission `{name}`", "POST", f"/api/missions/{quote(name, safe='')}/{verb}", body=body)

    def news(self, *, after: int | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Every change that people see, with its number, for ever, over as many connections as it takes."""
        what = "watch the cockpit"

        def behind() -> Iterator[ServerSentEvent]:
            headers = {} if after is None else {"Last-Event-ID": str(after)}
            return self._stream(what, "/api/news", headers=headers)

        for event in resumed(behind, what=what, target=self._target):
            told = json.loads(event.data)
            after = int(told["number"])
            if "entry" in told:
                yield after, told

    def terminal(self, host: str, task_id: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """What a task prints, from its beginning, and how it goes on, up to its end: `task`, `output`, `gap`, `trouble`.

        `GET /api/tasks/{host}/{task}/terminal`: there is no way in.
        """
        what, offset = f"attach to task `{task_id}` of `{host}`", 0

        def behind() -> Iterator[ServerSentEvent]:
            path = f"/api/tasks/{quote(host, safe='')}/{quote(task_id, safe='')}/terminal"
            return self._stream(what, path, query={"offset": str(offset)})

        for event in resumed(behind, what=what, target=self._target):
            if event.kind == "end":
                return
            offset = offset if event.number is None else event.number
            yield event.kind, json.loads(event.data)

    def _stream(
        self, what: str, path: str, *, headers: Mapping[str, str] | None = None, query: Mapping[str, str] | None = None
    ) -> Iterator[ServerSentEvent]:
        sent = {"Accept": "text/event-stream"} | dict(headers or {})
        timeout = httpx.Timeout(_SILENCE_S, connect=CONNECT_S)
        with self._http.stream("GET", path, params=query, headers=sent, timeout=timeout) as response:
            if response.status_code != httpx.codes.OK:
                raise self._failure(what, response.status_code, response.read())
            yield from server_sent_events(response.iter_bytes())

    def _ask(
        self,
        what: str,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        with reaching(what, self._target):
            response = self._http.request(method, path, params=query, json=body)
        if not response.is_success:
            raise self._failure(what, response.status_code, response.content)
        value = _object(response.content)
        if value is None:
            raise Failure(f"cannot {what}: the answer at `{self._target.where}` is not a cockpit's")
        return value

    def _failure(self, what: str, status: int, body: bytes) -> Failure:
        told = (_object(body) or {}).get("error")
        error: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
        why = str(error.get("why") or f"the cockpit answered HTTP {status}")
        message = f"{error['what']}: {why}" if str(error.get("what", "")).startswith("cannot ") else f"cannot {what}: {why}"
        listed = error.get("validation_errors")
        problems = [
            Problem(str(it.get("path", "")), str(it.get("message", "")), str(it.get("keyword", "")))
            for it in (listed if isinstance(listed, list) else [])
            if isinstance(it, Mapping)
        ]
        return Failure(message, _CODES.get(status, Exit.OTHER), hint=str(error.get("do", "")), problems=problems)


def question_in(prompt: Mapping[str, Any]) -> Question:
    """A cockpit's question in the words that a host's has; its deadline is when the cockpit closes it."""
    return question_of_schema(
        prompt_id=str(prompt["prompt_id"]),
        text=str(prompt["question"]),
        schema=prompt.get("response_schema") or {},
        deadline=_moment(prompt.get("closes_at")),
        task_id=str(prompt["task_id"]),
        context_id=str(prompt["context_id"]),
        asked_at=_moment(prompt.get("asked_at")),
    )


def find_prompt(client: CockpitClient, given: str, *, to: str) -> Mapping[str, Any]:
    """The question that `given` names: its number, its whole id, or a beginning of its or its task's id that only it has."""
    what = f"{to} `{given}`"
    if (given.isdigit() and len(given) < 8) or len(given) == 36:
        with contextlib.suppress(NotThere):
            return _question(client, given, what)
    prompts = [one for state in ("open", "closed") for one in client.listed(state=state, what=what)["prompts"]]
    fitting = [it for it in prompts if it["prompt_id"].startswith(given) or it["task_id"].startswith(given)]
    still_open = [it for it in fitting if it["phase"] != "closed"]
    named = still_open or fitting
    if len(named) > 1:
        listed = [Problem(str(it["number"]), f"{it['prompt_id']} of {it['host']}: {it['question']}") for it in named[:10]]
        raise Failure(f"cannot tell which one is meant: id `{given}` fits {len(named)}", Exit.USAGE, problems=listed)
    if not named:
        raise Failure(
            f"cannot {what}: no question's or task's id begins so",
            Exit.NOT_FOUND,
            hint="see `sandboxd prompts` for what is open",
        )
    return _question(client, str(named[0]["number"]), what)


def check_open(prompt: Mapping[str, Any], given: str) -> None:
    """`Failure` says what became of a question that takes no answer any more."""
    if prompt["phase"] != "closed":
        return
    told, code = str(prompt["status"]), Exit.EXPIRED if prompt["status"] in _GONE else Exit.CONFLICT
    why = f" ({prompt['reason']})" if prompt["reason"] else ""
    hint = f"see `sandboxd prompts history {prompt['number']} --cockpit …`"
    raise Failure(f"cannot answer `{given}`: the question is {told}{why}; nothing was sent", code, hint=hint)


class NotThere(Exception):
    """No question has that whole name."""


def _question(client: CockpitClient, name: str, what: str) -> Mapping[str, Any]:
    try:
        return client.question(name, what=what)
    except Failure as failure:
        if failure.exit_code == Exit.NOT_FOUND:
            raise NotThere from failure
        raise


def _bearer(url: str, token_file: str) -> dict[str, str]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Failure(f"cannot use `{url}` as the cockpit's URL: it needs http:// or https:// and a host", Exit.USAGE)
    if not token_file:
        hint = "name the file that holds your token: --token-file FILE, or SANDBOXD_TOKEN_FILE"
        raise Failure(f"cannot come in at `{url}` without a token", Exit.NOT_ALLOWED, hint=hint)
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        why = "over plain HTTP everybody on the way could read it"
        raise Failure(f"cannot send the token to `{parts.hostname}`: {why}", Exit.USAGE, hint="use an https:// URL")
    return {"Authorization": f"Bearer {read_token(token_file)}"}


def _object(body: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, Mapping) else None


def _moment(value: object) -> datetime | None:
    return parse_rfc3339(value) if isinstance(value, str) else None
