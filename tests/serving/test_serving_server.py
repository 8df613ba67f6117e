"""Does every connection end in bounded time, whatever its client does, and however its requests go through Quart?"""

from __future__ import annotations

import contextlib

import attrs
import httpx
import pytest
import quart
import trio
import trio.testing
from quart_trio import QuartTrio

from sandboxd import metrics
from sandboxd.serving.exchange import CURRENT, Exchange
from sandboxd.serving.one_task import InOneTask
from tests.serving.door_server import CALM, QUICK, read_all, read_answer, served

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Way:
    """How the requests of a test go through Quart."""

    is_in_one_task = False


@pytest.fixture(autouse=True, params=["quart's own way", "in one task"])
def _way(request, monkeypatch):
    monkeypatch.setattr(Way, "is_in_one_task", request.param == "in one task")


def through(app):
    """The application, as it is, or with each request in one task."""
    if not Way.is_in_one_task:
        return app
    routes = InOneTask(app, refuse)

    async def in_exchange(scope, receive, send):
        exchange = Exchange(scope, receive, send, 10_000_000, QUICK.body_timeout_s)
        CURRENT.set(exchange)
        with exchange.handling:
            await routes(scope, exchange.receive, exchange.send)

    return in_exchange


async def refuse(error):
    return quart.Response(b"", getattr(error, "code", 500))


async def read_body():
    return await (CURRENT.get().body() if Way.is_in_one_task else quart.request.get_data())


def small_app(go_on=None):
    app = QuartTrio("small", static_folder=None)
    app.config["BODY_TIMEOUT"] = QUICK.body_timeout_s

    @app.route("/", methods=["GET"])
    async def root():
        return quart.Response("hello")

    @app.route("/echo", methods=["POST"])
    async def echo():
        return quart.Response(await read_body())

    @app.route("/early", methods=["POST"])
    async def early():
        return quart.Response("no", 401)

    @app.route("/flood")
    async def flood():
        async def pieces():
            while True:
                yield b"x" * 65536

        answer = quart.Response(pieces())
        answer.timeout = None
        return answer

    @app.route("/late")
    async def late():
        async def pieces():
            await go_on.wait()
            yield b"there"

        return quart.Response(pieces())

    @app.route("/wait")
    async def wait():
        await trio.sleep_forever()

    return app


async def test_an_answer_comes_over_tcp_and_unix(tmp_path):
    async with served(through(small_app()), tmp_path) as server:
        async with httpx.AsyncClient() as client:
            over_tcp = await client.get(server.url)
        async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(server.unix))) as client:
            over_unix = await client.get("http://localhost/")

    assert (over_tcp.text, over_unix.text) == ("hello", "hello")


async def test_a_connection_is_used_again_and_closed_when_idle(tmp_path):
    async with served(through(small_app()), tmp_path) as server:
        stream = await server.connect()
        for _ in range(2):
            await stream.send_all(GET)
            assert b"hello" in await read_answer(stream)
        start = trio.current_time()
        with trio.fail_after(20):
            assert await read_all(stream) == b""

    assert trio.current_time() - start < 2


