"""Is a policy file read strictly, with every mistake named by key, and do its examples prove what they say?"""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxd.errors import LoadError
from sandboxd.policy.adapter import AdapterCommand
from sandboxd.policy.decide import Subject, decide
from sandboxd.policy.load import check_examples, check_together, load_policy
from sandboxd.policy.model import Allowed, Limits, Policy, PromptRules

SHIPPED = Path(__file__).parents[2] / "policies" / "sandbox-agent-runner.toml"
TEXT = SHIPPED.read_text()

# The sketch of the format as an operator first sees it, for another program: nothing of it is in the code.
PYTHON = """
format = 1
adapter = "report-builder"

[command]
program = "python3"
argv = ["python3", "-I", "tools/report.py", "--format={format}", "{input}", "{mode}"]
cwd = "/workspace/reports"
working-dirs = ["reports/old"]
terminal = "always"
env = { PYTHONUTF8 = "1", REPORT = "{{{format}}}" }

[hole.mode]
one-of = ["assess"]

[hole.format]
one-of = ["html", "text"]

[hole.input]
path-under = ["input/"]
suffix = ".csv"

[limits]
timeout = { default = "1m", max = "2m" }
output = "64KiB"
open-files = 64
file-size = "1GiB"

[isolation]
level = "none"
network = true

[prompts]
detectors = ["python"]
timeout = "30s"
on-expiry = "fail"
max = 3

[[example]]
allow = { mode = "assess", format = "html", input = "input/a.csv" }

[[example]]
deny = { mode = "assess", format = "pdf", input = "input/a.csv" }
because = "format: one-of"

[[example]]
deny = { mode = "assess", format = "text", input = "input/a.txt" }
because = "input: suffix"

[[example]]
deny = { mode = "assess", format = "text", input = "input/a.csv", timeout_seconds = 121 }
because = "timeout_seconds: timeout"
"""


def load(text: str) -> Policy:
    return load_policy("/etc/sandboxd/report.toml", text, "sha256:0")


def problems_of(text: str) -> dict[str, str]:
    with pytest.raises(LoadError) as caught:
        load(text)
    assert caught.value.source == "/etc/sandboxd/report.toml"
    assert "/etc/sandboxd/report.toml" in str(caught.value)
    problems: dict[str, str] = {}
    for problem in caught.value.problems:
        problems[problem.field] = f"{problems.get(problem.field, '')}{problem.reason}\n"
    return problems


def changed(old: str, new: str, text: str = PYTHON) -> str:
    assert old in text
    return text.replace(old, new)


def test_the_shipped_policy_loads_and_its_examples_hold() -> None:
    policy = load_policy("policies/sandbox-agent-runner.toml", TEXT, "sha256:0")

    assert (policy.name, policy.adapter, policy.modes) == ("sandbox-agent-runner", "sandbox-agent-runner", ("plan", "assess"))
    assert policy.runner == ".aiwg/ops/adapters/sandbox-agent-runner/runner.mjs"
    assert (policy.limits.timeout_s, policy.timeout_max_s) == (300, 900)
    assert check_examples(policy) == ()


def test_a_policy_for_another_program_needs_no_code() -> None:
    policy = load(PYTHON)
    given = AdapterCommand(
        "report-builder", "assess", ("python3", "-I", "tools/report.py", "--format=html", "input/a.csv", "assess")
    )
    subject = Subject("i", "t", "c", "", "/workspace", "/srv/w", {"python3": "/usr/bin/python3"}, "none")

    decision = decide([policy], given, subject)

    assert check_examples(policy) == ()
    assert isinstance(decision, Allowed)
    plan = decision.plan
    assert plan.argv == ("python3", "-I", "tools/report.py", "--format=html", "input/a.csv", "assess")
    assert (plan.cwd, plan.terminal, plan.env["REPORT"]) == ("reports", True, "{html}")
    assert plan.limits == Limits(timeout_s=60, output_bytes=65_536, file_bytes=2**30, open_files=64)
    assert plan.prompts == PromptRules(("python",), 30, "fail", 3)
    assert {path.hole: path.path for path in plan.paths} == {
        "working_dir": "reports",
        "runner": "reports/tools/report.py",
        "input": "reports/input/a.csv",
    }


