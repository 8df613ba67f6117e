"""How is what happened found again?

Functions of a reading connection; each call of the store runs one of them inside one transaction.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import attrs

from sandboxd.a2a.model import Message, TaskState
from sandboxd.store import foreseen
from sandboxd.store.base import PromptRecord, Standing, StoredEvent, TaskQuery, TaskRows, Unfinished
from sandboxd.store.codec import Undecodable, decode_artifacts, decode_event, decode_message, decode_view
from sandboxd.store.files import Files
from sandboxd.store.times import from_us, key, to_us
from sandboxd.tasks.events import Event, Wrote
from sandboxd.tasks.view import TaskView, fold

EVENTS_BYTES: Final = 256 * 1024  # one answer of `events` stops after this much output: each slow subscriber holds one
_BEYOND: Final = 2**63 - 1  # SQLite's largest integer; a client may name a larger one
# Of an artifact's pieces its first, its cut and its last say all that a view knows: what lies between, which is most of a log,
# need not be decoded (10,000 events: 300 ms of CPU to fold them all, 34 ms so).
_LAST_PIECES: Final = """
SELECT max(seq) FROM all_events WHERE task = ? AND seq <= ? AND kind = 'wrote' GROUP BY json_extract(body, '$.artifact_id')
"""
_TELLING: Final = """
SELECT seq, kind, body FROM all_events WHERE task = ? AND seq <= ? AND (
    kind <> 'wrote' OR json_extract(body, '$.first') OR json_extract(body, '$.cut') > 0
    OR seq IN (SELECT value FROM json_each(?))
) ORDER BY seq
"""
EVENTS: Final = "SELECT seq, kind, body, data FROM all_events WHERE task = ? AND seq > ? ORDER BY seq LIMIT ?"
_ViewRow = tuple[int, str, int, str, str]
_VIEWS: Final = "SELECT number, id, seq, artifacts, body FROM tasks JOIN views ON task = number"
_LATEST: Final = "SELECT number, body FROM history WHERE task = ? ORDER BY number DESC LIMIT ?"
_LENGTH: Final = "SELECT max(number) + 1 FROM history WHERE task = ?"
_COUNT: Final = "SELECT count(*) FROM tasks WHERE "
_TOTAL: Final = "SELECT coalesce(sum(tasks), 0) FROM totals WHERE "
_BETWEEN_MARKS: Final = """
SELECT offset, data FROM events WHERE task = ? AND artifact = ? AND data IS NOT NULL AND offset < ?
    AND seq >= coalesce((SELECT seq FROM events WHERE task = ? AND artifact = ? AND is_mark = 1 AND offset <= ?
        ORDER BY offset DESC LIMIT 1), 1)
    AND seq < coalesce((SELECT seq FROM events WHERE task = ? AND artifact = ? AND is_mark = 1 AND offset >= ?
        ORDER BY offset LIMIT 1), 9223372036854775807)
    ORDER BY seq
