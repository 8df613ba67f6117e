"""What does one `create` or `append` change on disk, all of it or nothing?

`prepare` checks and encodes on the caller's side, so that a mistake of ours is raised where it was made and the writer's
thread has little to do; `keep` runs inside the writer's transaction. It takes what waits at once, in as few calls of SQLite as
that needs: each call lets go of the interpreter. Nothing asks for RETURNING, for which SQLite makes a table of its own each
time (measured: 33 µs for an UPDATE that is found by its id, 7 µs for a SELECT and an UPDATE by number in its place).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import attrs

from sandboxd.a2a.model import Message
from sandboxd.db import rows
from sandboxd.store import audit, pushes, sends
from sandboxd.store.base import Conflict, Entry, SendKey
from sandboxd.store.codec import encode_artifacts, encode_event, encode_message, encode_standing
from sandboxd.store.files import FROM_BYTES, Files
from sandboxd.store.times import key, to_us
from sandboxd.tasks.events import Answered, Asked, Closed, Event, Finished, Rejected, Submitted, Wrote
from sandboxd.tasks.view import TaskView, last_change
from sandboxd.values import frozen

ROW_BYTES: Final = 64 * 1024
MARK_BYTES: Final = 64 * 1024
_END_ASKING: Final = (
    "UPDATE prompts SET state = 'ended', closed_at_us = new.column1 FROM (VALUES {rows}) AS new"
    " WHERE task = new.column2 AND state = 'open'"
)
_SAID: Final = (Submitted, Asked, Answered)  # with a message for the history
_LAST: Final = (Finished, Rejected)
_STANDING: Final = "SELECT number, seq, is_terminal FROM tasks WHERE id = ?"


@frozen
class Told:
    """What more than output changes. `principal`: of a new task.

    `said`: the messages that its events add to the history, after `heard`, of which the first `earlier` are not held here.
    """

    instance: str
    context_id: str
    state: str
    is_terminal: bool
    status_at_ms: int
    view: str
    principal: str | None
    earlier: int
    heard: tuple[Message, ...]
    said: tuple[str, ...]


# Of one event, from its kind on. Its artifact, the offset, whether it is a mark, and what it holds itself: of output alone.
_Row = tuple[str, str, str | None, int | None, bool, bytes | None]


@frozen
class Change:
    """Events that follow number `after`, encoded. `told` None: nothing but output changed."""

    task_id: str
    after: int
    entries: tuple[Entry, ...]
    rows: tuple[_Row, ...]
    artifacts: str
    told: Told | None

    @property
    def size_bytes(self) -> int:
        """Roughly what it holds in memory."""
        size = len(self.artifacts) + sum([len(row[1]) for row in self.rows]) + sum([len(entry.chunk) for entry in self.entries])
        return size if self.told is None else size + len(self.told.view) + sum(map(len, self.told.said))


_Numbered = tuple[int, Change]  # with the number of its task
_NumberedTold = tuple[int, Change, Told]


@frozen
class Prepared:
    """The change that one entry is, made beforehand of the entry and the view after it."""

    view: TaskView
    change: Change


def prepare(entries: Sequence[Entry], view: TaskView, *, after: int, principal: str | None = None) -> Change:
    """The change, encoded; `ValueError` when entries and view do not belong together."""
    match entries:
        case [Entry(prepared=Prepared(view=known, change=change))] if known is view and change.after == after:
            return change
    if not entries or view.seq != after + len(entries):
        raise ValueError(f"{len(entries)} events after {after} do not lead to {view.seq}")
    heard, is_output_alone = len(view.history), True
    for count, entry in enumerate(entries, start=1):
        size = 0
        if isinstance(entry.event, Wrote):
            size = entry.event.size
            if entry.push is not None or entry.note is not None:
                raise ValueError("output comes with no message of anybody's")
        else:
            is_output_alone = False
            heard -= isinstance(entry.event, _SAID)
            if is_last(entry.event) and count < len(entries):
                raise ValueError("nothing follows a terminal event")
        if len(entry.chunk) != size:
            raise ValueError(f"an event of {size} bytes of output has {len(entry.chunk)} beside it")
    if is_output_alone and principal is not None:
        raise ValueError("a task does not begin with output")
    return Change(
        task_id=view.task_id,
        after=after,
        entries=tuple(entries),
        rows=tuple(map(_row, entries)),
        artifacts=encode_artifacts(view.artifacts),
        told=None if is_output_alone else _told(view, heard, principal),
    )


def _told(view: TaskView, heard: int, principal: str | None) -> Told:
    assert view.state is not None
    return Told(
        instance=view.instance,
        context_id=key(view.context_id),
        state=view.state.value,
        is_terminal=view.state.is_terminal,
        status_at_ms=to_us(last_change(view)) // 1000,
        view=encode_standing(view),
        principal=None if principal is None else key(principal),
        earlier=view.earlier,
        heard=view.history[:heard],
        said=tuple(map(encode_message, view.history[heard:])),
    )


def _row(entry: Entry) -> _Row:
    kind, body = encode_event(entry.event)
    if not isinstance(entry.event, Wrote) or not entry.chunk:
        return kind, body, None, None, False, None
    offset, size = entry.event.offset, len(entry.chunk)
    is_mark = offset == 0 or offset // MARK_BYTES < (offset + size) // MARK_BYTES
    return kind, body, entry.event.artifact_id, offset, is_mark, entry.chunk if size < FROM_BYTES else None


def is_last(event: Event) -> bool:
    """Whether nothing can follow this event."""
    return isinstance(event, _LAST)


def keep(connection: sqlite3.Connection, changes: Sequence[Change], files: Files) -> Sequence[None]:
    """Put the changes on record, in their order; `Conflict` when one of them cannot follow what is there."""
    for part in _each_task_once(changes):
        numbered = _begin_or_move_on(connection, part)
        _keep_output(connection, numbered, files)
        rows.run(
            connection,
            "INSERT INTO events (task, seq, kind, body, artifact, offset, is_mark, data) VALUES {rows}",
            [(number, seq, *row) for number, change in numbered for seq, row in enumerate(change.rows, start=change.after + 1)],
        )
        told = [(number, change, change.told) for number, change in numbered if change.told is not None]
        if told:
            _keep_told(connection, told)
    return (None,) * len(changes)


def _each_task_once(changes: Sequence[Change]) -> Iterator[list[Change]]:
    part: dict[str, Change] = {}
    for change in changes:
        if change.task_id in part:
            yield list(part.values())
            part = {}
        part[change.task_id] = change
    yield list(part.values())


def _begin_or_move_on(connection: sqlite3.Connection, changes: Sequence[Change]) -> list[_Numbered]:
    numbers: dict[str, int] = {}
    new: list[tuple[Change, Told]] = []
    going_on: list[Change] = []
    for change in changes:
        if change.told is not None and change.told.principal is not None:
            new.append((change, change.told))
        else:
            going_on.append(change)
    if new:
        numbers |= _begin(connection, new)
    if going_on:
        numbers |= _move_on(connection, going_on)
    return [(numbers[change.task_id], change) for change in changes]


def _begin(connection: sqlite3.Connection, new: Sequence[tuple[Change, Told]]) -> dict[str, int]:
    """The numbers of the new tasks."""
    (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM tasks").fetchone()
    numbers = {change.task_id: number for number, (change, _) in enumerate(new, start=last + 1)}
    try:
        rows.run(
            connection,
            "INSERT INTO tasks"
            " (number, id, instance, context_id, principal, state, is_terminal, status_at_ms, seq, artifacts) VALUES {rows}",
            [
                (
                    *(numbers[change.task_id], change.task_id, told.instance, told.context_id, told.principal, told.state),
                    *(told.is_terminal, told.status_at_ms, len(change.entries), change.artifacts),
                )
                for change, told in new
            ],
        )
    except sqlite3.IntegrityError as error:  # whose it is shows when each is put on record alone (`db.batch`)
        ids = ", ".join(f"`{task_id}`" for task_id in numbers)
        raise Conflict(f"cannot create task {ids}: {error}") from error
    return numbers


def _move_on(connection: sqlite3.Connection, changes: Sequence[Change]) -> dict[str, int]:
    """The tasks' numbers, once they stand behind these events; `Conflict` when one does not stand before them."""
    numbers: dict[str, int] = {}
    for change in changes:
        row = connection.execute(_STANDING, (change.task_id,)).fetchone()
        if row is None:
            raise Conflict(f"cannot append to task `{change.task_id}`: it is not on record")
        number, seq, is_terminal = row
        if is_terminal:
            raise Conflict(f"cannot append to task `{change.task_id}`: it has ended")
        if seq != change.after:
            raise Conflict(f"cannot append to task `{change.task_id}` after event {change.after}: it stands at {seq}")
        numbers[change.task_id] = number
    connection.executemany(
        "UPDATE tasks SET seq = ?, artifacts = ? WHERE number = ?",
        [(change.after + len(change.entries), change.artifacts, numbers[change.task_id]) for change in changes],
    )
    return numbers


