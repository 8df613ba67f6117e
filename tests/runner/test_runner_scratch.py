"""Does a run's temporary folder go away, whatever the run has left in it?"""

from __future__ import annotations

import os
from pathlib import Path

from sandboxd.runner.scratch import Scratch


def tidy(scratch: Scratch) -> int:
    pieces = 0
    while not scratch.is_clean:
        scratch.remove_some()
        pieces += 1
    return pieces


def test_a_folder_goes_with_everything_a_hostile_run_can_leave(tmp_path: Path) -> None:
    scratch = Scratch(str(tmp_path / "scratch"))
    folder = Path(scratch.make())
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (folder / "link").symlink_to(outside)
    os.mkfifo(folder / "fifo")
    for number in range(1000):
        (folder / f"{number}").touch()
    deep = os.open(folder, os.O_RDONLY)
    for _ in range(3000):  # deeper than a path may be long
        os.mkdir("d" * 20, dir_fd=deep)
        deeper = os.open("d" * 20, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = deeper
    os.mkdir("closed", 0o000, dir_fd=deep)
    os.close(deep)
    scratch.remove_soon(str(folder))

    assert tidy(scratch) > 10
    assert not folder.exists()
    assert (outside / "kept").read_text() == "kept"


def test_what_an_earlier_spawner_left_goes_too(tmp_path: Path) -> None:
    left = tmp_path / "scratch" / "run-1" / "folder"
    left.mkdir(parents=True)
    scratch = Scratch(str(tmp_path / "scratch"))
    tidy(scratch)

    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_folder_of_its_own_goes_in_the_end() -> None:
    scratch = Scratch(None)
    folder = Path(scratch.make())
    scratch.remove_soon(str(folder))
    tidy(scratch)
    scratch.close()

    assert not folder.parent.exists()
