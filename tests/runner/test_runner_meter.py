"""Is it noticed how much a run has in its temporary folder, however it hides it?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sandboxd.runner.meter import Meter, passes

KIB = 1024


def is_passed(folder: Path, most_bytes: int, pids: tuple[int, ...] = ()) -> bool:
    look = passes(str(folder), most_bytes, lambda: pids)
    while True:
        try:
            next(look)
        except StopIteration as end:
            return bool(end.value)


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[int]:
    """A folder deeper than a path may be long."""
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d" * 200, dir_fd=at)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    yield at
    os.close(at)


def test_one_large_file_is_too_much(tmp_path: Path):
    (tmp_path / "file").write_bytes(bytes(200 * KIB))

    assert is_passed(tmp_path, 100 * KIB)
    assert not is_passed(tmp_path, 300 * KIB)


def test_many_empty_files_are_something(tmp_path: Path):
    for number in range(1000):
        (tmp_path / f"{number}").touch()

    assert is_passed(tmp_path, 100 * KIB)
    assert not is_passed(tmp_path, 2000 * KIB)


def test_a_hole_takes_nothing(tmp_path: Path):
    with (tmp_path / "file").open("wb") as file:
        file.truncate(1 << 30)

    assert not is_passed(tmp_path, 100 * KIB)


def test_a_file_without_a_name_counts_as_long_as_it_is_open(tmp_path: Path):
    with (tmp_path / "file").open("wb") as file:
        file.write(bytes(200 * KIB))
        file.flush()
        (tmp_path / "file").unlink()

        assert is_passed(tmp_path, 100 * KIB, (os.getpid(),))
        assert not is_passed(tmp_path, 300 * KIB, (os.getpid(),))
    assert not is_passed(tmp_path, 100 * KIB, (os.getpid(),))


def test_a_file_with_two_names_counts_once(tmp_path: Path):
    (tmp_path / "file").write_bytes(bytes(200 * KIB))
    (tmp_path / "again").hardlink_to(tmp_path / "file")

    assert not is_passed(tmp_path, 300 * KIB)


def test_a_folder_that_is_closed_is_opened(tmp_path: Path):
    (tmp_path / "folder/below").mkdir(parents=True)
    (tmp_path / "folder/below/file").write_bytes(bytes(200 * KIB))
    (tmp_path / "folder/below").chmod(0o000)
    (tmp_path / "folder").chmod(0o300)

    assert is_passed(tmp_path, 100 * KIB)
    assert not is_passed(tmp_path, 300 * KIB)


def test_what_is_deeper_than_a_name_can_say_is_too_much(tmp_path: Path, deep: int):
    assert is_passed(tmp_path, 1 << 40)


def test_nothing_is_counted_behind_a_symlink(tmp_path: Path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(bytes(200 * KIB))
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/link").symlink_to(tmp_path / "outside")

    assert not is_passed(tmp_path / "inside", 100 * KIB)


def test_a_folder_that_is_gone_holds_nothing(tmp_path: Path):
    assert not is_passed(tmp_path / "gone", 0)


def test_a_run_that_passes_its_size_is_told_of_once(tmp_path: Path):
    meter, told = Meter(), list[str]()
    for name in ("small", "large"):
        (tmp_path / name).mkdir()
        meter.watch(str(tmp_path / name), 100 * KIB, members=list, passed=partial(told.append, name))
    (tmp_path / "large/file").write_bytes(bytes(200 * KIB))

    until = time.monotonic() + 30
    while not told and time.monotonic() < until:
        meter.look_some()
        time.sleep(meter.timeout_s() or 0)

    assert told == ["large"]
    meter.forget(str(tmp_path / "small"))
    assert meter.timeout_s() is None
