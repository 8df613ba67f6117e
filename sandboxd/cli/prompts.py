"""What waits for an answer?"""

from __future__ import annotations

from datetime import UTC, datetime

import click

from sandboxd.cli.connect import Reach, daemon_options
from sandboxd.cli.console import Console, ago, left
from sandboxd.cli.facts import Question
from sandboxd.cli.find import open_questions
from sandboxd.cli.groups import Group
from sandboxd.cli.options import json_option


@click.group(cls=Group, default="list")
def prompts() -> None:
    """Show the questions that wait for an answer."""


@prompts.command("list")
@json_option
@daemon_options
def list_(as_json: bool, reach: Reach) -> None:
    """List open questions, the one with the least time left first.

    Columns in a pipe: prompt id, task id, time left, asked, choices, question.
    """
    console, now = Console.of_process(), datetime.now(UTC)
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


def spelled_choices(question: Question) -> str:
    """`y/n*`: the texts that surely answer, the default marked."""
    return "/".join(it.text + ("*" if it.text == question.default else "") for it in question.choices)
