"""Does a message get one turn at a time, and is it known afterwards?"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from sandboxd.errors import InvalidParams, MessageIdMalformed, MessageIdReused
from sandboxd.operations.once import Once, Request, identify
from sandboxd.store.base import Told
from sandboxd.store.sqlite import SqliteStore, open_store
from tests.store.story import NOON

TOLD = Told("rest 1.0", 400, (), b"{}")


@attrs.define
class HandClock:
    """Moves when a test says so."""

    at: datetime = NOON

    def now(self) -> datetime:
        return self.at


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def params(text: str = "do it", message_id: Any = None, **more: Any) -> dict[str, Any]:
    return {"message": {"messageId": message_id or str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **more}}


def request_of(sent: Any) -> Request:
    found = identify("alice", "box", sent)
    assert found is not None
    return found


def test_the_hash_leaves_the_id_out_and_nothing_else() -> None:
    one, other = params(), params()

    assert request_of(one).digest == request_of(other).digest
    assert request_of(one).digest != request_of(params("do that")).digest
    assert request_of(one).digest != request_of({**one, "configuration": {}}).digest


def test_an_id_is_the_same_in_either_case() -> None:
    message_id = str(uuid.uuid4())

    assert request_of(params(message_id=message_id.upper())) == request_of(params(message_id=message_id))


def test_what_is_no_message_is_left_to_its_door() -> None:
    assert identify("alice", "box", {}) is None
    assert identify("alice", "box", {"message": "hello"}) is None


def test_a_message_without_a_uuid_is_malformed() -> None:
    with pytest.raises(MessageIdMalformed):
        identify("alice", "box", {"message": {}})


def test_a_number_that_has_no_canonical_spelling_is_refused() -> None:
    with pytest.raises(InvalidParams):
        identify("alice", "box", {**params(), "metadata": {"n": 10**400}})


def test_an_answers_payload_is_in_no_hash() -> None:
    message_id = str(uuid.uuid4())

    def answer(text: str) -> Request:
        response = {"prompt_id": "p", "payload": {"text": text}}
        return request_of(params(text, message_id, taskId="t", metadata={"hitl_response_for": response}))

    assert answer("one").digest == answer("two").digest
    assert answer("one").secret != answer("two").secret
    assert "one" not in repr(answer("one"))


async def test_equal_requests_take_turns(store: SqliteStore) -> None:
    once, request = Once(store, HandClock()), request_of(params())
    order: list[str] = []

    async def second() -> None:
        async with once.turn(request) as turn:
            order.append(f"second found {turn.found is not None}")

    async with trio.open_nursery() as nursery, once.turn(request) as turn:
        assert turn.found is None
        nursery.start_soon(second)
        await trio.testing.wait_all_tasks_blocked()
        await once.refused(turn, TOLD)
        order.append("first done")

    assert order == ["first done", "second found True"]


async def test_another_request_under_a_busy_id_is_refused_at_once(store: SqliteStore) -> None:
    once, sent = Once(store, HandClock()), params()
    other = request_of({**sent, "configuration": {"returnImmediately": True}})

    async with once.turn(request_of(sent)):
        with pytest.raises(MessageIdReused) as refused:
            async with once.turn(other):
                pass

    assert refused.value.facts == {"stored_hash": request_of(sent).digest, "request_hash": other.digest}


async def test_a_turn_that_came_to_nothing_is_given_to_the_next(store: SqliteStore) -> None:
    once, request = Once(store, HandClock()), request_of(params())
    with trio.CancelScope() as scope:
        async with once.turn(request):
            scope.cancel()
            await trio.lowlevel.checkpoint()

    async with once.turn(request) as turn:
        assert turn.found is None


async def test_a_message_is_forgotten_after_its_time(store: SqliteStore) -> None:
    clock = HandClock()
    once, request = Once(store, clock), request_of(params())
    async with once.turn(request) as turn:
        await once.refused(turn, TOLD)
    clock.at += timedelta(seconds=86_399)
    async with once.turn(request) as turn:
        assert turn.found is not None

    clock.at += timedelta(seconds=1)

    async with once.turn(request) as turn:
        assert turn.found is None


async def test_no_more_than_the_cap_are_remembered(store: SqliteStore) -> None:
    once = Once(store, HandClock(), max_entries=3)
    requests = [request_of(params()) for _ in range(5)]
    for request in requests:
        async with once.turn(request) as turn:
            await once.refused(turn, TOLD)

    found = []
    for request in reversed(requests):  # the newest first: a forgotten one is begun anew, and costs another its place
        async with once.turn(request) as turn:
            found.append(turn.found is not None)

    assert found == [True, True, True, False, False]


async def test_after_a_restart_an_answers_payload_is_not_compared(store: SqliteStore) -> None:
    message_id = str(uuid.uuid4())

    def answer(text: str) -> Request:
        response = {"prompt_id": "p", "payload": {"text": text}}
        return request_of(params(text, message_id, metadata={"hitl_response_for": response}))

    once = Once(store, HandClock())
    async with once.turn(answer("one")) as turn:
        await once.refused(turn, TOLD)
    with pytest.raises(MessageIdReused, match="another payload"):
        async with once.turn(answer("two")):
            pass

    async with Once(store, HandClock()).turn(answer("two")) as turn:
        assert turn.found is not None


@pytest.mark.parametrize("name", ["taskPushNotificationConfig", "task_push_notification_config", "pushNotificationConfig"])
def test_the_credentials_of_a_push_config_are_in_no_hash(name: str) -> None:
    def sent(credentials: str) -> Request:
        config = {"url": "https://example.com/", "authentication": {"scheme": "Bearer", "credentials": credentials}}
        return request_of({**params(message_id="5b0a3a1e-8a3c-4c06-9c0e-0d6b2a7a5d11"), "configuration": {name: config}})

    assert sent("one").digest == sent("two").digest
    assert sent("one").secret != sent("two").secret
