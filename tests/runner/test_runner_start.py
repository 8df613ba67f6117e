"""What does a started program find: its environment, descriptors, signals, terminal, limits?"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
from pathlib import Path

import pytest
import trio

from sandboxd.policy.model import Allowed, Denied
from sandboxd.runner.client import Spawner, open_spawner
from sandboxd.runner.limits import OOM_SCORE
from sandboxd.runner.protocol import SpawnFailed
from tests.runner.workshop import Workshop, count_descriptors, finish, read_until, started

# The C library's two signals. What posix_spawn(3) starts, and `make` uses it, finds them ignored (glibc, spawni.c), hands
# that on, and no sigaction(2) of the library's can change it.
LIBC_OWN = 1 << 31 | 1 << 32

LOOK = """
import json, os, resource, signal, sys
def status(key):
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith(key))
def tty():
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
        return True
    except OSError:
        return False
fds = sorted(int(name) for name in os.listdir("/proc/self/fd"))
print(json.dumps({
    "fds": [fd for fd in fds if os.path.exists(f"/proc/self/fd/{fd}")],
    "env": dict(os.environ), "tty": tty(), "cwd": os.getcwd(), "argv": sys.argv, "orig": sys.orig_argv,
    "pid": os.getpid(), "sid": os.getsid(0), "pgid": os.getpgrp(),
    "ignored": int(status("SigIgn"), 16), "blocked": int(status("SigBlk"), 16), "nnp": status("NoNewPrivs"),
    "core": resource.getrlimit(resource.RLIMIT_CORE), "nofile": resource.getrlimit(resource.RLIMIT_NOFILE),
    "fsize": resource.getrlimit(resource.RLIMIT_FSIZE), "umask": os.umask(0),
    "stdin": os.read(0, 10).decode() if not os.isatty(0) else "tty",
}))
"""


async def look(spawner: Spawner, shop: Workshop, *, terminal: bool) -> dict:
    shop.write(LOOK)
    status, out, err = await finish(await spawner.start(shop.request(terminal=terminal, task_id="t-7", text="böse 🦉")))
    assert (status.code, err) == (0, b""), err
    found: dict = json.loads(out)
    return found


@pytest.mark.parametrize("terminal", [False, True])
async def test_the_program_gets_three_descriptors_and_exactly_the_plans_environment(shop, spawner, terminal):
    plan = await spawner.preview(shop.request(terminal=terminal, task_id="t-7", text="böse 🦉"))
    assert isinstance(plan, Allowed)

    found = await look(spawner, shop, terminal=terminal)

    assert found["fds"] == [0, 1, 2]
    # LC_CTYPE is what Python itself adds in the C locale (PEP 538).
    assert {name: value for name, value in found["env"].items() if name != "LC_CTYPE"} == dict(plan.plan.env)
    assert found["env"]["AIWG_A2A_MESSAGE"] == "böse 🦉"
    assert tuple(found["orig"]) == plan.plan.argv
    assert found["cwd"] == str(shop.root)


@pytest.mark.parametrize("terminal", [False, True])
async def test_signals_limits_and_privileges_start_clean(shop, spawner, terminal):
    found = await look(spawner, shop, terminal=terminal)

    sigpipe_and_sigxfsz = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)  # Python itself ignores these two
    assert found["ignored"] & ~sigpipe_and_sigxfsz & ~LIBC_OWN == 0
    assert found["blocked"] == 0
    assert found["nnp"] == "1"
    most = 0 if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0 else 1
    assert found["core"] == [most, most]
    assert found["nofile"] == [256, 256]
    assert found["fsize"] == [resource.RLIM_INFINITY] * 2
    assert found["umask"] == 0o022


async def test_sigpipe_ends_a_writer_that_nobody_reads(shop, spawner):
    shop.write("yes | head -1; grep SigIgn /proc/self/status", "runner.sh")

    with trio.fail_after(10):
        status, out, _ = await finish(await spawner.start(shop.request("bash")))

    assert status.code == 0
    written, _, ignored = out.split()
    assert written == b"y"
    assert int(ignored, 16) & ~LIBC_OWN == 0


async def test_without_a_terminal_nothing_can_ask(shop, spawner):
    found = await look(spawner, shop, terminal=False)

    assert found["tty"] is False
    assert found["stdin"] == ""
    assert found["sid"] == found["pid"] == found["pgid"]


async def test_with_a_terminal_it_is_the_sessions_own(shop, spawner):
    found = await look(spawner, shop, terminal=True)

    assert found["tty"] is True
    assert found["sid"] == found["pid"] == found["pgid"]


async def test_a_terminal_has_24_rows_of_80_columns_and_echoes(shop, spawner):
    shop.write("stty size; stty -a | grep -o ' echo '; read -p 'name? ' name; echo \"hello $name\"", "runner.sh")
    process = started(await spawner.start(shop.request("bash", terminal=True)))
    assert process.terminal_fd is not None

    shown = await read_until(process.terminal_fd, b"name? ")
    os.write(process.terminal_fd, b"Ada\n")
    status, rest, _ = await finish(process)

    assert shown.startswith(b"24 80\r\n echo \r\n")
    assert rest == b"Ada\r\nhello Ada\r\n"
    assert status.code == 0


async def test_a_policy_can_ask_for_a_terminal_always(shop):
    shop.terminal = "always"
    shop.write("tty", "runner.sh")

    async with open_spawner(shop.setup()) as spawner:
        status, out, _ = await finish(await spawner.start(shop.request("bash", terminal=False)))

    assert (status.code, out[:9]) == (0, b"/dev/pts/")


async def test_output_and_errors_stay_apart_byte_for_byte(shop, spawner):
    shop.write("import os; os.write(1, bytes(range(256))); os.write(2, bytes(reversed(range(256))))")

    _, out, err = await finish(await spawner.start(shop.request()))

    assert out == bytes(range(256))
    assert err == bytes(reversed(range(256)))


async def test_an_environment_of_100_kb_arrives(shop, spawner):
    shop.write("import hashlib, os; print(hashlib.sha256(os.environb[b'AIWG_A2A_MESSAGE']).hexdigest())")
    text = "\x01ü🦉x" * 12_000  # 8 bytes each; a control character takes six in JSON

    _, out, err = await finish(await spawner.start(shop.request(text=text)))

    assert out.decode().strip() == hashlib.sha256(text.encode()).hexdigest(), err


async def test_the_limits_of_the_policy_hold(shop):
    shop.limits = 'open-files = 64\nfile-size = "64KiB"\nmemory = "256MiB"\nprocesses = 8'
    shop.write("head -c 100000 /dev/zero > big; echo $?; ulimit -n; ulimit -d", "runner.sh")

    async with open_spawner(shop.setup(cgroup="/nonexistent")) as spawner:
        process = started(await spawner.start(shop.request("bash")))
        notes = process.plan.isolation_notes
        _, out, _ = await finish(process)

    assert out.split() == [str(128 + signal.SIGXFSZ).encode(), b"64", str(256 * 1024).encode()]
    assert (shop.root / "big").stat().st_size == 65536
    assert any("`memory`" in note for note in notes)
    assert any("`processes`" in note for note in notes)


async def test_a_run_has_fewer_descriptors_than_who_hands_them_out(shop):
    """What a user has on its way through sockets is counted together, and the spawner sends some with each run."""
    shop.limits = "open-files = 1048576"
    shop.write("ulimit -n; ulimit -r; ulimit -e", "runner.sh")

    async with open_spawner(shop.setup()) as spawner:
        process = started(await spawner.start(shop.request("bash")))
        notes = process.plan.isolation_notes
        own = resource.prlimit(spawner.pid, resource.RLIMIT_NOFILE)[0]
        _, out, _ = await finish(process)

    files, *priorities = map(int, out.split())
    assert files < own == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert priorities == [0, 0]
    assert files == 1_048_576 or any(f"`open-files` is {files}" in note for note in notes)


def oom_score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


async def test_when_memory_runs_out_the_run_goes_before_the_daemon(shop):
    shop.write("sleep 60", "runner.sh")

    async with open_spawner(shop.setup()) as spawner:
        process = started(await spawner.start(shop.request("bash")))
        score, own = (oom_score(pid) for pid in (process.pid, os.getpid()))
        process.close()

    assert score == OOM_SCORE > own


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    ("program", "reason", "why"),
    [
        ("/usr/bin/no-such-program", "program-missing", "no such file or directory"),
        ("/etc", "program-missing", "no regular file"),
        ("/etc/passwd", "program-missing", "not executable"),
    ],
)
async def test_a_program_that_cannot_run_is_named_with_the_reason(shop, terminal, program, reason, why):
    shop.programs["python"] = program

    async with open_spawner(shop.setup()) as spawner:
        failed = await spawner.start(shop.request(terminal=terminal))

        assert isinstance(failed, SpawnFailed)
        assert failed.reason == reason
        assert program in failed.message and why in failed.message
        assert shop.alive() == set()


@pytest.mark.parametrize("terminal", [False, True])
async def test_a_failed_exec_is_told_and_leaves_nothing(shop, tmp_path, terminal):
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF that is none")
    broken.chmod(0o755)
    shop.programs["python"] = str(broken)

    async with open_spawner(shop.setup()) as spawner:
        before = count_descriptors(spawner.pid)
        for _ in range(5):
            failed = await spawner.start(shop.request(terminal=terminal))

            assert isinstance(failed, SpawnFailed)
            assert failed.reason == "exec-failed"
            assert failed.message == f"cannot start `{broken}`: cannot execute it: exec format error"
        assert children(spawner.pid) == []
        assert count_descriptors(spawner.pid) == before


async def test_no_descriptor_and_no_zombie_stays_with_the_spawner(shop, spawner):
    shop.write("(sleep 0.01 &) ; exit 0", "runner.sh")
    before = count_descriptors(spawner.pid)

    for number in range(10):
        await finish(await spawner.start(shop.request("bash", terminal=number % 2 == 0)))

    assert count_descriptors(spawner.pid) == before
    assert children(spawner.pid) == []


async def test_a_signal_is_told_apart_from_an_exit(shop, spawner):
    shop.write("kill -SEGV $$", "runner.sh")
    by_signal, _, _ = await finish(await spawner.start(shop.request("bash")))
    shop.write("exit 139", "runner.sh")
    by_code, _, _ = await finish(await spawner.start(shop.request("bash")))

    assert (by_signal.code, by_signal.signal) == (None, "SIGSEGV")
    assert (by_code.code, by_code.signal) == (139, None)


async def test_the_digests_are_those_of_the_files(shop, spawner):
    shop.write("pass")
    process = started(await spawner.start(shop.request()))
    await finish(process)

    assert process.digests == {
        "runner": f"sha256:{hashlib.sha256(b'pass').hexdigest()}",
        "request": f"sha256:{hashlib.sha256(b'{}').hexdigest()}",
    }


async def test_a_denied_request_names_every_reason_and_starts_nothing(shop, spawner):
    (shop.root / "requests" / "one.json").unlink()
    (shop.root / "runner.py").unlink()

    denied = await spawner.start(shop.request())

    assert isinstance(denied, Denied)
    assert [reason.field for reason in denied.reasons] == ["runner", "request"]
    assert shop.alive() == set()


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]
