"""How does somebody sign in, out, and learn who they are? (`/api/session`, `/api/me`)"""

from __future__ import annotations

import quart

from sandboxd.cockpit.web.answers import answer
from sandboxd.cockpit.web.desk import Desk, read_object
from sandboxd.cockpit.web.gate import Guest
from sandboxd.errors import InvalidParams, Unauthenticated


async def sign_in(desk: Desk) -> quart.Response:
    """`POST /api/session`: `{"token"}` for a session's cookie."""
    desk.gate.check_page(quart.request.headers, acts=True)
    desk.pace.take("sign-in")
    body = await read_object(known={"token": "a text"})
    if not body.get("token"):
        raise InvalidParams("cannot sign in: `token` is missing")
    begun = await desk.gate.sessions.begin(body["token"].strip())
    if begun is None:
        raise Unauthenticated("cannot sign in: nobody has that token")
    secret, principal = begun
    made = answer({"principal": principal.name, "person": principal.person})
    made.set_cookie(
        desk.gate.cookie,
        secret,
        max_age=int(desk.gate.sessions.session_s),
        path="/",
        secure=desk.gate.is_secure,
        httponly=True,
        samesite="Strict",
    )
    return made


async def sign_out(desk: Desk, guest: Guest) -> quart.Response:
    """`DELETE /api/session`."""
    if name := quart.request.cookies.get(desk.gate.cookie):
        await desk.gate.sessions.end(name)
    made = answer({"signed_out": True})
    made.delete_cookie(desk.gate.cookie, path="/", secure=desk.gate.is_secure, httponly=True, samesite="Strict")
    return made


async def me(desk: Desk, guest: Guest) -> quart.Response:
    """`GET /api/me`."""
    return answer(
        {
            "schema": "sandboxd.me/1",
            "principal": guest.principal.name,
            "person": guest.principal.person,
            "may_answer": guest.principal.may_answer,
            "way": guest.way,
            "version": desk.version,
            "now": desk.now(),
        }
    )
