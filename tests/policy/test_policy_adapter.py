"""Is every MUST of adapter-command/v1's envelope kept, and does nothing but InvalidParams come out?"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT, MISSION
from sandboxd.a2a.model import Message, Part, SendRequest
from sandboxd.errors import InvalidParams
from sandboxd.policy.adapter import AdapterCommand, find_envelope, message_text, parse_adapter_command, read_dispatch
from sandboxd.policy.exec_text import MAX_ARG_BYTES

AT = f"message.metadata.{ADAPTER_COMMAND}"
RUNNER = ".aiwg/ops/adapters/sandbox-agent-runner/runner.mjs"
REQUEST = ".aiwg/ops/adapters/sandbox-agent-runner/examples/cycle-005-request.json"


def envelope(**changes: Any) -> dict[str, Any]:
    """The specification's own example, with some keys changed; `...` takes a key out."""
    value = {
        "adapter": "sandbox-agent-runner",
        "mode": "plan",
        "command": ["node", RUNNER, "--request", REQUEST],
        "working_dir": "/workspace",
        "timeout_seconds": 300,
    } | changes
    return {key: item for key, item in value.items() if item is not ...}


def problems_of(value: Any, *, hitl_active: bool = False) -> dict[str, str]:
    with pytest.raises(InvalidParams) as caught:
        parse_adapter_command(value, hitl_active=hitl_active)
    return {problem.field: problem.reason for problem in caught.value.problems}


def test_the_example_of_the_specification_is_read() -> None:
    command = parse_adapter_command(envelope(), hitl_active=False)

    assert command == AdapterCommand(
        "sandbox-agent-runner", "plan", ("node", RUNNER, "--request", REQUEST), "/workspace", 300, text_line=False
    )


def test_what_may_be_left_out_is_left_to_the_policy() -> None:
    command = parse_adapter_command(envelope(working_dir=..., timeout_seconds=...), hitl_active=False)

    assert (command.working_dir, command.timeout_s, command.text_line) == (None, None, False)


def test_text_line_is_read_when_the_prompt_extension_is_active() -> None:
    assert parse_adapter_command(envelope(input_mode="text-line"), hitl_active=True).text_line


def test_text_line_without_the_prompt_extension_names_the_header_to_send() -> None:
    problems = problems_of(envelope(input_mode="text-line"), hitl_active=False)

    assert list(problems) == [f"{AT}.input_mode"]
    assert f"A2A-Extensions: {HITL_PROMPT}" in problems[f"{AT}.input_mode"]


@pytest.mark.parametrize("seconds", [1, 900, 300.0, 1.0])
def test_integral_numbers_are_timeouts(seconds: float) -> None:
    timeout_s = parse_adapter_command(envelope(timeout_seconds=seconds), hitl_active=False).timeout_s

    assert timeout_s == seconds
    assert type(timeout_s) is int


@pytest.mark.parametrize(
    "seconds", [0, 901, -1, 0.5, 300.5, True, False, "300", None, [], math.inf, -math.inf, math.nan, 10**400, 1e300]
)
def test_anything_else_is_no_timeout(seconds: Any) -> None:
    assert list(problems_of(envelope(timeout_seconds=seconds))) == [f"{AT}.timeout_seconds"]


@pytest.mark.parametrize("mode", ["apply", "Plan", "", None, 1, ["plan"], True])
def test_a_mode_beyond_plan_and_assess_is_malformed(mode: Any) -> None:
    assert list(problems_of(envelope(mode=mode))) == [f"{AT}.mode"]


@pytest.mark.parametrize("command", [[], None, "node runner.mjs", {"0": "node"}, 5])
def test_a_command_that_is_no_list_of_strings_is_malformed(command: Any) -> None:
    assert list(problems_of(envelope(command=command))) == [f"{AT}.command"]


def test_a_wrong_element_of_the_command_is_named_by_its_position() -> None:
    problems = problems_of(envelope(command=["node", 5, "--request", None]))

    assert list(problems) == [f"{AT}.command.1", f"{AT}.command.3"]