"""
_ENDED_WITH_EVENTS: Final = (
    "SELECT number FROM tasks WHERE is_terminal = 1 AND status_at_ms < ?"
    " AND (EXISTS (SELECT 1 FROM events WHERE task = tasks.number)"
    " OR EXISTS (SELECT 1 FROM older_events WHERE task = tasks.number)) ORDER BY status_at_ms LIMIT ?"
)
_ENDED_WITH_OUTPUT: Final = (
    "SELECT number FROM tasks WHERE is_terminal = 1 AND status_at_ms < ?"
    " AND (EXISTS (SELECT 1 FROM output WHERE task = tasks.number)"
    " OR EXISTS (SELECT 1 FROM events WHERE task = tasks.number AND is_mark = 1)) ORDER BY status_at_ms LIMIT ?"
)


def view(connection: sqlite3.Connection, task_id: str, history_length: int | None = None) -> TaskView | None:
    """The task as it stands, with that much of its history."""
    row = connection.execute(f"{_VIEWS} WHERE id = ?", (key(task_id),)).fetchone()
    return _view(connection, row, history_length=history_length) if row else None


def owner(connection: sqlite3.Connection, task_id: str) -> str | None:
    """Who created the task."""
    row = connection.execute("SELECT principal FROM tasks WHERE id = ?", (key(task_id),)).fetchone()
    return row[0] if row else None


def view_at(connection: sqlite3.Connection, task_id: str, seq: int) -> TaskView | None:
    """The task as it stood right after event `seq`."""
    row = connection.execute("SELECT number, context_id, instance, seq FROM tasks WHERE id = ?", (key(task_id),)).fetchone()
    if row is None:
        return None
    number, context_id, instance, last = row
    if seq == last:
        return view(connection, task_id)
    if not 1 <= seq < last:
        return None
    if connection.execute("SELECT 1 FROM all_events WHERE task = ? AND seq = 1", (number,)).fetchone() is None:
        return None
    folded = TaskView(task_id, context_id, instance)
    last_pieces = _numbers(connection.execute(_LAST_PIECES, (number, seq)))
    for found, kind, body in connection.execute(_TELLING, (number, seq, json.dumps(last_pieces))):
        folded = fold(folded, _event(task_id, found, kind, body))
    return attrs.evolve(folded, seq=seq)


def events(connection: sqlite3.Connection, files: Files, task_id: str, after: int, limit: int) -> tuple[StoredEvent, ...]:
    """Events after `after` with their output; none: there are no more. Stops early at `EVENTS_BYTES`."""
    number = _number(connection, task_id)
    if number is None:
        return ()
    found: list[StoredEvent] = []
    size_bytes = 0
    for seq, kind, body, data in connection.execute(EVENTS, (number, min(after, _BEYOND), limit)):
        event = _event(task_id, seq, kind, body)
        chunk: bytes = data or b""
        if data is None and isinstance(event, Wrote) and event.size:
            span = range(event.offset, event.offset + event.size)
            chunk = _joined(_apart(connection, files, number, event.artifact_id, span), span)
        found.append(StoredEvent(seq, event, chunk))
        size_bytes += len(chunk)
        if size_bytes >= EVENTS_BYTES:
            break
    return tuple(found)


def read(connection: sqlite3.Connection, files: Files, task_id: str, artifact_id: str, span: range) -> bytes:
    """The artifact's kept bytes `[span.start, span.stop)`."""
    number = _number(connection, task_id)
    if number is None:
        return b""
    pieces = [*_apart(connection, files, number, artifact_id, span), *_within(connection, number, artifact_id, span)]
    return _joined(sorted(pieces), span)


def tasks(connection: sqlite3.Connection, query: TaskQuery) -> TaskRows:
    """One page, newest status first."""
    terms, values = ["instance = ?"], [query.instance]
    if query.context_id is not None:
        terms, values = [*terms, "context_id = ?"], [*values, key(query.context_id)]
    if query.principal is not None:
        terms, values = [*terms, "principal = ?"], [*values, key(query.principal)]
    if query.state is not None:
        terms, values = [*terms, "state = ?"], [*values, query.state.value]
    filters: list[Any] = list(values)
    if query.since is not None:
        terms.append("status_at_ms >= ?")
        filters.append(_ms(query.since))
    where = " AND ".join(terms)
    is_kept = query.context_id is None and query.since is None  # else it is the tasks of one conversation, or since then
    (total,) = connection.execute((_TOTAL if is_kept else _COUNT) + where, filters).fetchone()
    if query.after is not None:
        where += " AND (status_at_ms, id) < (?, ?)"
        filters += [_ms(query.after[0]), key(query.after[1])]
    rows = connection.execute(
        f"{_VIEWS} WHERE {where} ORDER BY status_at_ms DESC, id DESC LIMIT ?",
        (*filters, query.limit + 1),
    ).fetchall()
    views = tuple(_view(connection, row, history_length=query.history_length) for row in rows[: query.limit])
    return TaskRows(views, total, len(rows) > query.limit)


