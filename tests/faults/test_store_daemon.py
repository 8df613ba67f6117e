"""Does a daemon whose store fails say so where it is asked, refuse clearly, and go on once the fault is gone?"""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from sandboxd.store.schema import SCHEMA
from tests.support.daemon import Daemon, output_of, state_of, wait_until


def readiness(daemon: Daemon) -> tuple[int, str]:
    """The status, and why the store's check failed."""
    answer = httpx.get(f"{daemon.url}/readyz", trust_env=False, timeout=20)
    (store,) = [check for check in answer.json()["checks"] if check["name"] == "store"]
    return answer.status_code, store.get("why", "")


def test_a_full_disk_makes_the_host_unready_with_the_reason_and_passes(daemon: Daemon, fill_disk: Callable[..., None]):
    kept = daemon.run([["print", "kept\n"]])
    before = readiness(daemon)
    fill_disk(daemon, full=True)
    status, why = wait_until(lambda: found if (found := readiness(daemon))[0] != 200 else None)
    with daemon.client() as client:
        refused = client.post("/message:send", json=daemon.message(text="echo"))
        read = client.get(f"/tasks/{kept['id']}")
    fill_disk(daemon, full=False)
    after = wait_until(lambda: found if (found := readiness(daemon))[0] == 200 else None)

    assert before == after == (200, "")
    assert status == 503
    assert why.startswith("cannot write the store: ")
    assert str(daemon.folder) not in why
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert output_of(read.json()) == "kept\r\n"
    assert state_of(daemon.run([["print", "again\n"]])) == "COMPLETED"


def test_damage_under_a_running_daemon_is_told_and_a_restart_refuses(daemon: Daemon):
    kept = daemon.run([["print", "kept\n" * 5000]])
    daemon.stop()  # what was in the log is in the file now
    whole = daemon.store.read_bytes()
    daemon.start()
    with daemon.store.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (len(whole) - 4096))
    with daemon.client() as client:
        read = client.get(f"/tasks/{kept['id']}")
    told = readiness(daemon)
    daemon.kill()
    refused = serve(daemon)
    daemon.store.write_bytes(whole)
    for name in ("-wal", "-shm"):
        daemon.store.with_name(daemon.store.name + name).unlink(missing_ok=True)
    daemon.start()

    assert read.status_code == 503
    assert told[0] == 503
    assert "malformed" in told[1]
    assert refused.returncode == 1
    assert "it is damaged" in refused.stderr
    assert "restore a copy" in refused.stderr
    assert output_of(daemon.get(kept["id"])).startswith("kept")


def test_output_that_is_damaged_is_told_to_whoever_reads_it_and_hits_nobody_else(daemon: Daemon):
    hit = daemon.run([["flood", 300_000]])
    kept = daemon.run([["flood", 200_000]])
    before = output_of(daemon.get(kept["id"]))
    files = daemon.store.with_name(daemon.store.name + ".output")
    (first, _) = sorted(files.iterdir(), key=lambda file: file.stat().st_size, reverse=True)
    with first.open("r+b") as file:
        file.write(b"not this")
    with daemon.client() as client:
        read = client.get(f"/tasks/{hit['id']}")
        after = output_of(client.get(f"/tasks/{kept['id']}").json())

    assert read.status_code == 503
    assert "the store is not available" in read.text
    assert f"it is damaged: `{files.name}/{first.name}` has other bytes" in daemon.log()
    assert after == before
    assert readiness(daemon) == (200, "")
    assert state_of(daemon.run([["flood", 100_000]])) == "COMPLETED"


def test_a_second_daemon_on_the_store_is_refused_and_the_first_goes_on(daemon: Daemon, tmp_path: Path):
    second = tmp_path / "second.toml"
    second.write_text(daemon.config.read_text().replace("api.sock", "other.sock"))
    refused = serve(daemon, second)

    assert daemon.process is not None
    assert refused.returncode == 1
    assert f"another sandboxd (process {daemon.process.pid}) has it open, and one file has one owner" in refused.stderr
    assert state_of(daemon.run([["print", "on\n"]])) == "COMPLETED"


@pytest.mark.parametrize("change", ["newer", "cut"])
def test_a_store_that_cannot_be_used_is_refused_at_the_start_and_left_as_it_is(daemon: Daemon, change: str):
    kept = daemon.run([["print", "kept\n"]])
    daemon.stop()
    whole = daemon.store.read_bytes()
    if change == "newer":
        with contextlib.closing(sqlite3.connect(daemon.store)) as store:
            store.execute(f"PRAGMA user_version = {len(SCHEMA.migrations) + 1}")
    else:
        daemon.store.write_bytes(whole[: len(whole) // 2])
    before = daemon.store.read_bytes()
    refused = serve(daemon)
    after = daemon.store.read_bytes()
    daemon.store.write_bytes(whole)
    daemon.start()

    assert refused.returncode == 1
    assert {"newer": "run the newer version, or restore the copy", "cut": "it is damaged"}[change] in refused.stderr
    assert after == before
    assert output_of(daemon.get(kept["id"])) == "kept\r\n"


def test_an_unclean_stop_is_told_at_the_next_start(daemon: Daemon):
    daemon.run([["print", "kept\n"]])
    daemon.kill()
    daemon.start()

    assert readiness(daemon) == (200, "")
    assert "the store was not closed by the daemon before this one" in daemon.log()


def serve(daemon: Daemon, config: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sandboxd", "serve", "--config", str(config or daemon.config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
