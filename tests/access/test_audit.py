"""Is everything that somebody did on record, with who it was and what came of it, and nothing of what was said?"""

from __future__ import annotations

import json
import sqlite3
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.daemon import Daemon, prompt_of, wait_until
from tests.support.tokens import answer_body, bearer, make_token, sandboxd

ASK = ["ask", "Proceed? [y/N] "]
SAID = "quite-a-secret-word"


def records(daemon: Daemon, *args: str) -> list[dict[str, Any]]:
    printed = sandboxd(daemon, "audit", *(args or ("export",)), "--json").stdout
    return [json.loads(line) for line in printed.splitlines()]


def test_every_send_answer_and_cancel_is_on_record_and_no_payload(daemon: Daemon):
    with bearer(daemon, make_token(daemon, "worker", "send", "answer", "cancel")) as client:
        body = daemon.message(daemon.envelope(daemon.request([["ask", "Name? [y/N] "]])), text=SAID)
        task = client.post("/message:send", json=body).json()["task"]
        prompt_id = prompt_of(task)["prompt_id"]
        misfit = client.post("/message:send", json=answer_body(task, prompt_id, text=7))
        fits = client.post("/message:send", json=answer_body(task, prompt_id, text="y"))
        again = client.post("/message:send", json=answer_body(task, prompt_id, text=SAID))
        unknown = str(uuid.uuid4())
        client.post(f"/tasks/{unknown}:cancel", json={"metadata": {"reason": SAID}})
        daemon.until(task["id"], "COMPLETED")
    with bearer(daemon, make_token(daemon, "watcher", "view")) as client:
        client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": task["id"]}})
    found = records(daemon)

    assert (misfit.status_code, fits.status_code, again.status_code) == (422, 200, 409)
    assert [(it["principal"], it["action"], it["outcome"], it.get("task_id"), it.get("prompt_id")) for it in found] == [
        ("token:worker", "send", "ACCEPTED", task["id"], None),
        ("token:worker", "answer", "HITL_RESPONSE_INVALID", task["id"], prompt_id),
        ("token:worker", "answer", "ACCEPTED", task["id"], prompt_id),
        ("token:worker", "answer", "HITL_ALREADY_ANSWERED_OR_UNKNOWN", task["id"], prompt_id),
        ("token:worker", "cancel", "TASK_NOT_FOUND", unknown, None),
        ("token:watcher", "cancel", "PERMISSION_DENIED", task["id"], None),
    ]
    assert {it["door"] for it in found} == {"tcp"}
    assert found[0]["message_id"] == body["message"]["messageId"]
    assert SAID not in json.dumps(found)
    assert [it["number"] for it in records(daemon, "tail", "-n", "2")] == [5, 6]
    assert [it["number"] for it in records(daemon, "export", "--after", "4")] == [5, 6]


def test_the_record_is_a_chain_that_is_verified_at_the_host_and_from_an_export(daemon: Daemon, tmp_path):
    for _ in range(3):
        daemon.run([["print", "x"]])
    found = records(daemon)
    verified = sandboxd(daemon, "audit", "verify")
    assert verified.stdout.splitlines() == [f"3:{found[-1]['hash']}"]
    noted = verified.stdout.strip()
    export = tmp_path / "audit.jsonl"
    export.write_text(sandboxd(daemon, "audit", "export", "--json").stdout)
    assert sandboxd(daemon, "audit", "verify", str(export), "--anchor", noted).stdout.splitlines()[0] == noted
    export.write_text(export.read_text().replace("ACCEPTED", "REPLAYED", 1))
    changed = sandboxd(daemon, "audit", "verify", str(export), check=False)
    assert changed.returncode == 1
    assert "entry 1 was changed" in changed.stderr

    daemon.stop()
    with sqlite3.connect(daemon.folder / "state" / "sandboxd.sqlite3") as database:
        database.execute("DROP TRIGGER audit_goes_from_its_beginning")
        database.execute("DELETE FROM audit WHERE number = 1")
    database.close()
    daemon.start()
    assert "entry 1 is missing" in sandboxd(daemon, "audit", "verify", check=False).stderr


def test_the_record_outlives_the_daemon_and_cannot_be_changed(daemon: Daemon):
    daemon.run([["print", "x"]])
    before = records(daemon)
    daemon.kill()
    daemon.start()

    assert records(daemon) == before
    daemon.stop()
    with sqlite3.connect(daemon.folder / "state" / "sandboxd.sqlite3") as database, pytest.raises(sqlite3.IntegrityError):
        database.execute("UPDATE audit SET principal = 'somebody else'")


def test_a_task_and_who_sent_it_are_on_record_together_whenever_the_daemon_dies(daemon: Daemon):
    told: list[str] = []

    def send_on() -> None:
        with daemon.client() as client:
            for _ in range(1000):
                try:
                    told.append(client.post("/message:send", json=daemon.message(text="x")).json()["task"]["id"])
                except httpx.TransportError:
                    return

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(send_on)
        wait_until(lambda: len(told) >= 20)
        daemon.kill()
    with sqlite3.connect(daemon.store) as database:
        tasks = {task for (task,) in database.execute("SELECT id FROM tasks")}
        noted = {task for (task,) in database.execute("SELECT task FROM audit WHERE action = 'send' AND outcome = 'ACCEPTED'")}
    database.close()

    assert noted == tasks
    assert set(told) <= tasks


def test_only_an_admin_of_the_whole_host_reads_it(shared: Daemon):
    for name, scopes, options in (("v", ["view", "send", "answer", "cancel"], ()), ("a", ["admin"], ("--instance", "default"))):
        with bearer(shared, make_token(shared, f"reader-{name}", *scopes, options=options)) as client:
            assert client.get("/audit").status_code == 403
    with bearer(shared, make_token(shared, "reader-admin", "admin")) as client:
        assert client.get("/audit").status_code == 200
        assert client.get("/audit?limit=0").status_code == 400
        assert client.get("/audit?after=x").status_code == 400
    assert httpx.get(f"{shared.url}/audit", trust_env=False).status_code == 401
