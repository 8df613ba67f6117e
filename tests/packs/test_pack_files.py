"""Which files are read as packs, and which are refused?"""

import hashlib
import os
from pathlib import Path

import pytest

from sandboxd import packs
from sandboxd.errors import LoadError


def put(folder: Path, name: str, text: str, mode: int = 0o644) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def refused(path: Path) -> str:
    with pytest.raises(LoadError) as error:
        packs.read(path)
    assert error.value.source == str(path)
    return str(error.value)


def test_a_file_is_read_with_its_digest(tmp_path: Path) -> None:
    path = put(tmp_path, "shell.toml", "format = 1 # ü\n")

    found = packs.read(path)

    assert (found.name, found.path, found.text) == ("shell", path, "format = 1 # ü\n")
    assert found.digest == "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666, 0o777])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    assert f"others may write it (mode {mode:04o})" in refused(put(tmp_path, "shell.toml", "format = 1", mode))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "shell.toml", "format = 1")
    os.chown(path, 12345, 12345)

    assert "belongs to user 12345; it must belong to root or to user 0" in refused(path)


def test_a_link_is_judged_by_the_file_that_it_leads_to(tmp_path: Path) -> None:
    put(tmp_path, "real.toml", "format = 1", 0o666)
    link = tmp_path / "link.toml"
    link.symlink_to("real.toml")

    assert "others may write it" in refused(link)


def test_what_is_no_regular_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml", 0o600)
    (tmp_path / "folder.toml").mkdir(mode=0o700)

    assert "is no regular file" in refused(tmp_path / "pipe.toml")
    assert "is no regular file" in refused(tmp_path / "folder.toml")
    assert "cannot open it: no such file or directory" in refused(tmp_path / "missing.toml")


def test_bytes_that_are_no_utf8_and_huge_files_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "shell.toml", "")
    path.write_bytes(b"format = 1 # \xff")
    assert "is not UTF-8 at byte 13" in refused(path)

    path.write_bytes(b"#" * (packs.MAX_BYTES + 1))
    assert "is larger than" in refused(path)


def test_a_later_folder_replaces_and_an_empty_file_masks(tmp_path: Path) -> None:
    first, second, third = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    put(first, "shell.toml", "format = 1 # shipped")
    put(first, "node.toml", "format = 1 # shipped")
    put(first, "zsh.toml", "format = 1 # shipped")
    put(second, "shell.toml", "format = 1 # ours")
    put(third, "node.toml", "")
    put(third, "README.md", "no pack")
    put(third, ".hidden.toml", "no pack")

    found = packs.search(folders=[first, second, tmp_path / "missing", third])

    assert [(pack.name, pack.text) for pack in found] == [("shell", "format = 1 # ours"), ("zsh", "format = 1 # shipped")]


def test_a_shipped_file_that_is_masked_is_still_read_with_care(tmp_path: Path) -> None:
    put(tmp_path / "a", "shell.toml", "format = 1", 0o666)
    put(tmp_path / "b", "shell.toml", "")

    with pytest.raises(LoadError, match="others may write it"):
        packs.search(folders=[tmp_path / "a", tmp_path / "b"])


def test_the_shipped_detectors_are_found() -> None:
    assert (packs.shipped("detectors") / "shell.toml").is_file()
