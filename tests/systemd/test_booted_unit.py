"""sandboxd as a service of a real systemd, from an installed wheel: started by a socket, fed, reloaded, killed, stopped."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.daemon import REPOSITORY, outcome_of, output_of, prompt_of, state_of, wait_until
from tests.support.systemd import Machine
from tests.support.unit import CONFIG, POLICY, PORT, PYTHON, TOKEN, Unit

pytestmark = pytest.mark.systemd

SERVICE = "sandboxd.service"
EXAMPLE = ".aiwg/ops/adapters/sandbox-agent-runner/examples/cycle-005-request.json"
STOP_S = 20.0  # it takes some 0.5 s; systemd itself would kill at 70


def ask(unit: Unit, question: str = "Proceed? [y/N] ") -> dict[str, Any]:
    task = unit.run([["ask", question]])
    assert state_of(task) == "INPUT_REQUIRED"
    return task


def post(unit: Unit, token: str) -> str:
    """The status of a request at the TCP door, asked from within the machine."""
    lines = [
        "import httpx, sys",
        "bearer = {'Authorization': 'Bearer ' + sys.stdin.read()}",
        f"print(httpx.get('http://127.0.0.1:{PORT}/tasks', headers=bearer, timeout=30).status_code)",
    ]
    return unit.machine.run(PYTHON, "-c", "\n".join(lines), stdin=token).strip()


def test_the_first_client_starts_the_daemon_by_its_socket(booted: Unit) -> None:
    assert booted.machine.show(SERVICE, "ActiveState")["ActiveState"] == "inactive"

    with booted.client() as client:
        assert client.get("/readyz").json()["ready"] is True

    assert booted.state("active") == "active"
    assert wait_until(lambda: booted.machine.show(SERVICE, "StatusText")["StatusText"].startswith("ready"), what="the status")


def test_the_example_asks_and_is_answered_in_the_unit(booted: Unit) -> None:
    runner = (REPOSITORY / "examples/workspace/.aiwg/ops/adapters/sandbox-agent-runner/runner.mjs").read_text()
    fake = booted.workspace / ".aiwg/ops/adapters/sandbox-agent-runner/runner.mjs"
    before = fake.read_text()
    fake.write_text(runner)
    try:
        with booted.client() as client:
            task = client.post("/message:send", json=booted.message(booted.envelope(EXAMPLE))).json()["task"]
        while state_of(task) == "INPUT_REQUIRED":
            answer = booted.answer(task, "y", wait=True)
            assert answer.status_code == 200, answer.text
            task = answer.json()["task"]
    finally:
        fake.write_text(before)

    assert state_of(task) == "COMPLETED", task


def test_a_run_has_a_cgroup_beside_the_daemons_own(booted: Unit) -> None:
    task = ask(booted)

    groups = booted.machine.run("find", f"/sys/fs/cgroup/system.slice/{SERVICE}", "-type", "d").splitlines()
    own = booted.machine.run("cat", f"/proc/{booted.main_pid}/cgroup").strip()

    assert own.endswith(f"/{SERVICE}/supervisor"), own
    assert [group for group in groups if f"run-{task['id']}" in group], groups
    booted.answer(task, wait=True)


def test_a_task_finds_no_word_of_the_service_manager(booted: Unit) -> None:
    script = "cat /proc/$PPID/environ | tr '\\0' '\\n'; env; ls /run/credentials/sandboxd.service"
    task = booted.run([["environment"], ["shell", script], ["sleep", 500]])

    own = output_of(task).splitlines()[0]

    for name in ("NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY", "LISTEN_FDS", "WATCHDOG_USEC"):
        assert name not in own
    assert TOKEN not in output_of(task)


def test_a_task_writes_what_its_policy_names_and_nothing_else(booted: Unit) -> None:
    written = booted.run([["write", ".aiwg/ops/runs/out.txt", "x"]])
    refused = booted.run([["write", ".aiwg/other.txt", "x"]])

    assert state_of(written) == "COMPLETED"
    assert state_of(refused) == "FAILED"
    assert "EROFS" in output_of(refused)


@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "/dev/shm", "/var/lib/sandboxd", "/srv/workspace/.aiwg/ops/runs"])
def test_nothing_that_a_task_can_write_is_executable(booted: Unit, folder: str) -> None:
    script = f'cp /bin/true {folder}/tool && {folder}/tool; echo "status $?"'
    task = booted.run([["shell", script], ["sleep", 1500]])

    assert "status 126" in output_of(task), output_of(task)


def test_the_tcp_door_is_a_handed_socket_and_its_token_a_credential(booted: Unit) -> None:
    assert post(booted, TOKEN) == "200"
    assert post(booted, "x" * 40) == "401"
    assert booted.machine.show(SERVICE, "PrivateNetwork")["PrivateNetwork"] == "yes"


def test_nobody_but_root_comes_in_at_the_unix_door(booted: Unit) -> None:
    done = booted.machine.do("sandboxd", "tasks", "list", user="sandboxd")

    assert done.returncode == 4
    assert booted.machine.do("sandboxd", "tasks", "list").returncode == 0


def test_a_push_notification_leaves_by_the_couriers_unit(booted: Unit) -> None:
    receiver = [
        "import http.server, sys",
        "class Take(http.server.BaseHTTPRequestHandler):",
        "    def do_POST(self):",
        "        body = self.rfile.read(int(self.headers['Content-Length']))",
        "        with open('/tmp/received', 'ab') as file: file.write(body + b'\\n')",
        "        self.send_response(200); self.end_headers()",
        "http.server.HTTPServer(('127.0.0.1', 9000), Take).serve_forever()",
    ]
    booted.machine.run("systemd-run", "--unit=receiver", PYTHON, "-c", "\n".join(receiver))
    assert wait_until(
        lambda: booted.machine.show("sandboxd-courier.service", "ActiveState")["ActiveState"] == "active", what="the courier"
    )
    body = booted.message(booted.envelope(booted.request([["print", "hello"]])))
    body["configuration"] = {"taskPushNotificationConfig": {"url": "http://127.0.0.1:9000/take"}}

    with booted.client() as client:
        answer = client.post("/message:send", json=body)
    assert answer.status_code == 200, answer.text

    received = booted.machine.path("/tmp/received")
    wait_until(
        lambda: received.exists() and "TASK_STATE_COMPLETED" in received.read_text(), timeout_s=60, what="the notification"
    )


def test_a_reload_keeps_questions_open_and_counts_for_new_tasks(booted: Unit) -> None:
    asked = ask(booted)
    before = booted.machine.path(POLICY).read_text()
    booted.machine.write(POLICY, before.replace('"--request", "{request}"', '"--other", "{request}"'))

    booted.machine.run("systemctl", "reload", SERVICE)
    wait_until(lambda: "reloaded" in booted.log(), what="the reload")
    refused = booted.run([["print", "x"]])
    answered = booted.answer(asked, wait=True)

    assert state_of(refused) == "REJECTED"
    assert answered.status_code == 200
    assert state_of(answered.json()["task"]) == "COMPLETED"
    booted.machine.write(POLICY, before)
    booted.machine.run("systemctl", "reload", SERVICE)
    wait_until(lambda: state_of(booted.run([["print", "x"]])) == "COMPLETED", timeout_s=30, what="the old policy")


def test_a_reload_that_would_not_load_is_refused_to_who_asked(booted: Unit) -> None:
    before = booted.machine.path(POLICY).read_text()
    booted.machine.write(POLICY, before + "\nunknown = 1\n")

    done = booted.machine.do("systemctl", "reload", SERVICE)

    booted.machine.write(POLICY, before)
    assert done.returncode != 0
    assert state_of(booted.run([["print", "x"]])) == "COMPLETED"


def test_a_reload_that_takes_a_restart_is_refused_by_name(booted: Unit) -> None:
    before = booted.machine.path(CONFIG).read_text()
    booted.machine.write(CONFIG, before + '\n[limits]\nkeepalive = "9s"\nmax_tasks = 1\n')

    done = booted.machine.do("systemctl", "reload", SERVICE)
    assert done.returncode != 0
    assert "limits.keepalive" in booted.log()
    booted.machine.run("systemctl", "kill", "--kill-whom=main", "--signal=HUP", SERVICE)  # past the check
    wait_until(lambda: "`limits.keepalive`: changed" in booted.log(), what="the refusal")
    status = wait_until(lambda: booted.machine.show(SERVICE, "StatusText")["StatusText"], what="the status")

    booted.machine.write(CONFIG, before)
    assert "reload refused" in status
    first, second = ask(booted), ask(booted)  # `max_tasks` counts no more than `keepalive` does
    for task in (first, second):
        booted.answer(task, wait=True)


def test_the_units_that_were_installed_are_those_that_the_config_needs(booted: Unit) -> None:
    assert booted.machine.do("sandboxd", "install-units", "--check").returncode == 0
    before = booted.machine.path(CONFIG).read_text()
    booted.machine.write(CONFIG, before.replace(f"127.0.0.1:{PORT}", "127.0.0.1:8766"))

    done = booted.machine.do("sandboxd", "install-units", "--check")

    booted.machine.write(CONFIG, before)
    assert done.returncode == 1
    assert "+ListenStream=127.0.0.1:8766" in done.stdout


def test_a_reload_that_needs_another_unit_says_so(booted: Unit) -> None:
    before = booted.machine.path(POLICY).read_text()
    assert "drifted" not in booted.log()
    booted.machine.run("install", "-d", "-o", "sandboxd", "/srv/workspace/.aiwg/ops/more")
    booted.machine.write(
        POLICY, before.replace('writable = [".aiwg/ops/runs"', 'writable = [".aiwg/ops/runs", ".aiwg/ops/more"')
    )

    booted.machine.run("systemctl", "reload", SERVICE)
    wait_until(lambda: "has drifted" in booted.log(), timeout_s=30, what="the word of it")

    assert "+ReadWritePaths=/srv/workspace/.aiwg/ops/more" in booted.machine.do("sandboxd", "install-units", "--check").stdout
    booted.machine.write(POLICY, before)
    booted.machine.run("systemctl", "reload", SERVICE)


def test_a_client_that_comes_while_the_daemon_is_restarted_waits(booted: Unit) -> None:
    old = booted.main_pid
    booted.machine.run("systemctl", "restart", "--no-block", SERVICE)
    wait_until(lambda: booted.main_pid not in (0, old), timeout_s=60, what="the new daemon")

    with booted.client() as client:  # it takes a second until it is ready
        assert client.get("/readyz").status_code == 200


def test_a_stop_ends_what_is_live_and_says_so(booted: Unit) -> None:
    task = ask(booted)
    began = time.monotonic()
    booted.machine.run("systemctl", "stop", SERVICE)
    took_s = time.monotonic() - began

    assert booted.machine.show(SERVICE, "Result", "ActiveState") == {"Result": "success", "ActiveState": "inactive"}
    assert took_s < STOP_S
    with booted.client() as client:  # starts it anew
        after = client.get(f"/tasks/{task['id']}").json()
    assert outcome_of(after)["reason"] == "daemon-stopped"
    assert "can no longer be answered" in after["status"]["message"]["parts"][0]["text"]
    assert booted.answer(after, prompt_id=prompt_of(task)["prompt_id"]).status_code == 409


def test_a_daemon_that_hangs_is_killed_by_the_watchdog_and_starts_anew(make_machine: Callable[[], Machine]) -> None:
    unit = Unit(make_machine())
    unit.machine.write("/etc/systemd/system/sandboxd.service.d/90-test.conf", "[Service]\nWatchdogSec=5\n")
    unit.up()
    task = ask(unit)
    pid = unit.main_pid
    time_of = unit.machine.show(SERVICE, "WatchdogTimestampMonotonic")["WatchdogTimestampMonotonic"]
    wait_until(
        lambda: unit.machine.show(SERVICE, "WatchdogTimestampMonotonic")["WatchdogTimestampMonotonic"] != time_of,
        timeout_s=30,
        what="the feeding",
    )

    unit.machine.run("kill", "-STOP", str(pid))
    wait_until(lambda: unit.machine.show(SERVICE, "NRestarts")["NRestarts"] == "1", timeout_s=60, what="the restart")

    assert unit.state("active") == "active"
    assert unit.main_pid not in (0, pid)
    assert "watchdog" in unit.log().lower()
    assert "Fatal Python error: Aborted" in unit.log()  # with the place where each thread was
    assert outcome_of(unit.get(task["id"]))["reason"] == "daemon-died"
    left = unit.machine.run("find", f"/sys/fs/cgroup/system.slice/{SERVICE}", "-name", "run-*")
    assert left == ""
    unit.machine.run("systemctl", "kill", "--kill-whom=main", f"--signal={signal.SIGKILL.value}", SERVICE)
    wait_until(lambda: unit.machine.show(SERVICE, "NRestarts")["NRestarts"] == "2", timeout_s=60, what="the restart")
    assert unit.machine.path("/run/sandboxd/sandboxd.sock").exists()
