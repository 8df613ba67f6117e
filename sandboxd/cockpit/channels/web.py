"""What does a link from a channel lead to, and where do signed answers come in?

`GET /q/{link}` shows one question to whoever has its link, and does nothing: chats and mail scanners open links too. `POST`
there answers it, for a person who is signed in here: the link names the question, and grants nothing. No script is needed.
`POST /api/channels/{name}/answers` takes a channel's signed answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import quart
from markupsafe import Markup

from sandboxd.cockpit.channels import rows
from sandboxd.cockpit.channels.form import WHOLE, fields_of, form_html, payload_of
from sandboxd.cockpit.channels.inbound import Inbound
from sandboxd.cockpit.channels.signing import Link, LinkKey
from sandboxd.cockpit.receipts.progress import progress_text
from sandboxd.cockpit.record import Heard, Record
from sandboxd.cockpit.ways import way_out
from sandboxd.cockpit.web.answers import refusal_json
from sandboxd.cockpit.web.app import Route
from sandboxd.cockpit.web.desk import Desk
from sandboxd.cockpit.web.gate import Guest
from sandboxd.cockpit.web.questions_api import told
from sandboxd.errors import InvalidParams, Problem, Refusal, Unauthenticated
from sandboxd.hitl.received import asks_secret
from sandboxd.serving.peer import PEER
from sandboxd.values import frozen

_POLICY: Final = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
_FIELD_MAX_CHARS: Final = 64 * 1024
_PAGE: Final = Markup("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>{title}</title>
<link rel="stylesheet" href="/static/base.css"><link rel="stylesheet" href="/static/link.css"></head>
<body><main><h1>{title}</h1>{body}</main></body></html>
""")


@frozen
class LinkDoor:
    """The routes of links and of signed answers."""

    key: LinkKey
    inbound: Inbound

    def routes(self) -> tuple[Route, ...]:
        """For the app's table; a link is open to whoever has it, and what it does is not."""
        return (
            Route("GET", "/q/<text>", self.show, is_open=True),
            Route("POST", "/q/<text>", self.give, is_open=True),
            Route("POST", "/api/channels/<name>/answers", self.take, is_open=True),
        )

    async def show(self, desk: Desk, text: str) -> quart.Response:
        """`GET /q/{link}`."""
        desk.pace.take("links")
        found = await self._find(text)
        return _page(found[0], _asked(found[0], {})) if found else _nowhere()

    async def give(self, desk: Desk, text: str) -> quart.Response:
        """`POST /q/{link}`: the form's fields."""
        desk.pace.take("links")
        found = await self._find(text)
        if found is None:
            return _nowhere()
        record, link = found
        form = await quart.request.form
        filled = {name: value for name, value in form.items() if isinstance(value, str)}
        try:
            guest = desk.gate.admit(PEER.get(), "POST", quart.request.headers, quart.request.cookies)
            desk.pace.take(guest.principal.name)
            _check_lengths(filled)
            payload = payload_of(fields_of(record.envelope["response_schema"]), filled)
            heard = await desk.controller.answer(record, guest.principal, f"link:{link.channel}", payload)
            await told(desk, guest, heard)  # a refusal is raised
        except Refusal as refusal:
            status, _ = refusal_json(refusal)
            again = await self._find(text) or found
            return _page(again[0], _refused(refusal) + _asked(again[0], filled), status=status)
        return _page(heard.record, _said(heard))

    async def take(self, desk: Desk, name: str) -> quart.Response:
        """`POST /api/channels/{name}/answers`: `{"id", "prompt_id", "payload", …}`, signed."""
        desk.pace.take(f"webhook:{name}" if name in self.inbound.webhooks else "webhook")
        body = await quart.request.get_data(cache=False, as_text=False, parse_form_data=False)
        assert isinstance(body, bytes)
        heard, principal = await self.inbound.take(name, quart.request.headers.get("X-AIWG-Signature", ""), body)
        return await told(desk, Guest(principal, "bearer", f"webhook:{name}", lambda: True), heard)

    async def _find(self, text: str) -> tuple[Record, Link] | None:
        inbound = self.inbound
        link = self.key.read(text, inbound.clock())
        number = link.number if link else 0
        found = await inbound.controller.records.read(lambda connection: rows.by_number(connection, number))
        return None if link is None or found is None else (found, link)


