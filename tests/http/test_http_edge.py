"""Does the edge count every body, and say on every answer what was activated?"""

from __future__ import annotations

import json

import httpx
import quart
import trio
from quart_trio import QuartTrio

from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT
from sandboxd.http.auth import Gate
from sandboxd.http.edge import Edge
from sandboxd.http.presence import Presence
from sandboxd.serving.exchange import CURRENT
from sandboxd.serving.one_task import InOneTask
from tests.serving.door_server import CALM, read_all, read_answer, served

LIMIT = 1000


async def refuse(error):
    return quart.Response(b"", error.code)


def app_behind_the_edge():
    app = QuartTrio("small", static_folder=None)

    @app.route("/message:send", methods=["POST"])
    @app.route("/", methods=["POST"], endpoint="root")
    @app.route("/v1/x", methods=["POST"], endpoint="v1")
    async def size():
        return quart.Response(str(len(await CURRENT.get().body())))

    return Edge(InOneTask(app, refuse), Presence(Gate((), lambda: None)), max_body_bytes=LIMIT)


async def post(url, **more):
    async with httpx.AsyncClient() as client:
        return await client.post(url, **more)


async def test_a_body_at_the_limit_is_read(tmp_path):
    async with served(app_behind_the_edge(), tmp_path) as server:
        answer = await post(f"{server.url}/message:send", content=b"x" * LIMIT)

    assert answer.text == str(LIMIT)


async def test_a_body_over_the_limit_is_refused_by_its_length(tmp_path):
    async with served(app_behind_the_edge(), tmp_path) as server:
        answer = await post(f"{server.url}/message:send", content=b"x" * (LIMIT + 1))

    assert answer.status_code == 413
    assert answer.json()["error"]["details"][0]["reason"] == "REQUEST_TOO_LARGE"
    assert answer.headers["connection"] == "close"


async def test_a_chunked_body_over_the_limit_is_refused_before_it_ends(tmp_path):
    async with served(app_behind_the_edge(), tmp_path) as server:
        stream = await server.connect()
        await stream.send_all(b"POST /message:send HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent = 0

        async def flood():
            nonlocal sent
            try:
                while True:
                    await stream.send_all(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
                    sent += 0x10000
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(flood)
                answer = await read_all(stream)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert sent < 50_000_000


async def test_a_body_with_two_lengths_is_refused_and_the_connection_closed(tmp_path):
    async with served(app_behind_the_edge(), tmp_path) as server:
        stream = await server.connect()
        head = b"POST /message:send HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
        await stream.send_all(head + b"3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
        with trio.fail_after(20):
            answer = await read_all(stream)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_the_refusal_is_spelled_as_its_door_spells(tmp_path):
    async with served(app_behind_the_edge(), tmp_path) as server:
        rpc = await post(f"{server.url}/", content=b"x" * 2000)
        problem = await post(f"{server.url}/v1/messages:send", content=b"x" * 2000)

    assert (rpc.status_code, problem.status_code) == (413, 413)
    assert rpc.json()["error"]["code"] == -32600
    assert problem.headers["content-type"] == "application/problem+json"
    assert problem.json()["code"] == "request.too_large"


async def test_activated_extensions_are_echoed(tmp_path):
    headers = [("A2A-Extensions", f"urn:unknown, {HITL_PROMPT}"), ("A2A-Extensions", ADAPTER_COMMAND)]
    async with served(app_behind_the_edge(), tmp_path) as server:
        found = await post(f"{server.url}/message:send", content=b"", headers=headers)
        unknown_path = await post(f"{server.url}/nowhere", headers=headers)
        refused = await post(f"{server.url}/message:send", content=b"x" * 2000, headers=headers)

    for answer in (found, unknown_path, refused):
        assert answer.headers["a2a-extensions"] == f"{HITL_PROMPT}, {ADAPTER_COMMAND}"
        assert "x-a2a-extensions" not in answer.headers


async def test_the_header_of_0_3_is_echoed_too(tmp_path):
    async with served(app_behind_the_edge(), tmp_path) as server:
        answer = await post(f"{server.url}/message:send", content=b"", headers={"X-A2A-Extensions": HITL_PROMPT})

    assert answer.headers["x-a2a-extensions"] == HITL_PROMPT
    assert answer.headers["a2a-extensions"] == HITL_PROMPT


async def test_nothing_is_echoed_without_activation(tmp_path):
    async with served(app_behind_the_edge(), tmp_path) as server:
        answer = await post(f"{server.url}/message:send", content=b"", headers={"A2A-Extensions": "urn:unknown"})

    assert "a2a-extensions" not in answer.headers


async def test_a_refused_body_leaves_the_server_usable(tmp_path):
    async with served(app_behind_the_edge(), tmp_path, CALM) as server:
        for _ in range(20):
            assert (await post(f"{server.url}/message:send", content=b"x" * 100_000)).status_code == 413
        answer = await post(f"{server.url}/message:send", content=json.dumps({}).encode())

    assert answer.text == "2"


async def test_a_target_may_name_the_host_too(tmp_path):
    async with served(app_behind_the_edge(), tmp_path, CALM) as server:
        stream = await server.connect()
        await stream.send_all(b"POST http://a/v1/x?y HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
        with trio.fail_after(20):
            answer = await read_answer(stream)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\n3")


async def test_a_target_that_names_no_host_well_is_answered_like_any_other(tmp_path):
    async with served(app_behind_the_edge(), tmp_path, CALM) as server:
        for target, status in ((b"http://[a/v1/x", b"200"), (b"http://[a", b"200"), (b"http://", b"200"), (b"v1", b"404")):
            stream = await server.connect()
            await stream.send_all(b"POST " + target + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
            with trio.fail_after(20):
                assert (await read_answer(stream)).startswith(b"HTTP/1.1 " + status), target


async def test_a_host_that_is_none_is_400(tmp_path):
    async with served(app_behind_the_edge(), tmp_path) as server:
        for path in ("/", "/message:send"):
            stream = await server.connect()
            await stream.send_all(f"POST {path} HTTP/1.1\r\nHost: {'x' * 70}.example\r\nContent-Length: 0\r\n\r\n".encode())
            answer = await read_all(stream)

            assert answer.startswith(b"HTTP/1.1 400 ")
            assert b"ill-formed" in answer
