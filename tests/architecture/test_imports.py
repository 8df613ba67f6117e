"""Do imports point down only, and is the core free of I/O?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_import_contracts_hold(repository: Path) -> None:
    run = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", run], cwd=repository, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
