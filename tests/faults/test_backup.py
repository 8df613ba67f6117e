"""Is a copy of the store whole, private and restorable by the steps of docs/backup.md?"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from tests.support.daemon import Daemon, outcome_of, output_of, state_of


def back_up(daemon: Daemon, target: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sandboxd", "backup", str(target), "--config", str(daemon.config), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_copy_under_load_is_whole_private_and_can_be_restored(daemon: Daemon, tmp_path: Path):
    kept = daemon.run([["flood", 200_000]])
    live = daemon.run([["print", "up\n"], ["hang"]], wait=False)
    target = tmp_path / "copy.sqlite3"
    enough = threading.Event()
    busy = threading.Thread(target=lambda: [daemon.run([["flood", 50_000]]) for _ in iter(enough.is_set, True)])
    busy.start()
    copied = back_up(daemon, target, "--json")
    enough.set()
    busy.join()
    later = daemon.run([["print", "later\n"]])
    before = output_of(daemon.get(kept["id"]))
    daemon.stop()
    for name in ("", "-wal", "-shm"):
        daemon.store.with_name(daemon.store.name + name).unlink(missing_ok=True)
    shutil.copy(target, daemon.store)
    daemon.start()

    assert copied.returncode == 0, copied.stderr
    assert json.loads(copied.stdout)["bytes"] == target.stat().st_size
    assert target.stat().st_mode & 0o777 == 0o600
    assert output_of(daemon.get(kept["id"])) == before
    assert outcome_of(daemon.until(live["id"], "FAILED"))["reason"] == "daemon-died"
    with daemon.client() as client:
        assert client.get(f"/tasks/{later['id']}").status_code == 404
    assert state_of(daemon.run([["print", "on\n"]])) == "COMPLETED"


def test_a_name_that_is_taken_is_left_as_it_is(daemon: Daemon, tmp_path: Path):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    refused = back_up(daemon, taken)

    assert refused.returncode == 1
    assert f"file exists: `{taken}`" in refused.stderr
    assert taken.read_text() == "mine"
    assert [path.name for path in tmp_path.glob(".taken*")] == []


def test_a_damaged_store_gives_no_copy(daemon: Daemon, tmp_path: Path):
    daemon.run([["flood", 500_000]])
    daemon.stop()
    with daemon.store.open("r+b") as file:
        file.seek(8 * 4096)
        file.write(b"\xff" * 4096 * 8)
    refused = back_up(daemon, tmp_path / "copy")

    assert refused.returncode == 1
    assert "cannot copy the store" in refused.stderr
    assert [path.name for path in tmp_path.iterdir() if "copy" in path.name] == []


def test_without_a_store_there_is_nothing_to_copy(daemon: Daemon, tmp_path: Path):
    daemon.stop()
    daemon.store.unlink()

    assert back_up(daemon, tmp_path / "copy").returncode == 3
