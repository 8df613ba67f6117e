"""Which tables does the relay have in a cockpit's file?

A relayed task is a mission whose starter is a caller; what state it is in is the mission's. A relayed question is one asking
of a question of ours in other words, under an id of its own; it is `open` until it is `answered` or `closed`, and not opened
again.
"""

from __future__ import annotations

from typing import Final

RELAY: Final = """
CREATE TABLE relay_tasks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL UNIQUE,
    caller TEXT NOT NULL,
    context_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    mission_id TEXT NOT NULL UNIQUE,
    at_us INTEGER NOT NULL,
    gave_up_at_us INTEGER,
    UNIQUE (caller, message_id)
) STRICT;

CREATE TABLE relay_questions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    prompt_id TEXT NOT NULL UNIQUE,
    task INTEGER NOT NULL REFERENCES relay_tasks,
    record INTEGER NOT NULL REFERENCES prompts,
    restated TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    ends_at_us INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'closed')),
    misfits INTEGER NOT NULL DEFAULT 0,
    message_id TEXT
) STRICT;
CREATE UNIQUE INDEX relay_open ON relay_questions (task) WHERE state = 'open';
"""