async def test_a_stream_begins_before_its_first_piece_is_there(tmp_path):
    go_on = trio.Event()
    async with served(through(small_app(go_on)), tmp_path, CALM) as server:
        stream = await server.connect()
        await stream.send_all(b"GET /late HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with trio.fail_after(20):
            head = bytes(await stream.receive_some())
            assert head.startswith(b"HTTP/1.1 200 ")
            assert b"there" not in head
            go_on.set()
            assert b"there" in await read_all(stream)


async def test_the_head_of_an_answer_without_a_body_goes_out_too(tmp_path):
    async with served(through(small_app()), tmp_path, CALM) as server:
        stream = await server.connect()
        for _ in range(2):
            await stream.send_all(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with trio.fail_after(20):
                answer = bytes(await stream.receive_some())
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert answer.endswith(b"\r\n\r\n")


async def test_a_client_that_says_nothing_is_closed(tmp_path):
    async with served(through(small_app()), tmp_path) as server:
        stream = await server.connect()
        with trio.fail_after(20):
            assert await read_all(stream) == b""


async def test_a_dripping_header_is_closed(tmp_path):
    async with served(through(small_app()), tmp_path) as server:
        stream = await server.connect()

        async def drip():
            try:
                for byte in GET[:-1] * 100:
                    await stream.send_all(bytes([byte]))
                    await trio.sleep(0.02)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drip)
                await read_all(stream)
                nursery.cancel_scope.cancel()


async def test_prior_knowledge_of_http_2_is_refused(tmp_path):
    async with served(through(small_app()), tmp_path) as server:
        stream = await server.connect()
        await stream.send_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        with trio.fail_after(20):
            answer = await read_all(stream)

    assert answer.startswith(b"HTTP/1.1 505 ")
    assert b"\x00" not in answer


async def test_a_wish_to_upgrade_is_ignored(tmp_path):
    for wish in (
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n",
    ):
        async with served(through(small_app()), tmp_path) as server:
            stream = await server.connect()
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: x\r\n" + wish + b"\r\n")
            with trio.fail_after(20):
                answer = await read_answer(stream)

        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"hello")


async def test_malformed_http_is_refused_and_closed(tmp_path):
    for request in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls hello\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX\x00Y: z\r\n\r\n",
    ):
        async with served(through(small_app()), tmp_path) as server:
            stream = await server.connect()
            await stream.send_all(request)
            with trio.fail_after(20):
                answer = await read_all(stream)

        assert answer == b"" or answer.split()[1].startswith(b"4"), request


async def test_an_early_refusal_is_seen_while_the_body_still_comes(tmp_path):
    async with served(through(small_app()), tmp_path) as server:
        stream = await server.connect()
        await stream.send_all(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n")

        async def send_on():
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await stream.send_all(b"x" * 3_000_000)

        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_on)
                answer = await read_all(stream)

    assert answer.startswith(b"HTTP/1.1 401 ")


async def test_a_malformed_request_behind_one_that_is_answered_ends_the_connection(tmp_path):
    async with served(through(small_app()), tmp_path) as server:
        for connect in (server.connect, server.connect_unix):
            stream = await connect()
            await stream.send_all(b"POST /early HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n")
            with trio.fail_after(20):
                await read_all(stream)


