"""Do streams tell everything once, in order, and end when they should?"""

from __future__ import annotations

import contextlib
import json
from typing import Any, cast

import attrs
import httpx
import pytest
import trio
import trio.testing
from quart_trio import QuartTrio

from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT
from sandboxd.errors import InvalidParams
from sandboxd.http.sse import event_stream, last_event_id
from sandboxd.operations.stream import StreamEvent
from sandboxd.serving.streaming import COMMENT, event
from sandboxd.store.base import Entry, StoreUnavailable
from sandboxd.tasks.view import fold
from tests.http.test_http_rest import COMMAND
from tests.http.tiny_host import message, rpc, tiny_host
from tests.serving.door_server import QUICK, served


@attrs.define
class Listening:
    """A reader of one stream."""

    answer: httpx.Response
    pings: int = 0
    lines: Any = None

    async def next(self):
        """The next event as (id, value, event), None at the end."""
        if self.lines is None:
            self.lines = self.answer.aiter_lines()
        event = {}
        async for line in self.lines:
            if line.startswith(":"):
                self.pings += 1
            elif line:
                name, _, value = line.partition(": ")
                event[name] = value
            elif event:
                number = event.get("id")
                return int(number) if number else None, json.loads(event["data"]), event.get("event")
        return None

    async def rest(self):
        found = []
        while (event := await self.next()) is not None:
            found.append(event)
        return found


@contextlib.asynccontextmanager
async def listen(client, method, path, **more):
    with trio.fail_after(10):
        async with client.stream(method, path, timeout=10, **more) as answer:
            yield Listening(answer)


async def subscribe_raw(host, stream):
    """Subscribe, and read no more than the first bytes of the answer."""
    head = f"POST /tasks/task-1:subscribe HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {host.token}\r\nA2A-Version: 1.0\r\n"
    await stream.send_all(head.encode() + b"Content-Length: 0\r\n\r\n")
    await stream.receive_some(10)
    return stream


def kinds(events):
    return [(number, next(iter(value))) for number, value, _ in events]


