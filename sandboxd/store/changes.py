"""What does one `create` or `append` change on disk, all of it or nothing?

`prepare` checks and encodes on the caller's side, so that a mistake of ours is raised where it was made and the writer's
thread has little to do; `create` and `append` run inside the writer's transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import attrs

from sandboxd.a2a.model import Message
from sandboxd.store import audit, pushes, sends
from sandboxd.store.base import Conflict, Entry, SendKey
from sandboxd.store.codec import encode_artifacts, encode_event, encode_message, encode_view
from sandboxd.store.files import FROM_BYTES, Files
from sandboxd.store.times import key, to_us
from sandboxd.tasks.events import Answered, Asked, Closed, Event, Finished, Rejected, Submitted, Wrote
from sandboxd.tasks.view import TaskView, last_change

ROW_BYTES: Final = 64 * 1024
_GROW_FILE: Final = (
    "INSERT INTO files (task, artifact, size) VALUES (?, ?, ?)"
    " ON CONFLICT (task, artifact) DO UPDATE SET size = excluded.size RETURNING number"
)
_MOVE_ON: Final = "UPDATE tasks SET seq = ?, artifacts = ? WHERE id = ? AND seq = ? AND is_terminal = 0 RETURNING number"


@attrs.frozen
class Change:
    """Events that follow number `after`, encoded. `view` None: nothing but output changed. `principal`: of a new task.

    `said`: the messages that these events add to the history, after `heard`, of which the first `earlier` are not held here.
    """

    task_id: str
    after: int
    entries: tuple[Entry, ...]
    bodies: tuple[tuple[str, str], ...]
    instance: str
    context_id: str
    state: str
    is_terminal: bool
    status_at_ms: int
    artifacts: str
    view: str | None
    principal: str | None
    earlier: int
    heard: tuple[Message, ...]
    said: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """Roughly what it holds in memory."""
        texts = sum(len(body) for _, body in self.bodies) + len(self.artifacts) + len(self.view or "")
        return texts + sum(map(len, self.said)) + sum(len(entry.chunk) for entry in self.entries)


@attrs.frozen
class Prepared:
    """The change that one entry is, made beforehand of the entry and the view after it."""

    view: TaskView
    change: Change


def prepare(entries: Sequence[Entry], view: TaskView, *, after: int, principal: str | None = None) -> Change:
    """The change, encoded; `ValueError` when entries and view do not belong together."""
    match entries:
        case [Entry(prepared=Prepared(view=known, change=change))] if known is view and change.after == after:
            return change
    assert view.state is not None
    if not entries or view.seq != after + len(entries):
        raise ValueError(f"{len(entries)} events after {after} do not lead to {view.seq}")
    if any(is_last(entry.event) for entry in entries[:-1]):
        raise ValueError("nothing follows a terminal event")
    for entry in entries:
        size = entry.event.size if isinstance(entry.event, Wrote) else 0
        if len(entry.chunk) != size:
            raise ValueError(f"an event of {size} bytes of output has {len(entry.chunk)} beside it")
    heard = len(view.history) - sum(isinstance(entry.event, Submitted | Asked | Answered) for entry in entries)
    is_output_alone = all(isinstance(entry.event, Wrote) for entry in entries)
    return Change(
        task_id=view.task_id,
        after=after,
        entries=tuple(entries),
        bodies=tuple(encode_event(entry.event) for entry in entries),
        instance=view.instance,
        context_id=key(view.context_id),
        state=view.state.value,
        is_terminal=view.state.is_terminal,
        status_at_ms=to_us(last_change(view)) // 1000,
        artifacts=encode_artifacts(view.artifacts),
        view=None if is_output_alone else encode_view(attrs.evolve(view, artifacts=(), history=(), earlier=0)),
        principal=None if principal is None else key(principal),
        earlier=view.earlier,
        heard=view.history[:heard],
        said=tuple(map(encode_message, view.history[heard:])),
    )


def is_last(event: Event) -> bool:
    """Whether nothing can follow this event."""
    return isinstance(event, Finished | Rejected)


def create(connection: sqlite3.Connection, change: Change, files: Files) -> None:
    """Put the new task on record."""
    try:
        cursor = connection.execute(
            "INSERT INTO tasks (id, instance, context_id, principal, state, is_terminal, status_at_ms, seq, artifacts)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(change.task_id, change.instance, change.context_id, change.principal, change.state, change.is_terminal),
                *(change.status_at_ms, len(change.entries), change.artifacts),
            ),
        )
    except sqlite3.IntegrityError as error:
        raise Conflict(f"cannot create task `{change.task_id}`: {error}") from error
    assert cursor.lastrowid is not None
    connection.execute("INSERT INTO views (task, body) VALUES (?, ?)", (cursor.lastrowid, change.view))
    _record(connection, cursor.lastrowid, change, files)


def append(connection: sqlite3.Connection, change: Change, files: Files) -> None:
    """Put the events on record, if the task stands where the change says."""
    number = _move_on(connection, change)
    if change.view is not None:
        connection.execute(
            "UPDATE tasks SET state = ?, is_terminal = ?, status_at_ms = ? WHERE number = ?",
            (change.state, change.is_terminal, change.status_at_ms, number),
        )
        connection.execute("UPDATE views SET body = ? WHERE task = ?", (change.view, number))
    _record(connection, number, change, files)


def _move_on(connection: sqlite3.Connection, change: Change) -> int:
    """The task's number, once it stands behind these events; `Conflict` when it does not stand before them."""
    to = change.after + len(change.entries)
    asked = (to, change.artifacts, change.task_id, change.after)
    if row := connection.execute(_MOVE_ON, asked).fetchone():
        return int(row[0])
    row = connection.execute("SELECT seq, is_terminal FROM tasks WHERE id = ?", (change.task_id,)).fetchone()
    if row is None:
        raise Conflict(f"cannot append to task `{change.task_id}`: it is not on record")
    seq, is_terminal = row
    if is_terminal:
        raise Conflict(f"cannot append to task `{change.task_id}`: it has ended")
    raise Conflict(f"cannot append to task `{change.task_id}` after event {change.after}: it stands at {seq}")


