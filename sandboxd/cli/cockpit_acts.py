"""What does a person do about a cockpit's question, and what are they told?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sandboxd.cli.cockpit_client import CockpitClient, check_open, find_prompt, question_in
from sandboxd.cli.console import Console, ago, left
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.facts import Question
from sandboxd.cli.text import one_line

ANSWER_SCHEMA: Final = "sandboxd.cockpit-answer/1"
PROMPT_SCHEMA: Final = "sandboxd.cockpit-prompt/1"
DETAILED_MAX: Final = 50  # of a list: their choices are asked for one by one
_POLL_S: Final = 0.2
_GONE: Final = ("expired", "cancelled")


def answer_at(
    client: CockpitClient,
    given: str,
    fill: Callable[[Question], Mapping[str, Any]],
    *,
    note: str,
    wait_s: float | None,
) -> tuple[Mapping[str, Any], str]:
    """Answer the question that `given` names with what `fill` makes of it: what came of it, as JSON and in words."""
    prompt = find_prompt(client, given, to="answer")
    check_open(prompt, given)
    body = {"payload": dict(fill(question_in(prompt)))} | ({"note": note} if note else {})
    name, what = str(prompt["number"]), f"answer `{given}`"
    try:
        told = client.act(name, "answer", body, what=what)
    except Failure as failure:
        if failure.exit_code == Exit.CONFLICT:  # it may have closed meanwhile, and then the code says how
            check_open(client.question(name, what=what), given)
        raise
    now = told["prompt"]
    until = time.monotonic() + (wait_s or 0)
    while now["phase"] != "closed" and told["outcome"] == "decided" and time.monotonic() < until:
        time.sleep(min(_POLL_S, max(until - time.monotonic(), 0)))
        now = client.question(name, what=f"wait for question `{given}`")
    receipt = {"schema": ANSWER_SCHEMA, "sent": True, "outcome": told["outcome"], "prompt": now}
    return receipt, _told(told["outcome"], now)


def act(client: CockpitClient, given: str, verb: str, body: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Cancel, resume, settle or reissue: what came of it, as JSON and in words."""
    what = f"{verb} question `{given}`"
    prompt = find_prompt(client, given, to=verb)
    told = client.act(str(prompt["number"]), verb, body, what=what)
    now = told["prompt"]
    return {"schema": ANSWER_SCHEMA, "outcome": told["outcome"], "prompt": now}, f"Question {now['number']}: {told['outcome']}."


def listed(client: CockpitClient, console: Console, now: datetime, *, as_json: bool) -> None:
    """The open questions, in the columns that a host's have; what cannot be asked there goes to stderr."""
    found = client.listed()
    prompts = sorted(found["prompts"], key=lambda it: (it["closes_at"], it["number"]))
    for number, prompt in enumerate(prompts[:DETAILED_MAX]):
        prompts[number] = prompt | {"response_schema": _schema_of(client, prompt)}
    if as_json:
        shown = [{"schema": PROMPT_SCHEMA, **prompt} for prompt in prompts]
        console.object({"schema": "sandboxd.prompts/1", "prompts": shown, "sightings": found["sightings"]})
        return
    rows = []
    for prompt in prompts:
        it = question_in(prompt)
        choices = "/".join(choice.text + ("*" if choice.text == it.default else "") for choice in it.choices)
        rows.append([it.prompt_id, it.task_id, left(now, it.deadline), ago(now, it.asked_at), choices, _shown_question(prompt)])
    if console.wide:
        rows = [[row[0][:8], row[1][:8], *row[2:]] for row in rows]
    if not rows and console.wide:
        console.talk("Nothing waits for an answer.")
    else:
        console.table(("prompt", "task", "left", "asked", "choices", "question"), rows)
    for sighting in found["sightings"]:
        task = f"task {sighting['task_id'][:8]}" if sighting["task_id"] else "a task whose id cannot be read"
        what = "Not asked yet" if sighting["kind"] == "postponed" else "Cannot be answered here"
        console.talk(f"{what}: {sighting['host']}, {task}: {sighting['why']}")
    if found["has_more"]:
        console.talk("There are more: these are the newest ones.")