def _check_lengths(filled: Mapping[str, str]) -> None:
    problems = [
        Problem(name, f"has {len(value)} characters, at most {_FIELD_MAX_CHARS} are taken; the question is still open")
        for name, value in filled.items()
        if len(value) > _FIELD_MAX_CHARS
    ]
    if problems:
        raise InvalidParams("cannot take this answer: it is too long", problems=problems)


def _page(record: Record, body: Markup, *, status: int = 200) -> quart.Response:
    return _made(f"Question {record.number} of {record.place.host}", body, status)


def _nowhere() -> quart.Response:
    """Whoever opens an old link is a person, in a browser."""
    why = "This link is none of this cockpit's, or its time is over."
    body = Markup('<p>{}</p><p>What waits for an answer stands <a href="/">in the cockpit</a>.</p>').format(why)
    return _made("No question here", body, 404)


def _made(title: str, body: Markup, status: int) -> quart.Response:
    made = quart.Response(_PAGE.format(title=title, body=body), status, content_type="text/html; charset=utf-8")
    made.headers["Content-Security-Policy"] = _POLICY
    # Without any referrer a browser sends the form with `Origin: null` (Fetch, Origin header), and the gate would turn it away.
    made.headers["Referrer-Policy"] = "same-origin"
    made.headers["Cache-Control"] = "no-store"
    return made


def _asked(record: Record, filled: Mapping[str, str]) -> Markup:
    approval = record.approval
    lines = [Markup('<blockquote><p dir="auto">{}</p></blockquote>').format(record.envelope["prompt"])]
    if approval.phase != "open":
        why = f": {approval.reason}" if approval.reason else ""
        status = "answered" if approval.status == "responded" else approval.status
        closed = f"It is {status}{why}. No answer is taken any more."
        under_way = approval.reason if approval.held else "An answer is on its way, and no other one is taken."
        lines.append(Markup("<p>{}</p>").format(closed if approval.phase == "closed" else under_way))
        if way := way_out(approval):
            lines.append(Markup("<p>Way out: {}.</p>").format(way))
        if told := progress_text(record):
            lines.append(Markup("<p>The answer: {}.</p>").format(told))
        return Markup("").join(lines)
    lines.append(Markup("<p>Open until {} UTC.</p>").format(f"{approval.closes_at:%Y-%m-%d %H:%M:%S}"))
    if approval.dead_end:
        lines.append(Markup("<p>Nobody can answer it: {}.</p><p>Way out: {}.</p>").format(approval.dead_end, way_out(approval)))
        return Markup("").join(lines)
    if approval.votes_needed > 1:
        said = f"{len(approval.votes)} of {approval.votes_needed} who must agree have answered."
        lines.append(Markup("<p>{}</p>").format(said))
    if asks_secret(record.envelope["response_schema"]):
        lines.append(Markup("<p>It asks for a secret, which is kept nowhere.</p>"))
    fields = form_html(fields_of(record.envelope["response_schema"]), {**filled, **_without_secrets(record, filled)})
    lines.append(Markup('<form method="post">{}<p><button type="submit">Send this answer</button></p></form>').format(fields))
    lines.append(Markup('<p>You have to be <a href="/">signed in</a> at this cockpit, in this browser.</p>'))
    return Markup("").join(lines)


def _without_secrets(record: Record, filled: Mapping[str, str]) -> Mapping[str, str]:
    return {WHOLE: ""} if WHOLE in filled and asks_secret(record.envelope["response_schema"]) else {}


def _refused(refusal: Refusal) -> Markup:
    if isinstance(refusal, Unauthenticated):
        return Markup('<p role="alert">Nothing was sent: <a href="/">sign in</a> first, then send it again.</p>')
    listed: Any = [Markup("<li>{}</li>").format(f"{problem.field or 'it'} {problem.reason}") for problem in refusal.problems]
    problems = Markup("<ul>{}</ul>").format(Markup("").join(listed)) if listed else Markup("")
    return Markup('<div role="alert"><p>{}</p>{}</div>').format(refusal.message, problems)


def _said(heard: Heard) -> Markup:
    mark = heard.decided.marks[-1]
    words = {
        "decided": "It is on record, and goes to the program that asked.",
        "counted": "It is on record; more persons must agree.",
    }
    return Markup('<p role="status">{}</p>').format(words.get(mark.outcome, mark.why or mark.outcome))