def _keep_told(connection: sqlite3.Connection, numbered: Sequence[_NumberedTold]) -> None:
    """What more than output happened."""
    _keep_views(connection, numbered)
    _keep_history(connection, numbered)
    notes, sent, ended = [], [], []
    for number, change, told in numbered:
        for seq, entry in enumerate(change.entries, start=change.after + 1):
            if entry.push is not None:
                is_new = isinstance(entry.event, Submitted)
                pushes.put(connection, attrs.evolve(entry.push, cursor=0 if is_new else seq), None)
            if entry.note is not None:
                notes.append(entry.note)
            match entry.event:
                case Submitted(message=message):
                    # The sender is told of all that is put on record at once: an echo is over by then.
                    told_at = change.after + len(change.entries)
                    send = SendKey(told.principal or "", told.instance, message.message_id.lower())
                    sent.append((send, change.task_id, told_at))
                case Answered(message=message) as answered:
                    _close_answered(connection, number, answered)
                    send = SendKey(answered.principal, told.instance, message.message_id.lower())
                    sent.append((send, change.task_id, seq))
                case Asked() as asked:
                    _open_prompt(connection, number, asked)
                case Closed() as closed:
                    _close_unanswered(connection, number, closed)
                case Finished(at=at) | Rejected(at=at) if told.principal is None or _asks(change):
                    ended.append((to_us(at), number))
                case _:
                    pass
    rows.run(connection, _END_ASKING, ended)
    # The text of what was foreseen goes with the events.
    rows.run(connection, "DELETE FROM foreseen WHERE task IN (VALUES {rows})", [(number,) for _, number in ended])
    audit.note_all(connection, notes)
    sends.note_all(connection, sent)


