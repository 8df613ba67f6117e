"""Does SIGHUP change who may come in, all at once or not at all?"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cockpit.bridge import token_of
from tests.fakes.executor import Executor
from tests.support.cockpit import WAIT_S, Cockpit
from tests.support.daemon import wait_until


@pytest.fixture
def cockpit(tmp_path: Path) -> Iterator[Cockpit]:
    with Executor() as executor:
        made = Cockpit(tmp_path / "cockpit", {"lab": (executor.url, "")}, people=("alice", "bob"))
        made.start()
        yield made
        made.end()


def reload(cockpit: Cockpit, text: str, word: str = "reloaded") -> str:
    """Write the config, send SIGHUP, and wait for what the log says of it."""
    before = cockpit.log().count(word)
    cockpit.config.write_text(text)
    assert cockpit.process is not None
    cockpit.process.send_signal(signal.SIGHUP)
    wait_until(lambda: cockpit.log().count(word) > before, timeout_s=WAIT_S, what=f"`{word}` in the log")
    return cockpit.log().splitlines()[-1]


def person(name: str, *more: str) -> str:
    return "\n".join(["[[person]]", f'name = "{name}"', f'token-file = "{name}.token"', *more, ""])


def status(cockpit: Cockpit, name: str) -> int:
    with cockpit.client(name) as client:
        return client.get("/api/me").status_code


def test_people_come_and_go_without_a_restart(cockpit):
    text = cockpit.config.read_text()
    with cockpit.browser("alice") as alice, cockpit.browser("bob") as bob, cockpit.client("bob") as program:
        assert bob.get("/api/me").status_code == 200
        told = reload(cockpit, text.replace(person("bob"), person("carol")))

        assert "bob (gone), carol (new)" in told
        assert (status(cockpit, "alice"), status(cockpit, "carol")) == (200, 200)
        assert (bob.get("/api/me").status_code, program.get("/api/me").status_code) == (401, 401)
        assert alice.get("/api/me").status_code == 200  # nobody else is signed out


def test_another_token_ends_the_sessions_and_streams_that_were_had_with_the_old_one(cockpit):
    text = cockpit.config.read_text()
    with cockpit.browser("bob") as bob, cockpit.client("bob") as program, program.stream("GET", "/api/news") as news:
        lines = news.iter_lines()
        assert next(lines) == "event: hello"
        (cockpit.folder / "bob.token").write_text(token_of("another") + "\n")
        reload(cockpit, text)

        assert bob.get("/api/me").status_code == 401
        assert "event: change" not in list(lines)  # it ends, with its next comment at the latest
        assert status(cockpit, "bob") == 200


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace(person("bob"), person("bob", "may-anser = false")), "may-anser"),
        (lambda text: text.replace(person("bob"), person("alice")), "stands twice"),
        (lambda text: text.replace(person("bob"), person("carol")).replace('name = "lab"', 'name = "elsewhere"'), "host"),
        (lambda text: "this is no config", "cockpit.toml"),
    ],
    ids=["unknown key", "twice", "another key, too", "no TOML"],
)
def test_a_file_with_anything_wrong_changes_nothing_and_says_why(cockpit, change, why):
    text = cockpit.config.read_text()
    reload(cockpit, change(text), "Cannot reload")

    assert why in cockpit.log()
    assert (status(cockpit, "alice"), status(cockpit, "bob")) == (200, 200)
    reload(cockpit, text)  # and it goes on from there


def test_what_takes_a_restart_is_refused_by_its_name(cockpit):
    text = cockpit.config.read_text()
    told = reload(cockpit, "mission-tries = 3\n" + text, "Cannot reload")

    assert "`mission-tries`: changed, which takes a restart" in told


def test_the_command_says_beforehand_whether_a_config_can_be_used(cockpit):
    done = cockpit.cli("cockpit", "--config", str(cockpit.config), "--check", person=None)
    assert (done.returncode, "1 hosts, 2 persons" in done.stderr) == (0, True), done.stderr
    cockpit.config.write_text("[web]\n")

    refused = cockpit.cli("cockpit", "--config", str(cockpit.config), "--check", person=None)
    assert refused.returncode == 1
    assert "state-dir" in refused.stderr
