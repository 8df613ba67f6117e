"""Which tables do channels have in a cockpit's file?

A channel is a cursor on the news: `news` is the last piece that is settled there, `tries` and `retry_at_us` are about the next
one. What was given up stands in `channel_letters`; the ids of signed answers in `channel_answers`, so that none counts twice.
"""

from __future__ import annotations

from typing import Final

CHANNELS: Final = """
CREATE TABLE channel_cursors (
    channel TEXT PRIMARY KEY,
    news INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    retry_at_us INTEGER
) STRICT;

CREATE TABLE channel_letters (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    channel TEXT NOT NULL,
    news INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    why TEXT NOT NULL
) STRICT;

CREATE TABLE channel_answers (
    channel TEXT NOT NULL,
    id TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    PRIMARY KEY (channel, id)
) STRICT;
"""
