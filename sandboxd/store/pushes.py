"""What is on record of push notifications: who is to be told, how far they were told, and what never got through?

A config has a cursor into its task's event log, and no queue of its own: what follows the cursor is what has yet to be sent.
`is_done`: nothing will ever follow, so that finding live configs costs nothing for tasks that are over.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from sandboxd.a2a.model import PushConfig
from sandboxd.store.base import Conflict, DeadPush, PushEntry, TooManyPushes
from sandboxd.store.times import from_us, key, to_us

DEAD_MAX: Final = 10_000  # dead letters that are kept; the oldest go
_FROM: Final = (
    "SELECT push_configs.number, tasks.id, tasks.instance, push_configs.principal, extensions, body, cursor, tries, next_at_us,"
    " is_given_up FROM push_configs JOIN tasks ON tasks.number = push_configs.task"
)
_FROM_DEAD: Final = (
    "SELECT push_dead.number, tasks.id, config_id, push_dead.principal, url, push_dead.seq, at_us, tries, why"
    " FROM push_dead JOIN tasks ON tasks.number = push_dead.task"
)
_SETTLE: Final = (
    "UPDATE push_configs SET is_done ="
    " (SELECT is_terminal = 1 AND seq <= cursor FROM tasks WHERE tasks.number = push_configs.task) WHERE number = ?"
)


def put(connection: sqlite3.Connection, entry: PushEntry, max_per_task: int | None) -> PushEntry:
    """Keep the config, in place of one of the same id of the same principal; the entry with its number and cursor.

    A cursor below zero means "from now on". `max_per_task` None: the caller has seen to the cap.
    """
    row = connection.execute("SELECT number, seq FROM tasks WHERE id = ?", (key(entry.task_id),)).fetchone()
    if row is None:
        raise Conflict(f"cannot keep a push config: task `{entry.task_id}` is not on record")
    task, seq = row
    earlier = connection.execute(
        "SELECT number, cursor FROM push_configs WHERE task = ? AND principal = ? AND id = ?",
        (task, key(entry.principal), key(entry.config.id)),
    ).fetchone()
    cursor = entry.cursor if entry.cursor >= 0 else seq
    if earlier is not None:
        cursor = earlier[1]
        connection.execute("DELETE FROM push_configs WHERE number = ?", (earlier[0],))
    (count,) = connection.execute("SELECT count(*) FROM push_configs WHERE task = ?", (task,)).fetchone()
    if max_per_task is not None and count >= max_per_task:
        raise TooManyPushes(f"cannot keep a push config: the task has {count} already")
    made = connection.execute(
        "INSERT INTO push_configs (task, id, principal, extensions, body, cursor) VALUES (?, ?, ?, ?, ?, ?)",
        (
            *(task, key(entry.config.id), key(entry.principal)),
            *(json.dumps(entry.extensions), _encode(entry.config), cursor),
        ),
    )
    assert made.lastrowid is not None
    connection.execute(_SETTLE, (made.lastrowid,))
    return attrs.evolve(entry, number=made.lastrowid, cursor=cursor)


def of_task(connection: sqlite3.Connection, task_id: str) -> tuple[PushEntry, ...]:
    """The task's configs, oldest first."""
    rows = connection.execute(f"{_FROM} WHERE tasks.id = ? ORDER BY push_configs.number", (key(task_id),))
    return tuple(_entry(row) for row in rows)


def live(connection: sqlite3.Connection) -> tuple[PushEntry, ...]:
    """Every config that has, or may get, something to be sent."""
    return tuple(_entry(row) for row in connection.execute(f"{_FROM} WHERE is_done = 0 ORDER BY push_configs.number"))


