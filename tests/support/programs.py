"""How does a test start a program that must not outlive it?"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def begun(argv: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """`Popen`, killed when the block fails: by itself it waits for a program that nobody tells to end any more."""
    with subprocess.Popen(argv, **options) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
