"""Does every channel hear of everything that it is to be told, in order, and of nothing else?"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from sandboxd.approvals.record import Escalation, Terms
from sandboxd.cockpit.agent import HostAddress
from sandboxd.cockpit.channels.config import Webhook
from sandboxd.cockpit.channels.desk import Desk, links_below
from sandboxd.cockpit.channels.signing import Link, LinkKey, signature, why_not_signed
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.serve import now
from tests.cockpit.bridge import answer, asked, cockpit, somebody, stands, until
from tests.cockpit.test_cockpit_foreign import question
from tests.courier.receiver import Receiver
from tests.fakes.executor import Executor
from tests.support.daemon import wait_until

KEY = b"0123456789abcdef0123456789abcdef"
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
ALICE = somebody("alice")
QUICK = Terms(backoff=timedelta(milliseconds=20))


def webhook(receiver: Receiver, name: str = "ops", **more) -> Webhook:
    return Webhook(name, receiver.url(), KEY, allow=LOOPBACK, **more)


@asynccontextmanager
async def telling(folder: Path, executor: Executor, *webhooks: Webhook, terms: Terms = QUICK) -> AsyncIterator[Controller]:
    async with cockpit(folder, HostAddress("lab", executor.url), terms=terms) as controller, trio.open_nursery() as nursery:
        links = links_below("https://cockpit.example", LinkKey(b"k" * 32))
        desk = Desk(controller.records, webhooks, links, now, backoff_s=0.02)
        nursery.start_soon(desk.run)
        yield controller
        nursery.cancel_scope.cancel()


async def heard(receiver: Receiver, count: int) -> list[dict]:
    await trio.to_thread.run_sync(lambda: wait_until(lambda: len(receiver.events) >= count, timeout_s=30, what="the news"))
    return receiver.events


async def test_a_question_and_its_end_are_told_in_order_signed_and_without_the_answer(tmp_path, executor, receiver):
    envelope, task = question(), executor.begin()
    executor.ask(task, envelope)
    async with telling(tmp_path, executor, webhook(receiver)) as controller:
        await heard(receiver, 1)
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        await answer(controller, record, ALICE, "cli", {"text": "pssst"})
        await stands(controller.records, record, "closed")
        first, last = await heard(receiver, 2)

    assert (first["what"], first["prompt"]["question"]) == ("asked", "Proceed?")
    assert (last["what"], last["prompt"]["status"]) == ("closed", "responded")
    assert first["number"] < last["number"]
    assert first["link"].startswith("https://cockpit.example/q/")
    for _, headers, body in receiver.requests:
        assert b"pssst" not in body
        assert not why_not_signed(KEY, headers["x-aiwg-signature"], body, datetime.now(UTC))
        assert why_not_signed(b"another key of someone", headers["x-aiwg-signature"], body, datetime.now(UTC))


async def test_what_fails_is_sent_again_under_the_same_id(tmp_path, executor, receiver):
    receiver.plan = [503, 500, 429]
    executor.ask(executor.begin(), question())
    async with telling(tmp_path, executor, webhook(receiver)):
        await heard(receiver, 1)

    assert len(set(receiver.event_ids())) == 1
    assert len(receiver.requests) == 4


async def test_what_was_given_up_stands_in_the_audit_and_the_next_piece_is_told(tmp_path, executor, receiver):
    receiver.plan = [500, 500]
    envelope, task = question(), executor.begin()
    executor.ask(task, envelope)
    async with telling(tmp_path, executor, webhook(receiver, tries=2)) as controller:
        record = await asked(controller.records, "lab", envelope["prompt_id"])

        async def given_up():
            return [one for one in await controller.records.audit_last(50) if json.loads(one.body)["outcome"] == "given-up"]

        (kept,) = await until(controller.records, given_up, "the audit's word")
        await answer(controller, record, ALICE, "cli", {"text": "y"})
        (last,) = await heard(receiver, 1)

    told = json.loads(kept.body)
    assert (told["event"], told["channel"], told["why"]) == ("told", "webhook:ops", "asked: it answered HTTP 500")
    assert last["what"] == "closed"


async def test_a_new_start_goes_on_where_the_channel_was(tmp_path, executor, receiver):
    first, second = question(), question()
    executor.ask(executor.begin(), first)
    async with telling(tmp_path, executor, webhook(receiver)):
        await heard(receiver, 1)
    executor.ask(executor.begin(), second)
    async with telling(tmp_path, executor, webhook(receiver)):
        told = await heard(receiver, 2)

    assert [one["prompt"]["prompt_id"] for one in told] == [first["prompt_id"], second["prompt_id"]]
    assert len(set(receiver.event_ids())) == 2  # the first may have come again, where its taking was not on record yet


async def test_a_new_channel_begins_with_what_waits_and_not_with_old_stories(tmp_path, executor, receiver):
    old, task, new = question(), executor.begin(), question()
    executor.ask(task, old)
    async with cockpit(tmp_path, HostAddress("lab", executor.url), terms=QUICK) as controller:
        record = await asked(controller.records, "lab", old["prompt_id"])
        await answer(controller, record, ALICE, "cli", {"text": "y"})
        await stands(controller.records, record, "closed")
        executor.ask(executor.begin(), new)
        await until(controller.records, lambda: controller.records.find("lab", new["prompt_id"]))
    async with telling(tmp_path, executor, webhook(receiver)):
        (told,) = await heard(receiver, 1)

    assert told["prompt"]["prompt_id"] == new["prompt_id"]


async def test_an_escalation_goes_to_its_route_and_so_does_the_end(tmp_path, executor, receiver):
    other = Receiver()
    terms = Terms(escalations=(Escalation(timedelta(milliseconds=50), "on-call"),))
    envelope, task = question(), executor.begin()
    executor.ask(task, envelope)
    hooks = (
        webhook(receiver, "night", tells=frozenset(), routes=("on-call",)),
        webhook(other, "day", tells=frozenset(), routes=("x",)),
    )
    async with telling(tmp_path, executor, *hooks, terms=terms) as controller:
        await heard(receiver, 1)
        record = await asked(controller.records, "lab", envelope["prompt_id"])
        await answer(controller, record, ALICE, "cli", {"text": "y"})
        told = await heard(receiver, 2)
    other.close()

    assert [one["what"] for one in told] == ["escalation", "closed"]
    assert not other.requests


async def test_a_channel_that_hangs_holds_up_no_other(tmp_path, executor, receiver):
    hung = Receiver(hangs=True)
    executor.ask(executor.begin(), question())
    async with telling(tmp_path, executor, webhook(hung, "hung"), webhook(receiver)):
        await heard(receiver, 1)
    hung.close()


async def test_no_redirect_is_followed_and_nothing_goes_to_an_address_that_is_not_allowed(tmp_path, executor, receiver):
    redirecting = Receiver(redirect=receiver.url("/elsewhere"))
    forbidden = Webhook("inside", receiver.url("/inside"), KEY)
    executor.ask(executor.begin(), question())
    async with telling(tmp_path, executor, webhook(redirecting, "moved", tries=1), forbidden) as controller:

        async def both():
            entries = [json.loads(one.body) for one in await controller.records.audit_last(50)]
            found = {one["channel"]: one["why"] for one in entries if one["outcome"] == "given-up"}
            return found if len(found) == 2 else None

        why = await until(controller.records, both, "both given up")
    redirecting.close()

    assert why["webhook:moved"] == "asked: it answered HTTP 302"
    assert "no public address" in why["webhook:inside"]
    assert "`allow`" in why["webhook:inside"]
    assert not receiver.requests


async def test_a_chat_gets_the_link_first_and_no_call_to_anybody(tmp_path, executor, receiver):
    nasty = "Deploy? <!channel> @everyone [here](https://evil.example) `x`"
    executor.ask(executor.begin(), question(prompt=nasty))
    async with telling(tmp_path, executor, webhook(receiver, form="text")):
        (told,) = await heard(receiver, 1)

    lines = told["text"].split("\n")
    assert lines[0].startswith("https://cockpit.example/q/")
    for live in ("<!channel>", "@everyone", "](", "evil.example", "https://evil"):
        assert live not in "\n".join(lines[1:])


async def test_a_question_can_be_withheld(tmp_path, executor, receiver):
    executor.ask(executor.begin(), question(prompt="The sum is 4711, proceed?"))
    async with telling(
        tmp_path,
        executor,
        webhook(receiver, "a", shows_question=False),
        webhook(receiver, "b", form="text", shows_question=False),
    ):
        await heard(receiver, 1)
        await trio.to_thread.run_sync(lambda: wait_until(lambda: len(receiver.requests) == 2, timeout_s=30))

    assert all(b"4711" not in body for _, _, body in receiver.requests)


def test_a_link_is_for_one_question_and_ends():
    key, at = LinkKey(b"k" * 32), datetime(2026, 11, 30, tzinfo=UTC)
    text = key.make(Link(17, "ops-2"), at + timedelta(hours=1))

    assert key.read(text, at) == Link(17, "ops-2")
    assert key.read(text, at + timedelta(hours=1)) is None
    assert key.read("18" + text[2:], at) is None
    assert LinkKey(b"x" * 32).read(text, at) is None
    assert key.read(text + "A", at) is None


@pytest.mark.parametrize("header", ["", "t=,v1=", "t=1,v1=00", "v1=00", "t=99999999999999,v1=x"])
def test_what_is_no_signature_is_refused(header):
    assert why_not_signed(KEY, header, b"{}", datetime.now(UTC))


def test_an_old_signature_is_refused():
    at = datetime(2026, 11, 30, tzinfo=UTC)
    made = signature(KEY, int(at.timestamp()), b"{}")

    assert not why_not_signed(KEY, made, b"{}", at + timedelta(seconds=299))
    assert why_not_signed(KEY, made, b"{}", at + timedelta(seconds=301))
    assert made.endswith(hmac.new(KEY, f"{int(at.timestamp())}.{{}}".encode(), hashlib.sha256).hexdigest())
