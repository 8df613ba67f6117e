"""How does an operator get a copy of the store?"""

from __future__ import annotations

from pathlib import Path

from sandboxd.db.backup import Copied, copy
from sandboxd.db.connection import DatabaseUnavailable
from sandboxd.store.base import StoreUnavailable
from sandboxd.store.schema import SCHEMA


def back_up(store: Path, target: Path) -> Copied:
    """Copy the store as it stands, whether a daemon has it open or not; `StoreUnavailable` says why there is no copy."""
    try:
        return copy(store, target, SCHEMA)
    except DatabaseUnavailable as error:
        raise StoreUnavailable(f"cannot copy the store `{store}`: {error}") from error
