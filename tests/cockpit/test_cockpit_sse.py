"""Are the events of a stream read in any pieces, and within their bounds?"""

from __future__ import annotations

import pytest

from sandboxd.cockpit import sse
from sandboxd.cockpit.sse import EVENT_MAX_BYTES, Events, TooLong


def test_an_event_has_a_bound_whatever_its_lines_are(monkeypatch):
    most = 64 * 1024
    monkeypatch.setattr(sse, "EVENT_MAX_BYTES", most)
    for line in (b"data:\n", b"id: 7\n", b": comment\n", b"x\n"):
        with pytest.raises(TooLong):
            list(Events().feed(line * (most // len(line) + 1)))
    with pytest.raises(TooLong):
        list(Events().feed(b"x" * (most + 1)))


def test_an_event_may_come_in_any_pieces():
    text = "id: 7\r\ndata: {\r\ndata: \u2028}\r\n\r\n: ping\n\ndata: next\n\n".encode()
    whole = [(7, "{\n\u2028}"), (7, "next")]
    for size in (1, 2, 3, 5, len(text)):
        events = Events()
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        assert [event for piece in pieces for event in events.feed(piece)] == whole


def test_bytes_that_drip_cost_no_more_than_the_same_bytes_at_once():
    events = Events()
    list(events.feed(b"data: " + b"x" * (EVENT_MAX_BYTES // 2)))
    for _ in range(20_000):  # each as much as all of it, were the line put together anew with each: minutes
        assert list(events.feed(b"x")) == []
    ((_, data),) = events.feed(b"\n\n")
    assert len(data) == EVENT_MAX_BYTES // 2 + 20_000
