"""Do the limits of a policy hold in the unit, on a kernel whose cgroup v2 has the controllers for them?

Most test machines have their controllers bound to cgroup v1, so a kernel of its own is booted (User-Mode-Linux), with sandboxd
as a service in it. It has no Landlock and is slow: only what takes controllers is tried there.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.daemon import REPOSITORY, outcome_of, output_of, state_of
from tests.support.systemd import Image, run_in_uml, seeded, why_no_uml
from tests.support.unit import fill_seed

pytestmark = pytest.mark.systemd

BOOT_S = 900.0  # it takes 30 s on an idle machine: every system call costs ten times as much
# On hostfs these take a minute, or wait for what never comes.
MASKED = ("systemd-tmpfiles-setup.service", "systemd-tmpfiles-setup-dev.service", "systemd-journal-flush.service")
RUNNER = """
import { spawn } from "node:child_process";
import { readFileSync, writeSync } from "node:fs";

const { bomb } = JSON.parse(readFileSync(process.argv[process.argv.indexOf("--request") + 1], "utf8"));
if (bomb === "memory") {
  const held = [];
  for (let mb = 0; mb < 1024; mb += 16) {
    held.push(Buffer.alloc(16 * 1024 * 1024, 1));
    writeSync(1, `held ${mb + 16}\\n`);
  }
} else if (bomb === "processor") {
  for (const began = performance.now(); performance.now() < began + 5000; );
} else {
  let [began, refused] = [0, 0];
  for (let count = 0; count < 200; count++) {
    const child = spawn("/bin/sleep", ["100"], { stdio: "ignore" });
    child.on("error", () => refused++);
    child.on("spawn", () => began++);
  }
  setTimeout(() => {
    writeSync(1, `began ${began}, refused ${refused}\\n`);
    process.exit(0);
  }, 3000);
}
"""

DRIVER = """
import glob, json, sys, time, uuid
import httpx

RUNS = "/sys/fs/cgroup/system.slice/sandboxd.service/*/run-*"
ADAPTER = "https://agentic-sandbox.aiwg.io/extensions/adapter-command/v1"
door = httpx.HTTPTransport(uds="/run/sandboxd/sandboxd.sock")
client = httpx.Client(base_url="http://localhost", transport=door, headers={"A2A-Version": "1.0"}, timeout=300)
found = {"ready": client.get("/readyz").json()}
for bomb in ("processes", "memory"):
    envelope = json.loads(sys.argv[1])
    envelope["command"][-1] = f".aiwg/ops/runs/{bomb}.json"
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "x"}], "metadata": {ADAPTER: envelope}}
    answer = client.post("/message:send", json={"message": message})
    found[bomb] = answer.json().get("task", answer.text)

envelope["command"][-1] = ".aiwg/ops/runs/processor.json"
message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "x"}], "metadata": {ADAPTER: envelope}}
answer = client.post("/message:send", json={"message": message, "configuration": {"returnImmediately": True}})
task, ends_at = answer.json()["task"], time.monotonic() + 240
while task["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING") and time.monotonic() < ends_at:
    for place in glob.glob(RUNS):
        try:
            found["cpu.max"] = open(f"{place}/cpu.max").read().strip()
            stat = dict(line.split() for line in open(f"{place}/cpu.stat"))
            found["throttled"] = max(int(stat["nr_throttled"]), found.get("throttled", 0))
        except OSError:  # it is over
            continue
    time.sleep(0.2)
    task = client.get(f"/tasks/{task['id']}").json()
found["processor"] = task
found["after"] = client.get("/readyz").json()
found["left"] = glob.glob(RUNS)
print("RESULT " + json.dumps(found) + " END")
"""

SCRIPT = """#!/bin/sh
export PATH=/opt/sandboxd/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec 2>&1
sandboxd install-units && systemd-sysusers && systemd-tmpfiles --create /etc/tmpfiles.d/sandboxd.conf
mkdir -p /var/lib/sandboxd && mount -t tmpfs tmpfs /var/lib/sandboxd # on hostfs every file belongs to root
chown sandboxd: /srv/workspace/.aiwg/ops/runs
systemctl daemon-reload
systemctl start sandboxd.socket sandboxd-tcp.socket sandboxd-courier.socket
/opt/sandboxd/bin/python /driver.py '%s' || journalctl --no-pager -o cat -u sandboxd.service
echo "RESTARTS $(systemctl show -P NRestarts sandboxd.service) END"
"""


def result(console: str, word: str) -> str:
    assert f"{word} " in console, console[-8000:]
    return console.rpartition(f"{word} ")[2].partition(" END")[0]


@pytest.fixture(scope="module")
def found(image: Image, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if why := why_no_uml():
        pytest.skip(f"NOT TESTED HERE: limits of memory, processes and processor time by cgroup v2 controllers: {why}")
    folder = tmp_path_factory.mktemp("uml")
    seed = seeded(folder / "seed", *MASKED)
    policy = (REPOSITORY / "policies/sandbox-agent-runner.toml").read_text()
    policy = policy.replace('memory    = "1GiB"', 'memory    = "256MiB"\ncpu-percent = 60')
    fill_seed(
        seed, image, policy=policy, extra='[limits]\nstop_grace = "1s"\n', token=None
    )  # on hostfs systemd cannot hand a credential to an unprivileged unit
    adapter = ".aiwg/ops/adapters/sandbox-agent-runner/runner.mjs"
    (seed / "srv/workspace" / adapter).write_text(RUNNER)
    for bomb in ("processes", "memory", "processor"):
        (seed / f"srv/workspace/.aiwg/ops/runs/{bomb}.json").write_text(json.dumps({"bomb": bomb}))
    (seed / "driver.py").write_text(DRIVER)
    envelope = {
        "adapter": "sandbox-agent-runner",
        "mode": "plan",
        "command": ["node", adapter, "--request", ""],
        "working_dir": "/workspace",
        "timeout_seconds": 120,
    }
    (seed / "run-test").write_text(SCRIPT % json.dumps(envelope))
    (seed / "run-test").chmod(0o755)
    console = run_in_uml(image, folder, seed, timeout_s=BOOT_S)
    return json.loads(result(console, "RESULT")) | {"restarts": int(result(console, "RESTARTS"))}


def test_a_fork_bomb_stops_at_the_policys_number_of_processes(found: dict[str, Any]) -> None:
    task = found["processes"]
    began, refused = (int(word) for word in output_of(task, "stdout").replace("began ", "").split(", refused "))

    assert state_of(task) == "COMPLETED"
    assert began < 64  # the policy's number, of which Node itself takes some
    assert began + refused == 200


def test_a_memory_bomb_dies_alone(found: dict[str, Any]) -> None:
    task = found["memory"]

    assert state_of(task) == "FAILED"
    assert outcome_of(task)["reason"] != "timeout", outcome_of(task)
    assert "held 512" not in output_of(task, "stdout")
    assert found["after"]["ready"] is True
    assert found["restarts"] == 0


def test_what_burns_processor_time_is_held_to_the_policys_share(found: dict[str, Any]) -> None:
    assert state_of(found["processor"]) == "COMPLETED"
    assert found["cpu.max"] == "60000 100000"
    assert found["throttled"] > 0


def test_nothing_of_any_is_left(found: dict[str, Any]) -> None:
    assert found["left"] == []
