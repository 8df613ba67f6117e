"""Do `sandboxd tokens` and a running daemon agree on who may come in?"""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.tokens import bearer, make_token, sandboxd


def status(daemon: Daemon, token: str) -> int:
    with bearer(daemon, token) as client:
        return client.get("/tasks").status_code


def book(daemon: Daemon) -> Path:
    return daemon.folder / "state" / "tokens.json"


def test_a_token_counts_from_its_making_to_its_end_without_a_restart(shared: Daemon):
    token = make_token(shared, "short-lived", "view")
    made = status(shared, token)
    sandboxd(shared, "tokens", "revoke", "short-lived")

    assert (made, status(shared, token)) == (200, 401)


def test_a_token_is_shown_once_and_kept_as_a_hash(shared: Daemon):
    created = sandboxd(shared, "tokens", "create", "secretive", "--scope", "send", "--days", "1")
    token = created.stdout.strip()
    listed = sandboxd(shared, "tokens", "list", "--json").stdout
    (entry,) = [line for line in map(json.loads, listed.splitlines()) if line["name"] == "secretive"]

    assert len(token) >= 43
    assert status(shared, token) == 200
    assert token not in listed + book(shared).read_text() + (shared.folder / "log").read_text()
    assert stat.S_IMODE(book(shared).stat().st_mode) == 0o600
    assert (entry["scopes"], entry["live"], "sha256" in entry, "expires_at" in entry) == (["send"], True, False, True)


def test_a_name_is_never_given_twice(shared: Daemon):
    make_token(shared, "once", "view")
    sandboxd(shared, "tokens", "revoke", "once")

    again = sandboxd(shared, "tokens", "create", "once", "--scope", "view", check=False)
    of_the_config = sandboxd(shared, "tokens", "create", "cli", "--scope", "view", check=False)
    revoked_again = sandboxd(shared, "tokens", "revoke", "once", check=False)

    assert (again.returncode, of_the_config.returncode, revoked_again.returncode) == (5, 5, 3)
    assert "not given twice" in again.stderr


def test_a_name_that_the_config_takes_later_is_told_at_start(daemon: Daemon):
    make_token(daemon, "twice", "view")
    daemon.stop()
    daemon.config.write_text(daemon.config.read_text() + f'[auth]\ntokens = {{ twice = "{daemon.folder}/twice.token" }}\n')

    with pytest.raises(AssertionError, match="give that one another name"):
        daemon.start()


@pytest.mark.parametrize("args", [["--scope", "root"], [], ["--scope", "view", "--instance", "nowhere"]])
def test_what_cannot_be_granted_is_refused(shared: Daemon, args):
    assert sandboxd(shared, "tokens", "create", "odd", *args, check=False).returncode in (1, 2)


def test_a_file_that_is_damaged_or_open_to_others_changes_nothing(daemon: Daemon):
    token = make_token(daemon, "steady", "view")
    assert status(daemon, token) == 200
    good = book(daemon).read_text()

    book(daemon).write_text("{")
    damaged = status(daemon, token)
    book(daemon).chmod(0o644)
    open_to_others = status(daemon, token)
    book(daemon).chmod(0o600)
    book(daemon).write_text(good.replace("steady", "renamed"))

    assert (damaged, open_to_others, status(daemon, token)) == (200, 200, 200)
    assert "Cannot read a file" in (daemon.folder / "log").read_text()


def test_a_caller_that_asks_too_often_is_told_when_to_come_again(make_daemon):
    daemon: Daemon = make_daemon(extra="[limits]\nrate = 1\nburst = 3\n")
    other = make_token(daemon, "patient", "view")
    with daemon.client() as client:
        told = [client.get("/tasks") for _ in range(5)]
        by_rpc = client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "ListTasks"})

    assert [answer.status_code for answer in told] == [200, 200, 200, 429, 429]
    assert int(told[-1].headers["retry-after"]) >= 1
    assert (by_rpc.status_code, by_rpc.json()["error"]["code"]) == (429, -32029)
    assert status(daemon, other) == 200
