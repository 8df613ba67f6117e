"""Where do the golden samples and the recordings stand, which are no part of this tree?

`scripts/as-tester` names them (SANDBOXD_SHARED, SANDBOXD_CORPUS) and, for root, copies them to where tests can read them; by
hand they are found in a folder `shared` beside the tree or above it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_ABOVE = Path(__file__).resolve().parents[2].parents


def _shared() -> Path | None:
    named = os.environ.get("SANDBOXD_SHARED")
    if named:
        return Path(named)
    return next((above / "shared" for above in _ABOVE if (above / "shared" / "samples").is_dir()), None)


SHARED = _shared()
CORPUS = Path(os.environ["SANDBOXD_CORPUS"]) if os.environ.get("SANDBOXD_CORPUS") else SHARED and SHARED / "corpus"

needs_samples = pytest.mark.skipif(SHARED is None, reason="NOT TESTED HERE: the golden samples (no folder `shared` is there)")


def sample(name: str) -> str:
    """The text of one golden sample."""
    assert SHARED is not None
    return (SHARED / "samples" / name).read_text()
