"""How does a channel bring an answer, and for whom does it speak?

By a signed request: the key says which channel it is, the config says which persons that speaks for. A display name beside it
is put on record and grants nothing. A channel decides nothing: what it brings is one vote of one person, so a channel of a
single person can never complete a consensus by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from sandboxd.a2a.jsontext import parse_json
from sandboxd.approvals.routing import Principal
from sandboxd.cockpit.channels import rows
from sandboxd.cockpit.channels.config import Webhook
from sandboxd.cockpit.channels.signing import WINDOW_S, why_not_signed
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.people import People
from sandboxd.cockpit.record import Heard, Record
from sandboxd.errors import Forbidden, InvalidParams, Problem, PromptNotOpen, TaskNotFound, Unauthenticated
from sandboxd.values import frozen

KEEP: Final = timedelta(seconds=2 * WINDOW_S)
ID_MAX_CHARS: Final = 128
NAME_MAX_CHARS: Final = 64
_KEYS: Final[Mapping[str, type]] = {
    "id": str,
    "prompt_id": str,
    "host": str,
    "payload": dict,
    "account": str,
    "display_name": str,
}
_NEEDED: Final = ("id", "prompt_id", "payload")


@frozen
class Inbound:
    """Takes the signed answers of all channels."""

    webhooks: Mapping[str, Webhook]
    people: People
    controller: Controller
    clock: Callable[[], datetime]

    async def take(self, name: str, signature: str, body: bytes) -> tuple[Heard, Principal]:
        """One request's answer, and who has given it.

        `Unauthenticated`, `Forbidden`, `InvalidParams`, `TaskNotFound`; `PromptNotOpen` for a request that was taken before.
        """
        webhook = self.webhooks.get(name)
        now = self.clock()
        why = why_not_signed(webhook.key, signature, body, now) if webhook else "there is no such channel"
        if webhook is None or why:
            raise Unauthenticated(f"cannot take this answer: {why}")
        said = _read(body)
        principal = self._principal(webhook, said.get("account"))
        records = self.controller.records
        answer_id = said["id"]
        if await records.read(lambda connection: rows.was_heard(connection, webhook.channel, answer_id)):
            raise PromptNotOpen("cannot take this answer: a request of this id was taken before")
        record = await self._record(said["prompt_id"], said.get("host"))
        heard = await self.controller.answer(record, principal, webhook.channel, said["payload"], note=_note(said))
        await records.write(lambda connection, at: rows.hear(connection, webhook.channel, answer_id, at, keep=KEEP))
        return heard, principal

    def _principal(self, webhook: Webhook, account: str | None) -> Principal:
        person = webhook.answers_as if webhook.answers_as is not None else webhook.accounts.get(account or "")
        found = next((one for one in self.people.everybody if one.name == person), None)
        if found is None:
            why = (
                "the config names nobody for whom this channel speaks"
                if not webhook.accounts
                else "it is from no known account"
            )
            raise Forbidden(f"cannot take this answer: {why}")
        return found.by(webhook.channel if webhook.answers_as is not None else f"{webhook.channel}:{account}")

    async def _record(self, prompt_id: str, host: str | None) -> Record:
        found = await self.controller.records.read(
            lambda connection: [rows.by_number(connection, number) for number in rows.find(connection, host, prompt_id)]
        )
        if len(found) > 1:
            raise InvalidParams("cannot tell which question is meant: several hosts ask under that id; name the `host`")
        if not found or found[0] is None:
            raise TaskNotFound("cannot find the question: none has that prompt id")
        return found[0]


def _read(body: bytes) -> Mapping[str, Any]:
    value = parse_json(body)
    if not isinstance(value, dict):
        raise InvalidParams("cannot read the answer: it must be an object")
    problems = [Problem(str(key)[:64], "unknown key") for key in value if key not in _KEYS]
    problems += [Problem(key, "is missing") for key in _NEEDED if key not in value]
    problems += [
        Problem(key, "must be an object" if kind is dict else "must be a text")
        for key, kind in _KEYS.items()
        if key in value and not isinstance(value[key], kind)
    ]
    if not problems and not 0 < len(value["id"]) <= ID_MAX_CHARS:
        problems.append(Problem("id", f"must have 1 to {ID_MAX_CHARS} characters"))
    if problems:
        raise InvalidParams("cannot read the answer: " + "; ".join(map(str, problems)), problems=problems)
    return value


def _note(said: Mapping[str, Any]) -> str:
    name = said.get("display_name", "")[:NAME_MAX_CHARS]
    return f"it calls itself {name!r}" if name else ""
