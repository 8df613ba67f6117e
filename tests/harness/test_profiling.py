"""Does a profile say where the time went?"""

from __future__ import annotations

from pathlib import Path

from benchmarks.profiling import read

RAW = """\
thread (7): MainThread;main (/x/tree/sandboxd/startup.py:3);run (/usr/lib/site-packages/trio/_core/_run.py:9) 6
thread (7): MainThread;main (/x/tree/sandboxd/startup.py:3);main (/x/tree/sandboxd/startup.py:8) 2
thread (8): db-writer;commit_together (/x/tree/sandboxd/db/batch.py:5) 2
thread (9): Trio thread;WorkerThread._work (/usr/lib/site-packages/trio/_core/_thread_cache.py:1) 90
"""


def test_time_is_told_by_thread_by_package_and_by_function_without_what_waits(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.write_text(RAW)

    profile = read(raw, "Daemon 1")

    assert profile.samples == 10
    assert profile.threads == {"MainThread": 8, "db-writer": 2}
    assert profile.packages == {"trio": 6, "sandboxd/startup.py": 2, "sandboxd/db": 2}
    assert profile.own["main (sandboxd/startup.py)"] == 2
    assert profile.whole["main (sandboxd/startup.py)"] == 8
    assert "| run (trio/_core/_run.py) | 60.0 % |" in profile.markdown()
