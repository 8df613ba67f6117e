"""A real systemd for tests: a machine of its own within this one, with sandboxd installed in it.

`Image` is what it has beside this machine's own files: the wheel of this tree, installed offline in `/opt/sandboxd`. `Machine`
is one that runs. Both need root. Tests take the fixtures `image`, `make_machine` and `booted` of `tests/support/fixtures.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from packaging.requirements import Requirement

from tests.support.daemon import REPOSITORY, wait_until

SYSTEMD: Final = Path("/lib/systemd/systemd")
BOOT: Final = REPOSITORY / "tests/systemd/boot.sh"
UML: Final = REPOSITORY / "tests/systemd/boot-uml.sh"
PREFIX: Final = Path("/opt/sandboxd")
# It ends with these tests, however they end; its mounts are its own.
_ALONE: Final = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private")
BOOT_S: Final = 60.0  # it takes 0.7 s, and longer on a busy machine
_MASKED: Final = (
    # These write what is the whole machine's: sysctls, modules, the random seed, disks.
    *(
        f"systemd-{name}.service"
        for name in ("sysctl", "binfmt", "random-seed", "modules-load", "udevd", "hwdb-update", "timesyncd")
    ),
    *(
        "systemd-udev-trigger.service",
        "systemd-udevd-control.socket",
        "systemd-udevd-kernel.socket",
        "systemd-networkd.service",
    ),
    *(
        "e2scrub_reap.service",
        "e2scrub_all.timer",
        "fstrim.timer",
        "apt-daily.timer",
        "apt-daily-upgrade.timer",
        "man-db.timer",
    ),
    *("dpkg-db-backup.timer", "logrotate.timer", "getty.target", "machines.target", "remote-fs.target", "postgresql.service"),
    *(
        "dev-hugepages.mount",
        "dev-mqueue.mount",
        "sys-kernel-debug.mount",
        "sys-kernel-tracing.mount",
        "sys-fs-fuse-connections.mount",
    ),
    *("proc-sys-fs-binfmt_misc.automount", "proc-sys-fs-binfmt_misc.mount"),
)


def why_no_systemd() -> str:
    """Why none can be booted here; empty: one can."""
    if os.geteuid() != 0:
        return "booting a systemd takes root (scripts/test-systemd)"
    if not SYSTEMD.exists():
        return "there is no systemd on this machine"
    if missing := [tool for tool in ("unshare", "nsenter", "setpriv", "mount") if shutil.which(tool) is None]:
        return f"there is no {missing[0]} (util-linux) on this machine"
    if _hierarchy() is None:
        return "there is no cgroup v2 that can be written"
    return ""


def why_no_boot(folder: Path) -> str:
    """The same, after a try with nothing of ours in it."""
    if why := why_no_systemd():
        return why
    (folder / "opt").mkdir()
    machine = Machine(Image(folder / "opt", Path("/nonexistent")), folder)
    try:
        machine.up()
    except AssertionError as error:
        return f"a plain systemd does not come up in namespaces here: {error}"
    finally:
        machine.down()
    return ""


def _hierarchy() -> Path | None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 ") and left.split()[3] == "/":
            path = Path(left.split()[4])
            return path if os.access(path / "cgroup.procs", os.W_OK) else None
    return None


@attrs.frozen
class Image:
    """What a machine has in its `/opt`: sandboxd, as `pip install` puts it there. `node` is where it finds a Node."""

    opt: Path
    node: Path

    @classmethod
    def build(cls, folder: Path, node: Path) -> Image:
        """The wheel of this tree, installed offline from the packages that these tests run with."""
        opt = folder / "opt"
        opt.mkdir(parents=True)
        inside = node
        if not node.is_relative_to("/usr"):
            inside = Path("/opt/node/bin/node")
            (opt / "node/bin").mkdir(parents=True)
            shutil.copy(node, opt / "node/bin/node")
        out = folder.with_name(f"{folder.name}-wheel")
        _run([sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), str(REPOSITORY)])
        (wheel,) = out.glob("*.whl")
        _run([os.path.realpath(sys.executable), "-m", "venv", "--without-pip", str(opt / "sandboxd")])
        (packages,) = (opt / "sandboxd/lib").glob("python3*/site-packages")
        for distribution in _needed("sandboxd", "pip"):
            _copy(distribution, packages)
        # Scripts name their interpreter by where it will be.
        install = f"mount --bind {opt} /opt && {PREFIX}/bin/python -m pip -q install --no-index --no-deps {wheel}"
        _run(["unshare", "--mount", "--propagation", "private", "sh", "-c", install])
        return cls(opt, inside)


def seeded(folder: Path, *masked: str) -> Path:
    """The files that a machine has over its image and this machine's."""
    units = folder / "etc/systemd/system"
    units.mkdir(parents=True)
    for name in (*_MASKED, *masked):
        (units / name).symlink_to("/dev/null")
    return folder


def why_no_uml() -> str:
    """Why no User-Mode-Linux can be booted here; empty: one can."""
    if shutil.which("linux.uml") is None:
        return "there is no linux.uml on this machine (apt-get install user-mode-linux)"
    return why_no_systemd()