def described(prompt: Mapping[str, Any], now: datetime) -> list[tuple[str, str]]:
    """What is known about a question, as names and values in reading order; what is not known is left out."""
    it, responders = question_in(prompt), prompt["responders"]
    votes = [f"{vote['person']} by {vote['channel']}" for vote in prompt["votes"]]
    state = f"{prompt['status']} ({prompt['phase']}{', held' if prompt['held'] else ''})"
    lines = [
        ("number", str(prompt["number"])),
        ("prompt", it.prompt_id),
        ("host", str(prompt["host"])),
        ("task", it.task_id),
        ("context", it.context_id),
        ("question", it.text),
        ("state", state),
        ("step", str(prompt["step"])),
        ("reason", str(prompt["reason"])),
        ("way out", str(prompt["way_out"])),
        ("asked", ago(now, it.asked_at)),
        ("left", "" if prompt["phase"] == "closed" else left(now, it.deadline)),
        ("choices", ", ".join(f"{choice.text} ({choice.title})" for choice in it.choices)),
        ("default", it.default or ""),
        ("who may", ", ".join(responders["patterns"]) + (f"; {responders['dead_end']}" if responders["dead_end"] else "")),
        ("needs", f"{responders['votes_needed']} persons who agree" if responders["votes_needed"] > 1 else ""),
        ("said", ", ".join(votes)),
        ("answer", _progress(prompt["progress"])),
        ("you", "may answer" if prompt["may_answer"] else "may not answer"),
    ]
    lines += [(f"{name} id", str(value)) for name, value in prompt["links"].items() if name != "sandbox"]
    return [(name, value) for name, value in lines if value]


def say_history(console: Console, prompt: Mapping[str, Any], *, as_json: bool) -> None:
    """The story of a question, in order."""
    entries = prompt["history"]
    if as_json:
        for entry in entries:
            console.object({"schema": "sandboxd.approval-audit/1", **entry})
        return
    names = ("at", "event", "outcome", "principal", "channel", "why", "note")
    rows = [["" if entry.get(name) is None else str(entry[name]) for name in names] for entry in entries]
    console.table(names, rows)


def _schema_of(client: CockpitClient, prompt: Mapping[str, Any]) -> Any:
    return client.question(str(prompt["number"]), what="list questions").get("response_schema") or {}


def _shown_question(prompt: Mapping[str, Any]) -> str:
    needed = prompt["responders"]["votes_needed"]
    counted = f"[{len(prompt['votes'])} of {needed}] " if needed > 1 else ""
    return counted + one_line(str(prompt["question"]), limit=4096)


def _progress(steps: Sequence[Mapping[str, Any]]) -> str:
    """How far the answer has come, with the times at which the cockpit learnt it."""
    names = {"went-on": "went on"}
    told = []
    for step in steps:
        if not step["state"]:
            break
        about = (str(step["at"] or "") if step["state"] == "done" else "", str(step["how"]))
        details = ", ".join(part for part in about if part)
        told.append(f"{names.get(step['step'], step['step'])}{f' ({details})' if details else ''}")
    return " → ".join(told)


def _told(outcome: str, prompt: Mapping[str, Any]) -> str:
    number, needed = prompt["number"], prompt["responders"]["votes_needed"]
    if outcome == "counted":
        return f"Counted: {len(prompt['votes'])} of {needed} have said something about question {number}."
    if prompt["phase"] == "closed":
        how = "the host has taken it" if prompt["status"] == "responded" else f"{prompt['status']}: {prompt['reason']}"
        return f"Question {number} is closed: {how}."
    return f"Recorded: question {number} is answered, and the answer is on its way ({prompt['phase']})."
