"""Which rule meets a question, does it answer, and is a file that could not mean that refused?"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from sandboxd.approvals.record import Approval
from sandboxd.approvals.routing import ANYONE
from sandboxd.cli.main import main
from sandboxd.cockpit.agent import HostAddress
from sandboxd.cockpit.config import load_config
from sandboxd.cockpit.rules import Resolved, RuleBook, check_rule, load_rules, resolve
from sandboxd.db import place
from sandboxd.errors import LoadError
from sandboxd.hitl.envelope import PromptEnvelope
from tests.approvals.desk import Desk
from tests.cockpit.bridge import asked, cockpit, somebody, stands, until
from tests.fakes.executor import Executor
from tests.support.daemon import REPOSITORY, wait_until

TEXT = r"""
format = 1

[usual]
patience = "2h"
answers = "redacted"

[[rule]]
name = "small-change"
hosts = ["lab"]
question = 'Change [1-9] files\? \[y/N\]'
answer = { text = "y" }
answers = "public"
fits = ["Change 3 files? [y/N]"]
does-not-fit = ["Change 30 files? [y/N]", "Change 3 files? [y/N] and delete the rest"]

[[rule]]
name = "deploy"
question = 'Deploy .*'
responders = ["specific:alice", "specific:bob", "consensus:2"]
patience = "30m"
on-expiry = "failed"
escalate = [{ after = "20m", to = "on-call" }, { after = "5m", to = "team" }]
fits = ["Deploy to production?"]
does-not-fit = ["Undeploy?"]
"""


def book(text: str = TEXT) -> RuleBook:
    return load_rules("rules.toml", text)


def envelope(prompt: str = "Change 3 files? [y/N]", **more) -> dict:
    schema = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "maxLength": 8}}}
    return {"prompt_id": str(uuid.uuid4()), "prompt": prompt, "response_schema": schema} | more


def read(prompt: str) -> PromptEnvelope:
    return PromptEnvelope(str(uuid.uuid4()), prompt, {"type": "object"}, None)


def approval(*patterns: str, **terms) -> Approval:
    return Desk(*patterns, **terms).approval


def problems_of(rules: RuleBook) -> list[str]:
    return [str(problem) for rule in rules.rules for problem in check_rule(rules, rule)]


def test_the_first_rule_that_fits_sets_the_terms():
    terms = book().terms("anywhere", read("Deploy to production?"))

    assert (terms.patience, terms.on_expiry, terms.payload_class) == (timedelta(minutes=30), "failed", "redacted")
    assert terms.narrowed is not None
    assert (terms.narrowed.votes, terms.narrowed.named) == (2, frozenset({"alice", "bob"}))
    assert [(one.after, one.route) for one in terms.escalations] == [
        (timedelta(minutes=5), "team"),
        (timedelta(minutes=20), "on-call"),
    ]


def test_a_question_that_no_rule_is_for_has_the_usual_terms():
    assert book().terms("lab", read("Something else?")).patience == timedelta(hours=2)


def test_a_rule_answers_what_it_is_for_on_its_hosts_alone():
    found = resolve(book(), "lab", "Change 3 files? [y/N]", approval())

    assert isinstance(found, Resolved)
    assert found.answer == {"text": "y"}
    assert found.rule.principal.name == "policy:small-change"
    assert resolve(book(), "prod", "Change 3 files? [y/N]", approval()) == "no rule is for this question"


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (approval("specific:alice"), "names who may"),
        (approval("consensus:2"), "2 persons must agree"),
        (approval("team:new"), "names who may"),
        (approval(payload_class="secret"), "a secret"),
    ],
)
def test_a_rule_does_not_answer_where_a_person_is_asked_for(of, why):
    found = resolve(book(), "lab", "Change 3 files? [y/N]", of)

    assert isinstance(found, str)
    assert why in found


def test_a_rule_matches_the_whole_question_and_nothing_that_is_too_long():
    rule = book().rules[0]

    assert not rule.matches("lab", "Change 3 files? [y/N]\nDelete everything? [y/N]")
    assert not book().rules[1].matches("lab", "Deploy " + "x" * 5000)


def test_the_examples_hold():
    assert problems_of(book()) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('fits = ["Change 3 files? [y/N]"]', 'fits = ["Change x files? [y/N]"]', "goes to no rule"),
        ('does-not-fit = ["Undeploy?"]', 'does-not-fit = ["Deploy?", "Deploy now"]', "`Deploy now` fits"),
        ('does-not-fit = ["Undeploy?"]', "", "show at least one question"),
        ('fits = ["Deploy to production?"]', 'fits = ["Change 3 files? [y/N]"]', "`Change 3 files? [y/N]` goes to no rule"),
    ],
)
def test_an_example_that_does_not_hold_is_named(old, new, said):
    assert any(said in problem for problem in problems_of(book(TEXT.replace(old, new))))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format = 1", "format = 2", "the only format"),
        ('patience = "30m"', 'patience = "soon"', "patience"),
        ('on-expiry = "failed"', 'on-expiry = "approved"', "on-expiry"),
        ('answers = "public"', 'answers = "loud"', "answers"),
        ('name = "deploy"', 'name = "small-change"', "stands twice"),
        ('name = "deploy"', 'name = "De ploy"', "small letters"),
        ("question = 'Deploy .*'", "question = '('", "no regular expression"),
        ('"consensus:2"]', '"consensus:3"]', "only 2 may answer"),
        ('"consensus:2"]', '"team:x"]', "none of `any`"),
        ('patience = "30m"', "patiences = 1", "unknown key"),
        ('answers = "public"', 'responders = ["specific:alice"]', "could never count"),
    ],
)
def test_a_file_that_cannot_mean_that_is_refused_and_says_where(old, new, said):
    with pytest.raises(LoadError, match=said):
        book(TEXT.replace(old, new))


def test_no_rule_of_ours_says_what_time_should_answer():
    with pytest.raises(LoadError, match="unknown key"):
        book(TEXT.replace('patience = "30m"', 'default = { text = "y" }'))


def config(folder: Path, **changes: str) -> Path:
    (folder / "rules.toml").write_text(TEXT)
    (folder / "token").write_text("s3cret-token\n")
    (folder / "token").chmod(0o600)
    values = {"url": "https://lab.example", "transport": "rest", "token": "token", "rules": "rules.toml"} | changes
    path = folder / "cockpit.toml"
    path.write_text(
        f"""
