"""Which tables hold what happened?

`views` has the fold of each task's events, but for sequence number and artifacts: those stand in the task's own short row,
because they change with every piece of output, and SQLite rewrites a row whole. A history only grows, so its messages are rows
of `history` (a view from before that table has them itself). Status times are UTC milliseconds, as on the wire: a cursor
or a `since` that a client sends back means exactly the rows that it saw.
"""

from __future__ import annotations

from typing import Final

from sandboxd.db.schema import Schema

STORE_NAME: Final = "sandboxd.sqlite3"  # below the config's `state_dir`

_FIRST: Final = """
CREATE TABLE tasks (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    instance TEXT NOT NULL,
    context_id TEXT NOT NULL,
    principal TEXT NOT NULL,
    state TEXT NOT NULL,
    is_terminal INTEGER NOT NULL,
    status_at_ms INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    artifacts TEXT NOT NULL
) STRICT;
CREATE INDEX tasks_newest ON tasks (instance, status_at_ms, id);
CREATE INDEX tasks_by_context ON tasks (instance, context_id, status_at_ms, id);
CREATE INDEX tasks_by_state ON tasks (instance, state, status_at_ms, id);
CREATE INDEX tasks_unfinished ON tasks (number) WHERE is_terminal = 0;
CREATE INDEX tasks_ended ON tasks (status_at_ms) WHERE is_terminal = 1;

CREATE TABLE views (
    task INTEGER PRIMARY KEY REFERENCES tasks ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE events (
    task INTEGER NOT NULL REFERENCES tasks ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (task, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE output (
    number INTEGER PRIMARY KEY,
    task INTEGER NOT NULL REFERENCES tasks ON DELETE CASCADE,
    artifact TEXT NOT NULL,
    offset INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (task, artifact, offset)
) STRICT;

CREATE TABLE prompts (
    id TEXT PRIMARY KEY,
    task INTEGER NOT NULL REFERENCES tasks ON DELETE CASCADE,
    state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'withdrawn', 'expired', 'ended')),
    asked_at_us INTEGER NOT NULL,
    closed_at_us INTEGER,
    message_id TEXT,
    principal TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX prompts_of_task ON prompts (task);
CREATE UNIQUE INDEX one_open_prompt ON prompts (task) WHERE state = 'open';

CREATE TABLE messages (
    task INTEGER NOT NULL REFERENCES tasks ON DELETE CASCADE,
    message_id TEXT NOT NULL,
    PRIMARY KEY (task, message_id)
) STRICT, WITHOUT ROWID;

-- What a readiness check writes.
CREATE TABLE health (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    checks INTEGER NOT NULL
) STRICT;
INSERT INTO health VALUES (1, 0);
"""

# What became of each message that was sent under idempotency/v1. The transaction that acts on a message sets `task` and
# `seq`: its answer is told again from there. A refusal has no task; it is kept as it went out. Nothing of a message stands
# here but the hash of its request, and nothing at all of an answer's payload. `number` only grows: the oldest go first.
_SENDS: Final = """
CREATE TABLE sends (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    principal TEXT NOT NULL,
    instance TEXT NOT NULL,
    message_id TEXT NOT NULL,
    hash TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    task TEXT,
    seq INTEGER,
    door TEXT,
    status INTEGER,
    headers TEXT,
    body BLOB,
    UNIQUE (principal, instance, message_id)
) STRICT;
CREATE INDEX sends_oldest ON sends (at_us);
"""

# Who did what (`audit`), and whose a task is.
_AUDIT: Final = """
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us INTEGER NOT NULL,
    principal TEXT NOT NULL,
    door TEXT NOT NULL,
    action TEXT NOT NULL CHECK (action IN ('send', 'answer', 'cancel')),
    instance TEXT NOT NULL,
    outcome TEXT NOT NULL,
    task TEXT,
    prompt TEXT,
    message TEXT
) STRICT;
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit record is never changed');
END;
CREATE INDEX tasks_by_principal ON tasks (instance, principal, status_at_ms, id);
"""

# Who is to be told of a task's news. There is no queue: `cursor` stands in the task's own log. `body` holds what is needed to
# send, credentials included. `number` is never used twice, so whoever sends notices that its config is gone.
_PUSHES: Final = """
CREATE TABLE push_configs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL REFERENCES tasks ON DELETE CASCADE,
    id TEXT NOT NULL,
    principal TEXT NOT NULL,
    extensions TEXT NOT NULL,
    body TEXT NOT NULL,
    cursor INTEGER NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    next_at_us INTEGER NOT NULL DEFAULT 0,
    is_given_up INTEGER NOT NULL DEFAULT 0,
    is_done INTEGER NOT NULL DEFAULT 0,
    UNIQUE (task, principal, id)
) STRICT;
CREATE INDEX push_configs_live ON push_configs (number) WHERE is_done = 0;

CREATE TABLE push_dead (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL REFERENCES tasks ON DELETE CASCADE,
    config_id TEXT NOT NULL,
    principal TEXT NOT NULL,
    url TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    why TEXT NOT NULL
) STRICT;
CREATE INDEX push_dead_of_task ON push_dead (task);
"""