def prompt(connection: sqlite3.Connection, prompt_id: str) -> PromptRecord | None:
    """What became of that prompt."""
    row = connection.execute(
        "SELECT prompts.id, tasks.id, tasks.instance, prompts.state, asked_at_us, closed_at_us, message_id, prompts.principal"
        " FROM prompts JOIN tasks ON tasks.number = prompts.task WHERE prompts.id = ?",
        (key(prompt_id),),
    ).fetchone()
    if row is None:
        return None
    found_id, task_id, instance, state, asked_at_us, closed_at_us, message_id, principal = row
    closed_at = None if closed_at_us is None else from_us(closed_at_us)
    return PromptRecord(found_id, task_id, instance, state, from_us(asked_at_us), closed_at, message_id, principal)


def size_bytes(connection: sqlite3.Connection) -> int:
    """The pages in use, and the files of output."""
    pages, unused, page_bytes = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    (in_files,) = connection.execute("SELECT coalesce(sum(size), 0) FROM files").fetchone()
    return int((pages - unused) * page_bytes + in_files)


def history(connection: sqlite3.Connection, task_id: str, count: int) -> tuple[Message, ...]:
    """The first messages of a task's history."""
    row = connection.execute(f"{_VIEWS} WHERE id = ?", (key(task_id),)).fetchone()
    return _beginning(connection, row, count) if row else ()


def unfinished(connection: sqlite3.Connection, task_id: str | None = None) -> tuple[Unfinished, ...]:
    """Every task, or that one, that is not in a terminal state, with what was foreseen for it."""
    wanted, values = ("", ()) if task_id is None else (" AND id = ?", (key(task_id),))
    rows = connection.execute(f"{_VIEWS} WHERE is_terminal = 0{wanted} ORDER BY number", values).fetchall()
    next_events = foreseen.standing(connection)
    return tuple(Unfinished(_view(connection, row), next_events.get(row[0])) for row in rows)


def standing(connection: sqlite3.Connection) -> Standing:
    """How many tasks live, by state, and how many prompts are open."""
    states = connection.execute("SELECT state, count(*) FROM tasks WHERE is_terminal = 0 GROUP BY state").fetchall()
    (prompts,) = connection.execute("SELECT count(*) FROM prompts WHERE state = 'open'").fetchone()
    return Standing({TaskState(state): count for state, count in states}, prompts)


def ended_before(connection: sqlite3.Connection, moment: datetime, limit: int) -> tuple[str, ...]:
    """Ids of the tasks that ended before then, the oldest first."""
    rows = connection.execute(
        "SELECT id FROM tasks WHERE is_terminal = 1 AND status_at_ms < ? ORDER BY status_at_ms LIMIT ?", (_ms(moment), limit)
    )
    return tuple(task_id for (task_id,) in rows)


def ended_with_events(connection: sqlite3.Connection, moment: datetime, limit: int) -> tuple[int, ...]:
    """Numbers of the tasks that ended before then and still have events."""
    return _numbers(connection.execute(_ENDED_WITH_EVENTS, (_ms(moment), limit)))


def ended_with_output(connection: sqlite3.Connection, moment: datetime, limit: int) -> tuple[int, ...]:
    """Numbers of the tasks that ended before then and still have output."""
    return _numbers(connection.execute(_ENDED_WITH_OUTPUT, (_ms(moment), limit)))


def _numbers(rows: Iterable[tuple[int]]) -> tuple[int, ...]:
    return tuple(number for (number,) in rows)


def _number(connection: sqlite3.Connection, task_id: str) -> int | None:
    row = connection.execute("SELECT number FROM tasks WHERE id = ?", (key(task_id),)).fetchone()
    return row[0] if row else None


