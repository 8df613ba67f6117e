"""How is a question answered from the command line?

The answer names the question that it is for, is checked here by the same rules as in the daemon, and is sent once: a second
try would be an answer to something else. Exit codes tell apart what a script can do about it: 5 somebody else was first,
6 it does not fit, 7 too late, 8 accepted, but the task had not ended when the wait ran out.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

import click

from sandboxd.a2a.extensions import HITL_RESPONSE_FOR
from sandboxd.cli import complete
from sandboxd.cli.client import Daemon
from sandboxd.cli.cockpit_acts import answer_at
from sandboxd.cli.cockpit_client import CockpitClient, cockpit_option
from sandboxd.cli.connect import Reach, daemon_options
from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.facts import Question, TaskFacts, task_facts
from sandboxd.cli.find import find_question
from sandboxd.cli.options import Span
from sandboxd.hitl.answer import check

_FILE_MAX_BYTES: Final = 64 * 1024  # far above what an answer may have: the schema says the rest
_POLL_S: Final = 0.2


@click.command()
@click.argument("question_id", metavar="ID", shell_complete=complete.prompt_ids)
@click.option("--text", help="Type this text; one Enter is appended.")
@click.option("--choice", metavar="TEXT", help="One of the choices that the question offers.")
@click.option("--json", "payload_json", metavar="JSON", help='The whole payload, such as \'{"text": "y"}\'.')
@click.option(
    "--file", "file", type=click.File("rb"), help="Read the text from a file; - is stdin. One newline at its end is dropped."
)
@click.option("--expect-text", metavar="PART", help="Send only if the question contains this.")
@click.option("--check", "check_only", is_flag=True, help="Check the answer and send nothing.")
@click.option(
    "--wait",
    "wait_s",
    type=Span(),
    metavar="TIME",
    help="Wait at most this long: for the task's end; at a cockpit for what became of the question.",
)
@click.option("--note", default="", help="A word for the audit, to a cockpit alone; nobody types it.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", help="How to print what came of it.")
@cockpit_option
@daemon_options
def answer(
    *,
    question_id: str,
    text: str | None,
    choice: str | None,
    payload_json: str | None,
    file: Any,
    expect_text: str | None,
    check_only: bool,
    wait_s: float | None,
    note: str,
    output: str,
    cockpit: str,
    reach: Reach,
) -> None:
    """Answer an open question, named by its id or by its task's; a beginning is enough.

    \b
    sandboxd answer 3f2c --choice y
    sandboxd answer 3f2c --text 'cycle-005' --expect-text 'Which cycle'
    sandboxd answer 17 --choice y --cockpit https://cockpit.example --token-file me.token
    """
    given = [
        name
        for name, value in (("--text", text), ("--choice", choice), ("--json", payload_json), ("--file", file))
        if value is not None
    ]
    if len(given) != 1:
        told = f"not {' and '.join(given)} together" if given else "it needs one"
        raise click.UsageError(f"give one of --text, --choice, --json and --file: {told}")
    console = Console.of_process()

    def fill(question: Question) -> Mapping[str, Any]:
        if expect_text is not None and expect_text not in question.text:
            why = f"it asks `{question.text}`; nothing was sent"
            raise Failure(f"cannot answer `{question_id}`: the question is not the expected one: {why}", Exit.CONFLICT)
        return _payload(question, text, choice, payload_json, file)

    if cockpit:
        with CockpitClient(cockpit, reach.token_file) as client:
            if check_only:
                raise click.UsageError("--check is for a host: a cockpit checks an answer when it is given")
            receipt, told = answer_at(client, question_id, fill, note=note, wait_s=wait_s)
        _print(console, output, receipt, told)
        if wait_s is not None and receipt["prompt"]["phase"] != "closed":
            raise Failure(f"cannot wait longer for question `{question_id}`: {told}", Exit.PENDING)
        return
    if note:
        raise click.UsageError("--note is for a cockpit: a host keeps none")
    with reach.daemon() as daemon:
        question = find_question(daemon, question_id)
        payload = fill(question)
        check_payload(question, payload)
        if check_only:
            _print(
                console,
                output,
                {"schema": "sandboxd.answer/1", "prompt_id": question.prompt_id, "sent": False},
                "The answer fits; nothing was sent.",
            )
            return
        message_id = str(uuid.uuid4())
        task = task_facts(daemon.send(answer_message(question, payload, message_id), what=f"answer `{question_id}`"))
        sent: dict[str, Any] = {
            "schema": "sandboxd.answer/1",
            "prompt_id": question.prompt_id,
            "task_id": question.task_id,
            "message_id": message_id,
            "sent": True,
        }
        if wait_s is not None:
            task = _wait_end(daemon, task, wait_s)
        _print(console, output, sent | {"task": task.as_json()}, _told(question, task, waited=wait_s is not None))
        if wait_s is not None and not task.has_ended:
            raise Failure(f"cannot wait longer for task `{task.id}`: it is still {task.state}", Exit.PENDING)


def answer_message(question: Question, payload: Mapping[str, Any], message_id: str) -> dict[str, Any]:
    """The A2A 1.0 message that answers (hitl-prompt/v1, Response Envelope)."""
    return {
        "messageId": message_id,
        "role": "ROLE_USER",
        "taskId": question.task_id,
        "contextId": question.context_id,
        "parts": [{"data": dict(payload), "mediaType": "application/json"}],
        "metadata": {HITL_RESPONSE_FOR: {"prompt_id": question.prompt_id, "payload": dict(payload)}},
    }


def check_payload(question: Question, payload: Mapping[str, Any]) -> None:
    """`Failure` with every reason when the payload does not fit the question's schema."""
    problems = check(question.schema, payload)
    if problems:
        raise Failure(
            "cannot send the answer: it does not fit; the question is still open", Exit.INVALID_ANSWER, problems=problems
        )


