"""Where do the attacks take place? (a daemon, its victims, and what became of them)

A range is one daemon at one level, with two tasks: one that stays, and one that attacks. Everything it could hurt is made for
it, and looked at afterwards from outside.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from tests.support.daemon import REPOSITORY, Daemon, output_of, processes_with, state_of, wait_until

CANARY = "the-canary-that-no-task-may-see"
DAEMON_CANARY = "the-secret-of-the-daemons-environment"
MIB = 1024 * 1024
MEMORY_BYTES, FILE_BYTES, TMP_BYTES, PROCESSES = 256 * MIB, 16 * MIB, 32 * MIB, 64
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


@attrs.frozen
class Verdicts:
    """What came of each attack, in its own words; and what was seen from outside."""

    own: dict[str, dict[str, Any]]
    honest: dict[str, dict[str, Any]]
    touched: frozenset[str]
    changed: dict[str, str]
    files: tuple[str, ...]  # what has another content, or is there that was not
    metadata: tuple[str, ...]  # what has another mode, time or attribute
    left: tuple[int, ...] = ()

    def got_through(self, name: str) -> str:
        """How the attack got through, or nothing."""
        if got := self.own[name].get("got"):
            return str(got)
        return "seen by the victim" if name in self.touched else ""

    def spelled(self, name: str) -> str:
        """The verdict in a word."""
        if self.got_through(name):
            return "through"
        told = self.own[name]
        return str(told.get("error") or told.get("killed") or ("bug" if "bug" in told else "hung"))


class HostileDaemon(Daemon):
    """A daemon whose one adapter attacks. `mounts`: it sees the host as the unit would let it."""

    def __init__(self, folder: Path, level: str, *, node: str = "/usr/bin/node", mounts: bool = False) -> None:
        super().__init__(folder, node, policy=policy_of("hostile"))
        other = folder / "hostile-node.toml"
        other.write_text(policy_of("hostile-node"))
        other.chmod(0o644)
        self.mounts = mounts
        self.sibling = folder / "workspace-of-somebody-else"
        self.socket = folder / "state/api.sock"
        text = self.config.read_text().replace('level = "none"', f'level = "{level}"')
        text = text.replace(f"{folder}/api.sock", str(self.socket))
        text = text.replace(f'policies = ["{self.policy}"]', f'policies = ["{self.policy}", "{other}"]')
        self.config.write_text(text.replace("[programs]", '[programs]\npython3 = "/usr/bin/python3"'))
        self.adapter = self.workspace / RUNNER
        attacks = self.adapter.parent / "tests/hostile/attacks"
        shutil.copytree(Path(__file__).parent / "attacks", attacks, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("runner.py", "runner.mjs"):
            shutil.copyfile(attacks / name, self.adapter.with_name(name))
        self.adapter.with_name("neighbour.mjs").write_text('export default "here";\n')

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
        return ["/usr/bin/bwrap", "--die-with-parent", *mounts, *super().command()]

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


class NotKept(Exception):
    """This host, or this version, does not keep the level."""


class Range:
    """The ground: made before the daemon, compared afterwards."""

    def __init__(self, folder: Path, level: str, *, node: str, mounts: bool) -> None:
        self.tag = f"sandboxd-hostile-{os.getpid()}-{uuid.uuid4().hex[:8]}-"
        self.name = level
        self.outside, self.home = folder / "outside", folder / "home"
        for path in (self.outside, self.home / ".ssh"):
            path.mkdir(parents=True)
        self.secret, self.key = self.outside / "secret", self.home / ".ssh/id_rsa"
        self.daemon = HostileDaemon(folder, level, node=node, mounts=mounts)
        root = self.daemon.workspace
        (root / ".git/hooks").mkdir(parents=True)
        self.daemon.sibling.mkdir()
        for path in (self.secret, self.key, self.daemon.sibling / "secret"):
            path.write_text(CANARY)
        for name in ("file", "file-2", "truncatable", "expendable", "renamable"):
            (root / name).write_text("kept\n")
        for name in ("writable", "expendable"):
            (self.outside / name).write_text("kept\n")
        (root / "symlink").symlink_to(self.secret)
        self.victim = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.victim", str(self.outside), self.tag],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=REPOSITORY,
            start_new_session=True,
            text=True,
        )
        self.facts = self._heard()

    def start(self) -> None:
        """Raises `NotKept` with the daemon's own words."""
        try:
            self.daemon.start()
        except AssertionError as error:
            if "isolation" in str(error):
                raise NotKept(str(error).strip().splitlines()[-1]) from None
            raise

    def _heard(self) -> dict[str, Any]:
        assert self.victim.stdout is not None
        line = self.victim.stdout.readline()
        assert line, "the victim is gone"
        heard: dict[str, Any] = json.loads(line)
        return heard

    def ask_victim(self) -> dict[str, Any]:
        assert self.victim.stdin is not None
        self.victim.stdin.write("report\n")
        self.victim.stdin.flush()
        return self._heard()

    def targets(self) -> dict[str, Any]:
        """All that an attacker could know, and luck could tell."""
        daemon, root = self.daemon, self.daemon.workspace
        state = daemon.folder / "state"
        mount, inside = cgroup_of(daemon.pid)
        return {
            **self.facts,
            "canary": CANARY,
            "daemon_canary": DAEMON_CANARY,
            "tag": self.tag,
            "uid": os.getuid(),
            "env_names": ENV_NAMES,
            "secret": str(self.secret),
            "key": str(self.key),
            "sibling": str(daemon.sibling / "secret"),
            "symlink": str(root / "symlink"),
            "expendable": str(self.outside / "expendable"),
            "writable_outside": str(self.outside / "writable"),
            "state": str(state),
            "store": str(state / "sandboxd.sqlite3"),
            "token": str(state / "cli.token"),
            "config": str(daemon.config),
            "policy": str(daemon.policy),
            "code": str(REPOSITORY / "sandboxd/errors.py"),
            "hostname_file": "/etc/hostname" if Path("/etc/hostname").exists() else "/etc/debian_version",
            "root": str(root),
            "runs": str(root / ".aiwg/ops/runs"),
            "runner": str(root / RUNNER),
            "workspace_file": str(root / "file"),
            "workspace_file_2": str(root / "file-2"),
            "truncatable": str(root / "truncatable"),
            "expendable_in_root": str(root / "expendable"),
            "renamable": str(root / "renamable"),
            "other_root": str(daemon.sibling),
            "api": str(daemon.socket),
            "api_port": int(daemon.url.rpartition(":")[2]),
            "daemon": daemon.pid,
            "spawner": spawner_of(daemon.pid),
            "daemon_cgroup": f"{mount}{inside}" if mount else "",
            "cgroup_mount": mount,
            "memory_bytes": MEMORY_BYTES,
            "file_bytes": FILE_BYTES,
            "processes": PROCESSES,
            "tmp_bytes": TMP_BYTES,
        }

    def attack(self, only: Sequence[str] = (), *, adapter: str = "hostile", leave: str = "") -> Verdicts:
        """One task that tries them all, beside one that is there to be hurt."""
        (self.daemon.workspace / ".aiwg/ops/runs/enough").unlink(missing_ok=True)
        other = self.daemon.send({"targets": {}, "stay": str(self.daemon.workspace / ".aiwg/ops/runs/enough")}, wait=False)
        other_pid = wait_until(lambda: self._runner_of(other["id"]), what="the other task's process")
        targets = self.targets() | {"other_task": other_pid, "other_tty": str(Path(f"/proc/{other_pid}/fd/0").readlink())}
        before, described = contents(self._watched()), metadata(self._watched())
        try:
            task = self.daemon.send({"targets": targets, "only": list(only), "leave": leave}, adapter=adapter)
            told = self.ask_victim()
        finally:
            (self.daemon.workspace / ".aiwg/ops/runs/enough").touch()
        assert state_of(self.daemon.until(other["id"], "COMPLETED", "FAILED")) == "COMPLETED", output_of(other)
        lines = [json.loads(line[line.index("{") :]) for line in output_of(task).splitlines() if "{" in line]  # behind echoes
        assert lines, f"{task['status']} {output_of(task)}"
        assert "done" in lines[-1], output_of(task)[-2000:]
        return Verdicts(
            own={line["attack"]: line for line in lines if "attack" in line},
            honest={line["honest"]: line for line in lines if "honest" in line},
            touched=frozenset(told["touched"]) | self._planted(),
            changed=told["changed"],
            files=differences(before, contents(self._watched())),
            metadata=differences(described, metadata(self._watched())),
            left=tuple(processes_with(task["id"])),
        )

    def _runner_of(self, task_id: str) -> int | None:
        for pid in processes_with(task_id):
            with suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"python3\0-B\0"):
                    return pid
        return None

    def _planted(self) -> frozenset[str]:
        """Names of attacks behind files that everybody can see."""
        found = set()
        for folder in ("/tmp", "/var/tmp", "/dev/shm", "/dev"):
            for name in os.listdir(folder):
                if name.startswith(self.tag):
                    found.add(name.removeprefix(self.tag))
                    Path(folder, name).unlink()
        return frozenset(found)

    def _watched(self) -> list[Path]:
        """Everything that no attack may change: all but what tasks and daemon write."""
        daemon, runs = self.daemon, self.daemon.workspace / ".aiwg/ops/runs"
        found = [daemon.config, daemon.policy, daemon.folder / "state"]
        for root in (self.outside, self.home, daemon.sibling, daemon.workspace):
            for folder, folders, names in os.walk(root):
                folders[:] = [name for name in folders if Path(folder, name) != runs]
                found += [Path(folder), *[Path(folder, name) for name in names]]
        return found

    def end(self) -> None:
        with suppress(BrokenPipeError):
            assert self.victim.stdin is not None
            self.victim.stdin.close()
        self.victim.wait(timeout=20)
        assert self.victim.stdout is not None
        self.victim.stdout.close()


