"""Does a client that says which media types it takes get output in them, and nothing less of it?"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from sandboxd.tasks.output import takes
from tests.support.daemon import Daemon

SAID = "grün \x1b[1mfett\x1b[0m"
EXACT = SAID.encode() + b"\n"


def sent(daemon: Daemon, modes: list[str], *, door: str = "send", **changes: Any) -> list[dict[str, Any]]:
    """The parts of a run's output, as the answer to its message has them, or its stream."""
    body = daemon.message(daemon.envelope(daemon.request([["print", SAID + "\n"]]), **changes))
    body["configuration"] = {"acceptedOutputModes": modes}
    with daemon.client() as client:
        answer = client.post(f"/message:{door}", json=body)
        assert answer.status_code == 200, answer.text
    if door == "send":
        found = answer.json()["task"]["artifacts"]
    else:
        items = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]
        found = [item["artifactUpdate"]["artifact"] for item in items if "artifactUpdate" in item]
    return [part for artifact in found for part in artifact["parts"]]


def content(parts: list[dict[str, Any]]) -> bytes:
    return b"".join(base64.b64decode(part["raw"]) if "raw" in part else part["text"].encode() for part in parts)


@pytest.mark.parametrize("door", ["send", "stream"])
@pytest.mark.parametrize(
    ("modes", "kind", "media_type"),
    [
        ([], "text", "text/x-ansi"),
        (["text/*"], "text", "text/x-ansi"),
        (["text"], "text", "text/x-ansi"),
        (["application/json", "text/plain; charset=utf-8"], "text", "text/plain"),
        (["application/octet-stream"], "raw", "application/octet-stream"),
        (["image/png"], "text", "text/x-ansi"),
    ],
)
def test_terminal_output_comes_in_a_type_that_the_client_takes(
    shared: Daemon, door: str, modes: list[str], kind: str, media_type: str
):
    parts = [part for part in sent(shared, modes, door=door) if part.get(kind)]

    assert {part["mediaType"] for part in parts} == {media_type}
    assert all(kind in part for part in parts)
    assert content(parts) == EXACT.replace(b"\n", b"\r\n")


@pytest.mark.parametrize(
    ("modes", "kind"), [(["text/plain"], "text"), (["text/x-ansi"], "text"), (["application/octet-stream"], "raw")]
)
def test_a_pipes_output_stays_what_it_is_or_comes_as_bytes(shared: Daemon, modes: list[str], kind: str):
    parts = [part for part in sent(shared, modes, input_mode=...) if part.get(kind)]

    assert all(kind in part for part in parts)
    assert content(parts) == EXACT


def test_what_was_asked_of_one_request_is_not_kept_for_others(shared: Daemon):
    body = shared.message(shared.envelope(shared.request([["print", SAID]])))
    body["configuration"] = {"acceptedOutputModes": ["application/octet-stream"]}
    with shared.client() as client:
        task = client.post("/message:send", json=body).json()["task"]

    (artifact,) = shared.get(task["id"])["artifacts"]
    assert {part["mediaType"] for part in artifact["parts"]} == {"text/x-ansi"}


def test_the_stream_of_a_send_begins_with_as_much_history_as_was_asked_for(shared: Daemon):
    body = {**shared.message(), "configuration": {"historyLength": 0}}
    with shared.client() as client:
        lines = client.post("/message:stream", json=body).text.splitlines()
    first = json.loads(next(line for line in lines if line.startswith("data: ")).removeprefix("data: "))

    assert "history" not in first["task"]


def test_the_card_names_the_types_that_output_comes_in(shared: Daemon):
    with shared.client() as client:
        card = client.get("/.well-known/agent-card.json").json()

    assert card["defaultOutputModes"] == ["text/plain", "text/x-ansi", "application/octet-stream"]


@pytest.mark.parametrize("mode", ["*/*", "*", "TEXT/PLAIN", "text/*", "text", "text/plain;q=1"])
def test_ranges_and_parameters_are_understood(mode: str):
    assert takes([mode], "text/plain")
    assert not takes(["image/*", "texture", ""], "text/plain")