# Whether a message is on record already is read from its task's history.
_NO_MESSAGES: Final = "DROP TABLE messages;"

# The audit record knows of push notifications, too. SQLite cannot change a CHECK, so the rows move to a new table, and so does
# the number up to which numbers have been used.
_AUDIT_PUSHES: Final = """
CREATE TABLE audit_next (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us INTEGER NOT NULL,
    principal TEXT NOT NULL,
    door TEXT NOT NULL,
    action TEXT NOT NULL CHECK (action IN ('send', 'answer', 'cancel', 'push-create', 'push-delete', 'push-retry')),
    instance TEXT NOT NULL,
    outcome TEXT NOT NULL,
    task TEXT,
    prompt TEXT,
    message TEXT,
    config TEXT,
    target TEXT
) STRICT;
INSERT INTO audit_next (number, at_us, principal, door, action, instance, outcome, task, prompt, message)
    SELECT number, at_us, principal, door, action, instance, outcome, task, prompt, message FROM audit;
DELETE FROM sqlite_sequence WHERE name = 'audit_next';
INSERT INTO sqlite_sequence (name, seq) SELECT 'audit_next', seq FROM sqlite_sequence WHERE name = 'audit';
DROP TABLE audit;
ALTER TABLE audit_next RENAME TO audit;
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit record is never changed');
END;
"""

_HISTORY: Final = """
CREATE TABLE history (
    task INTEGER NOT NULL REFERENCES tasks ON DELETE CASCADE,
    number INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (task, number)
) STRICT, WITHOUT ROWID;
"""

# A question can be asked again under another id, and who wished that stands in the audit record.
_REISSUES: Final = """
CREATE TABLE prompts_next (
    id TEXT PRIMARY KEY,
    task INTEGER NOT NULL REFERENCES tasks ON DELETE CASCADE,
    state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'withdrawn', 'expired', 'ended', 'reissued')),
    asked_at_us INTEGER NOT NULL,
    closed_at_us INTEGER,
    message_id TEXT,
    principal TEXT
) STRICT, WITHOUT ROWID;
INSERT INTO prompts_next SELECT * FROM prompts;
DROP TABLE prompts;
ALTER TABLE prompts_next RENAME TO prompts;
CREATE INDEX prompts_of_task ON prompts (task);
CREATE UNIQUE INDEX one_open_prompt ON prompts (task) WHERE state = 'open';

CREATE TABLE audit_next (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us INTEGER NOT NULL,
    principal TEXT NOT NULL,
    door TEXT NOT NULL,
    action TEXT NOT NULL CHECK (action IN ('send', 'answer', 'cancel', 'reissue', 'push-create', 'push-delete', 'push-retry')),
    instance TEXT NOT NULL,
    outcome TEXT NOT NULL,
    task TEXT,
    prompt TEXT,
    message TEXT,
    config TEXT,
    target TEXT
) STRICT;
INSERT INTO audit_next SELECT * FROM audit;
DELETE FROM sqlite_sequence WHERE name = 'audit_next';
INSERT INTO sqlite_sequence (name, seq) SELECT 'audit_next', seq FROM sqlite_sequence WHERE name = 'audit';
DROP TABLE audit;
ALTER TABLE audit_next RENAME TO audit;
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit record is never changed');
END;
"""

