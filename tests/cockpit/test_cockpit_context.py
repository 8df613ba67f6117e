"""Is an answer that was given beforehand the starter's own, and no more than that?"""

from __future__ import annotations

import json

import pytest

from sandboxd.cli.main import main
from sandboxd.cockpit.context import load_preseeds
from sandboxd.errors import LoadError
from tests.cockpit.story import envelope

RULES = """
format = 1
[[rule]]
name = "barring"
question = 'Deploy .*'
mission-starter = "barred"
fits = ["Deploy it?"]
does-not-fit = ["Proceed?"]
"""
ANSWERS = """
format = 1
[[answer]]
question = '(Proceed|Deploy it)\\?'
answer = { text = "y" }
fits = ["Proceed?"]
"""


@pytest.mark.parametrize(
    ("prompt", "extra", "code", "said"),
    [
        (envelope(), ["--answers", "answers", "--starter", "token:alice"], 0, "knows the answer"),
        (envelope(), ["--answers", "answers", "--starter", "token:alice"], 0, "token:alice"),
        (envelope(prompt="Other?"), ["--answers", "answers", "--starter", "alice"], 1, "knows no answer"),
        (envelope(prompt="Deploy it?"), ["--answers", "answers", "--starter", "alice"], 1, "alice, who started it, may not"),
        (envelope(prompt="Deploy it?"), ["--starter", "alice", "--as", "token:alice"], 4, "bar alice from it"),
        (envelope(prompt="Deploy it?"), ["--starter", "alice", "--as", "token:bob"], 0, "may answer"),
        (envelope(allowed_responders=["consensus:2"]), ["--answers", "answers", "--starter", "a"], 1, "2 persons must agree"),
        (envelope(allowed_responders=["specific:bob"]), ["--answers", "answers", "--starter", "a"], 1, "may not answer this"),
    ],
)
def test_policies_test_says_what_a_mission_knows(tmp_path, monkeypatch, capsys, *, prompt, extra, code, said):
    monkeypatch.chdir(tmp_path)
    for name, text in (("rules", RULES), ("answers", ANSWERS), ("prompt", json.dumps(prompt))):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)

    assert main(["policies", "test", "--rules", "rules", "--prompt", "prompt", *extra]) == code
    assert said in capsys.readouterr().out


def test_a_secret_is_never_answered_beforehand(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    schema = {"type": "object", "properties": {"text": {"type": "string", "writeOnly": True}}}
    prompt = envelope() | {"response_schema": schema}
    for name, text in (("rules", RULES), ("answers", ANSWERS), ("prompt", json.dumps(prompt))):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)

    assert main(["policies", "test", "--rules", "rules", "--prompt", "prompt", "--answers", "answers", "--starter", "a"]) == 1
    assert "asks for a secret" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[answer]]\nquestion = 'a'\nanswer = {}", "format"),
        ("format = 1\n[[answer]]\nquestion = '('\nanswer = {}\nfits = ['a']", "no regular expression"),
        ("format = 1\n[[answer]]\nquestion = 'a'\nanswer = {}\nfits = ['b']", "does not fit"),
        ("format = 1\n[[answer]]\nquestion = 'a'", "answer"),
        ("format = 1\n[[answer]]\nquestion = 'a'\nanswer = {}\ncolour = 1", "colour"),
    ],
)
def test_a_file_of_answers_that_does_not_hold_is_refused(text, said):
    with pytest.raises(LoadError, match=said):
        load_preseeds("answers.toml", text)


def test_the_documentation_s_answers_load(repository):
    text = (repository / "docs" / "missions.md").read_text().split("```toml\n")[1].split("```")[0]

    assert [preseed.answer for preseed in load_preseeds("missions.md", text)] == [{"text": "y"}]
