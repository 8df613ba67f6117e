"""Which daemon is attacked, and what may its tasks do? (a policy whose command is the attacks)"""

from __future__ import annotations

import json
import os
import shutil
import signal
import uuid
from pathlib import Path
from typing import Any

from tests.hostile.traces import children_of
from tests.support.daemon import REPOSITORY, Daemon

CANARY = "the-canary-that-no-task-may-see"
DAEMON_CANARY = "the-secret-of-the-daemons-environment"
MIB = 1024 * 1024
MEMORY_BYTES = 2048 * MIB  # node 24 takes 600 MiB of address space to start, and as much again for each worker thread
FILE_BYTES, TMP_BYTES, PROCESSES = 16 * MIB, 32 * MIB, 64
FOLDER = ".aiwg/ops/adapters/hostile"
RUNNER = f"{FOLDER}/runner.py"
COMMANDS = {
    "hostile": ("python3", "-B", RUNNER, "--request"),
    "hostile-node": ("node", f"{FOLDER}/runner.mjs", "--request"),
}
POLICY = f"""
format = 1
adapter = "ADAPTER"

[command]
program = "PROGRAM"
argv = [ARGV, "{{request}}"]
cwd = "/workspace"
terminal = "always"
env = {{ PATH = "/usr/bin:/bin", LANG = "C.UTF-8", HOME = "/nonexistent" }}

[hole.mode]
one-of = ["plan"]

[hole.request]
path-under = [".aiwg/ops/runs"]

[limits]
memory = "{MEMORY_BYTES // MIB}MiB"
file-size = "{FILE_BYTES // MIB}MiB"
processes = {PROCESSES}

[isolation]
network = false
writable = [".aiwg/ops/runs"]
tmp = "{TMP_BYTES // MIB}MiB"
"""
ENV_NAMES = (
    *("PATH", "LANG", "HOME", "TMPDIR", "AIWG_A2A_MESSAGE", "AIWG_A2A_TASK_ID", "AIWG_A2A_INSTANCE_ID", "AIWG_MISSION_ID"),
    *("AIWG_A2A_ADAPTER", "AIWG_A2A_ADAPTER_MODE", "PWD", "LC_CTYPE"),  # the last two: bash and Python set them for themselves
)
BWRAP = "/usr/bin/bwrap"
# What bubblewrap cannot: a mount namespace in which these folders are mounted `noexec`. `… FOLDER … -- COMMAND …`
NOEXEC = (
    *("unshare", "--map-current-user", "--keep-caps", "--mount", "--", "sh", "-euc"),
    'while [ "$1" != -- ]; do mount --bind "$1" "$1"; mount -o remount,bind,noexec "$1"; shift; done; shift; '
    'exec setpriv --ambient-caps=-all --inh-caps=-all "$@"',
    "sh",
)


class HostileDaemon(Daemon):
    """A daemon whose one adapter attacks. `mounts`: it sees the host as the unit would let it."""

    def __init__(
        self, folder: Path, level: str, *, node: str = "/usr/bin/node", mounts: bool = False, network: bool = False
    ) -> None:
        super().__init__(folder, node, policy=policy_of("hostile", network=network))
        other = folder / "hostile-node.toml"
        other.write_text(policy_of("hostile-node", network=network))
        other.chmod(0o644)
        self.mounts, self.level = mounts, level
        self.state = folder / "state"
        self.sibling = folder / "workspace-of-somebody-else"
        self.socket = folder / "state/api.sock"
        text = self.config.read_text().replace('level = "none"', f'level = "{level}"')
        text = text.replace(f"{folder}/api.sock", str(self.socket))
        text = text.replace(f'policies = ["{self.policy}"]', f'policies = ["{self.policy}", "{other}"]')
        self.config.write_text(text.replace("[programs]", '[programs]\npython3 = "/usr/bin/python3"'))
        arm(self.workspace)

    def start(self) -> None:
        os.environ["SANDBOXD_HOSTILE_CANARY"] = DAEMON_CANARY
        try:
            super().start()
        finally:
            del os.environ["SANDBOXD_HOSTILE_CANARY"]

    def command(self) -> list[str]:
        if not self.mounts:
            return super().command()
        writable = [self.folder / "state", self.workspace / ".aiwg/ops/runs"]
        if named := os.environ.get("SANDBOXD_TEST_CGROUP"):
            writable.append(Path(named))
        mounts = ["--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]
        for path in (REPOSITORY, self.folder):
            mounts += ["--ro-bind", str(path), str(path)]
        for path in writable:
            mounts += ["--bind", str(path), str(path)]
        mounts += ["--perms", "0000", "--tmpfs", str(self.folder / "home")]
        return [*NOEXEC, *map(str, writable[:2]), "--", BWRAP, "--die-with-parent", *mounts, *super().command()]

    @property
    def pid(self) -> int:
        """The daemon's own, which is not that of what made its mounts."""
        assert self.process is not None
        return children_of(self.process.pid)[0] if self.mounts else self.process.pid

    def stop(self) -> int:
        assert self.process is not None
        os.kill(self.pid, signal.SIGTERM)
        return self.process.wait(timeout=20)

    def send(self, request: dict[str, Any], *, adapter: str = "hostile", wait: bool = True) -> dict[str, Any]:
        path = f".aiwg/ops/runs/{uuid.uuid4()}.json"
        (self.workspace / path).write_text(json.dumps(request))
        command = [*COMMANDS[adapter], path]
        envelope = self.envelope(path, adapter=adapter, command=command, timeout_seconds=120, input_mode=...)
        body = {**self.message(envelope), "configuration": {"returnImmediately": True}}
        with self.client() as client:
            answer = client.post("/message:send", json=body)
        assert answer.status_code == 200, answer.text
        task: dict[str, Any] = answer.json()["task"]
        if wait:
            task = self.until(task["id"], "COMPLETED", "FAILED", "REJECTED", "CANCELED", timeout_s=120)
        return task


def arm(workspace: Path) -> None:
    """Put the attacks where the policy's command is."""
    runner = workspace / RUNNER
    attacks = runner.parent / "tests/hostile/attacks"
    shutil.copytree(Path(__file__).parent / "attacks", attacks, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("runner.py", "runner.mjs"):
        shutil.copyfile(attacks / name, runner.with_name(name))
    runner.with_name("neighbour.mjs").write_text('export default "here";\n')


def policy_of(adapter: str, *, network: bool = False) -> str:
    program, *_ = COMMANDS[adapter]
    argv = ", ".join(json.dumps(word) for word in COMMANDS[adapter])
    policy = POLICY.replace("network = false", "network = true") if network else POLICY
    return policy.replace("ADAPTER", adapter).replace("PROGRAM", program).replace("ARGV", argv)
