"""Can a path below the root be made to lead out of it, hang the spawner, or be something else than it must?"""

from __future__ import annotations

import ctypes
import hashlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxd.errors import Problem
from sandboxd.policy.model import CheckedPath
from sandboxd.runner.paths import REQUEST_MAX_BYTES, Opened, open_all, open_root
from tests.runner.workshop import open_descriptors

RACE_S = 1.0


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "root" / "a").mkdir(parents=True)
    (tmp_path / "root" / "a" / "b.json").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "b.json").write_text("SECRET")
    fd = open_root(str(tmp_path / "root"))
    yield fd
    os.close(fd)


def check(root: int, path: str, *, folder: str = ".") -> Opened | tuple[Problem, ...]:
    opened = open_all(root, folder, [CheckedPath("working_dir", folder, "directory"), CheckedPath("request", path, "file")])
    if isinstance(opened, Opened):
        os.close(opened.folder_fd)
    return opened


def why(root: int, path: str, *, folder: str = ".") -> str:
    problems = check(root, path, folder=folder)
    assert isinstance(problems, tuple)
    assert all(problem.keyword == "path" for problem in problems)
    return "; ".join(map(str, problems))


def test_a_regular_file_is_opened_and_its_bytes_named(root):
    opened = check(root, "a/b.json")

    assert isinstance(opened, Opened)
    assert opened.digests == {"request": f"sha256:{hashlib.sha256(b'inside').hexdigest()}"}


def test_a_symlink_as_the_last_name_is_refused(root, tmp_path):
    (tmp_path / "root" / "a" / "link").symlink_to("b.json")

    assert why(root, "a/link") == "`request`: `a/link` is a symlink, and symlinks below the instance's root are not followed"


def test_a_symlink_on_the_way_is_refused_and_named(root, tmp_path):
    (tmp_path / "root" / "way").symlink_to(tmp_path / "outside")

    assert why(root, "way/b.json").startswith("`request`: `way` is a symlink")


def test_a_symlinked_working_directory_is_refused(root, tmp_path):
    (tmp_path / "root" / "dir").symlink_to("a")

    assert why(root, "a/b.json", folder="dir").startswith("`working_dir`: `dir` is a symlink")


def test_bytes_that_the_policy_does_not_pin_are_refused_with_their_digest(root):
    here = f"sha256:{hashlib.sha256(b'inside').hexdigest()}"
    other, another = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"

    def opened(*pins: str) -> Opened | tuple[Problem, ...]:
        found = open_all(root, ".", [CheckedPath("runner", "a/b.json", "file", pins)])
        if isinstance(found, Opened):
            os.close(found.folder_fd)
        return found

    assert isinstance(opened(other, here), Opened)
    assert opened(other) == (Problem("runner", f"`a/b.json` is {here}, and the policy pins another", "pin"),)
    assert opened(other, another) == (Problem("runner", f"`a/b.json` is {here}, and the policy pins 2 others", "pin"),)


@pytest.mark.parametrize("path", ["../outside/b.json", "a/../../outside/b.json", "/etc/passwd"])
def test_what_leads_out_is_refused(root, path):
    assert "leads out of the instance's root" in why(root, path)


def test_a_path_within_that_climbs_and_comes_back_stays_inside(root):
    assert isinstance(check(root, "a/../a/b.json"), Opened)  # the policy refuses it; here it is only not dangerous


def test_proc_magic_links_are_refused(tmp_path):
    root = open_root("/proc/self")
    try:
        assert "symlink" in why(root, "root/etc/passwd")
        assert "symlink" in why(root, "fd/0")
    finally:
        os.close(root)


def test_another_mount_is_refused():
    root = open_root("/")
    try:
        assert "onto another mount" in why(root, "proc/version")
    finally:
        os.close(root)


def test_a_fifo_is_refused_and_does_not_hang(root, tmp_path):
    os.mkfifo(tmp_path / "root" / "fifo")

    assert why(root, "fifo") == "`request`: `fifo` is a fifo, must be a regular file"