@contextmanager
def open_range(folder: Path, level: str, *, node: str = "/usr/bin/node", mounts: bool = False) -> Iterator[Range]:
    """A range with its daemon up, ended in order whatever happens."""
    ground = Range(folder, level, node=node, mounts=mounts)
    try:
        ground.start()
        yield ground
        ground.daemon.end()
    finally:
        ground.end()
        if ground.daemon.process is not None and ground.daemon.process.poll() is None:
            ground.daemon.kill()


def policy_of(adapter: str) -> str:
    program, *_ = COMMANDS[adapter]
    argv = ", ".join(json.dumps(word) for word in COMMANDS[adapter])
    return POLICY.replace("ADAPTER", adapter).replace("PROGRAM", program).replace("ARGV", argv)


def contents(paths: Sequence[Path]) -> dict[str, str]:
    """What stands where: names of a folder, bytes of a file, the end of a link."""
    found = {}
    for path in paths:
        if path.is_symlink():
            found[str(path)] = str(path.readlink())
        elif path.is_dir():
            is_state = path.name == "state"  # the daemon's own comings and goings are none of an attack's
            names = [name for name in sorted(os.listdir(path)) if not is_state or name == "write_state"]
            found[str(path)] = f"{names}"
        elif path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def metadata(paths: Sequence[Path]) -> dict[str, str]:
    """Mode, time, links and attributes of each file; a folder's mode alone, for its time follows its content."""
    found = {}
    for path in paths:
        with suppress(OSError):
            facts = path.lstat()
            more = f"{facts.st_mtime_ns} {facts.st_nlink} {os.listxattr(path, follow_symlinks=False)}" if path.is_file() else ""
            found[str(path)] = f"{facts.st_mode:o} {more}"
    return found


def differences(before: dict[str, str], after: dict[str, str]) -> tuple[str, ...]:
    return tuple(
        f"{path}: {before.get(path, 'nothing')} → {after.get(path, 'nothing')}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    )


def spawner_of(daemon_pid: int) -> int:
    for pid in children_of(daemon_pid):
        if b"sandboxd.runner.spawner" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise AssertionError("the daemon has no spawner")


def children_of(pid: int) -> list[int]:
    """Of all its threads: who starts a process in a thread is its parent."""
    found = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return sorted(int(child) for of_thread in found for child in of_thread)


def cgroup_of(pid: int) -> tuple[str, str]:
    """Where cgroup2 is mounted, and where below it the process is; nothing where there is none."""
    line = next((line for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if line.startswith("0::")), "")
    for mount in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = mount.partition(" - ")
        if right.startswith("cgroup2 ") and left.split()[3] == "/" and line:
            return left.split()[4], line[3:]
    return "", ""
