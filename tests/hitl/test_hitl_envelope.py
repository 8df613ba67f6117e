"""Is what goes out, and what comes back, exactly what hitl-prompt/v1 says?"""

import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxd.errors import InvalidParams
from sandboxd.hitl.envelope import PROMPT_MAX_CHARS, PromptEnvelope, envelope_json, is_uuid, parse_response, plain_text

AT = "message.metadata.hitl_response_for"
PROMPT_ID = "0f5a7c1e-6b3d-4c58-9a55-3c1d2e4f5a6b"
SCHEMA = {"type": "object"}
NOON = datetime(2026, 11, 29, 12, 5, tzinfo=UTC)


def test_the_envelope_has_the_five_keys_of_the_samples() -> None:
    envelope = PromptEnvelope(PROMPT_ID, "Write the plan to .aiwg/ops/runs? [y/N]", SCHEMA, NOON)

    assert envelope_json(envelope) == {
        "prompt_id": PROMPT_ID,
        "prompt": "Write the plan to .aiwg/ops/runs? [y/N]",
        "response_schema": SCHEMA,
        "deadline": "2026-11-29T12:05:00.000Z",
        "allowed_responders": ["any"],
    }


def test_without_a_deadline_the_key_is_left_out() -> None:
    assert "deadline" not in envelope_json(PromptEnvelope(PROMPT_ID, "Go?", SCHEMA, None))


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("  Go? [y/N] ", "Go? [y/N]"),
        ("a\tb", "a b"),
        ("one\r\ntwo", "one  two"),
        ("one\u2028two", "one two"),
        ("a\x1b[31mb\x00\x9bc", "a[31mbc"),
        ("delete \u202egnp.exe\u202c? ", "delete gnp.exe?"),
        ("Go?\U000e0041\U000e0042", "Go?"),
        ("\ud800Go?", "Go?"),
        ("\x07\u200e ", ""),
        ("Password for 'https://ada:s3cret@example.org/x': ", "Password for 'https://***@example.org/x':"),
        ("Password for 'https://ada@example.org': ", "Password for 'https://***@example.org':"),
        ("clone HTTPS://ada:p@ss:w@example.org? ", "clone HTTPS://***@example.org?"),
        ("git+ssh://git:x@h/a and ftp://u:p@h/b? ", "git+ssh://***@h/a and ftp://***@h/b?"),
        ("mail ada@h about https://h/?to=ada@h? ", "mail ada@h about https://h/?to=ada@h?"),
    ],
)  # fmt: skip
def test_the_prompt_is_plain_text_without_credentials(line: str, plain: str) -> None:
    assert plain_text(line) == plain


def test_a_long_prompt_keeps_its_end() -> None:
    plain = plain_text("x" * 5000 + " Go? [y/N] ")

    assert len(plain) == PROMPT_MAX_CHARS
    assert plain.startswith("…x") and plain.endswith(" Go? [y/N]")


@given(st.text(st.characters(), max_size=200))
def test_plain_text_is_plain_and_stays_as_it_is(line: str) -> None:
    plain = plain_text(line)

    assert all(unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") for char in plain)
    assert plain_text(plain) == plain


@given(
    st.from_regex(r"[a-z]{1,8}:[a-z!*$&]{4,12}(@[a-z]{1,4})?", fullmatch=True).map(lambda text: text + "Qz9"),
    st.text("abcäöü 続行", max_size=20),
)
def test_no_part_of_a_password_is_left(credentials: str, text: str) -> None:
    assert "Qz9" not in plain_text(f"{text} https://{credentials}@example.org/{text}? ")


def metadata(**changes: object) -> dict[str, object]:
    return {"prompt_id": PROMPT_ID, "payload": {"text": "y"}} | changes


def test_a_well_formed_answer_is_read() -> None:
    response = parse_response(metadata(prompt_id=PROMPT_ID.upper()), "task")

    assert response.prompt_id == PROMPT_ID
    assert response.payload == {"text": "y"}


@pytest.mark.parametrize(
    ("value", "task_id", "fields"),
    [
        (metadata(), None, ["message.taskId"]),
        (metadata(), "", ["message.taskId"]),
        ("y", "task", [AT]),
        (None, None, ["message.taskId", "message.metadata.hitl_response_for"]),
        ([metadata()], "task", [AT]),
        ({}, "task", [f"{AT}.prompt_id", f"{AT}.payload"]),
        (metadata(prompt_id="17"), "task", [f"{AT}.prompt_id"]),
        (metadata(prompt_id=17), "task", [f"{AT}.prompt_id"]),
        (metadata(prompt_id=f"{{{PROMPT_ID}}}"), "task", [f"{AT}.prompt_id"]),
        (metadata(prompt_id=f"{PROMPT_ID}\n"), "task", [f"{AT}.prompt_id"]),
        (metadata(payload="y"), "task", [f"{AT}.payload"]),
        (metadata(payload=["y"]), "task", [f"{AT}.payload"]),
        (metadata(extra=1), "task", [f"{AT}.extra"]),
        (metadata(id=1, prompt_id="x"), None, ["message.taskId", f"{AT}.prompt_id", f"{AT}.id"]),
    ],
)  # fmt: skip
def test_a_malformed_answer_names_every_field(value: object, task_id: str | None, fields: list[str]) -> None:
    with pytest.raises(InvalidParams) as refused:
        parse_response(value, task_id)

    assert [problem.field for problem in refused.value.problems] == fields


@given(st.uuids(version=4))
def test_a_uuid_is_taken_in_its_usual_spelling_only(value: object) -> None:
    assert is_uuid(str(value))
    assert is_uuid(str(value).upper())
    assert not is_uuid(str(value).replace("-", ""))
    assert not is_uuid(f"urn:uuid:{value}")
    assert not is_uuid(value)


@pytest.mark.parametrize("value", ["00000000-0000-0000-0000-000000000000", "0f5a7c1e-6b3d-4c58-fa55-3c1d2e4f5a6b", "", None])
def test_a_uuid_of_another_kind_is_refused(value: object) -> None:
    assert not is_uuid(value)
