"""Is a secret answer anywhere but in the program that asked for it, and does the audit say what each attempt belongs to?"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.courier.receiver import Receiver
from tests.support.cockpit import WAIT_S, Cockpit, post_signed
from tests.support.daemon import Daemon, output_of, prompt_of, wait_until
from tests.support.tokens import sandboxd

CANARY = "canary-9f81c3-{}"
KEY = "a-key-of-alices-channel-0123456789"
POLICY = """
format = 1
adapter = "teller"

[command]
program = "bash"
argv = ["bash", "{script}"]
terminal = "text-line"

[hole.mode]
one-of = ["plan"]

[hole.script]
path-under = ["."]

[prompts]
secrets = "relay"
max-invalid = 20
"""
SCRIPT = 'read -r -s -p "Deploy token: " token; echo; echo "it has ${#token} characters"; [ "${token##*-}" = done ]\n'


@pytest.fixture
def teller(make_daemon) -> Daemon:
    daemon = make_daemon(policy=POLICY)
    (daemon.workspace / "ask.sh").write_text(SCRIPT)
    return daemon


@pytest.fixture
def cockpit(tmp_path: Path, teller: Daemon, receiver: Receiver) -> Iterator[Cockpit]:
    hook = f'''
[[webhook]]
name = "own"
url = "{receiver.url()}"
secret-file = "own.key"
answers-as = "alice"
allow = ["127.0.0.0/8"]
'''
    made = Cockpit(tmp_path / "cockpit", {"here": (teller.url, teller.token)}, more=hook)
    made.write("own.key", KEY)
    made.start()
    yield made
    made.end()


def ask(daemon: Daemon, **metadata) -> dict:
    body = daemon.message(daemon.envelope("ask.sh", adapter="teller", command=["bash", "ask.sh"]))
    body["message"]["metadata"] |= metadata
    with daemon.client() as client:
        answer = client.post("/message:send", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["task"]


def test_no_secret_is_on_disk_in_a_log_a_metric_an_error_or_a_notice(cockpit, teller, receiver):
    """By every way that brings an answer, good ones and such as are refused, over a kill of the cockpit."""
    ways = ("cli", "web", "token", "signed", "link")
    seen = []
    for way in ways:
        task = ask(teller)
        prompt_id = prompt_of(task)["prompt_id"]
        assert prompt_of(task)["response_schema"]["properties"]["text"]["writeOnly"] is True
        cockpit.prompt(prompt_id)
        misfits: list[dict[str, Any]] = [
            {"text": CANARY.format(way) * 300},
            {"text": [CANARY.format(way)]},
            {"text": "x", CANARY.format(way): "y"},
        ]
        for payload in misfits:  # to the host itself, too
            assert teller.answer(task, payload).status_code == 422
        for payload in misfits[:1] if way == "link" else misfits:  # a form's field is a text
            seen.append(give(cockpit, receiver, way, prompt_id, payload))
        seen.append(give(cockpit, receiver, way, prompt_id, {"text": CANARY.format(way)}))
        assert cockpit.prompt(prompt_id, "closed")["status"] == "responded", seen[-1]
        assert f"it has {len(CANARY.format(way))} characters" in output_of(
            teller.until(task["id"], "COMPLETED", "FAILED", timeout_s=WAIT_S)
        )
        seen.append(give(cockpit, receiver, way, prompt_id, {"text": CANARY.format(way)}))  # too late
    killed = ask(teller)
    prompt_id = prompt_of(killed)["prompt_id"]
    cockpit.prompt(prompt_id)
    give(cockpit, receiver, "token", prompt_id, {"text": CANARY.format("kill")})
    cockpit.kill()
    cockpit.start()
    with cockpit.client("alice") as client:
        seen += [client.get("/api/prompts").text, client.get("/metrics").text]
    with teller.client() as client:
        seen += [client.get("/metrics").text, client.get("/tasks").text]
    seen += [json.dumps(cockpit.audit()), sandboxd(teller, "audit", "export", "--json").stdout, teller.log(), cockpit.log()]
    seen += [body.decode() for _, _, body in receiver.requests]
    folders = (teller.folder, cockpit.folder)
    kept = b"".join(path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file())

    assert b"Deploy token" in kept
    for way in (*ways, "kill"):
        assert CANARY.format(way).encode() not in kept, way
        assert all(CANARY.format(way) not in text for text in seen), way


def give(cockpit: Cockpit, receiver: Receiver, way: str, prompt_id: str, payload: dict) -> str:
    """Answer by that way; what came back, but for what the command line itself was told."""
    match way:
        case "cli":
            done = cockpit.cli("answer", prompt_id, "--json", json.dumps(payload))
            return done.stdout + done.stderr
        case "web":
            with cockpit.browser("alice") as browser:
                return browser.post(f"/api/prompts/{prompt_id}/answer", json={"payload": payload}).text
        case "token":
            with cockpit.client("alice") as client:
                return client.post(f"/api/prompts/{prompt_id}/answer", json={"payload": payload}).text
        case "signed":
            return post_signed(cockpit, "own", KEY, {"prompt_id": prompt_id, "payload": payload}).text
        case _:

            def link() -> str | None:
                found = (one for one in receiver.events if one["prompt"]["prompt_id"] == prompt_id)
                return next((one["link"] for one in found), None)

            path = "/q/" + wait_until(link, timeout_s=WAIT_S, what="the link").rpartition("/")[2]
            with cockpit.browser("alice") as browser:
                return browser.post(path, data={"text.text": str(payload["text"])}).text


def test_the_audit_says_who_how_long_and_what_each_attempt_belongs_to(cockpit, teller):
    trace = "0af7651916cd43dd8448eb211c80319c"
    links = {"mission": "m-17", "flow": "nightly", "issue": "org/repo#12", "provider": "acme", "trace": "<script>"}
    task = ask(teller, **{"urn:sandboxd:links:v1": links, "traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    prompt_id = prompt_of(task)["prompt_id"]
    cockpit.prompt(prompt_id)
    assert cockpit.cli("answer", prompt_id, "--text", CANARY.format("done"), "--wait", "30s").returncode == 0

    story = [one for one in cockpit.audit() if one["prompt_id"] == prompt_id]
    wanted = {
        "mission": "m-17",
        "flow": "nightly",
        "issue": "org/repo#12",
        "provider": "acme",
        "sandbox": "here",
        "trace": trace,
        "parent": None,
    }
    assert all(one["links"] == wanted for one in story)
    (taken,) = [one for one in story if one["event"] == "taken"]
    assert (taken["outcome"], taken["principal"], taken["channel"]) == ("responded", "token:alice", "cli")
    assert isinstance(taken["lasted_ms"], int)
    assert taken["took_ms"] >= 0
    assert all(one["payload"] is None for one in story)
    verified = subprocess.run(
        [sys.executable, "-m", "sandboxd", "audit", "verify", "--cockpit", str(cockpit.state)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    assert verified.stdout.strip().startswith(f"{len(cockpit.audit())}:")
    assert str(uuid.UUID(prompt_id)) == prompt_id
