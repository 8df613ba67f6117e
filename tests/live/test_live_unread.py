"""What a terminal knows of input that a dead program left or took."""

import os
import pty
import subprocess

import pytest

from sandboxd.live.receipt import why_missed
from sandboxd.live.terminal import unread_bytes


@pytest.mark.parametrize(("script", "unread"), [("exec sleep 0.2", 2), ("read answer", 0)])
def test_the_terminal_tells_whether_a_program_that_is_gone_read_its_answer(script: str, unread: int):
    master, slave = pty.openpty()
    program = subprocess.Popen(["/bin/sh", "-c", script], stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    os.write(master, b"y\n")
    program.wait(timeout=10)

    assert unread_bytes(master) == unread

    os.close(master)


def test_what_is_no_terminal_tells_nothing():
    read_fd, write_fd = os.pipe()

    assert unread_bytes(read_fd) is None

    os.close(read_fd)
    os.close(write_fd)


def test_a_program_that_is_gone_has_its_answer_only_where_that_is_known():
    assert why_missed(0, was_read=False) is None
    assert why_missed(None, was_read=True) is None
    assert "without reading it" in str(why_missed(2, was_read=True))
    assert "cannot be told" in str(why_missed(None, was_read=False))
