"""Where does a run put its temporary files at `standard`, and how do they go away?

One folder a run, below a folder of the daemon's that no run can list. A hostile run leaves a million names, folders a million
deep, and folders that may not be entered. So what is removed is brought to the top first, never followed down, and the work is
done in small pieces between other work. A run's folder is removed when nothing of the run is left.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PIECE: Final = 200  # names at a time: a few milliseconds


class Scratch:
    """The runs' temporary folders. Owned by the spawner's one thread."""

    def __init__(self, folder: str | None) -> None:
        """`folder` None: a fresh one. What an earlier spawner left in it goes away by and by."""
        self._is_own = folder is None
        self._folder = folder or tempfile.mkdtemp(prefix="sandboxd-")
        Path(self._folder).mkdir(mode=0o700, exist_ok=True)
        self._folder = os.path.realpath(self._folder)
        self._number = 0
        self._removing: Iterator[None] | None = None
        self._pending = [entry.path for entry in os.scandir(self._folder)]

    @property
    def is_clean(self) -> bool:
        """Whether nothing waits to be removed."""
        return self._removing is None and not self._pending

    def make(self) -> str:
        """A fresh folder for one run; `OSError`."""
        path = f"{self._folder}/run-{os.urandom(8).hex()}"
        Path(path).mkdir(mode=0o700)
        return path

    def remove_soon(self, path: str) -> None:
        """Have a run's folder removed by the next calls of `remove_some`."""
        self._pending.append(path)

    def remove_some(self) -> None:
        """One small piece of what waits."""
        if self._removing is None:
            if not self._pending:
                return
            self._removing = _remove(self._pending.pop())
        try:
            next(self._removing)
        except StopIteration:
            self._removing = None
        except OSError:  # another user's, or a file system that fails: it stays, and the next start tries again
            self._removing = None

    def close(self) -> None:
        """Remove the folder itself if it is of its own and empty."""
        if self._is_own:
            with contextlib.suppress(OSError):
                Path(self._folder).rmdir()


def _remove(top: str) -> Iterator[None]:
    """Remove a tree whose owners are all dead, in pieces, however deep it is."""
    done = moved = 0
    token = os.urandom(8).hex()  # no name that the run could have left there
    _open_up(top)
    while True:
        folders = []
        for entry in os.scandir(top):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            else:
                Path(entry).unlink()
            if (done := done + 1) % _PIECE == 0:
                yield
        if not folders:
            break
        for folder in folders:
            _open_up(folder)
            for entry in os.scandir(folder):
                if entry.is_dir(follow_symlinks=False):
                    moved += 1
                    _open_up(entry.path)  # a folder that is moved is written to: its `..` changes
                    Path(entry).rename(f"{top}/{token}.{moved}")
                else:
                    Path(entry).unlink()
                if (done := done + 1) % _PIECE == 0:
                    yield
            Path(folder).rmdir()
    Path(top).rmdir()


def _open_up(folder: str) -> None:
    mode = stat.S_IMODE(os.lstat(folder).st_mode)
    if mode & 0o700 != 0o700:
        Path(folder).chmod(0o700)
