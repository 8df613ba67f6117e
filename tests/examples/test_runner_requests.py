"""Does runner.mjs take exactly the requests that its schema describes, and does it name what is wrong?"""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

ADAPTER = Path(".aiwg/ops/adapters/sandbox-agent-runner")
EXAMPLES = ADAPTER / "examples"
VALID: dict[str, Any] = {
    "schema": "sandbox-agent-runner/request/1",
    "id": "a",
    "mission": "M1",
    "objective": "Try it.",
    "steps": [{"title": "One", "writes": ["docs/a.md"]}],
    "questions": [
        {"id": "q1", "kind": "yes-no", "ask": "Go?", "default": "no"},
        {"id": "q2", "kind": "choice", "ask": "Which?", "choices": ["a", "b"], "default": "a"},
        {"id": "q3", "kind": "text", "ask": "Who", "default": "ada"},
    ],
    "checks": [
        {"id": "c1", "kind": "file-exists", "path": "README.md"},
        {"id": "c2", "kind": "max-size", "path": "README.md", "bytes": 9000},
        {"id": "c3", "kind": "no-symlinks", "path": "."},
    ],
}


def run(node: Path, workspace: Path, request: str, *, mode: str = "assess") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [node, ADAPTER / "runner.mjs", "--request", request],
        cwd=workspace,
        env={"AIWG_A2A_ADAPTER_MODE": mode},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def put(workspace: Path, request: object) -> str:
    (workspace / EXAMPLES / "tried.json").write_text(request if isinstance(request, str) else json.dumps(request))
    return str(EXAMPLES / "tried.json")


def schema(workspace: Path) -> Draft202012Validator:
    found = json.loads((workspace / ADAPTER / "request.schema.json").read_text())
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def changed(*where: str | int, to: object) -> dict[str, Any]:
    """VALID with the value at `where` replaced; the string "absent" removes it."""
    request: Any = copy.deepcopy(VALID)
    at = request
    for step in where[:-1]:
        at = at[step]
    if to == "absent":
        del at[where[-1]]
    else:
        at[where[-1]] = to
    return dict(request)


BROKEN = {
    "schema": changed("schema", to="sandbox-agent-runner/request/2"),
    "id": changed("id", to="../up"),
    "mission": changed("mission", to=".hidden"),
    "objective": changed("objective", to="two\nlines"),
    "steps": changed("steps", to="none"),
    "steps[0].title": changed("steps", 0, "title", to="absent"),
    "steps[0].writes[0]": changed("steps", 0, "writes", 0, to="docs//a.md"),
    "surplus": changed("surplus", to=1),
    "questions[0].kind": changed("questions", 0, "kind", to="essay"),
    "questions[0].default": changed("questions", 0, "default", to="maybe"),
    "questions[1].choices": changed("questions", 1, "choices", to=["a"]),
    "questions[2].ask": changed("questions", 2, "ask", to="\x1b[2J"),
    "questions[2].choices": changed("questions", 2, "choices", to=["a", "b"]),
    "checks[0].path": changed("checks", 0, "path", to="/etc/passwd"),
    "checks[1].path": changed("checks", 1, "path", to="docs/../../up"),
    "checks[1].bytes": changed("checks", 1, "bytes", to=-1),
    "checks[2].path": changed("checks", 2, "path", to="a\\b"),
    "checks[2].kind": changed("checks", 2, "kind", to="shell"),
    "checks[2].id": changed("checks", 2, "id", to="absent"),
}


def test_the_shipped_requests_fit_the_schema(workspace: Path) -> None:
    requests = sorted((workspace / EXAMPLES).glob("*.json"))

    assert requests
    for request in requests:
        schema(workspace).validate(json.loads(request.read_text()))


def test_a_full_request_fits_schema_and_runner_alike(node: Path, workspace: Path) -> None:
    schema(workspace).validate(VALID)

    for mode in ("plan", "assess"):
        done = run(node, workspace, put(workspace, VALID), mode=mode)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("field", BROKEN)
