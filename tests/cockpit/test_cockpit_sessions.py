"""Does a browser stay signed in over a restart of its cockpit, and nobody who should not?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx

from sandboxd.cockpit.people import People
from sandboxd.cockpit.records import open_records
from sandboxd.cockpit.web.sessions import OF_ONE_MAX, Sessions
from tests.cockpit.bridge import person, token_of
from tests.cockpit.story import Clock
from tests.fakes.executor import Executor
from tests.support.cockpit import Cockpit

HOUR_S = 3600.0


@asynccontextmanager
async def sessions(
    folder: Path, clock: Clock, *names: str, people: People | None = None, session_s: float = HOUR_S
) -> AsyncIterator[Sessions]:
    """Those of a cockpit that starts in that folder, with these people."""
    async with open_records(folder / "cockpit" / "cockpit.db", clock) as records:
        made = Sessions(records, people or People(tuple(person(name) for name in names)), clock, session_s)
        await made.load()
        yield made


async def begun(here: Sessions, name: str = "alice") -> str:
    found = await here.begin(token_of(name))
    assert found is not None
    assert found[1].person == name
    return found[0]


async def test_a_session_outlives_the_process_and_ends_by_its_time(tmp_path):
    clock = Clock()
    async with sessions(tmp_path, clock, "alice") as here:
        secret = await begun(here)
    clock.forward(minutes=59)
    async with sessions(tmp_path, clock, "alice") as here:
        found = here.find(secret)
        assert found is not None
        assert (found.name, found.person) == ("token:alice", "alice")
        clock.forward(minutes=1)
        assert here.find(secret) is None


async def test_who_has_signed_out_stays_out(tmp_path):
    async with sessions(tmp_path, Clock(), "alice") as here:
        secret, other = await begun(here), await begun(here)
        await here.end(secret)
    async with sessions(tmp_path, Clock(), "alice") as here:
        assert here.find(secret) is None
        assert here.find(other) is not None


async def test_with_another_token_or_none_a_session_has_ended_and_does_not_come_back(tmp_path):
    async with sessions(tmp_path, Clock(), "alice", "bob") as here:
        alice, bob = await begun(here), await begun(here, "bob")
    async with sessions(tmp_path, Clock(), people=People((person("alice", token_of("other")),))) as here:
        assert (here.find(alice), here.find(bob)) == (None, None)
    async with sessions(tmp_path, Clock(), "alice", "bob") as here:
        assert (here.find(alice), here.find(bob)) == (None, None)


async def test_people_who_change_while_it_runs_are_somebody_else_at_once(tmp_path):
    people = People((person("alice"), person("bob")))
    async with sessions(tmp_path, Clock(), people=people) as here:
        alice, bob = await begun(here), await begun(here, "bob")
        people.change((person("alice", may_answer=False),))

        found = here.find(alice)
        assert found is not None
        assert not found.may_answer
        assert here.find(bob) is None


async def test_a_shorter_session_holds_for_those_that_are_there(tmp_path):
    clock = Clock()
    async with sessions(tmp_path, clock, "alice") as here:
        secret = await begun(here)
    clock.forward(minutes=10)
    async with sessions(tmp_path, clock, "alice", session_s=300) as here:
        assert here.find(secret) is None


async def test_a_clock_that_was_set_back_lengthens_nothing(tmp_path):
    clock = Clock()
    async with sessions(tmp_path, clock, "alice") as here:
        secret = await begun(here)
        clock.now -= timedelta(days=1)
        assert here.find(secret) is None


async def test_the_oldest_session_of_a_person_ends_for_the_newest(tmp_path):
    clock, secrets = Clock(), list[str]()
    async with sessions(tmp_path, clock, "alice", "bob") as here:
        other = await begun(here, "bob")
        for _ in range(OF_ONE_MAX + 1):
            clock.forward(seconds=1)
            secrets.append(await begun(here))
    async with sessions(tmp_path, clock, "alice", "bob") as here:
        assert [here.find(secret) is not None for secret in secrets] == [False] + [True] * OF_ONE_MAX
        assert here.find(other) is not None


async def test_nobody_signs_in_with_a_token_of_nobody(tmp_path):
    async with sessions(tmp_path, Clock(), "alice") as here:
        assert await here.begin(token_of("eve")) is None


def cookie_of(browser: httpx.Client) -> str:
    (cookie,) = [one for one in browser.cookies.jar if one.name == "cockpit"]
    assert cookie.value is not None
    return cookie.value


def status(cockpit: Cockpit, secret: str) -> int:
    with cockpit.client(None, Cookie=f"cockpit={secret}") as browser:
        return browser.get("/api/me").status_code


def test_a_kill_signs_nobody_out_and_nobody_back_in(tmp_path):
    with Executor() as executor:
        cockpit = Cockpit(tmp_path / "cockpit", {"lab": (executor.url, "")})
        cockpit.start()
        try:
            with cockpit.browser("alice") as alice, cockpit.browser("bob") as bob:
                signed_in, signed_out = cookie_of(alice), cookie_of(bob)
                assert bob.delete("/api/session").status_code == 200
            cockpit.kill()
            cockpit.start()

            assert (status(cockpit, signed_in), status(cockpit, signed_out)) == (200, 401)
            secrets = (signed_in, signed_out, cockpit.token_of("alice"))
            kept = b"".join(path.read_bytes() for path in cockpit.state.rglob("*") if path.is_file())
            assert [secret for secret in secrets if secret.encode() in kept] == []

            cockpit.kill()
            (cockpit.folder / "alice.token").write_text(f"{token_of('another')}\n")
            cockpit.start()
            assert status(cockpit, signed_in) == 401
        finally:
            cockpit.end()
