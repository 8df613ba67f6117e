"""Do imports point down only, and is the core free of I/O?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_import_contracts_hold(repository: Path) -> None:
    run = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", run], cwd=repository, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_what_serves_is_not_loaded_before_the_spawner_is_begun(repository: Path) -> None:
    assert loaded_by("sandboxd.startup", repository).isdisjoint({"quart", "hypercorn", "sandboxd.daemon", "sandboxd.http"})


def test_the_daemon_loads_nothing_that_connects(repository: Path) -> None:
    assert loaded_by("sandboxd.daemon", repository).isdisjoint({"httpx", "httpcore"})


def loaded_by(module: str, repository: Path) -> set[str]:
    """Every module that is loaded once that one is."""
    run = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", run], cwd=repository, capture_output=True, text=True, timeout=120, check=True)
    return set(done.stdout.split())