def drop(connection: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Forget configs."""
    connection.executemany("DELETE FROM push_configs WHERE number = ?", [(number,) for number in numbers])


def drop_of(connection: sqlite3.Connection, principals: Collection[str]) -> tuple[PushEntry, ...]:
    """Forget every config of these principals; those that went."""
    wanted = ", ".join("?" for _ in principals)
    rows = connection.execute(f"{_FROM} WHERE push_configs.principal IN ({wanted})", [key(name) for name in principals])
    found = tuple(_entry(row) for row in rows)
    drop(connection, [entry.number for entry in found])
    return found


def advance(connection: sqlite3.Connection, number: int, cursor: int, *, got_through: bool) -> bool:
    """Everything up to `cursor` has been dealt with; False: the config is gone. `got_through`: its receiver answers."""
    done = connection.execute(
        "UPDATE push_configs SET cursor = ?, tries = 0, next_at_us = 0, is_given_up = is_given_up AND NOT ? WHERE number = ?",
        (cursor, got_through, number),
    )
    connection.execute(_SETTLE, (number,))
    return done.rowcount == 1


def fail(connection: sqlite3.Connection, number: int, tries: int, next_at: datetime) -> bool:
    """What follows the cursor was tried so often, and is to be tried again then; False: the config is gone."""
    done = connection.execute(
        "UPDATE push_configs SET tries = ?, next_at_us = ? WHERE number = ?", (tries, to_us(next_at), number)
    )
    return done.rowcount == 1


def bury(connection: sqlite3.Connection, number: int, dead: DeadPush) -> bool:
    """Give up on one event: it becomes a dead letter, and the cursor passes it; False: the config is gone."""
    row = connection.execute("SELECT task FROM push_configs WHERE number = ?", (number,)).fetchone()
    if row is None:
        return False
    made = connection.execute(
        "INSERT INTO push_dead (task, config_id, principal, url, seq, at_us, tries, why) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (row[0], key(dead.config_id), key(dead.principal), dead.url, dead.seq, to_us(dead.at), dead.tries, key(dead.why)),
    )
    assert made.lastrowid is not None
    connection.execute("DELETE FROM push_dead WHERE number <= ?", (made.lastrowid - DEAD_MAX,))
    connection.execute(
        "UPDATE push_configs SET cursor = ?, tries = 0, next_at_us = 0, is_given_up = 1 WHERE number = ?", (dead.seq, number)
    )
    connection.execute(_SETTLE, (number,))
    return True


def dead(connection: sqlite3.Connection, limit: int) -> tuple[DeadPush, ...]:
    """Dead letters, the newest first."""
    rows = connection.execute(f"{_FROM_DEAD} ORDER BY push_dead.number DESC LIMIT ?", (limit,))
    return tuple(_dead(row) for row in rows)


def one_dead(connection: sqlite3.Connection, number: int) -> DeadPush | None:
    """The dead letter of that number."""
    row = connection.execute(f"{_FROM_DEAD} WHERE push_dead.number = ?", (number,)).fetchone()
    return None if row is None else _dead(row)


def drop_dead(connection: sqlite3.Connection, number: int) -> None:
    """Forget a dead letter."""
    connection.execute("DELETE FROM push_dead WHERE number = ?", (number,))


def retry_dead(connection: sqlite3.Connection, number: int, at: datetime, why: str) -> None:
    """It was tried once more, in vain."""
    connection.execute(
        "UPDATE push_dead SET tries = tries + 1, at_us = ?, why = ? WHERE number = ?", (to_us(at), key(why), number)
    )


def _dead(row: tuple[Any, ...]) -> DeadPush:
    number, task_id, config_id, principal, url, seq, at_us, tries, why = row
    return DeadPush(task_id, config_id, principal, url, seq, from_us(at_us), tries, why, number)


def _encode(config: PushConfig) -> str:
    return json.dumps({**attrs.asdict(config), "news": sorted(config.news)})


def _entry(row: tuple[Any, ...]) -> PushEntry:
    number, task_id, instance, principal, extensions, body, cursor, tries, next_at_us, is_given_up = row
    fields = json.loads(body)
    return PushEntry(
        task_id=task_id,
        instance=instance,
        principal=principal,
        extensions=tuple(json.loads(extensions)),
        config=PushConfig(**{**fields, "news": frozenset(fields["news"])}),
        cursor=cursor,
        number=number,
        tries=tries,
        next_at=from_us(next_at_us),
        is_given_up=bool(is_given_up),
    )