def test_a_hole_that_stands_twice_must_hold_the_same() -> None:
    policy = load(PYTHON)
    given = AdapterCommand(
        "report-builder", "assess", ("python3", "-I", "tools/report.py", "--format=html", "input/a.csv", "plan")
    )
    subject = Subject("i", "t", "c", "", "/workspace", "/srv/w", {"python3": "/usr/bin/python3"}, "none")

    decision = decide([policy], given, subject)

    assert not isinstance(decision, Allowed)
    assert [reason.field for reason in decision.reasons] == ["command.5"]


def test_what_is_left_out_has_the_documented_default() -> None:
    policy = load("""
        format = 1
        adapter = "bare"
        [command]
        program = "true"
        argv = ["true"]
        [hole.mode]
        one-of = ["plan"]
    """)

    assert policy.limits == Limits()
    assert policy.prompts == PromptRules()
    assert (policy.timeout_max_s, policy.cwd, policy.working_dirs, policy.runner) == (900, ".", (), None)
    assert (policy.terminal, policy.env, policy.isolation.level) == ("text-line", {}, None)


@pytest.mark.parametrize(
    ("old", "new", "key", "told"),
    [
        ("format = 1", "format = 2", "format", "only format"),
        ("format = 1", "format = true", "format", "only format"),
        ("format = 1", "", "format", "only format"),
        ('adapter = "report-builder"', "", "adapter", "is missing"),
        ('adapter = "report-builder"', 'adapter = ""', "adapter", "must not be empty"),
        ('adapter = "report-builder"', "adapter = 5", "adapter", "must be a string"),
        ('adapter = "report-builder"', 'adaptor = "report-builder"', "adaptor", "did you mean `adapter`"),
        ('program = "python3"', "", "command.program", "is missing"),
        ('program = "python3"', 'programm = "python3"', "command.programm", "did you mean `program`"),
        ("argv = [", "argv = 5 #[", "command.argv", "must be a list of strings"),
        ('"-I", ', "7, ", "command.argv", "must be a list of strings"),
        ('argv = ["python3"', 'argv = ["{mode}"', "command.argv", "must begin with a literal"),
        ('"{input}", ', '"{imput}", ', "command.argv", "did you mean `input`"),
        ('"{input}", ', "", "command.argv", "could never be filled"),
        ('"{input}", ', '"{input}{mode}", ', "command.argv", "more than one hole"),
        ('"{input}", ', '"{input}", "}", ', "command.argv", "single brace"),
        ('cwd = "/workspace/reports"', 'cwd = "/srv/reports"', "command.cwd", "is absolute"),
        ('cwd = "/workspace/reports"', 'cwd = "/workspace/../etc"', "command.cwd", "climbs"),
        ('["reports/old"]', '["../old"]', "command.working-dirs", "climbs"),
        ('terminal = "always"', 'terminal = "alway"', "command.terminal", "did you mean `always`"),
        ('terminal = "always"', "terminal = true", "command.terminal", "must be a string"),
        ('terminal = "always"', 'runner = "tools/repot.py"', "command.runner", "did you mean `tools/report.py`"),
        ("tools/report.py", "../report.py", "command.runner", "climbs"),
        ('PYTHONUTF8 = "1"', "PYTHONUTF8 = 1", "command.env.PYTHONUTF8", "must be a string"),
        ('PYTHONUTF8 = "1"', '"A=B" = "1"', "command.env.A=B", "no name for an environment variable"),
        ('PYTHONUTF8 = "1"', 'AIWG_A2A_MESSAGE = "1"', "command.env.AIWG_A2A_MESSAGE", "set for every run"),
        ('PYTHONUTF8 = "1"', 'AIWG_A2A_ADAPTER = "x"', "command.env.AIWG_A2A_ADAPTER", "adapter's name"),
        ('PYTHONUTF8 = "1"', 'AIWG_A2A_ADAPTER_MODE = "plan"', "command.env.AIWG_A2A_ADAPTER_MODE", "to the mode"),
        ('PYTHONUTF8 = "1"', 'A = "{nothing}"', "command.env.A", "does not describe"),
        ('PYTHONUTF8 = "1"', 'A = "\\u0000"', "command.env.A", "NUL"),
        ('one-of = ["assess"]', 'one-of = ["assess", "apply"]', "hole.mode.one-of", "no mode of adapter-command/v1"),
        ('one-of = ["assess"]', "one-of = []", "hole.mode.one-of", "at least one"),
        ('one-of = ["assess"]', 'path-under = ["a"]', "hole.mode", "must be `one-of`"),
        ("[hole.mode]", "[hole.mood]", "hole.mode", "is missing"),
        ("[hole.format]", "[hole.working_dir]", "hole.working_dir", "no name for a hole"),
        ("[hole.format]", "[hole.Format]", "hole.Format", "no name for a hole"),
        ('one-of = ["html", "text"]', "", "hole.format", "exactly one of"),
        ('suffix = ".csv"', 'one-of = ["a"]', "hole.input", "exactly one of"),
        ('suffix = ".csv"', 'regex = ".*"', "hole.input.regex", "unknown key"),
        ('["input/"]', '["../input"]', "hole.input.path-under", "climbs"),
        ('["input/"]', '["/input"]', "hole.input.path-under", "is absolute"),
        ('["input/"]', '["/"]', "hole.input.path-under", "is empty"),
        ('["input/"]', "[]", "hole.input.path-under", "at least one"),
        ('default = "1m"', 'default = "3m"', "limits.timeout.default", "more than `max`"),
        ('default = "1m"', "default = 60", "limits.timeout.default", "with its unit"),
        ('default = "1m"', 'default = "1500ms"', "limits.timeout.default", "whole seconds"),
        ('max = "2m"', 'max = "16m"', "limits.timeout.max", "from 1 s to 900 s"),
        ('max = "2m"', 'max = "0s"', "limits.timeout.max", "from 1 s to 900 s"),
        ('output = "64KiB"', 'output = "64KB"', "limits.output", "with its unit"),
        ('output = "64KiB"', 'output = "0B"', "limits.output", "from 1 to"),
        ("open-files = 64", "open-files = 1", "limits.open-files", "from 16 to"),
        ("open-files = 64", "open-files = true", "limits.open-files", "whole number"),
        ("open-files = 64", "open_files = 64", "limits.open_files", "did you mean `open-files`"),
        ('level = "none"', 'level = "medium"', "isolation.level", "must be one of"),
        ("network = true", 'network = "no"', "isolation.network", "`true` or `false`"),
        ("network = true", 'writable = ["/etc"]', "isolation.writable", "is absolute"),
        ('on-expiry = "fail"', 'on-expiry = "retry"', "prompts.on-expiry", "must be one of"),
        ("max = 3", 'allowed_responders = ["any"]', "prompts.allowed_responders", "any responder"),
        ("max = 3", 'allowed-responders = ["specific:ada"]', "prompts.allowed-responders", "any responder"),
        ("max = 3", 'responder = "ada"', "prompts.responder", "any responder"),
        ('because = "format: one-of"', "", "example.2.because", "is missing"),
        ('because = "format: one-of"', 'because = "x"\nwhy = "y"', "example.2.why", "unknown key"),
        ('input = "input/a.txt" }', "}", "example.3.deny", "is missing"),
        ('format = "pdf"', 'fromat = "pdf"', "example.2.deny.fromat", "did you mean `format`"),
        ("[[example]]\nallow", "[[example]]\nbecause = 'x'\nallow", "example.1.because", "unknown key"),
        ("[[example]]\nallow", "[[examples]]\nallow", "examples", "did you mean `example`"),
        ("[isolation]", "[sandbox]", "sandbox", "unknown key"),
    ],
)
def test_a_mistake_is_named_by_its_key(old: str, new: str, key: str, told: str) -> None:
    text = changed(old, new)
    if key == "example.3.deny":
        key, text = "example.3.deny.input", text.replace('format = "text", }', 'format = "text" }')

    problems = problems_of(text)

    assert key in problems, problems
    assert told in problems[key]