def _asks(change: Change) -> bool:
    return any(isinstance(entry.event, Asked) for entry in change.entries)


def _keep_views(connection: sqlite3.Connection, numbered: Sequence[_NumberedTold]) -> None:
    new = [(number, told.view) for number, _, told in numbered if told.principal is not None]
    going_on = [(number, told) for number, _, told in numbered if told.principal is None]
    rows.run(connection, "INSERT INTO views (task, body) VALUES {rows}", new)
    connection.executemany(
        "UPDATE tasks SET state = ?, is_terminal = ?, status_at_ms = ? WHERE number = ?",
        [(told.state, told.is_terminal, told.status_at_ms, number) for number, told in going_on],
    )
    connection.executemany("UPDATE views SET body = ? WHERE task = ?", [(told.view, number) for number, told in going_on])


def _keep_output(connection: sqlite3.Connection, numbered: Sequence[_Numbered], files: Files) -> None:
    """Write what is too large for its event's row."""
    large: dict[tuple[int, str], list[tuple[int, bytes]]] = {}
    for number, change in numbered:
        for entry in change.entries:
            if isinstance(entry.event, Wrote) and len(entry.chunk) >= FROM_BYTES:
                pieces = large.setdefault((number, entry.event.artifact_id), [])
                for start in range(0, len(entry.chunk), ROW_BYTES):
                    pieces.append((entry.event.offset + start, entry.chunk[start : start + ROW_BYTES]))
    for (number, artifact_id), pieces in large.items():
        offset, data = pieces[-1]
        checksums = files.write(_file(connection, number, artifact_id, offset + len(data)), pieces)
        rows.run(
            connection,
            "INSERT INTO output (task, artifact, offset, data, size, checksum) VALUES {rows}",
            [
                (number, artifact_id, offset, b"", len(data), checksum)
                for (offset, data), checksum in zip(pieces, checksums, strict=True)
            ],
        )


def _file(connection: sqlite3.Connection, number: int, artifact_id: str, size: int) -> int:
    """The number of the artifact's file, which holds so many bytes from now on."""
    found = connection.execute("SELECT number FROM files WHERE task = ? AND artifact = ?", (number, artifact_id)).fetchone()
    if found is not None:
        connection.execute("UPDATE files SET size = ? WHERE number = ?", (size, found[0]))
        return int(found[0])
    made = connection.execute("INSERT INTO files (task, artifact, size) VALUES (?, ?, ?)", (number, artifact_id, size))
    assert made.lastrowid is not None
    return made.lastrowid


def _keep_history(connection: sqlite3.Connection, numbered: Sequence[_NumberedTold]) -> None:
    told_now = []
    for number, change, told in numbered:
        last = None
        if told.principal is None:
            (last,) = connection.execute("SELECT max(number) FROM history WHERE task = ?", (number,)).fetchone()
        kept = 0 if last is None else last + 1
        # More have been heard than are kept once: when the view still has them itself, which is written anew now.
        if kept < told.earlier:
            missing = told.earlier - kept
            raise Conflict(f"cannot continue the history of task `{change.task_id}`: {missing} messages are missing")
        bodies = [*map(encode_message, told.heard[kept - told.earlier :]), *told.said]
        told_now += [(number, at, body) for at, body in enumerate(bodies, start=kept)]
    rows.run(connection, "INSERT INTO history (task, number, body) VALUES {rows}", told_now)


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
