"""Does SIGHUP change who may come in, and by which rules is asked, all at once or not at all?"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cockpit.bridge import token_of
from tests.cockpit.story import envelope
from tests.fakes.executor import Executor
from tests.support.cockpit import WAIT_S, Cockpit
from tests.support.daemon import wait_until

RULES = """format = 1

[[rule]]
name = "deploys"
question = 'Deploy .*'
responders = ["specific:alice"]
fits = ["Deploy it?"]
does-not-fit = ["Undeploy it?"]
"""
ANSWERS = RULES.replace('responders = ["specific:alice"]', 'answer = { text = "y" }')


@pytest.fixture
def cockpit(tmp_path: Path, executor: Executor) -> Iterator[Cockpit]:
    made = Cockpit(tmp_path / "cockpit", {"lab": (executor.url, "")}, people=("alice", "bob"), rules=RULES)
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
    assert (done.returncode, "1 hosts, 2 persons, 1 rules" in done.stderr) == (0, True), done.stderr
    cockpit.config.write_text("[web]\n")

    refused = cockpit.cli("cockpit", "--config", str(cockpit.config), "--check", person=None)
    assert refused.returncode == 1
    assert "state-dir" in refused.stderr


def ask(cockpit: Cockpit, executor: Executor, number: int) -> str:
    asks = envelope(number, prompt="Deploy it?")
    executor.ask(executor.begin(), asks)
    return str(asks["prompt_id"])


def test_a_rule_that_was_changed_counts_for_questions_that_come_then(cockpit, executor):
    text = cockpit.config.read_text()
    before = cockpit.prompt(ask(cockpit, executor, 1))
    cockpit.write("rules.toml", ANSWERS)
    told = reload(cockpit, text)
    after = ask(cockpit, executor, 2)

    assert 'rules="deploys (changed)"' in told
    assert cockpit.prompt(after, "closed")["verdict"]["persons"] == ["policy:deploys"]
    kept = cockpit.prompt(before["prompt_id"])  # what is open is asked as it was
    assert kept["responders"] == before["responders"]
    assert [kept["may_answer"], executor.taken(kept["prompt_id"])] == [True, None]


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (RULES.replace("responders", "responder"), "`rule.1.responder`: unknown key"),
        (RULES.replace('["Deploy it?"]', '["Undeploy it?"]'), "`rule.deploys.fits`"),
        ("this is no file of rules", "rules.toml"),
    ],
    ids=["unknown key", "an example that does not hold", "no TOML"],
)
def test_rules_with_anything_wrong_change_nothing_not_even_people_and_say_where(cockpit, executor, rules, why):
    text = cockpit.config.read_text()
    cockpit.write("rules.toml", rules)
    told = reload(cockpit, text.replace(person("bob"), person("carol")), "Cannot reload")

    assert str(cockpit.folder / "rules.toml") in told
    assert why in told
    assert status(cockpit, "bob") == 200
    assert cockpit.prompt(ask(cockpit, executor, 1))["responders"]["named"] == [["alice"]]
    checked = cockpit.cli("cockpit", "--config", str(cockpit.config), "--check", person=None)
    assert (checked.returncode, "rules.toml" in checked.stderr) == (1, True)  # so `systemctl reload` says it beforehand


def test_of_several_files_of_rules_the_one_that_is_wrong_is_named(cockpit, executor):
    text = cockpit.config.read_text()
    more = RULES.replace("deploys", "others").replace("Deploy", "Restart").replace("Undeploy", "Stop")
    cockpit.write("more.toml", more.replace('["Restart it?"]', '["Stop it?"]'))
    told = reload(cockpit, text.replace('["rules.toml"]', '["rules.toml", "more.toml"]'), "Cannot reload")
    assert f"cannot load {cockpit.folder / 'more.toml'}: `rule.others.fits`" in told

    cockpit.write("more.toml", more)
    told = reload(cockpit, text.replace('["rules.toml"]', '["rules.toml", "more.toml"]'))

    assert 'rules="others (new)"' in told
