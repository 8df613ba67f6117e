"""Does the harness find each flaw of an executor, by the scenarios that ask about it and by no other?"""

from __future__ import annotations

import sys

import pytest

from sandboxd.conformance.finding import Report, Verdict
from sandboxd.conformance.line import Line
from sandboxd.conformance.run import drive, known_ids
from sandboxd.conformance.site import Options
from tests.conformance.fake_doors import serving

RESTART = """import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as to:
    to.sendall(b"POST /restart HTTP/1.0\\r\\n\\r\\n")
    to.recv(99)
"""

FLAWS = {
    "accepts-twice": {"CF-1", "CF-7", "HP-5", "AC-13", "RS-2", "RS-1"},
    "not-found-for-stale": {"CF-1", "CF-7", "HP-4", "HP-5", "AC-14", "RS-1", "RS-2"},
    "loses-envelope-on-replay": {"CF-6", "CF-7"},
    "new-id-on-replay": {"CF-6", "CF-7"},
    "echoes-denied": {"AC-2", "AC-3", "AC-4", "AC-5", "AC-6", "AC-7"},
    "no-validation-errors": {"CF-3", "CF-7"},
    "accepts-invalid": {"CF-3", "CF-7", "AC-12"},
    "ends-on-invalid": {"CF-3", "CF-7", "AC-12"},
    "slow-resume": {"CF-4", "CF-7"},
    "names-a-button": {"CF-5", "CF-7"},
    "names-an-id-that-is-none": {"CF-1", "CF-5", "CF-7"},
    "202-for-answers": {"CF-2", "CF-7"},
    "required-on-card": {"HP-1"},
    "no-echo-header": {"HP-2"},
    "shows-without-activation": {"HP-3", "AC-11"},
    "any-prompt-id": {"HP-4"},
    "drops-echo": {"AC-1"},
    "any-mode": {"AC-3"},
    "any-command": {"AC-4"},
    "any-timeout": {"AC-6"},
    "completes-on-any-exit": {"AC-9"},
    "wrong-kind": {"AC-9"},
    "loses-output": {"AC-8", "AC-9"},
    "always-plan": {"AC-10"},
    "asks-unasked": {"AC-11"},
    "takes-newlines": {"AC-12"},
    "any-context": {"AC-13"},
    "ignores-deadline": {"AC-14"},
    "late-deadline": {"AC-14"},
    "never-replays": {"IDEM-AC-1", "IDEM-AC-2", "IDEM-AC-4"},
    "replays-other-body": {"IDEM-AC-2"},
    "any-message-id": {"IDEM-AC-3"},
    "forgets-replays": {"IDEM-AC-4"},
    "asks-after-restart": {"RS-1"},
    "completes-on-restart": {"RS-1"},
    "forgets-answers": {"RS-2"},
}


NEED_RESTARTS = {"RS-1", "RS-2", "IDEM-AC-4"}  # each starts a process, so the other flaws are spared them


def judge(url: str, *only: str, restarts: bool = True) -> Report:
    line = Line()
    try:
        command = (sys.executable, "-ISc", RESTART, url.rpartition(":")[2])
        return drive(url, line, Options(restart_command=command if restarts else (), trials=20, only=only))
    finally:
        line.close()


def failed(report: Report) -> set[str]:
    return {result.scenario for result in report.results if result.verdict is Verdict.FAILED}


def skipped(report: Report) -> dict[str, str]:
    return {result.scenario: result.reason for result in report.results if result.verdict is Verdict.SKIPPED}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_fails_exactly_the_scenarios_that_ask_about_it(flaw: str) -> None:
    with serving(flaw) as url:
        report = judge(url, restarts=bool(FLAWS[flaw] & NEED_RESTARTS))

    findings = {result.scenario: result.findings for result in report.results if result.findings}
    assert failed(report) == FLAWS[flaw], findings
    assert report.exit_code == 1
    assert all(found.step and found.expected and found.by.text and found.came for told in findings.values() for found in told)


@pytest.mark.parametrize("door", ["rest", "rest03", "rpc10", "rpc03", "dialect"])
def test_an_executor_without_a_flaw_passes_every_scenario_at_every_door(door: str) -> None:
    with serving(doors=(door,)) as url:
        report = judge(url)

    assert failed(report) == set(), [result for result in report.results if result.findings]
    assert skipped(report) == {}
    assert {result.scenario for result in report.results} == set(known_ids())
    assert report.exit_code == 0


@pytest.mark.parametrize("flaw", ["accepts-twice", "no-validation-errors", "not-found-for-stale"])
def test_a_flaw_is_found_through_json_rpc_of_both_versions(flaw: str) -> None:
    with serving(flaw, doors=("rpc10", "rpc03")) as url:
        report = judge(url, "CF-1", "CF-3", "HP-5")

    expected = FLAWS[flaw] & {"CF-1", "CF-3", "HP-5"}
    assert report.doors == ("jsonrpc 1.0", "jsonrpc 0.3")
    for door in report.doors:
        assert failed_at(report, door) == expected


def failed_at(report: Report, door: str) -> set[str]:
    return {result.scenario for result in report.results if result.door == door and result.verdict is Verdict.FAILED}