def _record(connection: sqlite3.Connection, number: int, change: Change, files: Files) -> None:
    connection.executemany(
        "INSERT INTO events (task, seq, kind, body) VALUES (?, ?, ?, ?)",
        [(number, seq, kind, body) for seq, (kind, body) in enumerate(change.bodies, start=change.after + 1)],
    )
    if change.view is not None:
        _keep_history(connection, number, change)
    for seq, entry in enumerate(change.entries, start=change.after + 1):
        if entry.push is not None:
            is_new = isinstance(entry.event, Submitted)
            pushes.put(connection, attrs.evolve(entry.push, cursor=0 if is_new else seq), None)
        if entry.note is not None:
            audit.note(connection, entry.note)
        match entry.event:
            case Wrote() as wrote:
                _keep_output(connection, number, wrote, entry.chunk, files)
            case Submitted(message=message):
                # The sender is told of all that is put on record at once: an echo is over by then.
                told_at = change.after + len(change.entries)
                _note_send(connection, change, change.principal or "", message.message_id, told_at)
            case Asked() as asked:
                _open_prompt(connection, number, asked)
            case Answered(message=message) as answered:
                _close_answered(connection, number, answered)
                _note_send(connection, change, answered.principal, message.message_id, seq)
            case Closed() as closed:
                _close_unanswered(connection, number, closed)
            case Finished(at=at) | Rejected(at=at):
                _close_open(connection, number, "ended", at)
            case _:
                pass


def _keep_output(connection: sqlite3.Connection, number: int, wrote: Wrote, chunk: bytes, files: Files) -> None:
    file, end = None, wrote.offset + len(chunk)
    if len(chunk) >= FROM_BYTES:
        (file,) = connection.execute(_GROW_FILE, (number, wrote.artifact_id, end)).fetchone()
    rows: list[tuple[int, str, int, bytes, int | None, int | None]] = []
    for start in range(0, len(chunk), ROW_BYTES):
        piece, offset = chunk[start : start + ROW_BYTES], wrote.offset + start
        if file is None:
            rows.append((number, wrote.artifact_id, offset, piece, None, None))
        else:
            rows.append((number, wrote.artifact_id, offset, b"", len(piece), files.write(file, offset, piece)))
    connection.executemany("INSERT INTO output (task, artifact, offset, data, size, checksum) VALUES (?, ?, ?, ?, ?, ?)", rows)


def _keep_history(connection: sqlite3.Connection, number: int, change: Change) -> None:
    (last,) = connection.execute("SELECT max(number) FROM history WHERE task = ?", (number,)).fetchone()
    kept = 0 if last is None else last + 1
    # More have been heard than are kept once: when the view still has them itself, which is written anew now.
    if kept < change.earlier:
        raise Conflict(f"cannot continue the history of task `{change.task_id}`: {change.earlier - kept} messages are missing")
    bodies = [*map(encode_message, change.heard[kept - change.earlier :]), *change.said]
    connection.executemany(
        "INSERT INTO history (task, number, body) VALUES (?, ?, ?)",
        [(number, at, body) for at, body in enumerate(bodies, start=kept)],
    )


def _note_send(connection: sqlite3.Connection, change: Change, principal: str, message_id: str, seq: int) -> None:
    sends.note(connection, SendKey(principal, change.instance, message_id.lower()), change.task_id, seq)


def _open_prompt(connection: sqlite3.Connection, number: int, asked: Asked) -> None:
    _close_open(connection, number, "reissued" if asked.reissues else "withdrawn", asked.at)  # a task asks one thing at a time
    prompt_id = asked.envelope.prompt_id
    try:
        connection.execute(
            "INSERT INTO prompts (id, task, state, asked_at_us) VALUES (?, ?, 'open', ?)", (prompt_id, number, to_us(asked.at))
        )
    except sqlite3.IntegrityError as error:
        raise Conflict(f"cannot open prompt `{prompt_id}`: that id was used before") from error


def _close_answered(connection: sqlite3.Connection, number: int, answered: Answered) -> None:
    cursor = connection.execute(
        "UPDATE prompts SET state = 'answered', closed_at_us = ?, message_id = ?, principal = ?"
        " WHERE id = ? AND task = ? AND state = 'open'",
        (to_us(answered.at), key(answered.message.message_id), key(answered.principal), answered.prompt_id, number),
    )
    if cursor.rowcount != 1:
        raise Conflict(f"cannot record an answer to prompt `{answered.prompt_id}`: it is not open")


def _close_unanswered(connection: sqlite3.Connection, number: int, closed: Closed) -> None:
    found = connection.execute("SELECT state FROM prompts WHERE id = ? AND task = ?", (closed.prompt_id, number)).fetchone()
    if found == ("expired",):  # its question has now gone as well; that it expired first stays on record
        return
    if found != ("open",):
        raise Conflict(f"cannot close prompt `{closed.prompt_id}`: it is not open")
    _close_open(connection, number, closed.closure, closed.at)


def _close_open(connection: sqlite3.Connection, number: int, state: str, at: datetime) -> None:
    connection.execute(
        "UPDATE prompts SET state = ?, closed_at_us = ? WHERE task = ? AND state = 'open'", (state, to_us(at), number)
    )
