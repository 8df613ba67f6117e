"""Does a hostile schema hurt anybody but itself?"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
import trio

from sandboxd.schemas.judge import DEADLINE_S, SPARE, WORKERS_MAX, Judge, Judged, Unjudged, _start, open_judge

EVIL = {"type": "string", "pattern": "^(a+)+$"}
EVIL_VALUE = "a" * 40 + "!"
LAUGHS = {
    "$ref": "#/$defs/d0",
    "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(24)} | {"d24": {"type": "string"}},
}
DELAY_MAX_S = 0.05
ROUNDS_MAX = 20


@pytest.fixture
async def judge() -> AsyncIterator[Judge]:
    async with open_judge() as opened:
        await opened.judge({}, None)  # a first one has to be started
        yield opened


@attrs.define
class Probe:
    """How long the event loop kept others waiting at most."""

    worst_s: float = 0.0

    async def run(self) -> None:
        while True:
            before = trio.current_time()
            await trio.sleep(0.005)
            self.worst_s = max(self.worst_s, trio.current_time() - before - 0.005)


async def test_a_value_that_fits_has_no_problems(judge: Judge) -> None:
    assert await judge.judge({"type": "string", "pattern": "^[yn]$"}, "y") == Judged(())


async def test_what_does_not_fit_is_told_without_the_value(judge: Judge) -> None:
    found = await judge.judge({"enum": ["prod", "dev"], "maxLength": 3, "allOf": [{"pattern": "^p"}]}, "hunter2")

    assert isinstance(found, Judged)
    assert sorted(problem.keyword for problem in found.problems) == ["enum", "maxLength", "pattern"]
    assert "hunter2" not in repr(found)


async def test_local_references_are_followed(judge: Judge) -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}

    assert await judge.judge(schema, 7) == Judged(())
    assert await judge.judge(schema, "7") != Judged(())


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "#/$defs/nowhere"}, {"$ref": "#"}, {"type": "strng"}, {"pattern": "("}, {"minLength": -1}],
)
async def test_a_schema_that_is_none_is_unusable_and_the_worker_lives_on(judge: Judge, schema: dict[str, Any]) -> None:
    found = await judge.judge(schema, "x")

    assert isinstance(found, Unjudged)
    assert await judge.judge({}, "x") == Judged(())


async def test_a_schema_outside_the_bounds_reaches_no_worker(judge: Judge) -> None:
    found = await judge.judge({"$ref": "https://elsewhere/schema"}, "x")

    assert isinstance(found, Unjudged)
    assert "within the schema" in found.why


@attrs.frozen
class Round:
    """One attack: how long it took, and how long others waited meanwhile at most."""

    took_s: float
    loop_s: float
    others_s: float


async def attack(judge: Judge, schema: Any, value: Any) -> Round:
    probe = Probe()
    waited = [0.0]
    hostile: list[Judged | Unjudged] = []
    gc.collect()
    while len(judge._idle) < SPARE:  # noqa: ASYNC110 - nobody but this test waits for it
        await trio.sleep(0.01)

    async def run() -> None:
        hostile.append(await judge.judge(schema, value))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(probe.run)
        began = trio.current_time()
        async with trio.open_nursery() as attacks:
            attacks.start_soon(run)
            await trio.sleep(0.01)
            while not hostile:
                before = trio.current_time()
                assert await judge.judge({"type": "string"}, "y") == Judged(())
                waited.append(trio.current_time() - before)
                await trio.sleep(0.01)
        took_s = trio.current_time() - began
        nursery.cancel_scope.cancel()
    assert isinstance(hostile[0], Unjudged)
    assert "250 ms" in hostile[0].why
    return Round(took_s, probe.worst_s, max(waited))


@pytest.mark.parametrize(
    ("schema", "value"), [(EVIL, EVIL_VALUE), (LAUGHS, "x"), ({"uniqueItems": True}, [{"a": n} for n in range(5000)])]
)
async def test_a_hostile_schema_is_given_up_in_time_and_delays_nobody(judge: Judge, schema: Any, value: Any) -> None:
    rounds: list[Round] = []
    # The machine has other work too. What we do ourselves would be in every round, so the quietest one counts.
    while len(rounds) < ROUNDS_MAX and not (
        rounds and min(one.loop_s for one in rounds) < DELAY_MAX_S and min(one.others_s for one in rounds) < DELAY_MAX_S
    ):
        rounds.append(await attack(judge, schema, value))

    assert min(one.took_s for one in rounds) >= DEADLINE_S
    assert min(one.loop_s for one in rounds) < DELAY_MAX_S, rounds
    assert min(one.others_s for one in rounds) < DELAY_MAX_S, rounds


async def test_a_hostile_schema_gets_only_what_nobody_else_wants() -> None:
    worker = await _start()
    pid = worker._process.pid
    before, after = os.sched_getscheduler(pid), None
    question = json.dumps({"schema": EVIL, "value": EVIL_VALUE}).encode()
    try:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(worker.ask, question)
                while not worker.has_yielded:  # noqa: ASYNC110 - it has no bell
                    await trio.sleep(0.001)
                after = os.sched_getscheduler(pid)
                nursery.cancel_scope.cancel()
    finally:
        await worker.end()

    assert (before, after) == (os.SCHED_OTHER, os.SCHED_IDLE)


async def test_many_hostile_schemas_at_once_take_turns(judge: Judge) -> None:
    found = []

    async def run() -> None:
        found.append(await judge.judge(EVIL, EVIL_VALUE))

    async with trio.open_nursery() as nursery:
        for _ in range(2 * WORKERS_MAX):
            nursery.start_soon(run)

    assert [type(one) for one in found] == [Unjudged] * (2 * WORKERS_MAX)
    assert await judge.judge({}, "x") == Judged(())


async def test_a_caller_that_goes_away_takes_its_worker_along(judge: Judge) -> None:
    with trio.move_on_after(0.05) as scope:
        await judge.judge(EVIL, EVIL_VALUE)

    assert scope.cancelled_caught
    assert await judge.judge({"const": "x"}, "x") == Judged(())


async def test_no_worker_outlives_its_judge() -> None:
    async with open_judge() as judge:
        judge.warm_nowait()
        await judge.judge({}, None)
        workers = [worker._process for worker in judge._idle]

    assert workers
    assert all(process.returncode is not None for process in workers)
