"""A soak of some seconds: nothing is lost. Whether the daemon stays as large as it is takes minutes to tell: `make soak`."""

from __future__ import annotations

from pathlib import Path

from tests.soak.soak import soak


def test_nothing_is_lost_while_many_talk_ask_and_listen(tmp_path: Path):
    figures = soak(tmp_path, seconds=6, ptys=10, subscribers=6)

    assert [fault for fault in figures["faults"] if "grew" not in fault] == []
    assert figures["lines"] > 10
    assert figures["events_heard"] > 10