def run_in_uml(image: Image, folder: Path, seed: Path, *, timeout_s: float) -> str:
    """Boot a kernel of its own with these files, have its `/run-test` run, and return the console once it is off again."""
    unit = "[Unit]\nAfter=basic.target\n[Service]\nType=oneshot\nStandardOutput=tty\nStandardError=tty\nTTYPath=/dev/tty0\n"
    units = seed / "etc/systemd/system"
    (units / "run-test.service").write_text(f"{unit}ExecStart=/run-test\nExecStopPost=/bin/systemctl poweroff -ff\n")
    (units / "multi-user.target.wants").mkdir(exist_ok=True)
    (units / "multi-user.target.wants/run-test.service").symlink_to("../run-test.service")
    place = folder / "place"
    place.mkdir()
    done = subprocess.run(
        [*_ALONE, UML, place, seed, image.opt],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=timeout_s,
    )
    return done.stdout.decode(errors="replace")


class Machine:
    """One that runs. `run` runs a command in it as root; `down` ends it, and nothing of it is left."""

    def __init__(self, image: Image, folder: Path) -> None:
        self.image = image
        self._folder = folder
        self.seed = folder / "seed"
        units = self.seed / "etc/systemd/system"
        units.mkdir(parents=True)
        for name in _MASKED:
            (units / name).symlink_to("/dev/null")
        self._process: subprocess.Popen[bytes] | None = None
        self._cgroup: Path | None = None
        self.pid = 0

    def __repr__(self) -> str:
        return f"<Machine pid={self.pid}>"

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Put a file there: before it is up into its layer, afterwards through its root."""
        target = (self.seed if not self.pid else Path(f"/proc/{self.pid}/root")) / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def path(self, path: str) -> Path:
        """A file in it, as this machine sees it."""
        return Path(f"/proc/{self.pid}/root") / path.lstrip("/")

    def up(self) -> None:
        """Boot; returns when every unit has been started."""
        hierarchy = _hierarchy()
        assert hierarchy is not None
        self._cgroup = hierarchy / f"sandboxd-test-{os.urandom(4).hex()}"
        self._cgroup.mkdir()
        place = self._folder / "place"
        place.mkdir()
        with (self._folder / "boot.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*_ALONE, BOOT, place, self._cgroup, self.seed, self.image.opt],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.pid = wait_until(self._init, timeout_s=BOOT_S, what="PID 1")
        state = wait_until(self._state, timeout_s=BOOT_S, what="the boot")
        assert state in ("running", "degraded"), state
        self.run("umount", "-l", "/proc/sys")  # with it in the way no `mount -t proc` works below, which bubblewrap does

    def down(self) -> None:
        """End it; its cgroups are removed, and its memory and mounts are gone with it."""
        if self._process is not None:
            for pid in (self.pid, self._process.pid):
                if pid:
                    subprocess.run(["kill", "-9", str(pid)], check=False, stderr=subprocess.DEVNULL)
            self._process.wait(timeout=BOOT_S)
        if self._cgroup is not None:
            events = self._cgroup / "cgroup.events"
            wait_until(lambda: "populated 0" in events.read_text(), timeout_s=BOOT_S, what="its end")
            for folder, _, _ in os.walk(self._cgroup, topdown=False):
                Path(folder).rmdir()

    def command(self, *argv: str, user: str | None = None) -> list[str]:
        """What runs `argv` in it, for `subprocess`."""
        enter = ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w"]
        return [*enter, *(["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []), *argv]

    def run(
        self, *argv: str, user: str | None = None, check: bool = True, stdin: str | None = None, timeout_s: float = 60
    ) -> str:
        """Its standard output."""
        return self.do(*argv, user=user, check=check, stdin=stdin, timeout_s=timeout_s).stdout

    def do(
        self,
        *argv: str,
        user: str | None = None,
        check: bool = False,
        stdin: str | None = None,
        timeout_s: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """The same with everything that came of it."""
        done = subprocess.run(
            self.command(*argv, user=user),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            input=stdin,
            env={"PATH": f"{PREFIX}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root"},
        )
        assert not check or done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def show(self, unit: str, *names: str) -> Mapping[str, str]:
        """Properties of a unit (`systemctl show`)."""
        lines = self.run("systemctl", "show", unit, *(f"--property={name}" for name in names)).splitlines()
        return dict(line.partition("=")[::2] for line in lines)

    def journal(self, unit: str) -> str:
        """What a unit said."""
        return self.run("journalctl", "-b", "--no-pager", "-o", "cat", "-u", unit)

    def _init(self) -> int:
        assert self._process is not None
        log = (self._folder / "boot.log").read_text(errors="replace")
        assert self._process.poll() is None, f"it ended while it booted: {log}"
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for child in children:
            with suppress(OSError):  # one that has ended since
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    return int(child)
        return 0

    def _state(self) -> str:
        state = self.do("systemctl", "is-system-running").stdout.strip()
        return state if state in ("running", "degraded", "maintenance", "stopping") else ""


def _needed(*names: str) -> Iterator[metadata.Distribution]:
    """The installed distributions of those names and of what they need; of `sandboxd` only what it needs."""
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        requires: Sequence[str]
        if name == "sandboxd":
            requires = _own_requirements()
        else:
            distribution = metadata.distribution(name)
            requires = distribution.requires or ()
            yield distribution
        for text in requires:
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                waiting.append(wanted.name)


def _own_requirements() -> list[str]:
    import tomllib

    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]


def _copy(distribution: metadata.Distribution, packages: Path) -> None:
    for file in distribution.files or ():
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(file.locate()), target)


def _run(argv: Sequence[Any]) -> None:
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.fail(f"{argv}: {done.stdout}{done.stderr}")
