"""Which mounts below the root are only another view of the same place?"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxd.runner.mounts import parse_mountinfo

LOOK = """
import sys
from sandboxd.policy.model import CheckedPath
from sandboxd.runner import paths
try:
    fd = paths.open_file(paths.open_root(sys.argv[1]), CheckedPath("request", "runs/x.json", "file"), max_bytes=99)
except paths.Refused as refused:
    print(refused.problem)
else:
    print("opened")
"""


@pytest.fixture
def look(tmp_path: Path):
    """Open `runs/x.json` below the root, with mounts that a unit or somebody else made there."""
    bwrap = shutil.which("bwrap", path="/usr/bin:/usr/local/bin")
    basis = [str(bwrap), "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev"]
    if bwrap is None or subprocess.run([*basis, "/bin/true"], check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED HERE: mounts below the root (bubblewrap cannot be used)")
    for folder in ("root/runs", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.json").write_text("{}")

    def run(*mounts: object) -> str:
        command = [*basis, *map(str, mounts), sys.executable, "-c", LOOK, str(tmp_path / "root")]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    return run


def test_a_folder_that_a_unit_made_writable_is_not_another_place(look, tmp_path):
    runs = tmp_path / "root/runs"

    assert look("--ro-bind", tmp_path / "root", tmp_path / "root", "--bind", runs, runs) == "opened"


def test_another_folder_of_the_same_file_system_is_another_place(look, tmp_path):
    assert "onto another mount" in look("--bind", tmp_path / "elsewhere", tmp_path / "root/runs")


def test_another_file_system_is_another_place(look, tmp_path):
    assert "onto another mount" in look("--tmpfs", tmp_path / "root/runs")


def test_what_lies_below_a_foreign_mount_stays_foreign(look, tmp_path):
    runs = tmp_path / "root/runs"
    (tmp_path / "elsewhere/runs").mkdir()
    (tmp_path / "elsewhere/runs/x.json").write_text("{}")

    told = look("--bind", tmp_path / "elsewhere", tmp_path / "root", "--bind", runs, runs)

    assert "onto another mount" in told  # the root itself is where the operator says; its `runs` is the old one again


def test_names_with_blanks_are_read_as_they_are():
    (mount,) = parse_mountinfo("24 1 0:22 /a\\040b /mnt/c\\134d rw - ext4 /dev/x rw\n").values()

    assert (str(mount.root), str(mount.point)) == ("/a b", "/mnt/c\\d")