@pytest.mark.parametrize("input_mode", ["pty", "", None, True, "TEXT-LINE"])
@pytest.mark.parametrize("hitl_active", [True, False])
def test_another_input_mode_is_malformed(input_mode: Any, hitl_active: bool) -> None:
    assert list(problems_of(envelope(input_mode=input_mode), hitl_active=hitl_active)) == [f"{AT}.input_mode"]


@pytest.mark.parametrize("working_dir", [None, 5, ["/workspace"], {}])
def test_a_working_dir_that_is_no_string_is_malformed(working_dir: Any) -> None:
    assert list(problems_of(envelope(working_dir=working_dir))) == [f"{AT}.working_dir"]


@pytest.mark.parametrize("value", ["", "plan", 0, [], None, True])
def test_an_envelope_that_is_no_object_is_malformed(value: Any) -> None:
    assert list(problems_of(value)) == [AT]


def test_every_missing_key_is_named() -> None:
    assert problems_of({}) == {f"{AT}.{key}": "is missing" for key in ("adapter", "mode", "command")}


def test_every_wrong_field_is_named_at_once() -> None:
    wrong = envelope(adapter=7, mode="apply", command=[], working_dir=7, timeout_seconds=0, input_mode="pty", shell=True)

    assert set(problems_of(wrong)) == {
        f"{AT}.{key}" for key in ("adapter", "mode", "command", "working_dir", "timeout_seconds", "input_mode", "shell")
    }


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * (MAX_ARG_BYTES + 1), "é" * (MAX_ARG_BYTES // 2 + 1)])
@pytest.mark.parametrize("key", ["adapter", "working_dir", "command"])
def test_a_text_that_exec_could_not_carry_is_malformed(key: str, text: str) -> None:
    value = envelope(**{key: [text] if key == "command" else text})

    (field,) = problems_of(value)
    assert field.startswith(f"{AT}.{key}")


def test_the_longest_text_that_exec_carries_is_well_formed() -> None:
    longest = "x" * MAX_ARG_BYTES

    assert parse_adapter_command(envelope(command=[longest]), hitl_active=False).command == (longest,)


def test_a_hostile_key_comes_back_escaped_and_short() -> None:
    fields = list(problems_of(envelope(**{"\x1b[2J\ud800" + "k" * 10_000: 1})))

    assert len(fields[0]) < 500
    assert fields[0].isprintable()
    fields[0].encode()


def test_thousands_of_problems_come_back_as_a_few_and_a_count() -> None:
    value = envelope(command=[1] * 5_000) | {f"key{number}": 1 for number in range(5_000)}

    with pytest.raises(InvalidParams) as caught:
        parse_adapter_command(value, hitl_active=False)

    assert len(caught.value.problems) < 100
    assert [problem.reason for problem in caught.value.problems if "4968 more" in problem.reason]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=12,
)
_KEYS = st.sampled_from(["adapter", "mode", "command", "working_dir", "timeout_seconds", "input_mode", "other"])
_LIKELY = st.sampled_from(["plan", "text-line", ["node"], 5, "sandbox-agent-runner"])


@given(value=_JSON | st.dictionaries(_KEYS, _JSON | _LIKELY), hitl_active=st.booleans())
def test_any_json_is_either_a_command_or_invalid_parameters(value: Any, hitl_active: bool) -> None:
    try:
        command = parse_adapter_command(value, hitl_active=hitl_active)
    except InvalidParams as refused:
        assert refused.problems
        json.dumps([[problem.field, problem.reason] for problem in refused.problems]).encode()
    else:
        assert command.mode in ("plan", "assess")
        assert command.command


def request(inner: Any = ..., outer: Any = ...) -> SendRequest:
    message = Message("m", "user", (Part("text", "Run."),), metadata=None if inner is ... else {ADAPTER_COMMAND: inner})
    return SendRequest(message, metadata=None if outer is ... else {ADAPTER_COMMAND: outer})


def test_no_envelope_is_an_echo() -> None:
    assert find_envelope(request()) is None


@pytest.mark.parametrize("value", [envelope(), {}, [], "", 0, False])
def test_whatever_stands_under_the_key_is_an_envelope(value: Any) -> None:
    assert find_envelope(request(inner=value)) == value


