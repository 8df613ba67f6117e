"""How is a store brought back to what an older version wrote?"""

from __future__ import annotations

from typing import Final

from sandboxd.store.schema import SCHEMA

# Of migrations: before events stood in the order that they come in, with small output beside them.
BY_TASK: Final = next(number for number, script in enumerate(SCHEMA.migrations) if "older_events" in script)
TO_BY_TASK: Final = f"""
DROP VIEW all_events;
INSERT INTO older_events SELECT task, seq, kind, body FROM events;
INSERT INTO output (task, artifact, offset, data) SELECT task, artifact, offset, data FROM events WHERE data IS NOT NULL;
DROP TABLE events;
ALTER TABLE older_events RENAME TO events;
PRAGMA user_version = {BY_TASK};
"""