async def test_a_body_that_stops_is_timed_out(tmp_path):
    async with served(through(small_app()), tmp_path) as server:
        stream = await server.connect()
        await stream.send_all(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        with trio.fail_after(20):
            answer = await read_all(stream)

    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_a_client_that_reads_nothing_is_dropped_after_the_stall(tmp_path):
    for connect in ("connect", "connect_unix"):
        async with served(through(small_app()), tmp_path, attrs.evolve(QUICK, stall_s=0.4)) as server:
            stream = await getattr(server, connect)()
            await stream.send_all(b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n")
            with trio.fail_after(20):
                while _connections() > 0:  # noqa: ASYNC110  # a metric is no event
                    await trio.sleep(0.02)


async def test_shutdown_closes_idle_connections_at_once(tmp_path):
    async with served(through(small_app()), tmp_path, attrs.evolve(QUICK, keep_alive_s=60, graceful_s=60)) as server:
        stream = await server.connect()
        await stream.send_all(GET)
        await read_answer(stream)
        server.closing.set()
        with trio.fail_after(20):
            await server.ended.wait()


async def test_shutdown_is_bounded_with_clients_that_never_read(tmp_path):
    async with served(through(small_app()), tmp_path, attrs.evolve(QUICK, stall_s=60)) as server:
        streams = [await server.connect(), await server.connect_unix()]
        for stream in streams:
            await stream.send_all(b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n")
            await stream.receive_some(1)
        start = trio.current_time()
        server.closing.set()
        with trio.fail_after(20):
            await server.ended.wait()

    assert trio.current_time() - start < QUICK.graceful_s + 1


async def test_what_was_waited_before_the_doors_close_counts_for_their_grace(tmp_path):
    async with served(through(small_app()), tmp_path, attrs.evolve(QUICK, stall_s=60, graceful_s=60), waited_s=59) as server:
        stream = await server.connect()
        await stream.send_all(b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n")
        await stream.receive_some(1)
        server.closing.set()
        with trio.fail_after(20):
            await server.ended.wait()


async def test_shutdown_ends_a_handler_that_waits_for_ever(tmp_path):
    async with served(through(small_app()), tmp_path) as server:
        stream = await server.connect()
        await stream.send_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
        await trio.testing.wait_all_tasks_blocked(0.05)
        server.closing.set()
        with trio.fail_after(20):
            await server.ended.wait()


async def test_a_client_that_hangs_up_cancels_its_handler(tmp_path):
    cancelled = trio.Event()
    app = small_app()

    @app.route("/watch")
    async def watch():
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with served(through(app), tmp_path) as server:
        stream = await server.connect()
        await stream.send_all(b"GET /watch HTTP/1.1\r\nHost: a\r\n\r\n")
        await trio.testing.wait_all_tasks_blocked(0.05)
        await stream.aclose()
        with trio.fail_after(20):
            await cancelled.wait()


async def test_a_client_that_ends_its_side_still_gets_its_answer(tmp_path):
    body = b"x" * 3_000_000
    app = small_app()

    @app.route("/slow", methods=["POST"])
    async def slow():
        data = await read_body()
        await trio.sleep(0.2)  # the end of the client's side comes first
        return quart.Response(data)

    async with served(through(app), tmp_path, attrs.evolve(QUICK, half_close_s=10)) as server:
        for connect in (server.connect, server.connect_unix):
            stream = await connect()
            await stream.send_all(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await stream.send_eof()
            with trio.fail_after(20):
                answer = await read_all(stream)

            assert answer.startswith(b"HTTP/1.1 200 ")
            assert answer.endswith(body)


async def test_a_full_door_says_so_and_recovers(tmp_path):
    settings = attrs.evolve(QUICK, max_connections=2, keep_alive_s=60)
    async with served(through(small_app()), tmp_path, settings) as server:
        held = [await server.connect() for _ in range(2)]
        for stream in held:
            await stream.send_all(GET)
            await read_answer(stream)
        third = await server.connect()
        with trio.fail_after(20):
            assert (await read_all(third)).startswith(b"HTTP/1.1 503 ")
        other_door = await server.connect_unix()
        await other_door.send_all(GET)
        assert b"hello" in await read_answer(other_door)
        await held[0].aclose()
        with trio.fail_after(20):
            while True:
                again = await server.connect()
                try:
                    await again.send_all(GET)
                    if (await read_answer(again)).startswith(b"HTTP/1.1 200 "):
                        break
                except (EOFError, trio.BrokenResourceError):
                    continue


async def test_no_child_inherits_a_socket(tmp_path):
    async with served(through(small_app()), tmp_path) as server:
        stream = await server.connect()
        await stream.send_all(GET)
        await read_answer(stream)
        found = await trio.run_process(["/bin/ls", "-l", "/proc/self/fd"], capture_stdout=True)

    assert b"socket:" not in found.stdout


async def test_pipelined_requests_are_answered_in_order(tmp_path):
    async with served(through(small_app()), tmp_path) as server:
        stream = await server.connect()
        await stream.send_all(GET + b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc")
        with trio.fail_after(20):
            answer = await read_all(stream)

    assert answer.index(b"hello") < answer.index(b"abc")


def _connections():
    return sum(
        sample.value
        for metric in metrics.CONNECTIONS.collect()
        for sample in metric.samples
        if sample.name == "sandboxd_connections"
    )
