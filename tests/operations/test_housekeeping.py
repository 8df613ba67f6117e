"""Does the daemon forget what the config says, and tell of it?"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from sandboxd.config import Retention
from sandboxd.operations.housekeeping import tidy_up
from tests.http.tiny_host import Tiny, rpc, tiny_host

HEADERS = {"A2A-Version": "1.0"}


async def ended(tiny: Tiny) -> str:
    story = await tiny.story()
    await story.write(b"printed\n")
    await story.write(b"", last=True)
    await story.finish()
    return story.view.task_id


async def tidy_after(tiny: Tiny, days: int, retention: Retention) -> None:
    host = tiny.doors.host
    # Stories are told in the past of the test's day or in its future; what counts is the distance.
    await tidy_up(host, retention, host.clock.now() + timedelta(days=days))


@pytest.mark.parametrize(
    ("days", "replayed", "printed", "found"),
    [(5, 200, b"printed\n", 200), (8, 410, b"printed\n", 200), (20, 410, b"", 200), (40, 404, None, 404)],
)
async def test_events_go_first_then_output_then_the_task(
    tmp_path: Path, days: int, replayed: int, printed: bytes | None, found: int
) -> None:
    async with tiny_host(tmp_path) as tiny, tiny.server.unix_client() as client:
        task_id = await ended(tiny)
        await tidy_after(tiny, days, Retention(30, 15, 7))

        replay = await client.post(f"/tasks/{task_id}:subscribe", headers={**HEADERS, "Last-Event-ID": "2"})
        task = await client.get(f"/tasks/{task_id}", headers=HEADERS)
        output = await client.get(f"/tasks/{task_id}/artifacts/terminal")

    assert (replay.status_code, task.status_code) == (replayed, found)
    if printed is not None:
        assert output.content == printed
    if printed == b"":
        assert output.headers["Sandboxd-Cut"] == "8"
        assert task.json()["artifacts"][0]["metadata"] == {"urn:sandboxd:cut:v1": {"at": 0, "bytes": 8}}


async def test_a_cursor_into_what_is_gone_is_an_error_that_says_so(tmp_path: Path) -> None:
    async with tiny_host(tmp_path) as tiny, tiny.server.unix_client() as client:
        task_id = await ended(tiny)
        view = await tiny.doors.host.store.view(task_id)
        assert view is not None
        last = view.seq
        await tidy_after(tiny, 8, Retention(30, 15, 7))

        rest = await client.post(f"/tasks/{task_id}:subscribe", headers={**HEADERS, "Last-Event-ID": "2"})
        call = await client.post("/", json=rpc("SubscribeToTask", {"id": task_id}), headers={**HEADERS, "Last-Event-ID": "2"})
        beyond = await client.post(f"/tasks/{task_id}:subscribe", headers={**HEADERS, "Last-Event-ID": f"{last + 1}"})
        end = await client.post(f"/tasks/{task_id}:subscribe", headers={**HEADERS, "Last-Event-ID": f"{last}"})

    (info,) = [detail for detail in rest.json()["error"]["details"] if detail["@type"].endswith("ErrorInfo")]
    assert (rest.status_code, info["reason"], info["metadata"]["first"]) == (410, "CURSOR_EXPIRED", str(last))
    assert "CURSOR_EXPIRED" in call.text
    assert beyond.status_code == 400
    assert end.status_code == 200
    assert f"id: {last}\n" in end.text


async def test_0_days_keep_for_ever(tmp_path: Path) -> None:
    async with tiny_host(tmp_path) as tiny, tiny.server.unix_client() as client:
        task_id = await ended(tiny)
        await tidy_after(tiny, 30_000, Retention(0, 0, 0))

        replay = await client.post(f"/tasks/{task_id}:subscribe", headers={**HEADERS, "Last-Event-ID": "1"})

    assert replay.status_code == 200
