"""Is everything behind a door that has a lock, but for what is meant to be open?"""

from __future__ import annotations

import httpx
import pytest

from sandboxd.http.app import KNOWN, OPEN, host_routes, routes
from tests.http.tiny_host import tiny_host


def test_only_these_paths_are_open():
    found = {route.path for route in (*routes(), *host_routes()) if route.access == OPEN}

    assert found == {
        "/.well-known/agent-card.json",
        "/.well-known/agent.json",
        "/.well-known/jwks.json",
        "/schemas/<path:name>",
        "/healthz",
        "/readyz",
    }


async def test_every_other_path_refuses_whoever_is_unknown(tmp_path):
    where = {"<ref>": "task-1", "<config>": "c", "<artifact_id>": "stdout", "<path:name>": "none", "<tenant:tenant>": "acme"}
    asked = 0
    async with tiny_host(tmp_path) as host, httpx.AsyncClient(base_url=host.server.url) as anyone:
        for route in (*routes(), *host_routes()):
            path = route.path
            for hole, value in where.items():
                path = path.replace(hole, value)
            for prefix in ("", "/agents/box") if route in routes() else ("",):
                for method in route.methods.split():
                    headers = {"A2A-Version": (route.speaks or ("1.0",))[0]}
                    answer = await anyone.request(method, prefix + path, headers=headers)
                    asked += 1

                    assert (answer.status_code == 401) == (route.access == KNOWN), (method, prefix + path)

    assert asked > 40


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/agents/box/tasks", 200),
        ("/tasks", 200),
        ("//tasks", 200),
        ("/acme/tasks", 200),
        ("/agents/box/acme/tasks", 200),
        ("/agents/other/tasks", 200),
        ("/agents/box/agents/box/tasks", 404),
        ("/agents/nobody/tasks", 404),
        ("/agents//tasks", 404),
        ("/agents/box//tasks", 404),
        ("/metrics/tasks", 404),
        ("/healthz", 200),
        ("/agents/box/healthz", 404),
        ("/agents/box/metrics", 404),
        ("/", 405),
        ("/agents/box", 405),
        ("/agents/box/", 405),
        ("/agents", 404),
        ("/agents/", 404),
    ],
)
async def test_a_path_without_an_instance_means_the_default_one(tmp_path, path, status):
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.get(host.server.url + path)

    assert answer.status_code == status
