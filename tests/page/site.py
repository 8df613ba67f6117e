"""A real daemon and a foreign executor, a real cockpit before them, and what a browser shows of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from sandboxd.cockpit.channels.signing import Link, LinkKey
from tests.fakes.executor import Executor
from tests.support.daemon import REPOSITORY, Daemon, wait_until

WAIT_S = 30.0
RULES = """
format = 1

[usual]
answers = "public"

[[rule]]
name = "two"
question = 'Launch.*'
responders = ["consensus:2"]
fits = ["Launch it? [y/N]"]
does-not-fit = ["Land?"]
"""
PEOPLE = ("alice", "bob", "eve")


def token_of(name: str) -> str:
    return (name * 40)[:40]


class Site:
    """A `sandboxd cockpit` of our own, before a real daemon, `lab`, and an executor of somebody else's, `foreign`."""

    def __init__(self, folder: Path, daemon: Daemon, executor: Executor) -> None:
        self.folder = folder
        self.daemon = daemon
        self.executor = executor
        for name in PEOPLE:
            self._secret(f"{name}.token", token_of(name))
        self._secret("lab.token", daemon.token)
        (folder / "state").mkdir(mode=0o700)
        self.config = folder / "cockpit.toml"
        (folder / "rules.toml").write_text(RULES)
        self.port = 0
        self._sessions: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Until its doors are open; started again, it is where it was."""
        self.config.write_text(self._config())
        port_file = self.folder / "state" / "web-port"
        port_file.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "sandboxd", "cockpit", "--config", str(self.config)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=REPOSITORY)

        def up() -> str | None:
            assert self.process is not None
            assert self.process.poll() is None, (self.folder / "log").read_text()
            return port_file.read_text().strip() if port_file.exists() else None

        try:
            self.port = int(wait_until(up, timeout_s=WAIT_S * 2, what="the cockpit's port"))
        except AssertionError:
            self.process.kill()  # whoever wanted it started has nothing to end
            self.process.wait()
            raise

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(timeout=WAIT_S) == 0, (self.folder / "log").read_text()[-4000:]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def api(self, name: str, method: str, path: str, body: Any = None) -> Any:
        """What the API says to that person's program."""
        headers = {"Authorization": f"Bearer {token_of(name)}"}
        answer = httpx.request(method, self.url + path, headers=headers, json=body, timeout=WAIT_S, trust_env=False)
        return answer.json()

    def session(self, name: str) -> str:
        """The secret of that person's session; they sign in where they have none."""
        if name not in self._sessions:
            body = {"token": token_of(name)}
            answer = httpx.post(
                f"{self.url}/api/session", headers={"Origin": self.url}, json=body, timeout=WAIT_S, trust_env=False
            )
            assert answer.status_code == 200, answer.text
            self._sessions[name] = answer.cookies["cockpit"]
        return self._sessions[name]

    def sign_out(self, name: str) -> None:
        """As from another window of that person's browser."""
        headers = {"Origin": self.url, "Cookie": f"cockpit={self._sessions.pop(name)}"}
        answer = httpx.delete(f"{self.url}/api/session", headers=headers, timeout=WAIT_S, trust_env=False)
        assert answer.status_code == 200, answer.text

    def link(self, question: dict[str, Any]) -> str:
        """Where the link to that question leads, as a chat is told it."""
        key = LinkKey(bytes.fromhex((self.folder / "state" / "link.key").read_text()))
        return f"q/{key.make(Link(question['number'], 'chat'), datetime.now(UTC) + timedelta(hours=1))}"

    def phase(self, question: dict[str, Any]) -> str:
        phase: str = self.api("alice", "GET", f"/api/prompts/{question['number']}")["prompt"]["phase"]
        return phase

    def _config(self) -> str:
        lines = ['state-dir = "state"', 'rules = ["rules.toml"]', "[web]", f'tcp = "127.0.0.1:{self.port}"']
        lines += ["[[host]]", 'name = "lab"', f'url = "{self.daemon.url}"', 'token-file = "lab.token"']
        lines += ["[[host]]", 'name = "foreign"', f'url = "{self.executor.url}"']
        for name in PEOPLE:
            lines += [
                "[[person]]",
                f'name = "{name}"',
                f'token-file = "{name}.token"',
                f"may-answer = {json.dumps(name != 'eve')}",
            ]
        return "\n".join(lines) + "\n"

    def _secret(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text + "\n")
        path.chmod(0o600)

    def question(self, text: str, *after: list[Any], before: tuple[list[Any], ...] = (), **changes: Any) -> dict[str, Any]:
        """Have the daemon run a program that asks; the question as the cockpit lists it, once it does."""
        return self.asked_of(self.daemon.run([*before, ["ask", text], *after], **changes)["id"])

    def asked_of(self, task_id: str, *, behind: int = 0) -> dict[str, Any]:
        """What that task asks, as the cockpit lists it, once it does; a question with a number behind that one."""

        def listed() -> dict[str, Any] | None:
            rows = self.api("alice", "GET", f"/api/prompts?state=open&task={task_id}")["prompts"]
            return rows[0] if rows and rows[0]["number"] > behind else None

        found: dict[str, Any] = wait_until(listed, timeout_s=WAIT_S, what="the question in the list")
        return found

    def clear(self) -> None:
        """End whatever still asks, so that one test's questions are not another's."""
        for row in self.api("alice", "GET", "/api/prompts?state=open")["prompts"]:
            self.api("alice", "POST", f"/api/prompts/{row['number']}/cancel", {"reason": "the test is over"})

        def empty() -> bool:
            return not self.api("alice", "GET", "/api/prompts?state=open")["prompts"]

        wait_until(empty, timeout_s=WAIT_S, what="an empty inbox")


@contextmanager
def opened(folder: Path, node: str) -> Iterator[Site]:
    """All three, for as long as the block runs."""
    (folder / "host").mkdir()
    (folder / "cockpit").mkdir()
    daemon = Daemon(folder / "host", node)
    daemon.start()
    port = daemon.url.rpartition(":")[2]  # started again, it is where it was
    daemon.config.write_text(daemon.config.read_text().replace("127.0.0.1:0", f"127.0.0.1:{port}"))
    with Executor() as executor:
        site = Site(folder / "cockpit", daemon, executor)
        try:
            site.start()
            yield site
        finally:
            site.stop()
            daemon.end()