async def test_a_stream_tells_the_task_and_then_every_event(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        story = await host.story()
        async with listen(client, "POST", "/tasks/task-1:subscribe") as stream:
            first = await stream.next()
            await story.write(b"hello\n")
            await story.finish()
            rest = await stream.rest()

    assert stream.answer.headers["content-type"].startswith("text/event-stream")
    assert stream.answer.headers["cache-control"] == "no-store"
    assert stream.answer.headers["x-accel-buffering"] == "no"
    assert kinds([first, *rest]) == [(2, "task"), (3, "artifactUpdate"), (4, "statusUpdate")]


@pytest.mark.parametrize("comes", ["as expected", "something else"])
async def test_what_was_expected_is_told_as_it_stands_on_record(tmp_path, comes):
    async with tiny_host(tmp_path) as host, host.client() as client:
        story = await host.story()
        asked = Entry(story.asked())
        view, feed = fold(story.view, asked.event), host.doors.host.feed
        async with listen(client, "POST", "/tasks/task-1:subscribe") as stream:
            await stream.next()
            await feed.store.foresee(feed.store.prepared(asked, view, after=2), view, after=2)
            feed.expect(asked, view)
            await trio.testing.wait_all_tasks_blocked()
            if comes == "as expected":
                feed.tell(asked, view)
                told = await stream.next()
                await story.tell([asked])
            else:
                await story.write(b"hello\n")
                told = await stream.next()
            await story.finish()
            rest = await stream.rest()
        async with listen(client, "POST", "/tasks/task-1:subscribe", headers={"Last-Event-ID": "2"}) as stream:
            replayed = await stream.rest()

    assert [told, *rest] == replayed[1:]
    assert [number for number, _, _ in replayed] == [2, 3, 4]


async def test_get_subscribes_too(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        story = await host.story()
        async with listen(client, "GET", "/agents/box/tasks/task-1:subscribe") as stream:
            await stream.next()
            await story.finish()
            assert kinds(await stream.rest()) == [(3, "statusUpdate")]


async def test_a_silent_stream_is_kept_alive(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        story = await host.story()
        async with listen(client, "POST", "/tasks/task-1:subscribe") as stream:
            await stream.next()
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def end_after_three_pings():
                    while stream.pings < 3:  # noqa: ASYNC110  # the reader below counts
                        await trio.sleep(0.01)
                    await story.finish()

                assert kinds(await stream.rest()) == [(3, "statusUpdate")]


async def test_replay_begins_with_the_task_as_it_stood(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        story = await host.story()
        await story.write(b"one\n")
        await story.write(b"two\n")
        async with listen(client, "POST", "/tasks/task-1:subscribe", headers={"Last-Event-ID": "3"}) as stream:
            first = await stream.next()
            second = await stream.next()
            await story.finish()
            rest = await stream.rest()

    assert kinds([first, second, *rest]) == [(3, "task"), (4, "artifactUpdate"), (5, "statusUpdate")]
    assert first[1]["task"]["artifacts"][0]["parts"][0]["text"] == "one\n"
    assert second[1]["artifactUpdate"]["artifact"]["parts"][0]["text"] == "two\n"


async def test_replay_of_an_ended_task_tells_the_rest_and_closes(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        story = await host.story()
        await story.finish()
        async with listen(client, "POST", "/tasks/task-1:subscribe", headers={"Last-Event-ID": "1"}) as stream:
            events = await stream.rest()
        async with listen(client, "POST", "/tasks/task-1:subscribe", headers={"Last-Event-ID": "3"}) as stream:
            at_the_end = await stream.rest()

    assert kinds(events) == [(1, "task"), (2, "statusUpdate"), (3, "statusUpdate")]
    assert kinds(at_the_end) == [(3, "task")]


async def test_an_ended_task_without_replay_is_a_plain_refusal(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await (await host.story()).finish()
        answer = await client.post("/tasks/task-1:subscribe")
        by_rpc = await client.post("/", json=rpc("SubscribeToTask", {"id": "task-1"}))

    assert answer.status_code == 400
    assert answer.json()["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"
    assert by_rpc.json()["error"]["code"] == -32004


@pytest.mark.parametrize("number", ["0", "99", "-1", "x", "1e3", "١"])
async def test_a_number_that_never_was_is_refused(tmp_path, number):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await host.story()
        answer = await client.post("/tasks/task-1:subscribe", headers={"Last-Event-ID": number.encode()})

    assert answer.status_code == 400
    assert answer.json()["error"]["details"][1]["fieldViolations"][0]["field"] == "Last-Event-ID"


async def test_json_rpc_wraps_each_event(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        story = await host.story()
        async with listen(client, "POST", "/", json=rpc("SubscribeToTask", {"id": "task-1"}, "q")) as stream:
            first = await stream.next()
            await story.finish()
            rest = await stream.rest()

    for number, value, _ in [first, *rest]:
        assert (value["jsonrpc"], value["id"]) == ("2.0", "q")
        assert set(value["result"]) == ({"task"} if number == 2 else {"statusUpdate"})


async def test_the_stream_of_a_send_closes_when_input_is_required(tmp_path):
    body = {"message": message(metadata={ADAPTER_COMMAND: {**COMMAND, "input_mode": "text-line"}})}
    async with (
        tiny_host(tmp_path) as host,
        host.client(**{"A2A-Extensions": HITL_PROMPT}) as client,
        listen(client, "POST", "/message:stream", json=body) as sent,
    ):
        task_id = (await sent.next())[1]["task"]["id"]
        story = host.runs.stories[task_id]
        async with listen(client, "POST", f"/tasks/{task_id}:subscribe") as subscribed:
            await subscribed.next()
            await story.ask()
            asked = await sent.rest()
            heard = [await subscribed.next()]
            await story.finish()
            heard += await subscribed.rest()

    assert sent.answer.headers["a2a-extensions"] == HITL_PROMPT
    assert asked[-1][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert HITL_PROMPT in asked[-1][1]["statusUpdate"]["status"]["message"]["metadata"]
    assert [event[1]["statusUpdate"]["status"]["state"] for event in heard] == [
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_COMPLETED",
    ]


async def test_a_refused_send_is_no_stream(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.post("/message:stream", json={"message": message(taskId="none")})

    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")


async def test_two_streams_hear_the_same_and_one_that_leaves_ends_alone(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        story = await host.story()
        async with (
            listen(client, "POST", "/tasks/task-1:subscribe") as one,
            listen(client, "POST", "/tasks/task-1:subscribe") as two,
        ):
            assert await one.next() == await two.next()
            third = await subscribe_raw(host, await host.server.connect())
            await third.aclose()
            await story.write(b"x")
            await story.finish()
            assert await one.rest() == await two.rest() != []


async def test_a_slow_reader_holds_up_nobody(tmp_path):
    settings = attrs.evolve(QUICK, stall_s=30)
    async with tiny_host(tmp_path, settings) as host, host.client() as client:
        story = await host.story()
        await subscribe_raw(host, await host.server.connect(receive_buffer=4096))
        async with listen(client, "POST", "/tasks/task-1:subscribe") as fast:
            await fast.next()
            with trio.fail_after(10):
                for _ in range(100):
                    await story.write(b"y" * 50_000)
                await story.finish()
                heard = await fast.rest()

    assert len(heard) == 101


async def test_streams_end_when_the_doors_close(tmp_path):
    settings = attrs.evolve(QUICK, graceful_s=60)
    async with tiny_host(tmp_path, settings) as host, host.client() as client:
        await host.story()
        async with listen(client, "POST", "/tasks/task-1:subscribe") as stream:
            await stream.next()
            host.doors.closing.set()
            assert await stream.rest() == []
        with trio.fail_after(20):
            await host.server.ended.wait()


async def test_the_doors_close_in_time_with_listeners_that_never_read(tmp_path):
    settings = attrs.evolve(QUICK, stall_s=60)
    async with tiny_host(tmp_path, settings) as host:
        story = await host.story()
        for stream in (await host.server.connect(receive_buffer=4096), await host.server.connect_unix()):
            await subscribe_raw(host, stream)
        for _ in range(100):
            await story.write(b"y" * 50_000)
        await trio.testing.wait_all_tasks_blocked(0.05)
        start = trio.current_time()
        host.doors.closing.set()
        with trio.fail_after(20):
            await host.server.ended.wait()

    assert trio.current_time() - start < settings.graceful_s + 1


@contextlib.asynccontextmanager
async def breaking_stream():
    """A stream whose store fails after one event."""

    async def events():
        yield StreamEvent(3, None)  # type: ignore[arg-type]  # the encoder below looks at nothing
        raise StoreUnavailable("cannot read the store: disk full at /secret")

    async with contextlib.aclosing(events()) as found:
        yield found


async def test_what_breaks_after_the_first_byte_is_an_event(tmp_path):
    app = QuartTrio("small", static_folder=None)

    @app.route("/")
    async def follow():
        return event_stream(
            cast(Any, breaking_stream()),
            encode=lambda _: {"task": {}},
            encode_refusal=lambda refusal: {"error": refusal.message},
            closing=trio.Event(),
            ping_s=1,
        )

    async with served(app, tmp_path) as server, httpx.AsyncClient() as client, listen(client, "GET", server.url) as stream:
        events = await stream.rest()

    assert events == [
        (3, {"task": {}}, None),
        (None, {"error": "cannot serve the request: the store is not available"}, "error"),
    ]


async def test_a_last_event_id_by_json_rpc(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await (await host.story()).finish()
        call = rpc("SubscribeToTask", {"id": "task-1"})
        async with listen(client, "POST", "/rpc", json=call, headers={"Last-Event-ID": "2"}) as stream:
            events = await stream.rest()

    assert [number for number, _, _ in events] == [2, 3]


def test_a_frame_is_three_lines():
    assert event({"a": "b\n\u2028c"}, number=3) == b'id: 3\ndata: {"a":"b\\n\\u2028c"}\n\n'
    assert COMMENT.startswith(b":")
    assert COMMENT.endswith(b"\n\n")


def test_an_empty_last_event_id_is_none():
    assert last_event_id(None) is None
    assert last_event_id(" ") is None
    assert last_event_id("7") == 7
    with pytest.raises(InvalidParams):
        last_event_id("9" * 16)
