"""The daemon as a service of a machine of the tests' own: its config, its units, and a client at its Unix door."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.support.daemon import HITL, REPOSITORY, RUNNER, Daemon, wait_until
from tests.support.systemd import PREFIX, Image, Machine

CONFIG = "/etc/sandboxd/sandboxd.toml"
POLICY = "/etc/sandboxd/policies.d/sandbox-agent-runner.toml"
CREDENTIAL = "/etc/sandboxd/credentials/cli"
SHIPPED = REPOSITORY / "policies/sandbox-agent-runner.toml"
TOKEN = "t0k3n-" + "x" * 40
PORT = 8765


def config_text(image: Image, extra: str = "", *, token: str | None = TOKEN) -> str:
    """The config of a machine: both doors, a token as a credential, the courier in its own unit."""
    auth = "" if token is None else '[auth]\ntokens = { cli = "$CREDENTIALS_DIRECTORY/cli" }\n'
    return f"""
state_dir = "/var/lib/sandboxd"

[listen]
unix = "/run/sandboxd/sandboxd.sock"
tcp = "127.0.0.1:{PORT}"

{auth}
[programs]
node = "{image.node}"
bash = "/bin/bash"
python3 = "/usr/bin/python3"

[[instance]]
id = "default"
root = "/srv/workspace"
policies = ["{POLICY}"]

[push]
courier = "unit"
allow = ["127.0.0.0/8"]
{extra}
"""


def fill_seed(seed: Path, image: Image, *, policy: str = "", extra: str = "", token: str | None = TOKEN) -> None:
    """Put config, policy, credential and the example's workspace (with the tests' runner) into what a machine begins with."""
    files = {CONFIG: config_text(image, extra, token=token), POLICY: policy or SHIPPED.read_text()}
    if token is not None:
        files[CREDENTIAL] = token
    for name, text in files.items():
        path = seed / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600 if name == CREDENTIAL else 0o644)
    workspace = seed / "srv/workspace"
    shutil.copytree(REPOSITORY / "examples/workspace", workspace)
    shutil.copy(REPOSITORY / "tests/fakes/runner.mjs", workspace / RUNNER)
    (workspace / ".aiwg/ops/runs").mkdir(parents=True, exist_ok=True)


class Unit(Daemon):
    """`Daemon`, where it is `sandboxd.service`. `up` boots the machine and lets systemd listen; the first client starts it."""

    def __init__(self, machine: Machine, *, policy: str = "", extra: str = "") -> None:
        self.machine = machine
        self._names = itertools.count()
        self._policy = policy
        self._extra = extra

    def up(self, *options: str) -> None:
        """Boot, install the units (`options` go to `install-units`) and start the sockets."""
        machine = self.machine
        fill_seed(machine.seed, machine.image, policy=self._policy, extra=self._extra)
        machine.up()
        machine.run("sandboxd", "install-units", *options)
        machine.run("systemd-sysusers")
        machine.run("systemd-tmpfiles", "--create", "/etc/tmpfiles.d/sandboxd.conf")
        machine.run("chown", "sandboxd:", "/srv/workspace/.aiwg/ops/runs")
        machine.run("systemctl", "daemon-reload")
        sockets = [f"sandboxd{name}.socket" for name in ("", "-tcp", "-courier")]
        machine.run("systemctl", "enable", "--now", *sockets)

    @property
    def workspace(self) -> Path:  # type: ignore[override]  # of the machine, once it is up
        return self.machine.path("/srv/workspace")

    @property
    def main_pid(self) -> int:
        """The daemon's process id in the machine; 0: it does not run."""
        return int(self.machine.show("sandboxd.service", "MainPID")["MainPID"])

    def client(self, *, extensions: Sequence[str] = (HITL,), version: str = "1.0", **options: Any) -> httpx.Client:
        headers = {"A2A-Version": version, **options.pop("headers", {})}
        if extensions:
            headers["A2A-Extensions"] = ", ".join(extensions)
        door = httpx.HTTPTransport(uds=str(self.machine.path("/run/sandboxd/sandboxd.sock")))
        return httpx.Client(base_url="http://localhost", transport=door, headers=headers, timeout=30, **options)

    def state(self, *states: str) -> str:
        """Wait until the service is in one of these states."""

        def reached() -> str:
            state = self.machine.show("sandboxd.service", "ActiveState")["ActiveState"]
            return state if state in states else ""

        return str(wait_until(reached, timeout_s=60, what=f"sandboxd.service {states}"))

    def log(self) -> str:
        """What the daemon said."""
        return self.machine.journal("sandboxd.service")


PYTHON = str(PREFIX / "bin/python")
