"""Does a reload change everything that it may at once, or nothing, and do questions stay open over it?"""

from __future__ import annotations

import signal
import ssl
from pathlib import Path

import pytest

from sandboxd.cli.main import main
from tests.support.certificates import Authority
from tests.support.daemon import Daemon, prompt_of, state_of, wait_until


def reload(daemon: Daemon, word: str) -> str:
    """Send SIGHUP and wait until the log has said that word once more; what it said since."""
    log = daemon.folder / "log"
    before = len(log.read_text())
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGHUP)
    return str(wait_until(lambda: (said := log.read_text()[before:]) and word in said and said, timeout_s=60, what=word))


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_new_policy_counts_for_new_tasks_and_questions_stay_open(daemon: Daemon) -> None:
    asked = daemon.run([["ask", "Proceed? [y/N] "]])
    change(daemon.policy, '"--request", "{request}"', '"--other", "{request}"')

    reload(daemon, "event=reloaded")

    assert state_of(daemon.run([["print", "x"]])) == "REJECTED"
    assert prompt_of(daemon.get(asked["id"]))["prompt_id"] == prompt_of(asked)["prompt_id"]
    assert state_of(daemon.answer(asked, wait=True).json()["task"]) == "COMPLETED"


def test_limits_tokens_and_programs_change_together(daemon: Daemon) -> None:
    old = daemon.token
    (daemon.folder / "state/other.token").write_text("y" * 40)
    (daemon.folder / "state/other.token").chmod(0o600)
    extra = f'\n[auth]\ntokens = {{ cli = "{daemon.folder}/state/other.token" }}\n\n[limits]\nmax_tasks = 1\n'
    daemon.config.write_text(daemon.config.read_text() + extra)
    change(daemon.config, 'bash = "/bin/bash"\n', "")

    said = reload(daemon, "event=reloaded")

    assert 'changed="auth.tokens.cli, limits.max_tasks, programs.bash"' in said
    with daemon.client(headers={"Authorization": f"Bearer {old}"}) as client:
        assert client.get("/tasks").status_code == 401
    with daemon.client(headers={"Authorization": f"Bearer {'y' * 40}"}) as client:
        assert client.get("/tasks").status_code == 200
        envelope = daemon.envelope(daemon.request([["ask", "Proceed? [y/N] "]]))
        assert client.post("/message:send", json=daemon.message(envelope)).status_code == 200
        assert client.post("/message:send", json=daemon.message(envelope)).status_code == 429


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('level = "none"', 'level = "none"\n\n[limits]\nmax_tasks = 1\nkeepalive = "9s"', "`limits.keepalive`: changed"),
        (
            "default = true",
            'default = true\n\n[limits]\nmax_tasks = 1\n\n[[instance]]\nid = "b"\nroot = "/srv"',
            "`instance.b.id`",
        ),
        ("default = true", "default = true\nwrong = 1\n\n[limits]\nmax_tasks = 1", "unknown"),
        ("tcp = ", 'public_url = "http://a.example"\ntcp = ', "public_url"),
    ],
)
def test_one_thing_that_cannot_change_and_nothing_changes(daemon: Daemon, old: str, new: str, word: str) -> None:
    change(daemon.config, old, new)

    said = reload(daemon, "Cannot reload")

    assert word in said
    for _ in range(2):  # `max_tasks = 1` does not count
        assert state_of(daemon.run([["ask", "Proceed? [y/N] "]])) == "INPUT_REQUIRED"


def test_what_takes_a_restart_is_told_before_a_reload_is_tried(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "reload", "--config", str(daemon.config)]) == 0
    assert "changed since it was read: nothing" in capsys.readouterr().out
    change(daemon.config, 'level = "none"', 'level = "none"\n\n[limits]\nmax_tasks = 1\nkeepalive = "9s"')

    assert main(["check", "reload", "--config", str(daemon.config)]) == 1
    told = capsys.readouterr().out
    assert "`limits.keepalive`: changed, which takes a restart" in told
    assert "max_tasks" not in told


def test_what_a_reload_took_counts_for_the_next_check(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    change(daemon.config, 'level = "none"', 'level = "none"\n\n[limits]\nmax_tasks = 1')
    assert main(["check", "reload", "--config", str(daemon.config)]) == 0
    assert "changed since it was read: limits.max_tasks" in capsys.readouterr().out

    reload(daemon, "event=reloaded")

    assert main(["check", "reload", "--config", str(daemon.config)]) == 0
    assert "changed since it was read: nothing" in capsys.readouterr().out


def test_a_policy_that_does_not_load_leaves_the_old_one(daemon: Daemon) -> None:
    change(daemon.policy, "format  = 1", "format  = 1\nwrong = 1")

    assert "wrong" in reload(daemon, "Cannot reload")
    assert state_of(daemon.run([["print", "x"]])) == "COMPLETED"


def test_a_policy_that_others_may_write_is_not_read_again(daemon: Daemon) -> None:
    daemon.policy.chmod(0o666)

    assert "others may write it" in reload(daemon, "Cannot reload")


def test_a_file_that_cannot_be_a_token_leaves_the_old_ones_and_the_old_policy(daemon: Daemon) -> None:
    change(daemon.policy, '"--request", "{request}"', '"--other", "{request}"')
    (daemon.folder / "state/cli.token").chmod(0o644)

    assert "cli.token" in reload(daemon, "Cannot reload")
    assert state_of(daemon.run([["print", "x"]])) == "COMPLETED"  # the spawner forgot what it had prepared


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path, node: Path) -> None:
    authority = Authority(tmp_path / "ca")
    cert, key = authority.issue("first")
    daemon = Daemon(tmp_path, str(node))
    change(daemon.config, "allow_root = true", f'allow_root = true\ntls = {{ cert = "{cert}", key = "{key}" }}')
    daemon.start()
    try:
        address = ("127.0.0.1", int(daemon.url.rpartition(":")[2]))
        before = ssl.get_server_certificate(address)
        for new, old in zip(authority.issue("second"), (cert, key), strict=True):
            old.write_bytes(new.read_bytes())

        reload(daemon, "event=reloaded")

        assert ssl.get_server_certificate(address) != before
    finally:
        daemon.end()
