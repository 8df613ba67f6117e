"""What do the commands do with a daemon that answers?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxd.cli.main import main
from tests.cli.fake_daemon import World, ended, output_event, refusal, serving, status_event, task, waiting

PROMPT = "0f5a7c1e-6b3d-4c58-9a55-3c1d2e4f5a6b"
TASK = "7f3aaaaa-0000-4000-8000-000000000001"
OTHER = "7f3bbbbb-0000-4000-8000-000000000002"

# httpcore 1.0 leaves a unix socket that could not be connected to the garbage collector.
httpcore_leaves_a_socket = pytest.mark.filterwarnings(
    "ignore:Exception ignored in.*socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("URL", "TOKEN_FILE", "INSTANCE", "CONFIG"):
        monkeypatch.delenv(f"SANDBOXD_{name}", raising=False)
    with serving(tmp_path) as here:
        monkeypatch.setenv("SANDBOXD_SOCKET", here.socket)
        yield here


@pytest.fixture
def asked(world: World) -> World:
    world.tasks = {TASK: waiting(TASK, PROMPT), OTHER: task(OTHER)}
    return world


def test_tasks_are_listed_in_tab_separated_columns(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "list"]) == 0

    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[:2] for row in rows] == [[TASK, "input-required"], [OTHER, "working"]]
    assert rows[0][3:] == ["sandbox-agent-runner", "plan", "", "Write the plan? [y/N]"]


def test_tasks_without_a_verb_lists(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "--json"]) == 0

    listed = json.loads(capsys.readouterr().out)
    assert listed["schema"] == "sandboxd.tasks/1"
    assert [it["id"] for it in listed["tasks"]] == [TASK, OTHER]


def test_lists_go_on_over_pages(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.tasks = {f"t{number}": task(f"t{number}") for number in range(130)}

    assert main(["tasks", "list", "--limit", "120"]) == 0

    assert len(capsys.readouterr().out.splitlines()) == 120
    assert [request.query.get("pageToken") for request in world.requests] == [None, "100"]


def test_every_request_speaks_1_0_and_activates_prompts(asked: World) -> None:
    main(["tasks", "list", "--state", "working"])

    headers = asked.requests[0].headers
    assert headers["a2a-version"] == "1.0"
    assert headers["a2a-extensions"] == "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1"
    assert asked.requests[0].query["status"] == "TASK_STATE_WORKING"


def test_another_instance_has_its_prefix(asked: World) -> None:
    main(["tasks", "show", TASK, "--instance", "other"])

    assert asked.requests[0].path == f"/agents/other/tasks/{TASK}"


def test_a_beginning_of_an_id_is_enough(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "show", "7f3b"]) == 0

    assert f"task\t{OTHER}" in capsys.readouterr().out


def test_an_ambiguous_beginning_lists_what_it_fits(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "show", "7f3"]) == 2

    told = capsys.readouterr().err
    assert "fits 2" in told
    assert TASK in told
    assert OTHER in told


def test_an_unknown_task_is_not_found(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["tasks", "show", "7f3"]), main(["tasks", "show", TASK])) == (3, 3)

    assert "error: cannot find task `7f3`" in capsys.readouterr().err


def test_a_failed_task_says_how_it_ended(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.tasks = {TASK: ended(TASK, "FAILED", "Exit 3.", reason="exit", fail_kind="application", exit_code=3)}

    main(["tasks", "show", "7f3a"])

    assert "ended\treason exit, fail kind application, exit code 3" in capsys.readouterr().out


def test_logs_print_every_artifact_made_safe(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.tasks = {TASK: ended(TASK) | {"artifacts": [{"artifactId": "stdout"}, {"artifactId": "stderr"}]}}
    world.artifacts = {(TASK, "stdout"): b"one\n\x1b]0;t\x07\xff\n", (TASK, "stderr"): b"oops\x9b\n"}

    assert main(["tasks", "logs", "7f3a"]) == 0

    told = capsys.readouterr()
    assert told.out == "one\n␛]0;t␇\ufffd\n"
    assert told.err == "oops\ufffd\n"


def test_raw_logs_are_the_exact_bytes(world: World, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    world.tasks = {TASK: ended(TASK) | {"artifacts": [{"artifactId": "terminal"}]}}
    world.artifacts = {(TASK, "terminal"): b"\x1b[2J\xff\r\n"}

    assert main(["tasks", "logs", "7f3a", "--raw"]) == 0

    assert capfdbinary.readouterr().out == b"\x1b[2J\xff\r\n"


def test_an_artifact_that_is_not_there_is_not_found(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "logs", TASK, "--artifact", "nope"]) == 3


def test_following_shows_output_questions_and_the_end(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.tasks = {TASK: waiting(TASK, PROMPT)}
    world.streams = [
        status_event(2, task(TASK))
        + output_event(3, "Plan:\r\nWrite the plan? [y/N] ")
        + status_event(4, waiting(TASK, PROMPT))
        + output_event(5, "y\r\n")
        + status_event(6, ended(TASK, says="Exit 0."))
    ]

    assert main(["tasks", "logs", "7f3a", "-f"]) == 0

    told = capsys.readouterr()
    assert told.out == "Plan:\nWrite the plan? [y/N] y\n"
    assert "asks: Write the plan? [y/N]  (sandboxd answer 0f5a7c1e" in told.err
    assert "completed: Exit 0." in told.err


def test_a_broken_stream_is_resumed_without_a_gap_or_a_double(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.tasks = {TASK: task(TASK)}
    world.streams = [
        status_event(2, task(TASK)) + output_event(3, "one ") + b"id: 4\ndata: {cut",
        status_event(3, task(TASK)) + output_event(4, "two\u2028") + status_event(5, ended(TASK)),
    ]

    assert main(["tasks", "logs", "7f3a", "-f", "--json"]) == 0

    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["seq"] for event in events] == [2, 3, 4, 5]
    assert [event["text"] for event in events if event["schema"] == "sandboxd.log/1"] == ["one ", "two\u2028"]
    assert [request.headers["last-event-id"] for request in world.requests if request.path.endswith(":subscribe")] == ["1", "3"]


def test_canceling_passes_the_reason_on(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "cancel", "7f3b", "--reason", "wrong cycle"]) == 0

    assert asked.requests[-1].path == f"/tasks/{OTHER}:cancel"
    assert asked.requests[-1].body == {"id": OTHER, "metadata": {"reason": "wrong cycle"}}
    assert "is canceled" in capsys.readouterr().err


def test_canceling_an_ended_task_is_a_conflict(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    asked.refusals = [refusal(400, "TASK_NOT_CANCELABLE", "cannot cancel task `7f3b`: it is completed already")]

    assert main(["tasks", "cancel", "7f3b"]) == 5


def test_open_questions_are_listed(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts"]) == 0

    row = capsys.readouterr().out.rstrip("\n").split("\t")
    assert (row[0], row[1], row[4], row[5]) == (PROMPT, TASK, "y/n*", "Write the plan? [y/N]")


def test_open_questions_as_json_hold_the_schema(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts", "list", "--json"]) == 0

    (prompt,) = json.loads(capsys.readouterr().out)["prompts"]
    assert prompt["schema"] == "sandboxd.prompt/1"
    assert prompt["choices"] == [{"text": "y", "title": "Yes"}, {"text": "n", "title": "No"}]
    assert prompt["response_schema"]["required"] == ["text"]


@pytest.mark.parametrize("given", [PROMPT, PROMPT[:4], TASK, "7f3a"])
def test_an_answer_is_sent_to_the_question_that_is_meant(asked: World, given: str) -> None:
    assert main(["answer", given, "--choice", "yes"]) == 0

    message = asked.requests[-1].body["message"]
    assert message["metadata"] == {"hitl_response_for": {"prompt_id": PROMPT, "payload": {"text": "y"}}}
    assert (message["taskId"], message["contextId"], message["role"]) == (TASK, f"c-{TASK}", "ROLE_USER")
    assert asked.requests[-1].body["configuration"]["returnImmediately"] is True


@pytest.mark.parametrize(
    ("options", "payload"),
    [
        (["--text", "maybe"], {"text": "maybe"}),
        (["--text", ""], {"text": ""}),
        (["--json", '{"text": "n"}'], {"text": "n"}),
    ],
)
def test_an_answer_can_be_any_text_or_a_whole_payload(asked: World, options: list[str], payload: object) -> None:
    assert main(["answer", PROMPT, *options]) == 0

    assert asked.requests[-1].body["message"]["metadata"]["hitl_response_for"]["payload"] == payload


def test_an_answer_from_a_file_loses_one_newline(asked: World, tmp_path: Path) -> None:
    (tmp_path / "answer").write_text("from a file\n")

    assert main(["answer", PROMPT, "--file", str(tmp_path / "answer")]) == 0

    assert asked.requests[-1].body["message"]["metadata"]["hitl_response_for"]["payload"] == {"text": "from a file"}


@pytest.mark.parametrize(
    "options",
    [["--text", "a\nb"], ["--text", "x" * 4097], ["--json", "{}"], ["--json", '{"text": 1}'], ["--choice", "perhaps"]],
)
def test_an_answer_that_does_not_fit_is_not_sent(asked: World, options: list[str]) -> None:
    assert main(["answer", PROMPT, *options]) == 6

    assert {request.method for request in asked.requests} == {"GET"}


@pytest.mark.parametrize("options", [[], ["--text", "y", "--choice", "y"], ["--json", "y"], ["--json", "[]"]])
def test_an_answer_is_exactly_one_thing(asked: World, options: list[str]) -> None:
    assert main(["answer", PROMPT, *options]) == 2


def test_checking_an_answer_sends_nothing(asked: World) -> None:
    assert main(["answer", PROMPT, "--choice", "y", "--check"]) == 0

    assert {request.method for request in asked.requests} == {"GET"}


def test_an_answer_to_an_unexpected_question_is_not_sent(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["answer", PROMPT, "--choice", "y", "--expect-text", "Delete"]) == 5

    assert {request.method for request in asked.requests} == {"GET"}
    assert "nothing was sent" in capsys.readouterr().err


def test_an_answer_after_somebody_elses_is_a_conflict(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    asked.refusals = [refusal(409, "HITL_ALREADY_ANSWERED_OR_UNKNOWN", "the prompt was answered at 12:00")]

    assert main(["answer", PROMPT, "--choice", "y"]) == 5

    assert f"cannot answer `{PROMPT}`: the prompt was answered" in capsys.readouterr().err


def test_an_answer_that_the_daemon_finds_unfit_lists_why(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    found = {
        "@type": "type.googleapis.com/google.protobuf.Struct",
        "value": {"validation_errors": [{"path": "/text", "keyword": "type", "message": "expected string"}]},
    }
    asked.refusals = [refusal(422, "HITL_RESPONSE_INVALID", "1 field does not fit", found)]

    assert main(["answer", PROMPT, "--choice", "y"]) == 6

    assert "`/text`: expected string" in capsys.readouterr().err


def test_an_answer_to_an_old_question_is_a_conflict(asked: World) -> None:
    asked.tasks[TASK] = ended(TASK) | {"history": asked.tasks[TASK]["history"]}

    assert main(["answer", PROMPT, "--text", "y"]) == 5
    assert main(["answer", "0f5a", "--text", "y"]) == 5
    assert main(["answer", TASK[:5], "--text", "y"]) == 5


def test_an_answer_to_an_unknown_question_is_a_conflict_or_not_found(asked: World) -> None:
    assert main(["answer", "11111111-1111-4111-8111-111111111111", "--text", "y"]) == 5
    assert main(["answer", "1111", "--text", "y"]) == 3


def test_an_answer_to_an_expired_question_says_so(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    news = {"urn:sandboxd:prompt-news:v1": {"prompt_id": PROMPT, "closed": "expired"}}
    asked.tasks[TASK] = task(TASK, "INPUT_REQUIRED", says="Nobody answered.", metadata=news)

    assert main(["answer", PROMPT, "--text", "y"]) == 7

    assert "expired" in capsys.readouterr().err


def test_waiting_too_short_is_pending(asked: World) -> None:
    assert main(["answer", PROMPT, "--choice", "y", "--wait", "0s"]) == 8


def test_waiting_ends_with_the_task(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    asked.ends_at_answer = ended(TASK, says="Exit 0.")

    assert main(["answer", PROMPT, "--text", "y", "--wait", "10s", "--output", "json"]) == 0

    receipt = json.loads(capsys.readouterr().out)
    assert (receipt["schema"], receipt["sent"], receipt["task"]["state"]) == ("sandboxd.answer/1", True, "completed")


@httpcore_leaves_a_socket
@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["tasks", "show", "abc"], "show task `abc`"),
        (["tasks", "show", TASK], f"show task `{TASK}`"),
        (["tasks", "logs", "abc"], "print the logs of task `abc`"),
        (["tasks", "cancel", "abc"], "cancel task `abc`"),
        (["tasks", "cancel", TASK], f"cancel task `{TASK}`"),
        (["prompts", "list"], "list open questions"),
        (["answer", "abc", "--text", "y"], "answer `abc`"),
        (["audit", "tail"], "read the audit record"),
        (["push", "dead"], "list dead letters"),
    ],
)
def test_what_cannot_be_done_without_a_daemon_is_what_was_typed(
    typed: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*typed, "--socket", str(tmp_path / "none.sock")]) == 9

    assert f"error: cannot {told}: nobody answers at" in capsys.readouterr().err


@httpcore_leaves_a_socket
def test_a_daemon_that_is_not_there_is_unreachable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "list", "--socket", str(tmp_path / "none.sock")]) == 9

    told = capsys.readouterr().err
    assert "error: cannot list tasks: nobody answers at" in told
    assert "no such file" in told
    assert "hint: is it running?" in told


@httpcore_leaves_a_socket
def test_errors_are_json_where_results_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "list", "--json", "--socket", str(tmp_path / "none.sock")]) == 9

    error = json.loads(capsys.readouterr().err)
    assert (error["schema"], error["exit"]) == ("sandboxd.error/1", 9)


@pytest.mark.parametrize(("status", "code"), [(401, 4), (403, 4), (503, 9), (500, 1)])
def test_refusals_without_a_reason_go_by_their_status(asked: World, status: int, code: int) -> None:
    asked.refusals = [(status, {})]

    assert main(["tasks", "cancel", OTHER]) == code
