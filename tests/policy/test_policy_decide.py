"""Is exactly what the policy says allowed, everything else denied with all its reasons, and the plan the policy's own?"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxd.policy.adapter import AdapterCommand
from sandboxd.policy.decide import Subject, decide
from sandboxd.policy.load import load_policy
from sandboxd.policy.model import Allowed, CheckedPath, Denied, Isolation, LaunchPlan, Policy

SHIPPED = Path(__file__).parents[2] / "policies" / "sandbox-agent-runner.toml"
TEXT = SHIPPED.read_text()
POLICY = load_policy(str(SHIPPED), TEXT, "sha256:abc")
ADAPTER = ".aiwg/ops/adapters/sandbox-agent-runner"
RUNNER = f"{ADAPTER}/runner.mjs"
REQUEST = ".aiwg/ops/runs/cycle-005.json"
SUBJECT = Subject(
    instance="main",
    task_id="task-1",
    context_id="context-1",
    message_text="Run it.",
    root_shown="/workspace",
    root_real="/srv/projects/one",
    programs={"node": "/opt/node/bin/node"},
    isolation="none",
)


def command(request: str = REQUEST, **changes: Any) -> AdapterCommand:
    plain = AdapterCommand("sandbox-agent-runner", "plan", ("node", RUNNER, "--request", request))
    return attrs.evolve(plain, **changes)


def plan_of(given: AdapterCommand, policy: Policy = POLICY, **changes: Any) -> LaunchPlan:
    decision = decide([policy], given, attrs.evolve(SUBJECT, **changes))
    assert isinstance(decision, Allowed), decision
    return decision.plan


def reasons_of(given: AdapterCommand, *policies: Policy, **changes: Any) -> dict[str, str]:
    decision = decide(policies or [POLICY], given, attrs.evolve(SUBJECT, **changes))
    assert isinstance(decision, Denied), decision
    return {f"{reason.field}: {reason.keyword}": reason.reason for reason in decision.reasons}


def policy_with(*changes: tuple[str, str]) -> Policy:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return load_policy("changed.toml", text, "sha256:abc")


def test_the_plan_is_built_from_the_policy_and_its_holes() -> None:
    plan = plan_of(command())

    assert plan.program == "/opt/node/bin/node"
    assert plan.argv == ("node", RUNNER, "--request", REQUEST)
    assert (plan.adapter, plan.mode, plan.cwd) == ("sandbox-agent-runner", "plan", ".")
    assert (plan.policy, plan.policy_digest, plan.isolation) == ("sandbox-agent-runner", "sha256:abc", "none")


def test_the_environment_is_what_the_policy_lists_and_the_six_names() -> None:
    assert plan_of(command(mode="assess")).env == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "AIWG_A2A_MESSAGE": "Run it.",
        "AIWG_A2A_TASK_ID": "task-1",
        "AIWG_A2A_INSTANCE_ID": "main",
        "AIWG_MISSION_ID": "task-1",
        "AIWG_A2A_ADAPTER": "sandbox-agent-runner",
        "AIWG_A2A_ADAPTER_MODE": "assess",
    }


def test_working_dir_runner_and_request_are_handed_over_to_be_opened() -> None:
    assert plan_of(command()).paths == (
        CheckedPath("working_dir", ".", "directory"),
        CheckedPath("runner", RUNNER, "file"),
        CheckedPath("request", REQUEST, "file"),
    )


def test_the_timeout_is_the_callers_or_the_policys() -> None:
    assert plan_of(command()).limits.timeout_s == 300
    assert plan_of(command(timeout_s=900)).limits.timeout_s == 900


def test_a_timeout_beyond_the_policy_is_denied() -> None:
    short = policy_with(('max = "15m"', 'max = "10m"'))

    assert list(reasons_of(command(timeout_s=601), short)) == ["timeout_seconds: timeout"]


@pytest.mark.parametrize(("terminal", "text_line", "expected"), [("text-line", False, False), ("text-line", True, True),
                                                                 ("always", False, True), ("always", True, True)])  # fmt: skip
def test_a_terminal_is_given_on_request_or_always(terminal: str, text_line: bool, expected: bool) -> None:
    policy = policy_with(('program = "node"', f'program = "node"\nterminal = "{terminal}"'))

    assert plan_of(command(text_line=text_line), policy).terminal is expected


@pytest.mark.parametrize(
    "request_path",
    [
        REQUEST,
        f"{ADAPTER}/examples/cycle-005-request.json",
        ".aiwg/ops/runs/M011/cycle-012/deterministic-assess-docker-001/request.json",
        ".aiwg/ops/runs/any name, even this… one",
        ".aiwg/ops/runs/-rf",
        ".aiwg/ops/runs/..name",
    ],
)
def test_any_file_name_below_the_two_folders_is_allowed(request_path: str) -> None:
    assert plan_of(command(request_path)).argv[3] == request_path


@pytest.mark.parametrize(
    ("request_path", "why"),
    [
        ("", "is empty"),
        ("/etc/passwd", "is absolute"),
        ("/workspace/.aiwg/ops/runs/a.json", "is absolute"),
        (".aiwg/ops/runs/../../../etc/shadow", "climbs"),
        ("../.aiwg/ops/runs/a.json", "climbs"),
        (".aiwg/ops/runs/..", "climbs"),
        (".aiwg\\ops\\runs\\a.json", "backslash"),
        (".aiwg/ops/runs/a\\b", "backslash"),
        (".aiwg/ops/runs/a\0.json", "NUL"),
        (".aiwg/ops/runs//a.json", "empty segment"),
        (".aiwg//ops/runs/a.json", "empty segment"),
        ("./.aiwg/ops/runs/a.json", "segment `.`"),
        (".aiwg/ops/./runs/a.json", "segment `.`"),
        (".aiwg/ops/runs/a.json/", "ends with a slash"),
        (".aiwg/ops/runs/", "ends with a slash"),
        (".aiwg/ops/runs", "is not below"),
        (".aiwg/ops/runs2/a.json", "is not below"),
        (".aiwg/ops/runsa.json", "is not below"),
        (".AIWG/ops/runs/a.json", "is not below"),
        (" .aiwg/ops/runs/a.json", "is not below"),
        ("file:.aiwg/ops/runs/a.json", "is not below"),
        ("package.json", "is not below"),
        (".aiwg/ops/adapters/another/runner.json", "is not below"),
        (".aiwg/ops/runs/\ud800", "surrogate"),
        (".aiwg/ops/runs/" + "a" * 256, "longer than the kernel takes"),
        (".aiwg/ops/runs/" + "a/" * 2100 + "a", "longer than the kernel takes"),
    ],
)
def test_a_path_beyond_the_two_folders_is_denied_with_its_reason(request_path: str, why: str) -> None:
    reasons = reasons_of(command(request_path))

    assert list(reasons) == ["request: path-under"]
    assert why in reasons["request: path-under"]


def test_a_dot_allows_every_file_below_the_working_directory_and_no_option() -> None:
    policy = policy_with(
        ('[".aiwg/ops/adapters/sandbox-agent-runner", ".aiwg/ops/runs"]', '["."]'),
    )

    assert plan_of(command("any/file.txt"), policy).paths[-1] == CheckedPath("request", "any/file.txt", "file")
    assert "option" in reasons_of(command("--eval=0"), policy)["request: path-under"]
    assert "climbs" in reasons_of(command("any/../../file"), policy)["request: path-under"]


@pytest.mark.parametrize(
    ("argv", "fields"),
    [
        (["nodejs", RUNNER, "--request", REQUEST], ["command.0"]),
        (["/usr/bin/node", RUNNER, "--request", REQUEST], ["command.0"]),
        (["node", "evil.mjs", "--request", REQUEST], ["command.1"]),
        (["node", f"./{RUNNER}", "--request", REQUEST], ["command.1"]),
        (["node", RUNNER, "--Request", REQUEST], ["command.2"]),
        (["node", RUNNER, f"--request={REQUEST}"], ["command", "command.2"]),
        (["node", RUNNER, "--request", REQUEST, "--force"], ["command"]),
        (["node", "--eval", "0", RUNNER, "--request", REQUEST], ["command", "command.1", "command.2"]),
        (["sh", "-c", "x"], ["command", "command.0", "command.1", "command.2"]),
        (["node"], ["command"]),
        ([""], ["command", "command.0"]),
    ],
)
def test_argv_of_another_shape_is_denied_by_position(argv: list[str], fields: list[str]) -> None:
    decision = decide([POLICY], command(command=tuple(argv)), SUBJECT)

    assert isinstance(decision, Denied)
    assert sorted(reason.field for reason in decision.reasons) == fields


def test_a_wrong_argument_is_told_with_what_was_expected() -> None:
    assert reasons_of(command(command=("sh", RUNNER, "--request", REQUEST))) == {"command.0: argv": "expected `node`, got `sh`"}


def test_another_adapter_is_denied_and_the_known_ones_are_told() -> None:
    reasons = reasons_of(command(adapter="sandbox-agent-Runner"))

    assert list(reasons) == ["adapter: adapter"]
    assert "`sandbox-agent-runner`" in reasons["adapter: adapter"]


def test_without_a_policy_nothing_runs() -> None:
    decision = decide([], command(), SUBJECT)

    assert isinstance(decision, Denied)
    assert "no policy is active" in decision.reasons[0].reason


def test_two_policies_for_one_adapter_allow_nothing() -> None:
    assert list(reasons_of(command(), POLICY, attrs.evolve(POLICY, source="other.toml"))) == ["adapter: adapter"]


def test_the_policy_is_chosen_by_the_adapter() -> None:
    other = attrs.evolve(POLICY, adapter="other", name="other")

    decision = decide([POLICY, other], command(adapter="other"), SUBJECT)

    assert isinstance(decision, Allowed)
    assert decision.plan.policy == "other"
    assert decision.plan.env["AIWG_A2A_ADAPTER"] == "other"


def test_a_mode_that_the_policy_leaves_out_is_denied() -> None:
    policy = policy_with(('one-of = ["plan", "assess"]', 'one-of = ["plan"]'))

    assert policy.modes == ("plan",)
    assert list(reasons_of(command(mode="assess"), policy)) == ["mode: one-of"]


def test_a_program_that_is_not_configured_is_denied_and_told_where_to_set_it() -> None:
    for programs in ({}, {"node": "bin/node"}, {"node": ""}):
        reasons = reasons_of(command(), programs=programs)

        assert list(reasons) == ["program: program"]
        assert "[programs] node" in reasons["program: program"]


def test_all_reasons_come_at_once() -> None:
    wrong = command(
        mode="assess",
        command=("sh", RUNNER, "--request", "/etc/passwd"),
        working_dir="/tmp",
        timeout_s=900,
    )
    policy = policy_with(('one-of = ["plan", "assess"]', 'one-of = ["plan"]'), ('max = "15m"', 'max = "5m"'))

    assert set(reasons_of(wrong, policy, programs={})) == {
        "mode: one-of",
        "command.0: argv",
        "request: path-under",
        "working_dir: working-dir",
        "timeout_seconds: timeout",
        "program: program",
    }


@pytest.mark.parametrize("working_dir", [None, "/workspace", "/workspace/", "/srv/projects/one", "/srv/projects/one/"])
def test_the_root_is_known_by_its_shown_name_and_its_real_path(working_dir: str | None) -> None:
    assert plan_of(command(working_dir=working_dir)).cwd == "."


@pytest.mark.parametrize(
    "working_dir",
    ["", "/", ".", "~", "/etc", "/workspace/sub", "/workspace/..", "/workspace/.", "/workspace2", "workspace", "//workspace",
     "/srv/projects", "/srv/projects/one/sub", "/workspace/../etc", "/WORKSPACE", "/workspace\0", "/workspace "],
)  # fmt: skip
def test_any_other_working_dir_is_denied(working_dir: str) -> None:
    assert list(reasons_of(command(working_dir=working_dir))) == ["working_dir: working-dir"]


def test_the_shown_name_is_the_configured_one() -> None:
    assert plan_of(command(working_dir="/project"), root_shown="/project").cwd == "."
    assert "/project" in reasons_of(command(working_dir="/workspace"), root_shown="/project")["working_dir: working-dir"]


def test_a_subfolder_is_allowed_where_the_policy_lists_it_and_moves_every_path() -> None:
    policy = policy_with(('cwd  = "/workspace"', 'working-dirs = ["packages/one", "/workspace/packages/two"]\ncwd = "."'))

    for named in ("/workspace/packages/one", "/srv/projects/one/packages/one/"):
        plan = plan_of(command(working_dir=named), policy)
        assert plan.cwd == "packages/one"
        assert [path.path for path in plan.paths] == [
            "packages/one",
            f"packages/one/{RUNNER}",
            f"packages/one/{REQUEST}",
        ]
    assert plan_of(command(working_dir="/workspace/packages/two"), policy).cwd == "packages/two"
    assert plan_of(command(), policy).cwd == "."
    assert reasons_of(command(working_dir="/workspace/packages"), policy)


def test_promises_that_no_isolation_keeps_are_said_loudly() -> None:
    notes = plan_of(command()).isolation_notes

    assert len(notes) == 2
    assert "network = false" in notes[0]
    assert ".aiwg/ops/runs" in notes[1]


def test_no_promise_and_no_note() -> None:
    policy = policy_with(("network  = false", ""), ('writable = [".aiwg/ops/runs"]', ""))

    assert plan_of(command(), policy).isolation_notes == ()


@pytest.mark.parametrize(
    ("config", "policy", "asked"),
    [("none", "standard", "standard"), ("strict", "standard", "strict"), ("standard", "none", "standard")],
)
def test_the_stronger_level_of_config_and_policy_is_asked_for(config: Isolation, policy: str, asked: str) -> None:
    plan = plan_of(command(), policy_with(("network  = false", f'network = false\nlevel = "{policy}"')), isolation=config)

    assert (plan.isolation, plan.isolation_notes) == (asked, ())
    assert (plan.network, plan.writable) == (False, (".aiwg/ops/runs",))


def test_a_message_that_exec_could_not_carry_never_becomes_a_plan() -> None:
    assert list(reasons_of(command(), message_text="a\0b")) == ["env.AIWG_A2A_MESSAGE: exec"]
    assert list(reasons_of(command(), message_text="x" * 200_000)) == ["env.AIWG_A2A_MESSAGE: exec"]


def test_hostile_text_in_a_reason_is_printable_and_short() -> None:
    reasons = reasons_of(command("\x1b]0;owned\x07" + "\u202e" * 5_000, adapter="sandbox-agent-runner"))

    told = reasons["request: path-under"]
    assert told.isprintable()
    assert len(told) < 3_000


_SEGMENTS = st.sampled_from([".aiwg", "ops", "runs", "adapters", "sandbox-agent-runner", "..", ".", "", "a", "\\", "\0", "etc"])
_PATHS = st.lists(_SEGMENTS | st.text(max_size=4), max_size=9).map("/".join) | st.text()


@given(request_path=_PATHS, prefix=st.sampled_from(["", ".aiwg/ops/runs/", f"{ADAPTER}/", "/", "./"]))
def test_no_path_that_is_allowed_leaves_the_two_folders(request_path: str, prefix: str) -> None:
    decision = decide([POLICY], command(prefix + request_path), SUBJECT)

    if isinstance(decision, Allowed):
        path = decision.plan.argv[3]
        steps = PurePosixPath(path).parts
        assert path == "/".join(steps)  # nothing to normalise away
        assert not {"..", ".", "/"} & set(steps)
        assert steps[:3] == (".aiwg", "ops", "runs") or steps[:4] == (".aiwg", "ops", "adapters", "sandbox-agent-runner")
        assert "\0" not in path
        assert "\\" not in path


@given(argv=st.lists(st.sampled_from(["node", RUNNER, "--request", REQUEST, "sh", ""]), max_size=6))
def test_only_one_shape_of_argv_is_ever_allowed(argv: list[str]) -> None:
    decision = decide([POLICY], command(command=tuple(argv)), SUBJECT)

    assert isinstance(decision, Allowed) == (argv == ["node", RUNNER, "--request", REQUEST])


@given(working_dir=st.text() | st.lists(st.sampled_from(["/", "workspace", "..", "srv", "projects", "one"])).map("".join))
def test_no_working_dir_but_the_root_is_ever_allowed(working_dir: str) -> None:
    decision = decide([POLICY], command(working_dir=working_dir), SUBJECT)

    if isinstance(decision, Allowed):
        assert working_dir.rstrip("/") in ("/workspace", "/srv/projects/one")
        assert decision.plan.cwd == "."
