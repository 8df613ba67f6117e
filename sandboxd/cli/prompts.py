"""What waits for an answer, at a host or at a cockpit, and what became of it?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from sandboxd.cli import cockpit_acts, complete
from sandboxd.cli.client import Daemon
from sandboxd.cli.cockpit_client import CockpitClient, cockpit_option, find_prompt
from sandboxd.cli.connect import Reach, daemon_options
from sandboxd.cli.console import Console, ago, left
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.facts import Question, past_turns, task_facts
from sandboxd.cli.find import find_question, find_task, open_questions
from sandboxd.cli.groups import Group
from sandboxd.cli.options import json_option


@click.group(cls=Group, default="list")
def prompts() -> None:
    """Show the questions that wait for an answer, and what became of them: of a host, or with --cockpit of many."""


@prompts.command("list")
@json_option
@cockpit_option
@daemon_options
def list_(as_json: bool, cockpit: str, reach: Reach) -> None:
    """List open questions, the one with the least time left first.

    Columns in a pipe: prompt id, task id, time left, asked, choices, question.
    """
    console, now = Console.of_process(), datetime.now(UTC)
    if cockpit:
        with CockpitClient(cockpit, reach.token_file) as client:
            cockpit_acts.listed(client, console, now, as_json=as_json)
        return
    with reach.daemon() as daemon:
        questions = open_questions(daemon)
    if as_json:
        console.object({"schema": "sandboxd.prompts/1", "prompts": [question.as_json() for question in questions]})
        return
    if not questions and console.wide:
        console.talk("Nothing waits for an answer.")
        return
    rows = [
        [it.prompt_id, it.task_id, left(now, it.deadline), ago(now, it.asked_at), spelled_choices(it), it.text]
        for it in questions
    ]
    if console.wide:  # a beginning of an id is enough to answer, and leaves room for the question
        rows = [[row[0][:8], row[1][:8], *row[2:]] for row in rows]
    console.table(("prompt", "task", "left", "asked", "choices", "question"), rows)
    if console.wide:
        console.talk("Answer one: sandboxd answer PROMPT --choice CHOICE, or --text TEXT")


@prompts.command()
@click.argument("question_id", metavar="ID", shell_complete=complete.prompt_ids)
@json_option
@cockpit_option
@daemon_options
def show(*, question_id: str, as_json: bool, cockpit: str, reach: Reach) -> None:
    """Show one question: what is asked, until when, what may be answered; at a cockpit also by whom, and what was said."""
    console, now = Console.of_process(), datetime.now(UTC)
    if cockpit:
        with CockpitClient(cockpit, reach.token_file) as client:
            prompt = find_prompt(client, question_id, to="show")
        shown: Mapping[str, Any] = {"schema": cockpit_acts.PROMPT_SCHEMA, **prompt}
        lines = cockpit_acts.described(prompt, now)
    else:
        with reach.daemon() as daemon:
            question = find_question(daemon, question_id, to="show")
        shown, lines = question.as_json(), _described(question, now)
    if as_json:
        console.object(shown)
        return
    for name, value in lines:
        console.say(f"{name:<13} {value}" if console.wide else f"{name}\t{value}")


@prompts.command()
@click.argument("question_id", metavar="ID", shell_complete=complete.prompt_ids)
@json_option
@cockpit_option
@daemon_options
def history(*, question_id: str, as_json: bool, cockpit: str, reach: Reach) -> None:
    """Tell the story of a question, in order; at a host that of all questions of its task."""
    console = Console.of_process()
    if cockpit:
        with CockpitClient(cockpit, reach.token_file) as client:
            prompt = find_prompt(client, question_id, to="tell the history of")
        cockpit_acts.say_history(console, prompt, as_json=as_json)
        return
    with reach.daemon() as daemon:
        turns = list(past_turns(daemon.task(_task_id(daemon, question_id), what=f"tell the history of `{question_id}`")))
    if as_json:
        for turn in turns:
            console.object({"schema": "sandboxd.prompt-turn/1", **turn})
        return
    console.table(("turn", "prompt", "message", "text"), [[str(value) for value in turn.values()] for turn in turns])


@prompts.command()
@click.argument("question_id", metavar="ID", shell_complete=complete.prompt_ids)
@click.option("--reason", required=True, help="Why; it stays on record.")
@json_option
@cockpit_option
@daemon_options
def cancel(*, question_id: str, reason: str, as_json: bool, cockpit: str, reach: Reach) -> None:
    """End a question unanswered, and with it the task that asks it."""
    if cockpit:
        _act(cockpit, reach, question_id, "cancel", body={"reason": reason}, as_json=as_json)
        return
    with reach.daemon(timeout_s=60) as daemon:
        question = find_question(daemon, question_id, to="cancel")
        task = task_facts(daemon.cancel(question.task_id, reason))
    console = Console.of_process()
    if as_json:
        console.object(task.as_json())
    else:
        console.talk(f"Task {task.id} is {task.state}.")


@prompts.command()
@click.argument("question_id", metavar="ID")
@json_option
@cockpit_option
@daemon_options
def resume(*, question_id: str, as_json: bool, cockpit: str, reach: Reach) -> None:
    """Go on with a question that a cockpit holds for a person."""
    _act(cockpit, reach, question_id, "resume", body={}, as_json=as_json)


@prompts.command()
@click.argument("question_id", metavar="ID")
@click.option("--reason", required=True, help="How you know what became of it; it stays on record.")
@json_option
@cockpit_option
@daemon_options
def settle(*, question_id: str, reason: str, as_json: bool, cockpit: str, reach: Reach) -> None:
    """Close, on your own word, a question of a cockpit of which nobody can find out what the host took."""
    _act(cockpit, reach, question_id, "settle", body={"reason": reason}, as_json=as_json)


@prompts.command()
@click.argument("question_id", metavar="ID", shell_complete=complete.prompt_ids)
@json_option
@cockpit_option
@daemon_options
def reissue(*, question_id: str, as_json: bool, cockpit: str, reach: Reach) -> None:
    """Have a question asked again, under a new id, that expired while its program waits still."""
    if cockpit:
        _act(cockpit, reach, question_id, "reissue", body={}, as_json=as_json)
        return
    what = f"have question `{question_id}` asked again"
    with reach.daemon() as daemon:
        task_id = _task_id(daemon, question_id)
        turns = [turn for turn in past_turns(daemon.task(task_id, what=what)) if turn["turn"] == "asked"]
        fitting = [turn for turn in turns if turn["prompt_id"].startswith(question_id)] or turns[-1:]
        if not fitting:
            raise Failure(f"cannot {what}: task `{task_id}` has asked nothing", Exit.CONFLICT)
        task = task_facts(daemon.reissue(task_id, fitting[-1]["prompt_id"], what=what))
    console = Console.of_process()
    if as_json:
        console.object(task.as_json())
    elif task.question is not None:
        console.talk(f"It is asked again: sandboxd answer {task.question.prompt_id[:8]} --text TEXT")


def spelled_choices(question: Question) -> str:
    """`y/n*`: the texts that surely answer, the default marked."""
    return "/".join(it.text + ("*" if it.text == question.default else "") for it in question.choices)


def _act(cockpit: str, reach: Reach, given: str, verb: str, *, body: Mapping[str, Any], as_json: bool) -> None:
    console = Console.of_process()
    if not cockpit:
        raise click.UsageError(f"`{verb}` is for a cockpit's questions: name it by --cockpit URL")
    with CockpitClient(cockpit, reach.token_file) as client:
        receipt, told = cockpit_acts.act(client, given, verb, body)
    if as_json:
        console.object(receipt)
    else:
        console.talk(told)


def _described(question: Question, now: datetime) -> list[tuple[str, str]]:
    lines = [
        ("prompt", question.prompt_id),
        ("task", question.task_id),
        ("context", question.context_id),
        ("question", question.text),
        ("kind", question.kind),
        ("asked", ago(now, question.asked_at)),
        ("left", left(now, question.deadline)),
        ("choices", ", ".join(f"{it.text} ({it.title})" for it in question.choices)),
        ("default", question.default or ""),
    ]
    return [(name, value) for name, value in lines if value]


def _task_id(daemon: Daemon, given: str) -> str:
    """The task of that question, open or not, or the task of that id."""
    try:
        return find_question(daemon, given, to="tell the history of").task_id
    except Failure as failure:
        if failure.exit_code not in (Exit.CONFLICT, Exit.EXPIRED, Exit.NOT_FOUND):
            raise
    for task in daemon.tasks(history=True, what=f"tell the history of `{given}`"):
        if any(turn["prompt_id"].startswith(given) for turn in past_turns(task)):
            return str(task.get("id"))
    return find_task(daemon, given, to="tell the history of").id