def test_schema_and_runner_refuse_the_same_field(node: Path, workspace: Path, field: str) -> None:
    refused = run(node, workspace, put(workspace, BROKEN[field]))

    assert refused.returncode == 2
    assert f"`{field}`" in refused.stderr
    assert refused.stdout == ""
    assert not schema(workspace).is_valid(BROKEN[field])


def test_every_wrong_field_is_named_at_once(node: Path, workspace: Path) -> None:
    refused = run(node, workspace, put(workspace, {"schema": "x", "id": 7, "checks": [{}]}))

    for field in ("schema", "id", "mission", "objective", "checks[0].kind"):
        assert f"`{field}`" in refused.stderr


def test_an_id_that_is_used_twice_is_refused(node: Path, workspace: Path) -> None:
    refused = run(node, workspace, put(workspace, changed("checks", 1, "id", to="c1")))

    assert refused.returncode == 2
    assert "`checks[1].id` is used twice" in refused.stderr


@pytest.mark.parametrize(("mode", "needed"), [("plan", "steps"), ("assess", "checks")])
def test_a_mode_that_has_nothing_to_do_is_refused(node: Path, workspace: Path, mode: str, needed: str) -> None:
    refused = run(node, workspace, put(workspace, changed(needed, to=[])), mode=mode)

    assert refused.returncode == 2
    assert f"`{needed}` needs one entry at least in {mode} mode" in refused.stderr


@pytest.mark.parametrize("body", ["{", "", "[]", "null", '{"schema": 1', "\ufeff\ufeff{}"])
def test_a_body_that_is_no_request_is_refused(node: Path, workspace: Path, body: str) -> None:
    refused = run(node, workspace, put(workspace, body))

    assert refused.returncode == 2
    assert refused.stderr.startswith("cannot use ")


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../request.json", "docs/../settings.json", "./settings.json", "gone.json", "docs"]
)
def test_a_request_outside_the_workspace_or_no_file_is_refused(node: Path, workspace: Path, path: str) -> None:
    (workspace.parent / "request.json").write_text(json.dumps(VALID))

    assert run(node, workspace, path).returncode == 2


def test_a_request_behind_a_symlink_is_refused(node: Path, workspace: Path) -> None:
    (workspace / "linked").symlink_to(workspace / EXAMPLES)

    refused = run(node, workspace, "linked/cycle-005-request.json")

    assert refused.returncode == 2
    assert "`linked` is a symlink" in refused.stderr


def test_an_oversized_request_is_refused_unread(node: Path, workspace: Path) -> None:
    refused = run(node, workspace, put(workspace, " " * (256 * 1024 + 1)))

    assert refused.returncode == 2
    assert "at most 262144 are read" in refused.stderr


def test_escape_codes_in_keys_are_never_printed(node: Path, workspace: Path) -> None:
    refused = run(node, workspace, put(workspace, {**VALID, "\x1b]0;x\x07\x9b2J": 1}))

    assert refused.returncode == 2
    assert not set("\x1b\x07\x9b") & set(refused.stderr)


def bare(node: Path, workspace: Path, arguments: list[str]) -> int:
    """The exit code of a runner that gets these arguments and an empty environment."""
    argv = [str(node), str(ADAPTER / "runner.mjs"), *arguments]
    return subprocess.run(argv, cwd=workspace, env={}, capture_output=True, timeout=60, check=False).returncode


@pytest.mark.parametrize("arguments", [[], ["--request"], ["--request", "a", "b"], ["--file", "a"]])
def test_wrong_usage_has_its_own_exit_code(node: Path, workspace: Path, arguments: list[str]) -> None:
    assert bare(node, workspace, arguments) == 64


def test_an_unknown_mode_is_wrong_usage(node: Path, workspace: Path) -> None:
    assert run(node, workspace, put(workspace, VALID), mode="apply").returncode == 64


def test_without_a_mode_nothing_is_done(node: Path, workspace: Path) -> None:
    assert bare(node, workspace, ["--request", put(workspace, VALID)]) == 64