def choose(question: Question, given: str) -> str:
    """The choice that `given` names by its text or title, whatever the case."""
    for choice in question.choices:
        if given == choice.text:
            return choice.text
    for choice in question.choices:
        if given.casefold() in (choice.text.casefold(), choice.title.casefold()):
            return choice.text
    offered = ", ".join(f"`{choice.text}`" for choice in question.choices)
    why = f"it offers {offered}" if offered else "it offers none"
    raise Failure(f"cannot choose `{given}`: {why}; nothing was sent", Exit.INVALID_ANSWER, hint="any other text: --text TEXT")


def _payload(
    question: Question, text: str | None, choice: str | None, payload_json: str | None, file: Any
) -> Mapping[str, Any]:
    if text is not None:
        return {"text": text}
    if choice is not None:
        return {"text": choose(question, choice)}
    if payload_json is not None:
        try:
            payload = json.loads(payload_json)
        except ValueError as error:
            raise Failure(f"cannot read --json: {error}", Exit.USAGE) from error
        if not isinstance(payload, Mapping):
            raise Failure('cannot use --json: it is no object, such as {"text": "y"}', Exit.USAGE)
        return payload
    data: bytes = file.read(_FILE_MAX_BYTES + 1)
    if len(data) > _FILE_MAX_BYTES:
        raise Failure(f"cannot use --file: it is longer than {_FILE_MAX_BYTES} bytes", Exit.INVALID_ANSWER)
    try:
        return {"text": data.decode().removesuffix("\n").removesuffix("\r")}
    except UnicodeDecodeError as error:
        raise Failure("cannot use --file: it is no UTF-8 text", Exit.INVALID_ANSWER) from error


def _wait_end(daemon: Daemon, task: TaskFacts, wait_s: float) -> TaskFacts:
    until = time.monotonic() + wait_s
    while not task.has_ended and time.monotonic() < until:
        time.sleep(min(_POLL_S, max(until - time.monotonic(), 0)))
        task = task_facts(daemon.task(task.id, what=f"wait for task `{task.id}`"))
    return task


def _told(question: Question, task: TaskFacts, *, waited: bool) -> str:
    """What is known, and no more: accepted means typed, not read."""
    if waited:
        return f"Answered; task {task.id} is {task.state}" + (f": {task.summary}" if task.has_ended and task.summary else ".")
    return f"Answered: the text was typed into task {question.task_id}. See: sandboxd tasks show {question.task_id[:8]}"


def _print(console: Console, output: str, receipt: Mapping[str, Any], told: str) -> None:
    if output == "json":
        console.object(receipt)
    else:
        console.talk(told)
