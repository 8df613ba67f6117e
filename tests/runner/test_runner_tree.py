"""Is everything of a run found, however its processes die under the look?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A subreaper of its own. An orphan with a child is killed; it is dead at every look after that, as if each took too long.
DYING = """
import os, signal, subprocess, sys
from sandboxd.runner import linux, tree

linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
forks = "import os, time; os.fork() and os._exit(0); os.fork() and time.sleep(60); time.sleep(60)"
leader = subprocess.Popen([sys.executable, "-S", "-c", forks], start_new_session=True)
run = tree.Tree.of("t", leader.pid)
leader.wait()
run.leader_alive = False
while len(found := list(tree.members([run], run))) < 2:
    pass
really, killed = tree.look, set()

def kill(pid, number, kill=os.kill):
    killed.add(pid)
    kill(pid, number)

def look(pid):
    if pid in killed:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return really(pid)

os.kill, tree.look = kill, look
assert tree.chase([run], [run]) == []
left = [proc.pid for proc in found if (now := really(proc.pid)) is not None and not now.is_zombie and proc.pid not in killed]
for pid in left:
    kill(pid, signal.SIGKILL)
print(len(left))
"""


def test_what_a_dying_process_leaves_at_the_last_look_is_found_by_another() -> None:
    argv = [sys.executable, "-c", DYING]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr, done.stdout) == (0, "", "0\n")
