"""Which statements keep relayed tasks and questions? (each within a transaction of the caller's)"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal

import attrs

from sandboxd.cockpit import audit
from sandboxd.cockpit.audit import Entry
from sandboxd.cockpit.codec import from_us, to_us
from sandboxd.cockpit.relay.restate import Restated
from sandboxd.values import frozen

ID_MAX_CHARS: Final = 256
State = Literal["open", "answered", "closed"]
_TASKS: Final = "SELECT number, task_id, caller, context_id, message_id, mission_id, at_us, gave_up_at_us FROM relay_tasks "
_QUESTIONS: Final = (
    "SELECT number, prompt_id, task, record, restated, at_us, ends_at_us, state, misfits, message_id FROM relay_questions "
)


@frozen
class RelayTask:
    """A caller's task, and the mission that is done for it. `gave_up_at`: no valid answer was to be had, so it has failed."""

    number: int
    task_id: str
    caller: str
    context_id: str
    message_id: str
    mission_id: str
    at: datetime
    gave_up_at: datetime | None = None


@frozen
class RelayQuestion:
    """One asking of the question `record`; `message_id`: of the message that answered it, or is about to."""

    number: int
    prompt_id: str
    task: int
    record: int
    restated: Restated
    at: datetime
    ends_at: datetime
    state: State
    misfits: int = 0
    message_id: str | None = None


def insert_task(connection: sqlite3.Connection, task: RelayTask) -> None:
    """A task that was just given."""
    connection.execute(
        "INSERT INTO relay_tasks (task_id, caller, context_id, message_id, mission_id, at_us) VALUES (?, ?, ?, ?, ?, ?)",
        (task.task_id, task.caller, task.context_id, task.message_id, task.mission_id, to_us(task.at)),
    )


def tasks_of(connection: sqlite3.Connection, caller: str, limit: int) -> Sequence[RelayTask]:
    """A caller's tasks, the newest first."""
    return _tasks(connection, "WHERE caller = ? ORDER BY number DESC LIMIT ?", caller, limit)


def find_task(connection: sqlite3.Connection, caller: str, task_id: str) -> RelayTask | None:
    """A caller's task of that id; nobody else's is there."""
    return next(iter(_tasks(connection, "WHERE caller = ? AND task_id = ?", caller, task_id)), None)


def find_message(connection: sqlite3.Connection, caller: str, message_id: str) -> RelayTask | None:
    """The task that this message began."""
    return next(iter(_tasks(connection, "WHERE caller = ? AND message_id = ?", caller, message_id)), None)


def give_up(connection: sqlite3.Connection, number: int, now: datetime) -> None:
    """The task has failed, whatever becomes of what was done for it."""
    connection.execute(
        "UPDATE relay_tasks SET gave_up_at_us = ? WHERE number = ? AND gave_up_at_us IS NULL", (to_us(now), number)
    )


def going_on(connection: sqlite3.Connection) -> Sequence[RelayTask]:
    """Tasks whose missions are not over, and such as have a question open."""
    return _tasks(
        connection,
        "WHERE gave_up_at_us IS NULL AND mission_id IN (SELECT mission_id FROM missions WHERE is_over = 0)"
        " OR number IN (SELECT task FROM relay_questions WHERE state = 'open') ORDER BY number",
    )


def insert_question(connection: sqlite3.Connection, question: RelayQuestion) -> None:
    """A question that is passed on."""
    connection.execute(
        "INSERT INTO relay_questions (prompt_id, task, record, restated, at_us, ends_at_us, state)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *(question.prompt_id, question.task, question.record),
            json.dumps({"text": question.restated.text, "choices": dict(question.restated.choices)}),
            *(to_us(question.at), to_us(question.ends_at), question.state),
        ),
    )


def questions_of(connection: sqlite3.Connection, task: int) -> Sequence[RelayQuestion]:
    """Everything that a task's caller was asked, in order."""
    return [_question(row) for row in connection.execute(_QUESTIONS + "WHERE task = ? ORDER BY number", (task,))]


def begin_answer(connection: sqlite3.Connection, number: int, message_id: str) -> bool:
    """That message is about to answer the question; False: it is not open, or another one is."""
    changed = connection.execute(
        "UPDATE relay_questions SET message_id = ? WHERE number = ? AND state = 'open' AND message_id IS NULL",
        (message_id, number),
    )
    return changed.rowcount == 1


def end_answer(connection: sqlite3.Connection, number: int, state: State) -> None:
    """What became of that message: `answered`, or `open` once more with one answer more that did not fit."""
    if state == "open":
        connection.execute(
            "UPDATE relay_questions SET message_id = NULL, misfits = misfits + 1 WHERE number = ? AND state = 'open'", (number,)
        )
    else:
        close(connection, number, state)


def close(connection: sqlite3.Connection, number: int, state: State) -> None:
    """The question takes no answer any more."""
    connection.execute("UPDATE relay_questions SET state = ? WHERE number = ? AND state = 'open'", (state, number))


def note_stray(connection: sqlite3.Connection, entry: Entry, prompt_id: str) -> None:
    """A caller's answer to what it was never asked, by its own words for task and question."""
    why = f"it answers {prompt_id[:ID_MAX_CHARS]}, which is not asked of it there"
    audit.append(connection, attrs.evolve(entry, task_id=entry.task_id[:ID_MAX_CHARS], why=why))


def _tasks(connection: sqlite3.Connection, which: str, *values: str | int) -> Sequence[RelayTask]:
    return [_task(row) for row in connection.execute(_TASKS + which, values)]


def _task(row: Sequence[Any]) -> RelayTask:  # the table is STRICT, so each column has its type
    number, task_id, caller, context_id, message_id, mission_id, at_us, gave_up_at_us = row
    gave_up_at = None if gave_up_at_us is None else from_us(gave_up_at_us)
    return RelayTask(number, task_id, caller, context_id, message_id, mission_id, from_us(at_us), gave_up_at)


def _question(row: Sequence[Any]) -> RelayQuestion:
    number, prompt_id, task, record, restated, at_us, ends_at_us, state, misfits, message_id = row
    words = Restated(**json.loads(restated))
    return RelayQuestion(
        number, prompt_id, task, record, words, from_us(at_us), from_us(ends_at_us), state, misfits, message_id
    )
