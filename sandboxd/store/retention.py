"""What goes when its time is over, and where does its space go?

A task's row outlives its events, and both may outlive its output. What is gone is said to be gone: a cursor into pruned events
is refused, and an artifact whose bytes were dropped has them all in its cut.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence

import attrs

from sandboxd.store.codec import decode_artifacts, encode_artifacts


def deletion(task_id: str) -> Callable[[sqlite3.Connection], int]:
    """The work that deletes an ended task; it returns how many went."""

    def delete(connection: sqlite3.Connection) -> int:
        # Events, output and prompts go with it (ON DELETE CASCADE).
        return connection.execute("DELETE FROM tasks WHERE id = ? AND is_terminal = 1", (task_id,)).rowcount

    return delete


def without_events(number: int) -> Callable[[sqlite3.Connection], None]:
    """The work that deletes an ended task's events; the output that stands in their rows is kept in rows of its own."""

    def delete(connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT INTO output (task, artifact, offset, data)"
            " SELECT task, artifact, offset, data FROM events WHERE task = ? AND data IS NOT NULL",
            (number,),
        )
        _delete_events(connection, number)

    return delete


def without_output(number: int) -> Callable[[sqlite3.Connection], None]:
    """The work that deletes an ended task's events and output; the events name bytes that would be missing."""

    def delete(connection: sqlite3.Connection) -> None:
        row = connection.execute("SELECT artifacts FROM tasks WHERE number = ?", (number,)).fetchone()
        if row is None:
            return
        emptied = tuple(
            attrs.evolve(artifact, size=0, head=0, cut=artifact.cut + artifact.size) for artifact in decode_artifacts(row[0])
        )
        connection.execute("UPDATE tasks SET artifacts = ? WHERE number = ?", (encode_artifacts(emptied), number))
        _delete_events(connection, number)
        connection.execute("DELETE FROM output WHERE task = ?", (number,))
        connection.execute("UPDATE files SET task = NULL WHERE task = ?", (number,))

    return delete


def _delete_events(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("DELETE FROM events WHERE task = ?", (number,))
    connection.execute("DELETE FROM older_events WHERE task = ?", (number,))


def unused_files(connection: sqlite3.Connection, there: Iterable[int]) -> tuple[int, ...]:
    """Numbers of the files that no task has any more, and of those in the folder that the store does not know.

    One whose number was not given out yet may be on its way to the record.
    """
    dropped = connection.execute("SELECT number FROM files WHERE task IS NULL").fetchall()
    known = {number for (number,) in connection.execute("SELECT number FROM files")}
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'files'").fetchone()
    given_out = row[0] if row else 0
    lost = [number for number in there if number <= given_out and number not in known]
    return (*(number for (number,) in dropped), *lost)


def without_files(numbers: Sequence[int]) -> Callable[[sqlite3.Connection], None]:
    """The work that forgets files which have been removed."""

    def delete(connection: sqlite3.Connection) -> None:
        connection.executemany("DELETE FROM files WHERE number = ? AND task IS NULL", [(number,) for number in numbers])

    return delete


def compact(connection: sqlite3.Connection, max_bytes: int) -> int:
    """Give unused pages at the file's end back; how many bytes are still unused.

    A file that was made without `auto_vacuum` (by 0.1.0) keeps its size and uses the space again: then 0.
    """
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    if mode != 2:  # incremental
        return 0
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    connection.execute(f"PRAGMA incremental_vacuum({max(1, max_bytes // page_bytes)})").fetchall()
    (unused,) = connection.execute("PRAGMA freelist_count").fetchone()
    return int(unused) * int(page_bytes)
