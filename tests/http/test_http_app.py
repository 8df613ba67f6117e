"""Is everything behind a door that has a lock, but for what is meant to be open?"""

from __future__ import annotations

import httpx

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