def test_null_under_the_key_is_malformed_and_no_echo() -> None:
    with pytest.raises(InvalidParams) as caught:
        find_envelope(request(inner=None))

    assert [problem.field for problem in caught.value.problems] == [AT]


@pytest.mark.parametrize("value", [envelope(), None])
def test_an_envelope_in_the_request_alone_is_malformed_and_no_echo(value: Any) -> None:
    with pytest.raises(InvalidParams) as caught:
        find_envelope(request(outer=value))

    assert [problem.field for problem in caught.value.problems] == [f"metadata.{ADAPTER_COMMAND}"]
    assert AT in caught.value.problems[0].reason


def test_the_message_wins_over_the_request() -> None:
    assert find_envelope(request(inner={"adapter": "inner"}, outer={"adapter": "outer"})) == {"adapter": "inner"}


def test_envelope_and_message_are_judged_together() -> None:
    wrong = SendRequest(Message("m", "user", (Part("text", "a\0"),), metadata={ADAPTER_COMMAND: envelope(mode="apply")}))

    with pytest.raises(InvalidParams) as caught:
        read_dispatch(wrong, hitl_active=False)
    assert [problem.field for problem in caught.value.problems] == [f"{AT}.mode", "message.parts.0.text"]
    assert read_dispatch(request(), hitl_active=False) is None
    dispatch = read_dispatch(request(inner=envelope()), hitl_active=False)
    assert dispatch is not None
    assert dispatch[1] == "Run."


def of_mission(value: Any, *, active: bool = True) -> str | None:
    request = SendRequest(Message("m", "user", (Part("text", "a"),), metadata={ADAPTER_COMMAND: envelope(), MISSION: value}))
    dispatch = read_dispatch(request, hitl_active=False, mission_active=active)
    assert dispatch is not None
    return dispatch[2]


def test_a_message_names_its_mission_where_that_extension_is_active() -> None:
    named = {"mission_id": "0B5C0F3E-8D4F-4A4B-9F0F-000000000001"}

    assert of_mission(named) == "0b5c0f3e-8d4f-4a4b-9f0f-000000000001"
    assert of_mission(named, active=False) is None
    assert of_mission(None) is None


@pytest.mark.parametrize("value", ["m", {}, {"mission_id": "m"}, {"mission_id": 1}, {"mission_id": "", "x": 1}, []])
def test_a_mission_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(InvalidParams, match="malformed") as caught:
        of_mission(value)

    assert all(problem.field.startswith(f"message.metadata.{MISSION}") for problem in caught.value.problems)


def test_text_parts_are_joined_and_other_parts_left_out() -> None:
    message = Message("m", "user", (Part("text", "one"), Part("data", {"a": 1}), Part("text", "two\n")))

    assert message_text(message) == "one\ntwo\n"


def test_a_message_without_text_is_an_empty_text() -> None:
    assert message_text(Message("m", "user", ())) == ""


@pytest.mark.parametrize("text", ["a\0", "\udc80"])
def test_a_part_that_exec_could_not_carry_is_named(text: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        message_text(Message("m", "user", (Part("text", "fine"), Part("text", text))))

    assert [problem.field for problem in caught.value.problems] == ["message.parts.1.text"]


def test_a_message_too_long_for_the_environment_is_refused_and_the_longest_is_not() -> None:
    room = MAX_ARG_BYTES - len("AIWG_A2A_MESSAGE=")
    half = "x" * (room // 2)

    assert len(message_text(Message("m", "user", (Part("text", "x" * room),)))) == room
    with pytest.raises(InvalidParams) as caught:
        message_text(Message("m", "user", (Part("text", half), Part("text", half + "xx"))))
    assert [problem.field for problem in caught.value.problems] == ["message.parts"]


def test_the_longest_message_really_passes_exec(tmp_path: Path) -> None:
    import subprocess

    room = MAX_ARG_BYTES - len("AIWG_A2A_MESSAGE=")
    subprocess.run(["/bin/true"], env={"AIWG_A2A_MESSAGE": "x" * room}, check=True)
    with pytest.raises(OSError, match="Argument list too long"):
        subprocess.run(["/bin/true"], env={"AIWG_A2A_MESSAGE": "x" * (room + 1)}, check=True)
