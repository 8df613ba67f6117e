"""How often may an answer not fit?"""

from __future__ import annotations

from tests.support.daemon import REPOSITORY, Daemon, outcome_of, prompt_of, state_of

ASK = ["ask", "Proceed? [y/N] "]
SHIPPED = (REPOSITORY / "policies/sandbox-agent-runner.toml").read_text()
TWICE = SHIPPED.replace("[prompts]\n", "[prompts]\nmax-invalid = 2\n")


def test_one_answer_too_many_that_does_not_fit_fails_the_task(make_daemon):
    assert "max-invalid" in TWICE
    daemon: Daemon = make_daemon(policy=TWICE)
    task = daemon.run([ASK])

    told = [daemon.answer(task, {"text": 7}) for _ in range(3)]
    ended = daemon.until(task["id"], "FAILED")
    late = daemon.answer(task, "y")

    assert [answer.status_code for answer in told] == [422, 422, 422]
    assert "still open" in told[1].text
    assert "closed" in told[2].text
    assert outcome_of(ended)["reason"] == "no-valid-answer"
    assert "no valid answer" in ended["status"]["message"]["parts"][0]["text"]
    assert late.status_code == 409


def test_the_count_begins_anew_with_each_question(make_daemon):
    daemon: Daemon = make_daemon(policy=TWICE)
    task = daemon.run([ASK, ASK])
    for _ in range(2):
        assert daemon.answer(task, {"text": 7}).status_code == 422
    first = prompt_of(task)["prompt_id"]
    assert daemon.answer(task, "y").status_code == 200
    daemon.until(task["id"], "INPUT_REQUIRED")
    task = daemon.get(task["id"])
    assert prompt_of(task)["prompt_id"] != first

    assert [daemon.answer(task, {"text": 7}).status_code for _ in range(2)] == [422, 422]

    assert state_of(daemon.get(task["id"])) == "INPUT_REQUIRED"
    assert daemon.answer(task, "y", wait=True).json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