# How many tasks there are of each kind, kept by whatever changes that: a list says how many it has in all, and to count them
# takes longer the more there are (100,000: 13 ms, for a page that is read in 6).
_TOTALS: Final = """
CREATE TABLE totals (
    instance TEXT NOT NULL,
    principal TEXT NOT NULL,
    state TEXT NOT NULL,
    tasks INTEGER NOT NULL CHECK (tasks >= 0),
    PRIMARY KEY (instance, principal, state)
) STRICT, WITHOUT ROWID;
INSERT INTO totals SELECT instance, principal, state, count(*) FROM tasks GROUP BY instance, principal, state;
CREATE TRIGGER task_is_counted AFTER INSERT ON tasks
BEGIN
    INSERT INTO totals VALUES (new.instance, new.principal, new.state, 1)
        ON CONFLICT (instance, principal, state) DO UPDATE SET tasks = tasks + 1;
END;
CREATE TRIGGER task_is_counted_elsewhere AFTER UPDATE OF state ON tasks WHEN new.state <> old.state
BEGIN
    INSERT INTO totals VALUES (new.instance, new.principal, new.state, 1)
        ON CONFLICT (instance, principal, state) DO UPDATE SET tasks = tasks + 1;
    UPDATE totals SET tasks = tasks - 1
        WHERE instance = old.instance AND principal = old.principal AND state = old.state;
END;
CREATE TRIGGER task_is_counted_no_more AFTER DELETE ON tasks
BEGIN
    UPDATE totals SET tasks = tasks - 1
        WHERE instance = old.instance AND principal = old.principal AND state = old.state;
    DELETE FROM totals WHERE instance = old.instance AND principal = old.principal AND tasks = 0; -- principals come and go
END;
"""

# The audit record becomes a chain (`sandboxd.chain`); what was there before has no hash, up to `older_to`. What goes by its age
# goes from the beginning: `number` and `hash` are of the last one that went, behind which the chain stands.
_AUDIT_CHAIN: Final = """
ALTER TABLE audit ADD COLUMN links TEXT;
ALTER TABLE audit ADD COLUMN previous TEXT;
ALTER TABLE audit ADD COLUMN hash TEXT;
CREATE TABLE audit_begins (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL,
    hash TEXT NOT NULL,
    older_to INTEGER NOT NULL
) STRICT;
INSERT INTO audit_begins SELECT 1, coalesce((SELECT min(number) - 1 FROM audit), seq), printf('%064d', 0), seq FROM
    (SELECT coalesce(max(seq), 0) AS seq FROM sqlite_sequence WHERE name = 'audit');
CREATE TRIGGER audit_goes_from_its_beginning BEFORE DELETE ON audit
    WHEN OLD.number > (SELECT number FROM audit_begins)
BEGIN
    SELECT RAISE(ABORT, 'the audit record goes from its beginning alone');
END;
"""

# Large pieces of output stand in files (`files`): their `data` is empty, and `size` and `checksum` are set, which are NULL of
# every other one. A file without a task is to be removed; its number is its name, and never used twice.
_FILES: Final = """
CREATE TABLE files (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER REFERENCES tasks ON DELETE SET NULL,
    artifact TEXT NOT NULL,
    size INTEGER NOT NULL,
    UNIQUE (task, artifact)
) STRICT;
ALTER TABLE output ADD COLUMN size INTEGER;
ALTER TABLE output ADD COLUMN checksum INTEGER;
"""

# The question that a task is about to ask, on disk before its silence is over: event `after` + 1, as its row of `events` would
# hold it. It counts while the task stands at `after`; once that has moved on, the row says nothing.
_FORESEEN: Final = """
CREATE TABLE foreseen (
    task INTEGER PRIMARY KEY REFERENCES tasks ON DELETE CASCADE,
    after INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
"""

# What happens is put at the table's end, whosesoever it is, and small output with it (`data`): in the order of `older_events`,
# by task, each task that writes had pages of its own in a commit, and others for its output (ten tasks: 32 pages, and 13 so; a
# hundred: 274, and 80). What `older_events` has stays there, and goes by its age. A piece of output is found from the `is_mark`
# before it: an artifact's first piece, and each that reaches a further 64 KiB of it, wherever its bytes are.
_EVENTS_AS_THEY_COME: Final = """
ALTER TABLE events RENAME TO older_events;
CREATE TABLE events (
    number INTEGER PRIMARY KEY,
    task INTEGER NOT NULL REFERENCES tasks ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    artifact TEXT,
    offset INTEGER,
    is_mark INTEGER NOT NULL,
    data BLOB,
    UNIQUE (task, seq)
) STRICT;
CREATE INDEX events_marks ON events (task, artifact, offset) WHERE is_mark = 1;
CREATE VIEW all_events AS
    SELECT task, seq, kind, body, CAST(NULL AS BLOB) AS data FROM older_events -- a type, without which all is read and sorted
    UNION ALL SELECT task, seq, kind, body, data FROM events;
"""

_MIGRATIONS: Final = (
    _FIRST,
    _SENDS,
    _AUDIT,
    _PUSHES,
    _NO_MESSAGES,
    _AUDIT_PUSHES,
    _HISTORY,
    _REISSUES,
    _TOTALS,
    _AUDIT_CHAIN,
    _FILES,
    _FORESEEN,
    _EVENTS_AS_THEY_COME,
)

SCHEMA: Final = Schema(application_id=0x53424F58, migrations=_MIGRATIONS)  # "SBOX"
