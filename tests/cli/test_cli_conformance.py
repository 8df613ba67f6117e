"""How does `sandboxd conformance` report, and when could it not run?"""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from sandboxd.cli.main import main
from tests.conformance.fake_doors import serving

Captured = pytest.CaptureFixture[str]


def test_a_pass_is_exit_0_and_a_line_a_scenario(capsys: Captured) -> None:
    with serving() as url:
        code = main(["conformance", url, "--only", "CF-1", "--only", "AC-1"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert [line.split("\t")[:3] for line in lines[:2]] == [["pass", "rest 1.0", "CF-1"], ["pass", "rest 1.0", "AC-1"]]
    assert lines[-1].startswith("2 passed, 0 failed, 0 skipped")


def test_a_finding_names_step_expectation_sentence_and_what_came(capsys: Captured) -> None:
    with serving("not-found-for-stale") as url:
        code = main(["conformance", url, "--only", "CF-1"])

    printed = capsys.readouterr().out
    assert code == 1
    assert "step      7. it is rejected with 409" in printed
    assert "expected  409 / hitl_already_answered_or_unknown" in printed
    assert "by        hitl-prompt/v1, CF-1 step 7" in printed
    assert "came      POST /message:send: HTTP 404" in printed


def test_the_json_report_holds_the_same(capsys: Captured) -> None:
    with serving("no-validation-errors") as url:
        code = main(["conformance", url, "--only", "CF-3", "--json"])

    report = json.loads(capsys.readouterr().out)
    (result,) = report["results"]
    assert code == report["exit"] == 1
    assert (result["scenario"], result["verdict"], result["door"]) == ("CF-3", "fail", "rest 1.0")
    assert result["findings"][0]["by"]["spec"] == "hitl-prompt/v1"


def test_the_junit_report_has_a_suite_a_door_and_a_case_a_scenario(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "junit.xml"
    with serving("no-validation-errors", doors=("rest", "rpc10")) as url:
        code = main(["conformance", url, "--only", "CF-3", "--only", "RS-1", "--report", "junit", "--out", str(out)])

    suites = Xml.parse(out).getroot().findall("testsuite")
    assert code == 1
    assert [suite.attrib["name"] for suite in suites] == ["jsonrpc 1.0", "rest 1.0"]
    assert [(suite.attrib["tests"], suite.attrib["failures"], suite.attrib["skipped"]) for suite in suites] == [
        ("2", "1", "1")
    ] * 2
    assert "FAIL\trest 1.0\tCF-3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["http://127.0.0.1:9"], "cannot reach http://127.0.0.1:9"),
        (["ftp://127.0.0.1"], "it needs http:// or https://"),
        (["http://example.test", "--token-file", "t"], "cannot send the token"),
        (["http://127.0.0.1:9", "--token-file", "/nonexistent"], "cannot read the token file"),
        (["http://127.0.0.1:9", "--only", "CF-99"], "there is no such scenario"),
        (["http://127.0.0.1:9", "--trials", "5"], "--trials"),
        (["http://127.0.0.1:9", "--restart-cmd", "'"], "cannot read --restart-cmd"),
    ],
)
def test_what_cannot_run_is_exit_2(args: list[str], says: str, capsys: Captured) -> None:
    assert main(["conformance", *args]) == 2
    assert says in capsys.readouterr().err


def test_a_door_that_was_asked_for_and_is_missing_is_exit_2(capsys: Captured) -> None:
    with serving() as url:
        code = main(["conformance", url, "--door", "dialect", "--version", "0.3"])

    assert code == 2
    assert "cannot drive dialect 0.3" in capsys.readouterr().err


def test_a_run_that_could_judge_nothing_is_exit_2(capsys: Captured) -> None:
    with serving() as url:
        code = main(["conformance", url, "--only", "RS"])

    assert code == 2
    assert "no --restart-cmd was given" in capsys.readouterr().out


def test_what_a_target_says_cannot_steer_the_terminal(capsys: Captured) -> None:
    with serving("\x1b[2Jnot-found-for-stale") as url:
        main(["conformance", url, "--only", "HP-4", "--request", "\x1b[2J"])

    assert "\x1b" not in capsys.readouterr().out
