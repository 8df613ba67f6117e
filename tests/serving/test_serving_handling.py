"""What does a client see of an application that fails, or leaves its answer unfinished?"""

from __future__ import annotations

import pytest
import trio

from sandboxd.serving.exchange import SEND_NOWAIT
from tests.serving.door_server import CALM, read_all, read_answer, served

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST_GET = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def say(send, *headers):
    await send({"type": "http.response.start", "status": 200, "headers": list(headers)})


async def fails(scope, receive, send):
    raise RuntimeError("a fault")


async def forgets(scope, receive, send):
    pass


async def says_what_no_header_may(scope, receive, send):
    await say(send, (b"x", b"a\r\nb"))


async def breaks_off(scope, receive, send):
    await say(send, (b"content-length", b"10"))
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise RuntimeError("a fault")


async def breaks_off_in_pieces(scope, receive, send):
    await say(send)
    await send({"type": "http.response.body", "body": b"half", "more_body": True})


async def answers(scope, receive, send):
    size = 0
    more = True
    while more:
        message = await receive()
        size += len(message["body"])
        more = message["more_body"]
    body = b"%d" % size
    await say(send, (b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.body", "body": body})


async def answer_of(app, folder, request=GET):
    async with served(app, folder, CALM) as server:
        stream = await server.connect()
        await stream.send_all(request)
        with trio.fail_after(20):
            return await read_all(stream)


@pytest.mark.parametrize("app", [fails, forgets, says_what_no_header_may])
async def test_an_application_without_an_answer_is_500_and_the_end_of_its_connection(tmp_path, app):
    answer = await answer_of(app, tmp_path)

    assert answer.startswith(b"HTTP/1.1 500 ")


@pytest.mark.parametrize("app", [breaks_off, breaks_off_in_pieces])
async def test_an_answer_that_breaks_off_is_not_taken_for_whole(tmp_path, app):
    answer = await answer_of(app, tmp_path)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"half" in answer
    assert not answer.endswith(b"0\r\n\r\n")


async def test_the_next_request_of_a_connection_is_answered_too(tmp_path):
    body = b"x" * 300_000  # more than the inbox holds
    async with served(answers, tmp_path, CALM) as server:
        stream = await server.connect()
        for _ in range(2):
            await stream.send_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n" + body)
            with trio.fail_after(20):
                assert (await read_answer(stream)).endswith(b"\r\n\r\n300000")


async def test_requests_that_come_at_once_are_answered_in_their_order(tmp_path):
    requests = b"".join(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (n, b"x" * n) for n in range(1, 6))
    async with served(answers, tmp_path, CALM) as server:
        stream = await server.connect()
        await stream.send_all(requests + b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        with trio.fail_after(20):
            answer = await read_all(stream)

    assert [part[-1:] for part in answer.split(b"HTTP/1.1 200 ")[1:]] == [b"1", b"2", b"3", b"4", b"5", b"0"]


@pytest.mark.parametrize("size", [10, 4_000_000])  # the kernel takes all of it, or some
async def test_a_piece_that_is_sent_on_the_spot_comes_whole_and_once(tmp_path, size):
    pieces = [b"first", b"x" * size, b"last"]

    async def sends_on_the_spot(scope, receive, send):
        await say(send)
        for piece in pieces:
            if not scope["extensions"][SEND_NOWAIT](piece):
                await send({"type": "http.response.body", "body": b"between", "more_body": True})
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    answer = await answer_of(sends_on_the_spot, tmp_path, LAST_GET)

    assert answer.count(b"first") == answer.count(b"last") == 1
    assert answer.count(b"x") == size
    assert answer.endswith(b"0\r\n\r\n")


async def test_a_piece_that_ended_with_one_answer_comes_in_the_next(tmp_path):
    piece = b"x" * 4_000_000  # more than the kernel takes at once

    async def sends_it_twice(scope, receive, send):
        await say(send)
        if scope["path"] == "/first":
            assert not scope["extensions"][SEND_NOWAIT](piece)  # and it does not follow: the reader is let in no more
        else:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async with served(sends_it_twice, tmp_path, CALM) as server:
        stream = await server.connect()
        await stream.send_all(b"GET /first HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await stream.send_all(LAST_GET)
        with trio.fail_after(20):
            answer = await read_all(stream)

    assert answer.count(b"x") == 2 * len(piece)
