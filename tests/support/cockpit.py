"""A real `sandboxd cockpit`: its own folder, people with tokens, and clients."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.support.daemon import wait_until

WAIT_S = 60.0


class Cockpit:
    """`hosts`: name → (url, token or ""). Every person of `people` has a token file `NAME.token`."""

    def __init__(
        self,
        folder: Path,
        hosts: dict[str, tuple[str, str]],
        *,
        people: tuple[str, ...] = ("alice", "bob", "carol"),
        rules: str = "",
        more: str = "",
        top: str = "",
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.config = folder / "cockpit.toml"
        self.state = folder / "state"
        self.state.mkdir(mode=0o700, exist_ok=True)
        self.socket = folder / "cockpit.sock"
        lines = ['state-dir = "state"', top]
        if rules:
            self.write("rules.toml", rules, 0o644)
            lines.append('rules = ["rules.toml"]')
        for name, (url, token) in hosts.items():
            lines += ["[[host]]", f'name = "{name}"', f'url = "{url}"']
            if token:
                self.write(f"{name}.host-token", token)
                lines.append(f'token-file = "{name}.host-token"')
        for name in people:
            lines += ["[[person]]", f'name = "{name}"', f'token-file = "{name}.token"']
        lines += ["[web]", 'tcp = "127.0.0.1:0"', f'unix = "{self.socket}"', more]
        self.config.write_text("\n".join(lines) + "\n")
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def write(self, name: str, text: str, mode: int = 0o600) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def start(self) -> None:
        (self.state / "web-port").unlink(missing_ok=True)
        argv = [sys.executable, "-m", "sandboxd", "cockpit", "--config", str(self.config)]
        with (self.folder / "log").open("ab") as log:
            # In a session of its own, as a service is: SIGHUP then means a reload.
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            port = wait_until(self._port, timeout_s=WAIT_S, what="the port of the cockpit")
        except AssertionError as error:
            self.kill()  # whoever wanted it started has nothing to end
            raise AssertionError(f"{error}\n{self.log()}") from None
        self.url = f"http://127.0.0.1:{port}"

    def _port(self) -> str | None:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        try:
            return (self.state / "web-port").read_text().strip() or None
        except FileNotFoundError:
            return None

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(timeout=WAIT_S)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            assert self.process.wait(timeout=WAIT_S) == 0, self.log()

    def token_of(self, person: str) -> str:
        return (self.folder / f"{person}.token").read_text().strip()

    def client(self, person: str | None = None, **headers: str) -> httpx.Client:
        bearer = {"Authorization": f"Bearer {self.token_of(person)}"} if person else {}
        return httpx.Client(base_url=self.url, headers=bearer | headers, timeout=WAIT_S, trust_env=False)

    @contextlib.contextmanager
    def browser(self, person: str | None = None) -> Iterator[httpx.Client]:
        """As the page of that person sends its requests; None: nobody has signed in."""
        with self.client(None, Origin=self.url, **{"Sec-Fetch-Site": "same-origin"}) as client:
            if person is not None:
                assert client.post("/api/session", json={"token": self.token_of(person)}).status_code == 200
            yield client

    def prompt(self, prompt_id: str, phase: str = "open") -> dict[str, Any]:
        """The question, once it is there in that phase."""

        def found() -> dict[str, Any] | None:
            with self.client("alice") as client:
                answer = client.get(f"/api/prompts/{prompt_id}")
            if answer.status_code != 200 or answer.json()["prompt"]["phase"] != phase:
                return None
            prompt: dict[str, Any] = answer.json()["prompt"]
            return prompt

        made: dict[str, Any] = wait_until(found, timeout_s=WAIT_S, what=f"question {prompt_id} {phase}")
        return made

    def audit(self) -> list[dict[str, Any]]:
        done = self.cli("audit", "export", "--cockpit", str(self.state), "--json", person=None)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def cli(self, *args: str, person: str | None = "alice", stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """The command line, with this cockpit as its target when `person` is given."""
        target = ["--cockpit", self.url, "--token-file", str(self.folder / f"{person}.token")] if person else []
        argv = [sys.executable, "-m", "sandboxd", *args, *target]
        env = {name: value for name, value in os.environ.items() if not name.startswith("SANDBOXD_")}
        return subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_S * 2, check=False, env=env, input=stdin)


def post_signed(cockpit: Cockpit, channel: str, key: str, body: dict[str, Any], *, at_s: int | None = None) -> httpx.Response:
    """One answer of a channel; where a busy machine left no time to check it, once more."""
    data = json.dumps({"id": str(uuid.uuid4()), **body}).encode()
    at = str(int(time.time()) if at_s is None else at_s)
    mac = hmac.new(key.encode(), at.encode() + b"." + data, hashlib.sha256).hexdigest()
    headers = {"X-AIWG-Signature": f"t={at},v1={mac}", "Content-Type": "application/json"}
    with cockpit.client() as client:
        while (answer := client.post(f"/api/channels/{channel}/answers", content=data, headers=headers)).status_code == 503:
            pass
    return answer
