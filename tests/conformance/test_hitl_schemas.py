"""Does everything that goes out, and every response that is taken, fit the extension's published schemas?"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator, FormatChecker

from tests.support.daemon import HITL, REPOSITORY, Daemon, prompt_of
from tests.support.shared import SHARED, needs_samples
from tests.support.tokens import answer_body

FOLDER = REPOSITORY / "sandboxd/share/schemas/hitl-prompt-v1"
GOOD = {"prompt_id": str(uuid.uuid4()), "prompt": "Go?", "response_schema": {"type": "object"}}


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=FormatChecker())


def under(value: Any, key: str) -> Iterator[Any]:
    """Every value under that key, at any depth."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and key in value:
        yield value[key]
    for child in children:
        yield from under(child, key)


@pytest.mark.parametrize("name", ["envelope", "response"])
def test_the_schemas_are_served_as_they_are_shipped(shared: Daemon, name):
    path = f"/schemas/hitl-prompt-v1/{name}.schema.json"
    found = [httpx.get(shared.url + prefix + path, trust_env=False) for prefix in ("", "/agents/default")]
    kept = httpx.get(shared.url + path, headers={"If-None-Match": found[0].headers["etag"]}, trust_env=False)

    assert [answer.content for answer in found] == [(FOLDER / f"{name}.schema.json").read_bytes()] * 2
    assert found[0].headers["content-type"] == "application/schema+json"
    assert kept.status_code == 304


@pytest.mark.parametrize("path", ["/schemas/config.schema.json", "/schemas/../../daemon.py", "/schemas/none", "/schemas/"])
def test_nothing_else_is_served_there(shared: Daemon, path):
    assert httpx.get(shared.url + path, trust_env=False).status_code == 404


@pytest.mark.parametrize(
    "question",
    ["Proceed? [y/N] ", "Continue? (yes/no) ", "Overwrite \u202eevil? [y/N] ", "é" * 5000 + "? [y/N] ", "Go? [Y/n] "],
)
def test_every_envelope_fits_at_every_door(shared: Daemon, question):
    task = shared.run([["ask", question]])
    with shared.client() as client:
        by_rpc = client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}}).json()
        by_dialect = client.get(f"/v1/tasks/{task['id']}", headers={"A2A-Version": ""}).json()
        listed = client.get("/tasks").json()
        client.post(f"/tasks/{task['id']}:cancel")
    found = [*under(task, HITL), *under(by_rpc, HITL), *under(by_dialect, HITL), *under(listed, HITL)]

    assert len(found) >= 4
    for envelope in found:
        validator("envelope").validate(envelope)


def test_an_answer_that_is_taken_fits(shared: Daemon):
    task = shared.run([["ask", "Proceed? [y/N] "]])
    body = answer_body(task, prompt_of(task)["prompt_id"])
    with shared.client() as client:
        answered = client.post("/message:send", json=body)

    assert answered.status_code == 200
    validator("response").validate(body["message"]["metadata"]["hitl_response_for"])


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": ""},
        {"prompt": "x" * 4097},
        {"prompt_id": "7"},
        {"prompt_id": "00000000-0000-6000-8000-000000000000"},
        {"prompt_id": "00000000-0000-4000-0000-000000000000"},
        {"response_schema": {}},
        {"response_schema": {"type": "string"}},
        {"deadline": "tomorrow"},
        {"allowed_responders": ["somebody"]},
        {"allowed_responders": ["consensus:0"]},
        {"title": "more"},
    ],
)
def test_what_the_tables_forbid_does_not_fit(changes):
    assert validator("envelope").is_valid(GOOD)
    assert not validator("envelope").is_valid({**GOOD, **changes})


@pytest.mark.parametrize("version", "12345")
def test_uuids_of_versions_1_to_5_fit(version):
    prompt_id = f"00000000-0000-{version}000-8000-000000000000"

    assert validator("envelope").is_valid({**GOOD, "prompt_id": prompt_id})
    assert validator("response").is_valid({"prompt_id": prompt_id, "payload": {}})


@pytest.mark.parametrize("response", [{}, {"prompt_id": GOOD["prompt_id"]}, {"prompt_id": "x", "payload": {}}])
def test_a_response_has_both_keys(response):
    assert not validator("response").is_valid(response)
    assert not validator("response").is_valid({**response, "payload": {}, "prompt_id": GOOD["prompt_id"], "more": 1})


@needs_samples
def test_the_golden_samples_fit():
    assert SHARED is not None
    found = [json.loads(path.read_text()) for path in sorted((SHARED / "samples").glob("*.json"))]
    envelopes, responses = list(under(found, HITL)), list(under(found, "hitl_response_for"))

    assert len(envelopes) >= 2
    assert len(responses) >= 2
    for envelope in envelopes:
        validator("envelope").validate(envelope)
    for response in responses:
        validator("response").validate(response)
