"""Where does much output stand?

A piece of output of 16 KiB or more stands in a file beside the store, one for each artifact, at the offset that it has in the
artifact; the store's row has its length and its checksum. In the store itself it would be written twice, to the log and
from there to the file (measured: 50 MB at half the speed). What is smaller stays in the row: it would cost a flush more.

The bytes are flushed before the commit that puts their row on record, so what a row names is there, or somebody took it away.
The kernel begins to write them back as soon as it has them (measured: 1 MiB and then a millisecond of other work; the flush
takes 0.8 ms of 1.7 so).
What no row names, after a death or a full disk, is never read, and is overwritten by what comes there. Whatever is not as it
was written is told, never passed on.
"""

from __future__ import annotations

import ctypes
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from sandboxd.db.connection import DatabaseUnavailable

FROM_BYTES: Final = 16 * 1024
_IOV_MAX: Final = 1024  # writev(2)
_SYNC_FILE_RANGE: Final = ctypes.CDLL(None).sync_file_range
_SYNC_FILE_RANGE.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_WRITE: Final = 2  # SYNC_FILE_RANGE_WRITE: begin, and wait for nothing


class OutputDamaged(DatabaseUnavailable):
    """A file of output is gone, shorter than it was, or not what was written."""


class Files:
    """The folder of one store. `write`, `flush` and `forget` belong to the writer's thread; `read` to any."""

    def __init__(self, store: Path) -> None:
        self.folder = store.with_name(store.name + ".output")
        self._open: dict[int, int] = {}  # what was written to since the last commit: number → descriptor
        self._unsynced: set[Path] = set()  # folders with a name that is not on disk yet

    def write(self, number: int, pieces: Sequence[tuple[int, bytes]]) -> list[int]:
        """Put each piece at its offset; their checksums. They are on disk after `flush`. Raises `DatabaseUnavailable`."""
        try:
            file = self._open.get(number)
            if file is None:
                file = self._open[number] = self._open_file(number)
            for offset, run in _runs(pieces):
                _begin_writing_back(file, offset, _write_all(file, run, offset))
        except OSError as error:
            raise DatabaseUnavailable(f"{error.strerror}: `{self.name(number)}`") from error
        return [zlib.crc32(data) for _, data in pieces]

    def flush(self) -> None:
        """Return once everything that was written is on disk; `DatabaseUnavailable`."""
        try:
            for file in self._open.values():
                os.fdatasync(file)
            for folder in self._unsynced:
                _sync(folder)
        except OSError as error:
            raise DatabaseUnavailable(f"{error.strerror}: `{self.folder.name}`") from error
        self._unsynced.clear()
        self.forget()

    def forget(self) -> None:
        """Nothing that was written since the last commit counts."""
        while self._open:
            os.close(self._open.popitem()[1])

    def read(self, number: int, offset: int, size: int, checksum: int) -> bytes:
        """The piece that was written there; `OutputDamaged` when it is not there whole."""
        name = self.name(number)
        try:
            with self.path(number).open("rb", buffering=0) as file:
                data = os.pread(file.fileno(), size, offset)
        except OSError as error:
            raise OutputDamaged(f"{error.strerror}: `{name}`") from error
        if len(data) < size:
            raise OutputDamaged(f"it is damaged: `{name}` ends within a piece of output")
        if zlib.crc32(data) != checksum:
            raise OutputDamaged(f"it is damaged: `{name}` has other bytes from {offset} to {offset + size} than were written")
        return data

    def size_bytes(self, number: int) -> int | None:
        """How long the file is; None: it is not there."""
        try:
            return self.path(number).stat().st_size
        except FileNotFoundError:
            return None

    def numbers(self) -> Iterable[int]:
        """Of all files that are there."""
        try:
            return [int(name) for name in os.listdir(self.folder) if name.isdecimal()]
        except FileNotFoundError:
            return []

    def remove(self, number: int) -> None:
        """Delete a file, if it is there. Raises `OSError`."""
        self.path(number).unlink(missing_ok=True)

    def path(self, number: int) -> Path:
        """Where the file of that number is."""
        return self.folder / str(number)

    def name(self, number: int) -> str:
        """The file, for messages: clients may read them, and where the store is is none of their business."""
        return f"{self.folder.name}/{number}"

    def _open_file(self, number: int) -> int:
        path, how = self.path(number), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(path, how)
        except FileNotFoundError:
            pass
        if not self.folder.is_dir():
            self.folder.mkdir(mode=0o700)
            self._unsynced.add(self.folder.parent)
        file = os.open(path, how | os.O_CREAT, 0o600)
        self._unsynced.add(self.folder)
        return file


def _runs(pieces: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, list[bytes]]]:
    """Those that follow each other without a gap, as many as one call of the kernel takes, with where they begin."""
    start, end, run = 0, -1, list[bytes]()
    for offset, data in pieces:
        if run and (offset != end or len(run) == _IOV_MAX):
            yield start, run
            run = []
        if not run:
            start = offset
        run.append(data)
        end = offset + len(data)
    if run:
        yield start, run


def _write_all(file: int, run: Sequence[bytes], offset: int) -> int:
    done, size = os.pwritev(file, run, offset), sum(map(len, run))
    while done < size:  # a disk that is nearly full takes a part, and says why with the next call
        done += os.pwrite(file, b"".join(run)[done:], offset + done)
    return size


def _begin_writing_back(file: int, offset: int, size: int) -> None:
    """Have the kernel begin what `flush` waits for, while there are checksums to make and rows to write.

    Only `flush` says whether the bytes are on disk: what this returns is nothing to go by, and what does not begin now begins
    then.
    """
    _SYNC_FILE_RANGE(file, offset, size, _WRITE)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
