"""Which task, or which open question, does an id on the command line mean?

The beginning of an id is enough where only one has it; where several have it, all of them are listed. A question is meant by
its own id or by its task's: a task has at most one open question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from sandboxd.cli.client import Daemon
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.facts import Question, TaskFacts, past_prompts, task_facts, wire_state
from sandboxd.errors import Problem

Found = TypeVar("Found")

_UUID_CHARS: Final = 36
_SEARCHED: Final = 1000  # tasks, newest first, among which the beginning of an id is looked for


def find_task(daemon: Daemon, given: str, *, to: str) -> TaskFacts:
    """The task that `given` names, by its whole id or by a beginning that only it has. `to`: what is to be done with it."""
    what = f"{to} task `{given}`"
    if len(given) == _UUID_CHARS:
        return task_facts(daemon.task(given, what=what))
    tasks = [task_facts(task) for task in daemon.tasks(limit=_SEARCHED, what=what)]
    fitting = [task for task in tasks if task.id.startswith(given)]
    found = _only(fitting, f"task id `{given}`", lambda task: Problem(task.id, f"{task.state} {task.summary}".strip()))
    if found is None:
        raise Failure(f"cannot find task `{given}`: no task's id begins so", Exit.NOT_FOUND, hint="see `sandboxd tasks list`")
    return task_facts(daemon.task(found.id, what=what))


def open_questions(daemon: Daemon, *, what: str = "list open questions") -> list[Question]:
    """Every question that waits for an answer, the one with the least time left first."""
    waiting = [task_facts(task) for task in daemon.tasks(state=wire_state("input-required"), what=what)]
    questions = [task.question for task in waiting if task.question is not None]
    return sorted(questions, key=lambda question: (question.deadline is None, question.deadline or question.asked_at))


def find_question(daemon: Daemon, given: str, *, to: str = "answer") -> Question:
    """The open question that `given` names; `Failure` says what became of it when it is no longer open."""
    what = f"{to} `{given}`"
    fitting = [it for it in open_questions(daemon, what=what) if it.prompt_id.startswith(given) or it.task_id.startswith(given)]
    question = _only(fitting, f"id `{given}`", lambda it: Problem(it.prompt_id, f"task {it.task_id}: {it.text}"))
    if question is not None:
        return question
    raise _not_open(daemon.tasks(limit=_SEARCHED, history=True, what=what), given, what)


def _not_open(tasks: Iterable[Mapping[str, Any]], given: str, what: str) -> Failure:
    hint = "see `sandboxd prompts` for what is open"
    for task in tasks:
        facts = task_facts(task)
        closed = facts.closed_prompt
        if str(closed.get("prompt_id", "")).startswith(given) or (closed and facts.id.startswith(given)):
            became = str(closed.get("closed", "closed"))
            return Failure(f"cannot {what}: the question is {became}; nothing was sent", Exit.EXPIRED, hint=hint)
        if any(prompt_id.startswith(given) for prompt_id in past_prompts(task)):
            state = f"its task is {facts.state}"
            return Failure(
                f"cannot {what}: the question is no longer open, {state}; nothing was sent", Exit.CONFLICT, hint=hint
            )
        if facts.id.startswith(given):
            return Failure(
                f"cannot {what}: the task is {facts.state} and asks nothing; nothing was sent",
                Exit.CONFLICT,
                hint=hint,
            )
    if len(given) == _UUID_CHARS:  # what the daemon itself would say: unknown, or answered
        return Failure(f"cannot {what}: no such question is open; nothing was sent", Exit.CONFLICT, hint=hint)
    return Failure(f"cannot {what}: no question's or task's id begins so", Exit.NOT_FOUND, hint=hint)


def _only(fitting: Sequence[Found], what: str, describe: Callable[[Found], Problem]) -> Found | None:
    if len(fitting) > 1:
        listed = [describe(it) for it in fitting[:10]]
        raise Failure(f"cannot tell which one is meant: {what} fits {len(fitting)}", Exit.USAGE, problems=listed)
    return fitting[0] if fitting else None
