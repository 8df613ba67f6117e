"""Are token files made safely, and unsafe ones refused?"""

from __future__ import annotations

import hashlib
import os
import stat

import pytest

from sandboxd.errors import LoadError
from sandboxd.http.tokens import load_tokens
from sandboxd.serving.bearer import read_token


def test_a_missing_file_is_made_private(tmp_path):
    path = tmp_path / "default.token"
    before = os.umask(0)
    try:
        (token,) = load_tokens({"default": path})
    finally:
        os.umask(before)

    assert token.name == "default"
    assert token.digest == hashlib.sha256(read_token(path).encode()).digest()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(read_token(path)) >= 43
    assert [found.name for found in tmp_path.iterdir()] == ["default.token"]


def test_a_file_that_exists_is_kept(tmp_path):
    path = tmp_path / "default"
    first = load_tokens({"default": path})

    assert load_tokens({"default": path}) == first


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o700 | 0o001])
def test_a_file_that_others_can_use_is_refused(tmp_path, mode):
    path = tmp_path / "default"
    load_tokens({"default": path})
    path.chmod(mode)

    with pytest.raises(LoadError, match="others can use it"):
        load_tokens({"default": path})


def test_a_link_is_not_followed(tmp_path):
    load_tokens({"default": tmp_path / "real"})
    (tmp_path / "link").symlink_to(tmp_path / "real")

    with pytest.raises(LoadError, match="symbolic"):
        load_tokens({"default": tmp_path / "link"})


def test_a_pipe_does_not_hold_up_the_start(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)

    with pytest.raises(LoadError, match="no regular file"):
        load_tokens({"default": tmp_path / "pipe"})


@pytest.mark.parametrize("text", ["", "short", "x" * 40 + " y", "é" * 40, "x" * 40 + "\nsecond line of " + "y" * 40])
def test_a_file_without_a_proper_token_is_refused(tmp_path, text):
    path = tmp_path / "default"
    path.write_text(text)
    path.chmod(0o600)

    with pytest.raises(LoadError, match="no token"):
        load_tokens({"default": path})


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(LoadError, match="cannot be made: no such file"):
        load_tokens({"default": tmp_path / "none" / "default"})
