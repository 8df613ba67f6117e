"""Where are the packs, and may this file be trusted?

Detectors and policies are data: an operator reads and reviews them, and the daemon never executes code from them. Shipped
detectors are found by `search`; a policy grants execution, so it is only ever read where the config names it. As ssh and sudo
do, a file that somebody else could have written is refused: owner and mode are taken from the descriptor that is read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import attrs

from sandboxd.errors import LoadError, Problem
from sandboxd.values import frozen

MAX_BYTES: Final = 1024 * 1024  # the shipped packs are below 20 KiB
DETECTOR_FOLDERS: Final = (Path("/usr/local/share/sandboxd/detectors"), Path("/etc/sandboxd/detectors.d"))

Kind = Literal["detectors", "policies", "systemd"]


@frozen
class PackFile:
    """A file as it was read; `name` is its stem, `digest` is `sha256:…` of its bytes."""

    name: str
    path: Path
    text: str = attrs.field(repr=False)
    digest: str


def shipped(kind: Kind) -> Path:
    """The folder of the shipped packs (or units): inside the package in a wheel, beside the package in a checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "share" / kind
    return inside if inside.is_dir() else package.parent / kind


def search(kind: Literal["detectors"] = "detectors", *, folders: Sequence[Path] | None = None) -> tuple[PackFile, ...]:
    """Every detector pack by name: shipped, then the host's, then the operator's.

    The later file with the same name replaces the whole earlier one, and an empty file masks it. Policies are never searched.
    """
    found: dict[str, PackFile] = {}
    for folder in folders if folders is not None else (shipped(kind), *DETECTOR_FOLDERS):
        for path in _files(folder):
            found[path.name] = read(path)
    return tuple(pack for _, pack in sorted(found.items()) if pack.text.strip())


def read(path: Path) -> PackFile:
    """The file's text and digest; `LoadError` when it cannot be read or somebody else may write it."""
    try:
        # O_NONBLOCK: a fifo in its place must not hang the daemon.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise LoadError(str(path), [Problem("", f"cannot open it: {_reason(error)}")]) from None
    try:
        _check(path, os.fstat(descriptor))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise LoadError(str(path), [Problem("", f"cannot read it: {_reason(error)}")]) from None
    finally:
        os.close(descriptor)
    if len(data) > MAX_BYTES:
        raise LoadError(str(path), [Problem("", f"is larger than {MAX_BYTES} bytes")])
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoadError(str(path), [Problem("", f"is not UTF-8 at byte {error.start}")]) from None
    return PackFile(path.stem, path, text, f"sha256:{hashlib.sha256(data).hexdigest()}")


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".toml" and not path.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise LoadError(str(folder), [Problem("", f"cannot list it: {_reason(error)}")]) from None


def _check(path: Path, facts: os.stat_result) -> None:
    problems = []
    if not stat.S_ISREG(facts.st_mode):
        problems.append(Problem("", "is no regular file"))
    if facts.st_uid not in (0, os.geteuid()):
        problems.append(Problem("", f"belongs to user {facts.st_uid}; it must belong to root or to user {os.geteuid()}"))
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problems.append(Problem("", f"others may write it (mode {facts.st_mode & 0o7777:04o}); `chmod go-w {path}` mends that"))
    if problems:
        raise LoadError(str(path), problems)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno or errno.EIO).lower()
