"""Is a process that a task started told from every other one?"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys

import pytest

from sandboxd.serving.ancestry import ProcessLine, judge, peer_credentials, peer_pidfd, read_stat
from tests.support.programs import begun


@pytest.fixture
def me():
    descriptor = os.pidfd_open(os.getpid())
    yield descriptor
    os.close(descriptor)


def table(lines):
    return lines.get


def test_a_descendant_is_found_at_any_depth(me):
    read = table({9: ProcessLine(8, 90), 8: ProcessLine(7, 80), 7: ProcessLine(1, 70), 1: ProcessLine(0, 1)})

    assert [judge(9, me, ancestor, read) for ancestor in (7, 8, 9)] == ["descendant"] * 3


def test_an_outsider_is_let_in(me):
    read = table({9: ProcessLine(1, 90), 1: ProcessLine(0, 1), 7: ProcessLine(1, 70)})

    assert judge(9, me, 7, read) == "outsider"


def test_a_missing_parent_is_never_an_outsider(me):
    assert judge(9, me, 7, table({9: ProcessLine(8, 90)})) == "unclear"


def test_a_parent_that_is_younger_is_a_reused_number(me):
    read = table({9: ProcessLine(8, 90), 8: ProcessLine(1, 95), 1: ProcessLine(0, 1)})

    assert judge(9, me, 7, read) == "unclear"


def test_an_adoption_in_the_middle_of_the_walk_is_seen(me):
    """9's parent 8 dies while we look, 9 is adopted by the spawner 7, and 8's number goes to a stranger below init."""
    answers = {9: iter([ProcessLine(8, 90)] + [ProcessLine(7, 90)] * 20)}
    lines = {8: ProcessLine(1, 80), 7: ProcessLine(1, 70), 1: ProcessLine(0, 1)}

    assert judge(9, me, 7, lambda pid: next(answers[pid]) if pid in answers else lines[pid]) == "descendant"


def test_a_peer_of_another_pid_namespace_is_unclear(me):
    assert judge(0, me, 7, table({})) == "unclear"


def test_a_peer_that_is_gone_is_told():
    with begun([sys.executable, "-c", ""]) as child:
        descriptor = os.pidfd_open(child.pid)
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        poller.poll(5000)

        verdict = judge(child.pid, descriptor, os.getpid(), read_stat)
    os.close(descriptor)

    assert verdict == "gone"


def test_real_processes(me):
    script = "import os,sys; os.setsid(); os.fork() and os._exit(0); print(os.getpid(), flush=True); sys.stdin.read()"
    with begun([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        grandchild = int(child.stdout.readline())
        descriptor = os.pidfd_open(grandchild)
        try:
            first = read_stat(grandchild)
            verdicts = [judge(grandchild, descriptor, ancestor, read_stat) for ancestor in (1, 2**22 - 1)]
        finally:
            os.close(descriptor)
            child.stdin.close()

    assert first is not None
    assert verdicts == ["descendant", "outsider"]


def test_a_name_with_parentheses_is_read(me):
    script = "import ctypes,sys; ctypes.CDLL(None).prctl(15, b'a) S 1 ('); print('x', flush=True); sys.stdin.read()"
    with begun([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        line = read_stat(child.pid)
        child.stdin.close()

    assert line is not None
    assert line.parent == os.getpid()


def test_credentials_and_pidfd_of_a_peer(tmp_path):
    here, there = socket.socketpair()
    with here, there:
        who = peer_credentials(here)
        descriptor = peer_pidfd(here, who.pid)
        assert descriptor is not None
        os.close(descriptor)

    assert (who.pid, who.uid) == (os.getpid(), os.getuid())
