"""Does the target keep idempotency/v1? IDEM-AC-1 to IDEM-AC-4, for targets whose card lists it."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import attrs

from sandboxd.conformance import sentences
from sandboxd.conformance.bench import BOTH, Bench, shown
from sandboxd.conformance.codec import Draft, Seen
from sandboxd.conformance.door import Asked, Came, Refused
from sandboxd.conformance.restart import restart
from sandboxd.conformance.scenario import Scenario

IDEMPOTENCY: Final = "https://agentic-sandbox.aiwg.io/extensions/idempotency/v1"
_ALL: Final = (*BOTH, IDEMPOTENCY)
_REPLAYED: Final = "Idempotent-Replayed"


def replays(bench: Bench) -> None:
    """IDEM-AC-1."""
    draft = _draft(bench)
    bench.at("send a message")
    first = _taken(bench, draft)
    bench.at("send it again, the same in every byte")
    _expect_replay(bench, first, bench.ask(_again(bench, first), extensions=_ALL))
    bench.at("send another message twice at the same time")
    asked = bench.door.send(_draft(bench), wait=False)
    with ThreadPoolExecutor(2) as pool:
        came = list(pool.map(lambda one: bench.ask(one, extensions=_ALL), (asked, asked)))
    made = {seen.id for seen in (bench.read(one) for one in came) if isinstance(seen, Seen)}
    bench.expect(len(made) == 1, "one task", sentences.SAME, f"{len(made)} tasks: {', '.join(sorted(made))}")


def refuses_other_body(bench: Bench) -> None:
    """IDEM-AC-2."""
    draft = _draft(bench)
    bench.at("send a message")
    first = _taken(bench, draft)
    bench.at("send another text under the same messageId")
    other = bench.read(bench.ask(bench.door.send(attrs.evolve(draft, text=f"other {draft.text}"), wait=False), extensions=_ALL))
    if isinstance(other, Seen):
        bench.fail("422 (JSON-RPC -32422)", sentences.OTHER, f"it was accepted: {shown(other)}")
    bench.expect(other.is_other_body, "422 (JSON-RPC -32422)", sentences.OTHER, other)
    bench.at("the first message is still replayed")
    _expect_replay(bench, first, bench.ask(_again(bench, first), extensions=_ALL))


def refuses_malformed_ids(bench: Bench) -> None:
    """IDEM-AC-3."""
    for message_id in ("not-a-uuid", "1234"):
        bench.at(f"send a message whose messageId is `{message_id}`")
        draft = attrs.evolve(_draft(bench), message_id=message_id)
        refused = bench.read(bench.ask(bench.door.send(draft, wait=False), extensions=_ALL))
        if isinstance(refused, Seen):
            bench.fail("400 IDEMPOTENCY_MESSAGE_ID_MALFORMED", sentences.MALFORMED_ID, f"it was accepted: {shown(refused)}")
        is_told = "IDEMPOTENCY_MESSAGE_ID_MALFORMED" in refused.came.text.upper().replace(".", "_")
        if refused.code is not None and refused.is_by_caller and not is_told:  # no spec says where it stands in JSON-RPC
            bench.note(f"the refusal does not name IDEMPOTENCY_MESSAGE_ID_MALFORMED: {refused.message}")
            continue
        is_400 = refused.code is not None or refused.came.status == 400
        bench.expect(is_told and is_400, "400 IDEMPOTENCY_MESSAGE_ID_MALFORMED", sentences.MALFORMED_ID, refused)


def survives_restart(bench: Bench) -> None:
    """IDEM-AC-4."""
    bench.at("send a message")
    first = _taken(bench, _draft(bench))
    restart(bench)
    bench.at("send it again after the restart")
    _expect_replay(bench, first, bench.ask(_again(bench, first), extensions=_ALL), by=sentences.SURVIVES)


def _draft(bench: Bench) -> Draft:
    return bench.message(text=f"echo {uuid.uuid4()}")


def _again(bench: Bench, first: Came) -> Asked:
    """The same request; JSON-RPC's own call id is no part of the message, and is a new one as with every call."""
    asked = first.asked
    if bench.door.name != "jsonrpc":
        return asked
    return attrs.evolve(asked, body={**asked.body, "id": f"again-{asked.body['id']}"})


def _taken(bench: Bench, draft: Draft) -> Came:
    came = bench.ask(bench.door.send(draft, wait=False), extensions=_ALL)
    seen = bench.read(came)
    if isinstance(seen, Refused):
        bench.fail("the message is accepted", sentences.ECHO, seen)
    bench.expect(_REPLAYED not in came.headers, f"no `{_REPLAYED}` header", sentences.FIRST, came.headers.get(_REPLAYED))
    return came


def _expect_replay(bench: Bench, first: Came, again: Came, by: sentences.Sentence = sentences.SAME) -> None:
    bench.expect(again.status == first.status, f"the stored status {first.status}", by, again)
    said = again.headers.get(_REPLAYED, "(none)")
    bench.expect(said == "true", f"`{_REPLAYED}: true`", by, f"{_REPLAYED}: {said}; {again}")
    bench.expect(_result(bench, again) == _result(bench, first), "the stored body", by, again)
    for name in ("Location", "A2A-Extensions", "Content-Type"):
        was, now = first.headers.get(name), again.headers.get(name)
        bench.expect(was == now, f"the stored header `{name}: {was}`", by, f"{name}: {now}")


def _result(bench: Bench, came: Came) -> object:
    return bench.door.read(came) if came.status else None


_NEEDS: Final = ("idempotency",)
SCENARIOS: Final = (
    Scenario("IDEM-AC-1", "an equal message is replayed, one task is made", replays, _NEEDS),
    Scenario("IDEM-AC-2", "another body under the same messageId is 422", refuses_other_body, _NEEDS),
    Scenario("IDEM-AC-3", "a messageId that is no UUID is 400", refuses_malformed_ids, _NEEDS),
    Scenario("IDEM-AC-4", "replays survive a restart", survives_restart, ("idempotency", "restart")),
)
