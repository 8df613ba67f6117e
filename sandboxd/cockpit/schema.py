"""Which tables does a cockpit's file have?

One transaction changes a question's row, what is to be done (`wires`: one call a question, the newest; `news`: what people are
told, in order) and the audit. `wake_at_us` is when somebody has to look at the clock again.
"""

from __future__ import annotations

from typing import Final

from sandboxd.cockpit.channels.tables import CHANNELS
from sandboxd.cockpit.missions.tables import MISSIONS
from sandboxd.cockpit.receipts.tables import RECEIPTS
from sandboxd.cockpit.relay.tables import RELAY
from sandboxd.cockpit.web.session_rows import SESSIONS
from sandboxd.db.schema import Schema

_FIRST: Final = """
CREATE TABLE prompts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    host TEXT NOT NULL,
    prompt_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    context_id TEXT NOT NULL,
    envelope TEXT NOT NULL,
    links TEXT NOT NULL,
    rev INTEGER NOT NULL,
    status TEXT NOT NULL,
    phase TEXT NOT NULL,
    step TEXT NOT NULL,
    asked_at_us INTEGER NOT NULL,
    is_told INTEGER NOT NULL DEFAULT 0,
    wake_at_us INTEGER,
    body TEXT NOT NULL,
    UNIQUE (host, prompt_id)
) STRICT;
CREATE INDEX prompts_of_task ON prompts (host, task_id);
CREATE INDEX prompts_due ON prompts (wake_at_us) WHERE wake_at_us IS NOT NULL;
CREATE INDEX prompts_unfinished ON prompts (number) WHERE phase <> 'closed';
CREATE TRIGGER a_closed_prompt_is_never_changed BEFORE UPDATE ON prompts WHEN OLD.phase = 'closed'
BEGIN
    SELECT RAISE(ABORT, 'a closed prompt is never changed');
END;

CREATE TABLE wires (
    prompt INTEGER PRIMARY KEY REFERENCES prompts,
    rev INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE news (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    prompt INTEGER NOT NULL REFERENCES prompts,
    rev INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    what TEXT NOT NULL,
    route TEXT NOT NULL,
    why TEXT NOT NULL
) STRICT;

-- What was seen of tasks that ask, and cannot be asked here.
CREATE TABLE sightings (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    host TEXT NOT NULL,
    task_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('observed', 'malformed')),
    at_us INTEGER NOT NULL,
    text TEXT NOT NULL,
    why TEXT NOT NULL,
    gone_at_us INTEGER,
    UNIQUE (host, task_id, digest)
) STRICT;

CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE audit_of_prompt (
    prompt_id TEXT NOT NULL,
    host TEXT NOT NULL,
    number INTEGER NOT NULL REFERENCES audit,
    PRIMARY KEY (prompt_id, host, number)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER the_audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is never changed');
END;
CREATE TRIGGER the_audit_is_never_shortened BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is never shortened');
END;
"""

# A question may wait at its host for room (`room`). A CHECK cannot be changed, so the table is made anew.
_POSTPONED: Final = """
CREATE TABLE sightings_now (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    host TEXT NOT NULL,
    task_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('observed', 'malformed', 'postponed')),
    at_us INTEGER NOT NULL,
    text TEXT NOT NULL,
    why TEXT NOT NULL,
    gone_at_us INTEGER,
    UNIQUE (host, task_id, digest)
) STRICT;
INSERT INTO sightings_now (number, host, task_id, digest, kind, at_us, text, why, gone_at_us)
    SELECT number, host, task_id, digest, kind, at_us, text, why, gone_at_us FROM sightings;
DROP TABLE sightings;
ALTER TABLE sightings_now RENAME TO sightings;
"""

_MIGRATIONS: Final = (_FIRST, MISSIONS, CHANNELS, RELAY, RECEIPTS, SESSIONS, _POSTPONED)
SCHEMA: Final = Schema(application_id=0x434B5054, migrations=_MIGRATIONS)  # "CKPT"
