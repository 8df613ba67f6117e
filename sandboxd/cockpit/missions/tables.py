"""Which tables do missions have, in the cockpit's own file?

`body` is all of a mission; what stands beside it is there to be looked for. `is_over`: nothing is to be done about it any more.
"""

from __future__ import annotations

from typing import Final

MISSIONS: Final = """
CREATE TABLE missions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    mission_id TEXT NOT NULL UNIQUE,
    host TEXT NOT NULL,
    task_id TEXT,
    rev INTEGER NOT NULL,
    state TEXT NOT NULL,
    is_over INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX missions_of_task ON missions (host, task_id) WHERE task_id IS NOT NULL;
CREATE INDEX missions_going_on ON missions (number) WHERE is_over = 0;

-- Each change of state that people see, in order; a channel keeps how far it has come.
CREATE TABLE mission_news (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    mission INTEGER NOT NULL REFERENCES missions,
    rev INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    way_out TEXT NOT NULL
) STRICT;
"""