state-dir = "state"
rules = ["{values["rules"]}"]

[[host]]
name = "lab"
url = "{values["url"]}"
transport = "{values["transport"]}"
token-file = "{values["token"]}"
"""
    )
    for file in folder.iterdir():
        file.chmod(0o600)
    return path


def test_a_config_names_hosts_and_rules_and_hides_its_token(tmp_path):
    loaded = load_config(config(tmp_path))

    (host,) = loaded.hosts
    assert (host.name, host.url, host.transport, host.token) == ("lab", "https://lab.example", "rest", "s3cret-token")
    assert "s3cret-token" not in repr(loaded)
    assert loaded.state_dir == tmp_path / "state"
    assert [rule.name for rule in loaded.rules.rules] == ["small-change", "deploy"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"url": "http://lab.example"}, "over plain HTTP"),
        ({"url": "ftp://lab.example"}, "must be an http"),
        ({"transport": "grpc"}, "transport"),
        ({"token": "nowhere"}, "cannot be read"),
        ({"rules": "nowhere.toml"}, "cannot open"),
    ],
)
def test_a_config_that_cannot_be_kept_is_refused(tmp_path, changes, said):
    with pytest.raises(LoadError, match=said):
        load_config(config(tmp_path, **changes))


def test_a_token_that_others_may_read_is_refused(tmp_path):
    path = config(tmp_path)
    (tmp_path / "token").chmod(0o644)

    with pytest.raises(LoadError, match="may be read by others"):
        load_config(path)


def test_a_cockpit_whose_config_is_wrong_ends_with_78(tmp_path, capsys):
    assert main(["cockpit", "--config", str(config(tmp_path, transport="grpc"))]) == 78
    assert "transport" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("prompt", "extra", "code", "said"),
    [
        (envelope(), ["--host", "lab"], 0, "policy:small-change"),
        (envelope(), [], 1, "no rule is for this question"),
        (envelope("Deploy to production?"), ["--as", "alice"], 0, "may answer"),
        (envelope("Deploy to production?"), ["--as", "token:bob"], 0, "may answer"),
        (
            envelope("Deploy to production?"),
            ["--as", "mallory"],
            4,
            "may not answer: mallory is none of those who may answer it: ",
        ),
        (envelope(allowed_responders=["specific:bob"]), ["--host", "lab"], 1, "names who may"),
        (envelope(allowed_responders=["team:x"]), [], 1, "no responder rule is understood"),
        (envelope(allowed_responders=["team:x"]), ["--as", "alice"], 4, "may not answer: nobody may answer it"),
    ],
)
def test_policies_test_says_who_answers_and_why(tmp_path, capsys, *, prompt, extra, code, said):
    rules, file = tmp_path / "rules.toml", tmp_path / "prompt.json"
    rules.write_text(TEXT)
    rules.chmod(0o600)
    file.write_text(json.dumps(prompt))

    assert main(["policies", "test", "--rules", str(rules), "--prompt", str(file), *extra]) == code
    assert said in capsys.readouterr().out


def test_policies_test_refuses_a_malformed_prompt(tmp_path, capsys):
    rules, file = tmp_path / "rules.toml", tmp_path / "prompt.json"
    rules.write_text(TEXT)
    rules.chmod(0o600)
    file.write_text(json.dumps(envelope(colour="red")))

    assert main(["policies", "test", "--rules", str(rules), "--prompt", str(file)]) == 1
    assert "colour" in capsys.readouterr().err


async def test_a_rule_answers_and_nobody_is_told_of_the_question(tmp_path):
    with Executor() as executor:
        asks, task = envelope(), executor.begin()
        executor.ask(task, asks)
        async with cockpit(tmp_path, HostAddress("lab", executor.url), rules=book()) as controller:
            record = await asked(controller.records, "lab", asks["prompt_id"])
            approved = await stands(controller.records, record, "closed")
            news = [one.what for one in await controller.records.news_after(0, 100)]
            entries = [entry.as_json() for entry in await controller.records.audit_last(20)]

    assert approved.status == "responded"
    assert executor.taken(asks["prompt_id"]) == {"text": "y"}
    assert [what for what in news if what != "receipt"] == ["closed"]  # what became of the answer may be known by then, or not
    assert [(one["principal"], one["channel"]) for one in entries if one["event"] == "voted"] == [
        ("policy:small-change", "policy")
    ]


async def test_what_no_rule_answers_is_told_to_people_once(tmp_path):
    with Executor() as executor:
        asks, task = envelope("Deploy to production?"), executor.begin()
        executor.ask(task, asks)
        for _ in range(2):  # also after a restart
            async with cockpit(tmp_path, HostAddress("lab", executor.url), rules=book()) as controller:
                record = await asked(controller.records, "lab", asks["prompt_id"])

                async def told():
                    return await controller.records.news_after(0, 100)

                news = await until(controller.records, told, "the news")
                assert [(one.what, one.record.prompt_id) for one in news] == [("asked", asks["prompt_id"])]
        assert not record.approval.is_eligible(somebody("mallory"))


async def test_an_answer_of_a_rule_that_the_asker_refuses_is_for_people(tmp_path):
    with Executor(refuses_payloads=1) as executor:
        asks, task = envelope(), executor.begin()
        executor.ask(task, asks)
        async with cockpit(tmp_path, HostAddress("lab", executor.url), rules=book()) as controller:
            await asked(controller.records, "lab", asks["prompt_id"])

            async def told():
                return [one.what for one in await controller.records.news_after(0, 100) if one.what == "asked"]

            await until(controller.records, told, "people's turn")
        assert len(executor.answers) == 1


def test_the_documentation_s_files_load(tmp_path, repository):
    blocks = (repository / "docs" / "cockpit.md").read_text().split("```toml\n")[1:]
    texts = [block.split("```")[0] for block in blocks]
    (rules_text,) = (text for text in texts if text.startswith("format = 1"))
    config_text = "".join(text for text in texts if text != rules_text)  # its parts, in order
    for name, text in (
        ("cockpit.toml", config_text),
        ("rules.toml", rules_text),
        ("lab.token", "a-token"),
        ("proxy.secret", "s" * 32),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)

    read = load_config(tmp_path / "cockpit.toml")
    assert [host.name for host in read.hosts] == ["lab", "robot"]
    assert [person.may_answer for person in read.people.everybody] == [True, False]
    assert stat.S_IMODE((tmp_path / "alice.token").stat().st_mode) == 0o600


def test_nothing_narrows_what_no_rule_narrows():
    assert book().usual.narrowed in (None, ANYONE)


def test_the_command_gathers_questions_until_it_is_told_to_stop(tmp_path):
    with Executor() as executor:
        asks, task = envelope(), executor.begin()
        executor.ask(task, asks)
        path = config(tmp_path, url=executor.url)
        command = [sys.executable, "-m", "sandboxd", "cockpit", "--config", str(path)]
        process = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
        try:
            wait_until(lambda: executor.taken(asks["prompt_id"]), timeout_s=60, what="the rule's answer")
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=60)

    assert process.returncode == 0
    assert "s3cret-token" not in errors
    assert main(["audit", "verify", "--cockpit", str(tmp_path / "state")]) == 0


def test_two_cockpits_do_not_keep_one_record(tmp_path, capsys):
    path = config(tmp_path)
    (tmp_path / "state").mkdir(mode=0o700)
    lock = place.prepare(tmp_path / "state" / "cockpit.db")
    try:
        assert main(["cockpit", "--config", str(path)]) == 1
    finally:
        os.close(lock)
    assert "another sandboxd" in capsys.readouterr().err
