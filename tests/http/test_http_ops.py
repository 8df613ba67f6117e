"""Do health, readiness and metrics tell the truth, to the right people?"""

from __future__ import annotations

import httpx
import trio
import trio.lowlevel

from sandboxd.store.base import StoreUnavailable
from tests.http.tiny_host import tiny_host


async def test_health_and_readiness_are_open_at_both_doors(tmp_path):
    async with tiny_host(tmp_path) as host:
        async with httpx.AsyncClient(base_url=host.server.url) as anyone:
            over_tcp = [(await anyone.get(path)).status_code for path in ("/healthz", "/readyz")]
        async with host.server.unix_client() as local:
            over_unix = [(await local.get(path)).status_code for path in ("/healthz", "/readyz")]

    assert over_tcp == over_unix == [200, 200]


async def test_a_failed_check_is_503_with_its_name_and_no_details(tmp_path):
    async def broken():
        raise OSError("disk /secret/path is full")

    async def fine():
        pass

    async with tiny_host(tmp_path, checks={"store": broken, "spawner": fine}) as host, host.client() as client:
        answer = await client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json() == {
        "ready": False,
        "checks": [
            {"name": "store", "ok": False, "why": "a fault of this host; its log has more"},
            {"name": "spawner", "ok": True},
            {"name": "open", "ok": True},
        ],
    }


async def test_a_store_that_fails_says_why(tmp_path):
    async def full():
        raise StoreUnavailable("cannot write the store: database or disk is full (SQLITE_FULL)")

    async with tiny_host(tmp_path, checks={"store": full}) as host, host.client() as client:
        answer = await client.get("/readyz")

    assert answer.json()["checks"][0]["why"] == "cannot write the store: database or disk is full (SQLITE_FULL)"


async def test_checks_run_once_for_all_who_ask(tmp_path):
    asked = 0

    async def count():
        nonlocal asked
        asked += 1
        await trio.lowlevel.checkpoint()

    async with tiny_host(tmp_path, checks={"store": count}) as host, host.client() as client, trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(client.get, "/readyz")

    assert asked == 1


async def test_metrics_need_credentials_and_tell_what_stands(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await (await host.story("task-1")).ask()
        await host.story("task-2")
        await (await host.story("task-3")).finish()
        answer = await client.get("/metrics")
        refused = await client.get("/metrics", headers={"Authorization": ""})

    lines = answer.text.splitlines()
    assert refused.status_code == 401
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'sandboxd_tasks_active{state="input-required"} 1.0' in lines
    assert 'sandboxd_tasks_active{state="working"} 1.0' in lines
    assert "sandboxd_prompts_open 1.0" in lines
    assert 'sandboxd_build_info{version="0.1.0"} 1.0' in lines
    assert 'sandboxd_answers_total{outcome="accepted"}' in answer.text
