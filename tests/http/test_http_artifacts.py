"""Does a client get the exact bytes, and the ranges that it asks for?"""

from __future__ import annotations

import pytest

from sandboxd.errors import RangeNotSatisfiable
from sandboxd.http.artifacts import PIECE_BYTES, Span, parse_range
from tests.http.tiny_host import tiny_host

BYTES = bytes(range(256)) * 4
PATH = "/tasks/task-1/artifacts/stdout"


async def told(host, data=BYTES):
    story = await host.story()
    await story.write(data, "stdout", last=True)
    return story


async def test_the_bytes_are_exact(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await told(host)
        answer = await client.get(PATH)
        below = await client.get(f"/agents/box{PATH}", headers={"A2A-Version": ""})

    assert answer.content == below.content == BYTES
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == str(len(BYTES))
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandboxd-cut" not in answer.headers


async def test_many_pieces_arrive_whole(tmp_path):
    data = b"0123456789abcdef" * (PIECE_BYTES // 8)
    async with tiny_host(tmp_path) as host, host.client() as client:
        await told(host, data)
        answer = await client.get(PATH)

    assert answer.content == data


async def test_a_range_is_a_part(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await told(host)
        part = await client.get(PATH, headers={"Range": "bytes=10-19"})
        tail = await client.get(PATH, headers={"Range": "bytes=-5"})
        stale = await client.get(PATH, headers={"Range": "bytes=10-19", "If-Range": '"other"'})
        outside = await client.get(PATH, headers={"Range": "bytes=5000-"})

    assert (part.status_code, part.content) == (206, BYTES[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{len(BYTES)}"
    assert tail.content == BYTES[-5:]
    assert (stale.status_code, stale.content) == (200, BYTES)
    assert (outside.status_code, outside.headers["content-range"]) == (416, f"bytes */{len(BYTES)}")


async def test_head_sends_no_bytes(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await told(host)
        answer = await client.head(PATH)

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(BYTES))


async def test_an_unchanged_artifact_is_304(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await told(host)
        first = await client.get(PATH)
        second = await client.get(PATH, headers={"If-None-Match": first.headers["etag"]})

    assert (second.status_code, second.content) == (304, b"")


async def test_a_cut_is_told(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        story = await host.story()
        await story.write(b"head", "stdout")
        await story.tell([story.wrote(b"tail", "stdout", cut=1000)])
        answer = await client.get(PATH)

    assert answer.content == b"headtail"
    assert (answer.headers["sandboxd-cut"], answer.headers["sandboxd-head"]) == ("1000", "4")
    assert answer.headers["sandboxd-complete"] == "false"


async def test_an_empty_artifact_is_empty(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await told(host, b"")
        answer = await client.get(PATH)
        part = await client.get(PATH, headers={"Range": "bytes=0-"})

    assert (answer.status_code, answer.content, part.status_code) == (200, b"", 416)


async def test_what_is_not_there_is_404(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await told(host)
        artifact = await client.get("/tasks/task-1/artifacts/stderr")
        task = await client.get("/tasks/none/artifacts/stdout")
        instance = await client.get(f"/agents/other{PATH}")

    reasons = [answer.json()["error"]["details"][0]["reason"] for answer in (artifact, task, instance)]
    assert reasons == ["ARTIFACT_NOT_FOUND", "TASK_NOT_FOUND", "TASK_NOT_FOUND"]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-0", Span(0, 1)),
        ("bytes=2-", Span(2, 10)),
        ("bytes=2-99", Span(2, 10)),
        ("bytes=-3", Span(7, 10)),
        ("bytes=-99", Span(0, 10)),
        ("bytes=0-1,3-4", None),
        ("bytes=-", None),
        ("bytes=5-2", None),
        ("lines=1-2", None),
        ("bytes=a-b", None),
        (f"bytes=0-{'9' * 30}", None),
    ],
)
def test_ranges(header, expected):
    assert parse_range(header, 10) == expected


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-20", "bytes=-0"])
def test_ranges_outside(header):
    with pytest.raises(RangeNotSatisfiable):
        parse_range(header, 10)
