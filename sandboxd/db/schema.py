"""Which tables does the file have, and how does an older file get them?

Forward only: `PRAGMA user_version` counts the migrations that were done; each runs in one transaction together with its
count, so a crash leaves a file that is at one version or the next. A file of a newer version is never touched.
"""

from __future__ import annotations

import sqlite3

from sandboxd.db.connection import DatabaseUnavailable
from sandboxd.values import frozen


@frozen
class Schema:
    """What a file is for: a number of our own that marks it (`PRAGMA application_id`), and its migrations, oldest first."""

    application_id: int
    migrations: tuple[str, ...]


def check_belongs(connection: sqlite3.Connection, schema: Schema) -> None:
    """Refuse somebody else's database, and one that a newer version has migrated."""
    (marked,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if marked != schema.application_id and (marked or version or tables):
        raise DatabaseUnavailable(f"it is a database of another program (application id {marked})")
    if version > len(schema.migrations):
        raise DatabaseUnavailable(
            f"its schema has version {version}, and this version of sandboxd knows {len(schema.migrations)} at most; "
            "run the newer version, or restore the copy that was made before the upgrade"
        )


def migrate(connection: sqlite3.Connection, schema: Schema) -> int:
    """Do the migrations that the file has not had yet; how many were done."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number, script in enumerate(schema.migrations[version:], start=version + 1):
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE;\nPRAGMA application_id = {schema.application_id};\n{script}\n;\n"
                f"PRAGMA user_version = {number};\nCOMMIT;"
            )
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise DatabaseUnavailable(f"its schema cannot be brought to version {number}: {error}") from error
    return len(schema.migrations) - int(version)
