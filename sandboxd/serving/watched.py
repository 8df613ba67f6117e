"""Has a file changed since it was read?

For small files that the command line writes and the daemon goes by: a look at inode, size and times takes some microseconds, so
it is taken whenever the value is asked for, and no signal and no restart is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from sandboxd.errors import LoadError
from sandboxd.logs import logger

T = TypeVar("T")

_log = logger(__name__)


class Watched(Generic[T]):
    """What `read` makes of the file, now. A file that cannot be used leaves the last good value, and is logged once."""

    def __init__(self, path: Path, read: Callable[[Path], T]) -> None:
        """Read it; `LoadError`."""
        self.path = path
        self._read = read
        self._seen = self._look()
        self._value = read(path)

    @property
    def value(self) -> T:
        """The value as the file has it now."""
        seen = self._look()
        if seen != self._seen:
            self._seen = seen
            try:
                self._value = self._read(self.path)
                _log.info("read anew", file=self.path.name)
            except LoadError as error:
                _log.error("Cannot read a file, what it said before stays in force", error=str(error))
        return self._value

    def _look(self) -> tuple[int, ...]:
        try:
            status = self.path.stat()
        except OSError:
            return ()
        return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