def test_a_socket_is_refused(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "root")  # the whole path would be too long for a socket's name
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("sock")

        assert why(root, "sock") == "`request`: `sock` is a socket, must be a regular file"


def test_a_device_is_refused_without_being_opened():
    root = open_root("/dev")
    try:
        assert why(root, "null") == "`request`: `null` is a device, must be a regular file"
    finally:
        os.close(root)


def test_a_directory_in_place_of_the_request_is_refused(root):
    assert why(root, "a") == "`request`: `a` is a directory, must be a regular file"


def test_a_file_in_place_of_the_working_directory_is_refused(root):
    assert why(root, "a/b.json", folder="a/b.json") == "`working_dir`: `a/b.json` is not a directory"


def test_a_hard_link_to_something_outside_is_refused(root, tmp_path):
    os.link(tmp_path / "outside" / "b.json", tmp_path / "root" / "hard.json")

    assert why(root, "hard.json") == "`request`: `hard.json` has 2 names (hard links), must have one"


def test_a_request_that_is_too_large_is_refused(root, tmp_path):
    with (tmp_path / "root" / "big.json").open("wb") as file:
        file.truncate(REQUEST_MAX_BYTES + 1)

    assert "at most 1048576 are allowed" in why(root, "big.json")


def test_a_missing_part_is_named(root):
    assert why(root, "a/none/b.json") == "`request`: `a/none` does not exist"
    assert why(root, "a/b.json/c") == "`request`: `a/b.json` is not a directory"


@pytest.mark.parametrize("path", ["a\0b", "x" * 300, "\ud800"])
def test_a_text_that_is_no_file_name_is_refused(root, path):
    assert why(root, path)


def test_every_reason_comes_at_once(root):
    problems = open_all(
        root,
        "nowhere",
        [
            CheckedPath("working_dir", "nowhere", "directory"),
            CheckedPath("runner", "none", "file"),
            CheckedPath("request", "a", "file"),
        ],
    )

    assert isinstance(problems, tuple)
    assert [problem.field for problem in problems] == ["working_dir", "runner", "request"]


def test_the_working_directory_is_checked_also_when_the_plan_does_not_list_it(root):
    problems = open_all(root, "nowhere", [])

    assert isinstance(problems, tuple)
    assert str(problems[0]) == "`working_dir`: `nowhere` does not exist"


def test_a_root_that_was_removed_is_named(tmp_path):
    (tmp_path / "gone").mkdir()
    root = open_root(str(tmp_path / "gone"))
    (tmp_path / "gone").rmdir()
    try:
        assert "the instance's root was removed" in why(root, "x")
    finally:
        os.close(root)


def test_refusals_leave_no_descriptor_open(root):
    before = open_descriptors()

    for path in ("a", "none", "../x", "a/b.json"):
        check(root, path)

    assert open_descriptors() == before


def test_an_attacker_who_swaps_a_folder_for_a_symlink_never_gets_the_secret_read(root, tmp_path):
    (tmp_path / "root" / "evil").symlink_to(tmp_path / "outside")
    libc = ctypes.CDLL(None, use_errno=True)
    stop = threading.Event()

    def flip() -> None:
        a, evil = os.fsencode(tmp_path / "root" / "a"), os.fsencode(tmp_path / "root" / "evil")
        while not stop.is_set():
            libc.renameat2(-100, a, -100, evil, 2)  # AT_FDCWD, RENAME_EXCHANGE

    secret = hashlib.sha256(b"SECRET").hexdigest()
    attacker = threading.Thread(target=flip)
    attacker.start()
    naive = read = refused = 0
    try:
        deadline = time.monotonic() + RACE_S
        while time.monotonic() < deadline:
            opened = check(root, "a/b.json")
            if isinstance(opened, Opened):
                read += 1
                assert secret not in opened.digests["request"]
            else:
                refused += 1
            naive += (tmp_path / "root" / "a" / "b.json").read_text() == "SECRET"
    finally:
        stop.set()
        attacker.join()

    assert read and refused and naive  # the attack was on: an open by name would have read the secret