def _view(connection: sqlite3.Connection, row: _ViewRow, *, history_length: int | None = None) -> TaskView:
    number, task_id, seq, artifacts, text = row
    most = _BEYOND if history_length is None else history_length
    said = connection.execute(_LATEST, (number, most)).fetchall()
    (first,) = said[-1][:1] if said else connection.execute(_LENGTH, (number,)).fetchone()
    try:
        view = attrs.evolve(decode_view(text), seq=seq, artifacts=decode_artifacts(artifacts))
        if first is None:  # a view from before there was a table of messages has them itself
            return view
        return attrs.evolve(view, history=tuple(decode_message(body) for _, body in reversed(said)), earlier=first)
    except Undecodable as error:
        raise Undecodable(f"task `{task_id}`: {error}") from error


def _beginning(connection: sqlite3.Connection, row: _ViewRow, count: int) -> tuple[Message, ...]:
    number, task_id, _, _, text = row
    said = connection.execute("SELECT body FROM history WHERE task = ? ORDER BY number LIMIT ?", (number, count)).fetchall()
    try:
        if said:
            return tuple(decode_message(body) for (body,) in said)
        return decode_view(text).history[:count]
    except Undecodable as error:
        raise Undecodable(f"task `{task_id}`: {error}") from error


def _event(task_id: str, seq: int, kind: str, body: str) -> Event:
    try:
        return decode_event(kind, body)
    except Undecodable as error:
        raise Undecodable(f"event {seq} of task `{task_id}`: {error}") from error


def lost_output(connection: sqlite3.Connection, files: Files, limit_s: float) -> tuple[tuple[str, str], ...]:
    """Tasks whose files are not there as long as they were, each with why; as many as can be looked at in that time."""
    stop_at, lost = time.monotonic() + limit_s, []
    for task_id, number, size in connection.execute(
        "SELECT id, files.number, size FROM files JOIN tasks ON tasks.number = task ORDER BY files.number DESC"
    ):
        there = files.size_bytes(number)
        if there is None or there < size:
            lost.append((task_id, f"`{files.name(number)}` has {there or 0} bytes of {size}"))
        if time.monotonic() > stop_at:
            break
    return tuple(lost)


def _apart(
    connection: sqlite3.Connection, files: Files, number: int, artifact_id: str, span: range
) -> Iterator[tuple[int, bytes]]:
    """Pieces of the span, with where they begin, that stand in files, or in rows of their own."""
    # From the row that holds the start on: there can be thousands of short ones.
    rows = connection.execute(
        "SELECT offset, data, output.size, checksum, files.number FROM output LEFT JOIN files USING (task, artifact)"
        " WHERE task = ? AND artifact = ? AND offset < ? AND offset >= coalesce("
        "(SELECT max(offset) FROM output WHERE task = ? AND artifact = ? AND offset <= ?), 0) ORDER BY offset",
        (*(number, key(artifact_id), min(span.stop, _BEYOND)), *(number, key(artifact_id), min(span.start, _BEYOND))),
    )
    for offset, data, size, checksum, file in rows:
        if size is None:
            yield offset, data
        elif offset + size > span.start:
            yield offset, files.read(file, offset, size, checksum)


def _within(connection: sqlite3.Connection, number: int, artifact_id: str, span: range) -> Iterator[tuple[int, bytes]]:
    """Pieces of the span, with where they begin, that stand in their events' rows."""
    artifact, before, beyond = key(artifact_id), min(span.start, _BEYOND), min(span.stop, _BEYOND)
    rows = connection.execute(
        _BETWEEN_MARKS, (number, artifact, beyond, *(number, artifact, before), *(number, artifact, beyond))
    )
    yield from rows


def _joined(pieces: Iterable[tuple[int, bytes]], span: range) -> bytes:
    return b"".join(data[max(0, span.start - offset) : max(0, span.stop - offset)] for offset, data in pieces)


def _ms(moment: datetime) -> int:
    return to_us(moment) // 1000
