"""What do the commands read out of a task?"""

from __future__ import annotations

from datetime import UTC, datetime

from sandboxd.a2a.extensions import ARTIFACT_CUT, HITL_PROMPT, OUTCOME, PROMPT_FACTS, PROMPT_NEWS, RUN_FACTS
from sandboxd.cli.facts import artifact_bytes, past_prompts, question_of, task_facts, wire_state
from sandboxd.hitl.answer import AnswerForm, Choice, response_schema

FORM = AnswerForm("yes_no", (Choice("y", "Yes"), Choice("n", "No")), default="n")
METADATA = {
    HITL_PROMPT: {
        "prompt_id": "0f5a7c1e-6b3d-4c58-9a55-3c1d2e4f5a6b",
        "prompt": "Write the plan? [y/N]",
        "response_schema": response_schema(FORM),
        "deadline": "2026-11-29T12:05:00.000Z",
        "allowed_responders": ["any"],
    },
    PROMPT_FACTS: {"kind": "yes_no", "default": "n", "rule": "shell.yes-no"},
}


def task(state: str, said_with: object = None, **rest: object) -> dict[str, object]:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Says so."}], "metadata": said_with or {}}
    status = {"state": state, "timestamp": "2026-11-29T12:00:01.000Z", "message": message}
    return {"id": "t1", "contextId": "c1", "status": status, **rest}


def test_a_waiting_task_shows_its_question() -> None:
    question = task_facts(task("TASK_STATE_INPUT_REQUIRED", METADATA)).question

    assert question is not None
    assert question.text == "Write the plan? [y/N]"
    assert question.choices == FORM.choices
    assert question.default == "n"
    assert question.deadline == datetime(2026, 11, 29, 12, 5, tzinfo=UTC)
    assert (question.task_id, question.context_id) == ("t1", "c1")


def test_the_default_is_read_from_the_schema_when_nothing_else_says_it() -> None:
    question = question_of({HITL_PROMPT: METADATA[HITL_PROMPT]})

    assert question is not None
    assert question.default == "n"
    assert question.choices == FORM.choices


def test_a_task_that_works_again_asks_nothing() -> None:
    assert task_facts(task("TASK_STATE_WORKING", METADATA)).question is None


def test_an_ended_task_says_why() -> None:
    facts = task_facts(task("TASK_STATE_FAILED", {OUTCOME: {"reason": "exit", "exit_code": 3}}))

    assert facts.has_ended
    assert facts.outcome == {"reason": "exit", "exit_code": 3}
    assert facts.summary == "Says so."


def test_the_json_of_a_task_names_its_schema_and_rfc_3339_times() -> None:
    spelled = task_facts(task("TASK_STATE_INPUT_REQUIRED", METADATA, metadata={RUN_FACTS: {"adapter": "a"}})).as_json()

    assert spelled["schema"] == "sandboxd.task/1"
    assert spelled["since"] == "2026-11-29T12:00:01.000Z"
    assert spelled["question"]["schema"] == "sandboxd.prompt/1"
    assert spelled["question"]["deadline"] == "2026-11-29T12:05:00.000Z"
    assert spelled["run"] == {"adapter": "a"}


def test_artifacts_say_what_was_cut() -> None:
    artifacts = [{"artifactId": "terminal", "parts": [], "metadata": {ARTIFACT_CUT: {"bytes": 12}}}, {"artifactId": "stderr"}]
    facts = task_facts(task("TASK_STATE_COMPLETED", artifacts=artifacts))

    assert [(it.artifact_id, it.cut) for it in facts.artifacts] == [("terminal", 12), ("stderr", 0)]


def test_bytes_come_from_raw_and_from_text_parts() -> None:
    assert (
        artifact_bytes({"parts": [{"raw": "AAH/"}, {"text": "é"}, {"raw": "__8="}, {"data": {}}]})
        == b"\x00\x01\xff\xc3\xa9\xff\xff"
    )


def test_prompts_of_the_past_are_found_in_the_history() -> None:
    history = [{"metadata": METADATA}, {"parts": []}, "no message"]

    assert list(past_prompts({"history": history})) == ["0f5a7c1e-6b3d-4c58-9a55-3c1d2e4f5a6b"]


def test_a_closed_prompt_is_told() -> None:
    assert (
        task_facts(task("TASK_STATE_INPUT_REQUIRED", {PROMPT_NEWS: {"prompt_id": "p", "closed": "expired"}})).closed_prompt[
            "closed"
        ]
        == "expired"
    )


def test_nonsense_is_no_error() -> None:
    facts = task_facts({"status": {"state": 3, "timestamp": "yesterday", "message": []}, "artifacts": {}})

    assert (facts.state, facts.since, facts.question, facts.artifacts) == ("3", None, None, ())


def test_states_are_spelled_as_the_wire_has_them() -> None:
    assert wire_state("input-required") == "TASK_STATE_INPUT_REQUIRED"
