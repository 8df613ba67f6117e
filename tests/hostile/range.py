"""Where do the attacks take place? (a daemon, its victims, and what became of them)

A range is one daemon at one level, with two tasks: one that stays, and one that attacks. Everything it could hurt is made for
it, and looked at afterwards from outside.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

import sandboxd
from sandboxd.policy.model import Isolation
from sandboxd.runner.isolation.levels import Kept, resolve
from sandboxd.runner.isolation.selftest import probe_for
from tests.hostile.hostile_daemon import (
    BWRAP,
    CANARY,
    DAEMON_CANARY,
    ENV_NAMES,
    FILE_BYTES,
    MEMORY_BYTES,
    NOEXEC,
    PROCESSES,
    RUNNER,
    TMP_BYTES,
    HostileDaemon,
)
from tests.hostile.traces import cgroup_of, contents, differences, metadata, spawner_of
from tests.support.daemon import REPOSITORY, output_of, processes_with, state_of, wait_until

ATTRIBUTE = "user.canary"


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


class NotKept(Exception):
    """This host, or this version, does not keep the level."""


class Range:
    """The ground: made before the daemon, compared afterwards."""

    def __init__(self, folder: Path, daemon: HostileDaemon, *, home: Path | None = None, user: str | None = None) -> None:
        """`user`: whose all of it is, where the daemon's user is not this process's."""
        self.tag = f"sandboxd-hostile-{os.getpid()}-{uuid.uuid4().hex[:8]}-"
        self.outside, self.home = folder / "outside", home or folder / "home"
        for path in (self.outside, self.home / ".ssh"):
            path.mkdir(parents=True)
        self.secret, self.key = self.outside / "secret", self.home / ".ssh/id_rsa"
        self.daemon = daemon
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
        (self.outside / "link").symlink_to(CANARY)
        with suppress(OSError):  # not every file system has them
            os.setxattr(self.secret, ATTRIBUTE, CANARY.encode())
        if user is not None:
            for path in (folder, self.home, daemon.sibling, root):
                subprocess.run(["/bin/chown", "-hR", f"{user}:", str(path)], check=True)
        self.victim = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.victim", str(self.outside), self.tag],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=REPOSITORY,
            start_new_session=True,
            user=user,
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
        state = daemon.state
        mount, inside = cgroup_of(daemon.pid)
        return {
            **self.facts,
            "canary": CANARY,
            "daemon_canary": DAEMON_CANARY,
            "tag": self.tag,
            "uid": Path(f"/proc/{self.victim.pid}").stat().st_uid,
            "env_names": ENV_NAMES,
            "secret": str(self.secret),
            "key": str(self.key),
            "sibling": str(daemon.sibling / "secret"),
            "symlink": str(root / "symlink"),
            "link": str(self.outside / "link"),
            "attribute": ATTRIBUTE,
            "expendable": str(self.outside / "expendable"),
            "writable_outside": str(self.outside / "writable"),
            "state": str(state),
            "store": str(state / "sandboxd.sqlite3"),
            "token": str(state / "cli.token"),
            "config": str(daemon.config),
            "policy": str(daemon.policy),
            "code": str(Path(sandboxd.__file__).with_name("errors.py")),
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
            "core_bytes": 0 if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0 else 1,  # where it is 0, nobody can make it 1
        }

    def attack(self, only: Sequence[str] = (), *, adapter: str = "hostile", leave: str = "") -> Verdicts:
        """One task that tries them all, beside one that is there to be hurt."""
        with turn(alone=self.daemon.level == "none"):
            return self._attack(only, adapter, leave)

    def _attack(self, only: Sequence[str], adapter: str, leave: str) -> Verdicts:
        (self.daemon.workspace / ".aiwg/ops/runs/enough").unlink(missing_ok=True)
        other = self.daemon.send({"targets": {}, "stay": str(self.daemon.workspace / ".aiwg/ops/runs/enough")}, wait=False)
        other_pid = wait_until(lambda: self._runner_of(other["id"]), timeout_s=60, what="the other task's process")
        targets = self.targets() | {"other_task": other_pid, "other_tty": str(Path(f"/proc/{other_pid}/fd/0").readlink())}
        before, described = contents(self._watched()), metadata(self._watched())
        try:
            task = self.daemon.send({"targets": targets, "only": list(only), "leave": leave}, adapter=adapter)
            told = self.ask_victim()
        finally:
            (self.daemon.workspace / ".aiwg/ops/runs/enough").touch()
        assert state_of(self.daemon.until(other["id"], "COMPLETED", "FAILED", timeout_s=60)) == "COMPLETED", output_of(other)
        lines = read_lines(output_of(task))
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
        task = self.daemon.get(task_id)
        assert state_of(task) in ("SUBMITTED", "WORKING"), task["status"]
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
        found = [daemon.config, daemon.policy, daemon.state]
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


def read_lines(output: str) -> list[dict[str, Any]]:
    """The runner's lines of JSON, some of them behind an echo of what an attack typed."""
    try:
        return [json.loads(line[line.index("{") :]) for line in output.splitlines() if "{" in line]
    except ValueError:
        raise AssertionError(f"the runner's output cannot be read: {output!r}") from None


def _check_host(level: Isolation, *, mounts: bool) -> None:
    kept = resolve(level, probe_for(level))
    if not isinstance(kept, Kept) or kept.level != level:
        raise NotKept(kept.reason if not isinstance(kept, Kept) else f"it is kept as `{kept.level}`")
    if mounts:
        try:
            command = [*NOEXEC, "--", BWRAP, "--ro-bind", "/", "/", "/bin/true"]
            made = subprocess.run(command, check=False, capture_output=True, text=True)
        except OSError as error:
            raise NotKept(f"there is no {BWRAP}") from error
        if made.returncode:
            raise NotKept(f"bubblewrap cannot make the unit's mounts here: {made.stderr.strip()}")


@contextmanager
def open_range(
    folder: Path, level: Isolation, *, node: str = "/usr/bin/node", mounts: bool = False, network: bool = False
) -> Iterator[Range]:
    """A range with its daemon up, ended in order whatever happens; `NotKept` where this host does not keep the level."""
    _check_host(level, mounts=mounts)
    ground = Range(folder, HostileDaemon(folder, level, node=node, mounts=mounts, network=network))
    try:
        ground.start()
        yield ground
        ground.daemon.end()
    finally:
        ground.end()
        if ground.daemon.process is not None and ground.daemon.process.poll() is None:
            ground.daemon.kill()


@contextmanager
def turn(*, alone: bool) -> Iterator[None]:
    """Without isolation an attack on everybody reaches the victims of other attacks, too: these wait for its end."""
    lock = os.open("/tmp", os.O_RDONLY | os.O_DIRECTORY)  # what is there for every run of the suite, and stays as it is
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(lock)
