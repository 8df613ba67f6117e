"""Which ids does the shell offer after Tab?

Asked of the daemon with a short bound: a shell that waits for its completion is worse than one without. Whatever goes wrong,
there is nothing to offer, and not a word on the terminal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

import click
from click.shell_completion import CompletionItem

from sandboxd.cli.connect import Reach
from sandboxd.cli.facts import task_facts
from sandboxd.cli.find import open_questions
from sandboxd.cli.text import one_line

_TIMEOUT_S: Final = 0.2
_ID: Final = re.compile(r"[0-9A-Za-z._-]{1,128}")  # nothing that a shell could take for more than a word


def task_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of the newest tasks, with their states."""
    try:
        with _reach(context).daemon(timeout_s=_TIMEOUT_S) as daemon:
            tasks = [task_facts(task) for task in daemon.tasks(limit=50)]
    except Exception:
        return []
    return _items(((task.id, task.state) for task in tasks), incomplete)


def prompt_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of open questions, with their texts."""
    try:
        with _reach(context).daemon(timeout_s=_TIMEOUT_S) as daemon:
            questions = open_questions(daemon)
    except Exception:
        return []
    return _items(((question.prompt_id, question.text) for question in questions), incomplete)


def _reach(context: click.Context) -> Reach:
    """What was typed before the Tab; defaults from the environment are not filled in at completion."""
    names = ("socket", "url", "token_file", "instance", "config")
    typed = {name: context.params.get(name) or os.environ.get(f"SANDBOXD_{name.upper()}", "") for name in names}
    return Reach(**typed)


def _items(found: Iterable[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    return [
        CompletionItem(name, help=one_line(told, limit=60))
        for name, told in found
        if name.startswith(incomplete) and _ID.fullmatch(name)
    ]
