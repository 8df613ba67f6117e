"""What can a run do at each level, tried by real programs that the spawner started?"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import trio

from sandboxd.policy.model import Denied
from sandboxd.runner.client import Spawner, open_spawner
from sandboxd.runner.isolation.levels import Kept, resolve
from sandboxd.runner.isolation.selftest import probe_for
from sandboxd.runner.protocol import SpawnFailed
from sandboxd.runner.tree import children_of
from sandboxd.runner.witness import Witness, availability
from tests.runner.workshop import Workshop, finish, read_until, started, wait_until

TRY = r"""
import errno, json, os, signal, socket, subprocess, sys, tempfile
def attempt(act):
    try:
        act()
        return "done"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
spawner, secret = os.environ["AIWG_A2A_MESSAGE"].split(" ", 1)
spawner = int(spawner)
def write(path):
    with open(path, "w") as file:
        file.write("x")
tried = {
    "read outside": lambda: open(secret).close(),
    "read the workspace": lambda: open("requests/one.json").close(),
    "list the workspace": lambda: os.listdir("."),
    "write the workspace": lambda: write("runner.py.new"),
    "write what the policy names": lambda: write("runs/new"),
    "make a folder there": lambda: os.mkdir("runs/folder"),
    "rename there": lambda: os.rename("runs/new", "runs/folder/newer"),
    "link a secret there": lambda: os.link(secret, "runs/linked"),
    "leave a symlink there": lambda: os.symlink(secret, "runs/symlink"),
    "change a mode outside": lambda: os.chmod(secret, 0o666),
    "change times outside": lambda: os.utime(secret),
    "truncate outside": lambda: os.truncate(secret, 0),
    "temporary file": lambda: tempfile.TemporaryFile().close(),
    "execute what it wrote": lambda: (write("runs/x"), os.chmod("runs/x", 0o755), os.execv("runs/x", ["x"])),
    "socket": lambda: socket.socket(socket.AF_INET).close(),
    "unix socket": lambda: socket.socket(socket.AF_UNIX).close(),
    "pair": lambda: [end.close() for end in socket.socketpair()],
    "datagram pair": lambda: [end.close() for end in socket.socketpair(type=socket.SOCK_DGRAM)],
    "bind a pair": lambda: socket.socketpair()[0].bind("\\0taken"),
    "setuid file": lambda: os.close(os.open("runs/setuid", os.O_CREAT | os.O_WRONLY, 0o4755)),
    "setuid by descriptor": lambda: os.fchmod(os.open("runs/plain", os.O_CREAT | os.O_WRONLY, 0o644), 0o6755),
    "mode by descriptor": lambda: os.fchmod(os.open("runs/plain", os.O_CREAT | os.O_WRONLY, 0o644), 0o600),
    "setgid folder": lambda: os.mkdir("runs/setgid", 0o2755),
    "signal the spawner": lambda: os.kill(spawner, 0),
    "the spawner's environment": lambda: open(f"/proc/{spawner}/environ").close(),
    "the spawner's limits": lambda: __import__("resource").prlimit(spawner, 7, (5, 5)),
    "child": lambda: subprocess.run(["/bin/true"], check=True),
    "proc/self": lambda: open("/proc/self/status").close(),
    "etc": lambda: open("/etc/hostname").close(),
}
print(json.dumps({name: attempt(act) for name, act in tried.items()}))
"""

# What both levels must come to, whatever the errno.
ALLOWED = {
    "read the workspace",
    "list the workspace",
    "write what the policy names",
    "make a folder there",
    "rename there",
    "temporary file",
    "pair",
    "mode by descriptor",
    "child",
    "proc/self",
}

NODE = """
import { mkdtempSync, readFileSync, rmSync, writeFileSync, chmodSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { createHash } from "node:crypto";
import { isMainThread } from "node:worker_threads";
const folder = mkdtempSync(join(tmpdir(), "run-"));
writeFileSync(join(folder, "a"), "b");
rmSync(folder, { recursive: true });
writeFileSync("runs/plan.json", readFileSync("requests/one.json"));
const git = execFileSync("/bin/echo", ["echoed"]).toString().trim();
const digest = createHash("sha256").update(readFileSync("runner.mjs")).digest("hex").length;
await new WebAssembly.Memory({ initial: 1 });
await new Promise((done) => setTimeout(done, 5));
const facts = { git, digest, tty: process.stdout.isTTY === true, worker: isMainThread, cpus: cpus().length > 0 };
console.log(JSON.stringify(facts));
"""

# As bubblewrap for the self-test, and not afterwards.
WORKS_ONCE = """#!/bin/sh
if [ -e {mark} ]; then echo "bwrap: out of luck" >&2; exit 1; fi
: >{mark}
exec /usr/bin/bwrap "$@"
"""


@pytest.fixture(params=["standard", "strict"])
async def confined(shop: Workshop, request: pytest.FixtureRequest) -> AsyncIterator[Spawner]:
    """A spawner whose runs get that level, or a loud skip."""
    kept = resolve(request.param, probe_for(request.param))
    if not isinstance(kept, Kept) or kept.level != request.param:
        pytest.skip(f"NOT TESTED HERE: runs at `{request.param}`: {kept.note if isinstance(kept, Kept) else kept.reason}")
    (shop.root / "runs").mkdir()
    (shop.root.parent / "secret").write_text("secret")
    shop.isolation = 'writable = ["runs"]'
    async with open_spawner(attrs.evolve(shop.setup(), isolation=request.param)) as opened:
        yield opened


async def test_a_run_reaches_what_it_was_given_and_nothing_else(shop: Workshop, confined: Spawner) -> None:
    shop.write(TRY)
    status, out, err = await finish(await confined.start(shop.request(text=f"{confined.pid} {shop.root.parent / 'secret'}")))

    assert status.code == 0, err
    found = json.loads(out)
    assert {name for name, result in found.items() if result == "done"} == ALLOWED, found
    assert (shop.root.parent / "secret").read_text() == "secret"
    assert sorted(path.name for path in (shop.root / "runs").iterdir()) == ["folder", "plain", "x"]


async def test_a_run_on_a_terminal_has_it_as_its_own(shop: Workshop, confined: Spawner) -> None:
    shop.write('test -t 0 && read -r line </dev/tty && echo "$(id -u) $line"; echo $? $(stty size)', "runner.sh")
    process = started(await confined.start(shop.request("bash", terminal=True)))
    assert process.terminal_fd is not None
    os.write(process.terminal_fd, b"typed\n")
    shown = await read_until(process.terminal_fd, b"0 24 80")
    status, _, _ = await finish(process)

    assert f"{os.getuid()} typed".encode() in shown
    assert status.code == 0


@pytest.mark.parametrize("terminal", [False, True])
async def test_node_runs_thirty_times_of_thirty(shop: Workshop, confined: Spawner, terminal: bool) -> None:
    if not os.access(shop.programs["node"], os.X_OK):
        pytest.skip("NOT TESTED HERE: a real Node under isolation: there is none")
    shop.write(NODE, "runner.mjs")
    for _ in range(15):
        status, out, err = await finish(await confined.start(shop.request("node", terminal=terminal)))

        assert status.code == 0, (out, err)
        assert out.startswith(b"{"), (out, err)
        assert json.loads(out)["git"] == "echoed"
        assert json.loads(out)["tty"] is terminal


async def test_how_a_run_ended_is_told_as_it_was(shop: Workshop, confined: Spawner) -> None:
    shop.write("exit 7", "runner.sh")
    by_code, _, _ = await finish(await confined.start(shop.request("bash")))
    shop.write("kill -SEGV $$", "runner.sh")
    by_signal, _, _ = await finish(await confined.start(shop.request("bash", terminal=True)))

    assert by_code.code == 7
    assert by_signal.signal == "SIGSEGV"


async def test_nothing_is_left_of_a_run(shop: Workshop, confined: Spawner, tmp_path: Path) -> None:
    shop.write(
        "trap '' TERM INT HUP; (setsid bash -c 'trap \"\" TERM; sleep 600' &) ; touch runs/there; sleep 600", "runner.sh"
    )
    process = started(await confined.start(shop.request("bash")))
    await shop.wait_for("runs/there")

    assert await process.stop(grace_s=0.05) == ()
    process.close()
    assert await shop.wait_gone() == set()


async def test_the_stop_ladder_lets_a_run_end_itself(shop: Workshop, confined: Spawner) -> None:
    shop.write("trap 'touch runs/ended; exit 3' INT TERM; touch runs/there; while :; do sleep 0.05; done", "runner.sh")
    process = started(await confined.start(shop.request("bash")))
    await shop.wait_for("runs/there")
    await process.stop(grace_s=10)
    status = await process.wait()
    process.close()

    assert (status.code, (shop.root / "runs" / "ended").exists()) == (3, True)


async def test_a_folder_that_a_policy_names_and_is_not_there_is_said(shop: Workshop, confined: Spawner) -> None:
    (shop.root / "runs").rmdir()
    shop.write("exit 0", "runner.sh")
    process = started(await confined.start(shop.request("bash")))
    await finish(process)

    assert any("`runs`, which does not exist" in note for note in process.plan.isolation_notes)


async def test_a_writable_folder_that_is_a_symlink_is_refused(shop: Workshop, confined: Spawner) -> None:
    (shop.root / "runs").rmdir()
    (shop.root / "runs").symlink_to("/oldroot/etc")
    refused = await confined.start(shop.request("bash"))

    assert isinstance(refused, Denied)
    assert refused.reasons[0].field == "writable"


READERS = {
    "bash": ("runner.sh", "read -r -p 'Go on? ' line; echo got $line"),
    "python": ("runner.py", "print('got', input('Go on? '))"),
    "node": (
        "runner.mjs",
        "import { createInterface } from 'node:readline/promises';"
        "const it = createInterface({ input: process.stdin, output: process.stdout });"
        "console.log('got', await it.question('Go on? ')); it.close();",
    ),
}


# The reader has no parent of its run left: it is a child of whatever takes orphans in there.
ORPHAN = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        input("Go on? ")
    os._exit(0)
time.sleep(60)
"""


async def test_the_kernel_says_that_an_orphan_waits_for_input(shop: Workshop, confined: Spawner) -> None:
    if why := availability():
        pytest.skip(f"NOT TESTED HERE: who reads under isolation: {why}")
    shop.write(ORPHAN)
    process = started(await confined.start(shop.request(terminal=True)))
    assert process.terminal_fd is not None
    witness = Witness(process.terminal_fd, process.pid, process.strays)
    await read_until(process.terminal_fd, b"Go on? ")
    is_seen = await trio.to_thread.run_sync(wait_until, lambda: witness.look().reading, 20)
    await process.end_tree()
    process.close()

    assert is_seen


@pytest.mark.parametrize("adapter", READERS)
async def test_the_kernel_says_who_waits_for_input(shop: Workshop, confined: Spawner, adapter: str) -> None:
    if why := availability():
        pytest.skip(f"NOT TESTED HERE: who reads under isolation: {why}")
    script, text = READERS[adapter]
    shop.write(text, script)
    process = started(await confined.start(shop.request(adapter, terminal=True)))
    assert process.terminal_fd is not None
    witness = Witness(process.terminal_fd, process.pid, process.strays)
    await read_until(process.terminal_fd, b"Go on? ")
    # It prints, and reads a moment later.
    assert await trio.to_thread.run_sync(wait_until, lambda: witness.look().reading, 20)
    evidence = witness.look()
    os.write(process.terminal_fd, b"yes\n")
    await read_until(process.terminal_fd, b"got yes")
    status, _, _ = await finish(process)

    assert evidence.reader.startswith(adapter[:4])
    assert status.code == 0


async def test_nothing_of_a_run_is_left_on_disk(shop: Workshop, confined: Spawner, tmp_path: Path) -> None:
    shop.write('d=$(mktemp -d) && cd "$d" && ln -s /etc link && mkfifo fifo && mkdir -m 0 closed && echo "$d"', "runner.sh")
    status, out, err = await finish(await confined.start(shop.request("bash")))

    assert status.code == 0, err
    assert await trio.to_thread.run_sync(wait_until, lambda: not os.path.lexists(out.strip()), 10)


async def test_own_tmp_has_a_size_in_namespaces(shop: Workshop) -> None:
    kept = resolve("strict", probe_for("strict"))
    if not isinstance(kept, Kept):
        pytest.skip(f"NOT TESTED HERE: the size of a run's own /tmp: {kept.reason}")
    shop.isolation = 'tmp = "1MiB"'
    shop.write("head -c 2M /dev/zero >/tmp/big; stat -c %s /tmp/big; ls /dev; touch /dev/x /x", "runner.sh")
    async with open_spawner(attrs.evolve(shop.setup(), isolation="strict")) as spawner:
        _, out, err = await finish(await spawner.start(shop.request("bash")))

    assert out.split()[0] == b"1048576"
    assert err.count(b"No space left") == 1
    assert err.count(b"ead-only file system") == 2 or err.count(b"ermission denied") == 2


async def test_a_policy_can_ask_for_more_than_the_config(shop: Workshop) -> None:
    kept = resolve("standard", probe_for("standard"))
    shop.isolation = 'level = "standard"'
    shop.write("exit 0", "runner.sh")
    async with open_spawner(shop.setup()) as spawner:
        process = await spawner.start(shop.request("bash"))
        if isinstance(kept, Kept):
            await finish(process)
            assert started(process).plan.isolation == kept.level
        else:
            assert process == Denied((kept,))


async def test_a_level_that_this_host_cannot_keep_is_refused_with_what_helps(shop: Workshop) -> None:
    async with open_spawner(attrs.evolve(shop.setup(), isolation="strict", bubblewrap="/nonexistent/bwrap")) as spawner:
        refused = await spawner.start(shop.request("bash"))

    assert isinstance(refused, Denied)
    assert refused.reasons[0].keyword == "isolation"
    assert "there is no `/nonexistent/bwrap`" in refused.reasons[0].reason
    assert "What helps: " in refused.reasons[0].reason
    assert "install bubblewrap" in refused.reasons[0].reason


async def test_what_bubblewrap_says_when_it_fails_is_told_and_nothing_is_left(shop: Workshop, tmp_path: Path) -> None:
    kept = resolve("strict", probe_for("strict"))
    if not isinstance(kept, Kept):
        pytest.skip(f"NOT TESTED HERE: runs at `strict`: {kept.reason}")
    shop.write("exit 0", "runner.sh")
    fails = tmp_path / "bwrap"
    fails.write_text(WORKS_ONCE.format(mark=tmp_path / "mark"))
    fails.chmod(0o755)
    async with open_spawner(attrs.evolve(shop.setup(), isolation="strict", bubblewrap=str(fails))) as spawner:
        failed = await spawner.start(shop.request("bash"))

        assert isinstance(failed, SpawnFailed)
        assert failed.reason == "start-failed"
        assert failed.message.endswith("cannot enter its sandbox: out of luck")
        assert await trio.to_thread.run_sync(wait_until, lambda: not children_of(spawner.pid), 10.0)


async def test_without_asking_there_is_no_isolation_and_it_says_so(shop: Workshop, spawner: Spawner) -> None:
    shop.write("exit 0", "runner.sh")
    process = started(await spawner.start(shop.request("bash")))
    await finish(process)

    assert process.plan.isolation == "none"
    assert spawner.levels["shop"]["bash"] == "none"