def test_all_mistakes_come_at_once() -> None:
    text = changed("network = true", "network = 5\nfoo = 1")
    text = changed('output = "64KiB"', 'output = "big"', text)

    assert set(problems_of(text)) == {"isolation.network", "isolation.foo", "limits.output"}


def test_what_is_no_toml_names_the_line() -> None:
    assert "line 2" in problems_of("format = 1\nadapter = \n")[""]


@pytest.mark.parametrize("text", ["", "format = 1", "hole = 5", "command = []", "[hole]\nmode = 5", "example = 5", "[[hole]]"])
def test_a_file_of_another_shape_is_a_load_error(text: str) -> None:
    assert problems_of(text)


_TOML = st.recursive(
    st.sampled_from(["1", "true", '"x"', '"{mode}"', '"../x"', '"5m"', "1979-05-27", "inf"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(st.sampled_from(["mode", "one-of", "allow", "max", "argv"]), inner, max_size=3).map(
            lambda table: "{" + ", ".join(f"{key} = {value}" for key, value in table.items()) + "}"
        )
    ),
    max_leaves=6,
)
_TOP = st.sampled_from(["format", "adapter", "command", "hole", "limits", "isolation", "prompts", "example", "other"])


@given(st.dictionaries(_TOP, _TOML))
def test_any_toml_is_a_policy_or_a_load_error(values: dict[str, str]) -> None:
    with pytest.raises(LoadError):
        load("\n".join(f"{key} = {value}" for key, value in values.items()))


@pytest.mark.parametrize(
    ("old", "new", "number", "told"),
    [
        ('format = "html", input = "input/a.csv"', 'format = "pdf", input = "input/a.csv"', 1, "should be allowed"),
        ('format = "pdf"', 'format = "text"', 2, "and is allowed"),
        ('because = "format: one-of"', 'because = "input: path-under"', 2, "denied for another reason"),
    ],
)
def test_an_example_that_does_not_hold_is_told(old: str, new: str, number: int, told: str) -> None:
    problems = check_examples(load(changed(old, new)))

    assert [problem.field for problem in problems] == [f"example.{number}"]
    assert told in problems[0].reason


def test_a_policy_without_examples_proves_nothing() -> None:
    policy = attrs.evolve(load(PYTHON), examples=())

    assert [problem.field for problem in check_examples(policy)] == ["example"]


def test_two_policies_for_one_adapter_cannot_stand_together() -> None:
    one, two = load(PYTHON), attrs.evolve(load(PYTHON), source="other.toml")
    runner = load_policy("runner.toml", TEXT, "sha256:0")

    assert check_together([one, runner]) == ()
    (problem,) = check_together([one, runner, two])
    assert problem.field == "other.toml"
    assert "/etc/sandboxd/report.toml" in problem.reason


@pytest.mark.parametrize(
    ("argv", "runner"),
    [
        ('["python3", "-I", "tools/x.py"]', "tools/x.py"),
        ('["python3", "x.py"]', None),
        ('["python3", "-m", "tool"]', None),
        ('["git", "diff", "origin/main"]', None),
        ('["tool", "/opt/tool/config"]', None),
        ('["git", "show", "origin/main"]\nrunner = ""', None),
        ('["node", "--test", "a.mjs"]\nrunner = "a.mjs"', "a.mjs"),
        ('["git", "-C", "a/b"]\nrunner = ""', None),
    ],
)
def test_the_runner_is_named_or_the_first_argument_that_is_a_path(argv: str, runner: str | None) -> None:
    policy = load(f'format = 1\nadapter = "a"\nhole.mode.one-of = ["plan"]\n[command]\nprogram = "p"\nargv = {argv}')

    assert policy.runner == runner
