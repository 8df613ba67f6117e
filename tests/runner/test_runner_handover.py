"""Does a command read the very bytes that were checked, whatever becomes of the file meanwhile?"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
import time
from pathlib import Path

import attrs
import pytest

from sandboxd.policy.model import Allowed, Isolation
from sandboxd.runner.client import open_spawner
from sandboxd.runner.handover import seal
from sandboxd.runner.isolation.levels import Kept, resolve
from sandboxd.runner.isolation.selftest import probe_for
from sandboxd.runner.process import Process
from tests.runner.workshop import Workshop, finish, output, started

RACE_S = 1.0
MOST_S = 20.0
READERS = {
    "bash": ("runner.sh", 'touch up; while [ ! -e go ]; do sleep 0.02; done; cat "$2"'),
    "python": (
        "runner.py",
        "import os, sys, time\nopen('up', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)\n"
        "print(open(sys.argv[2]).read(), end='')",
    ),
    "node": (
        "runner.mjs",
        "import fs from 'node:fs'; fs.writeFileSync('up', '');\nwhile (!fs.existsSync('go'))"
        " await new Promise((done) => setTimeout(done, 20));\n"
        "process.stdout.write(fs.readFileSync(process.argv[3], 'utf8'));",
    ),
}


@pytest.fixture(params=["none", "standard", "strict"])
def level(request: pytest.FixtureRequest) -> Isolation:
    name: Isolation = request.param
    kept = resolve(name, probe_for(name))
    if not isinstance(kept, Kept) or kept.level != name:
        pytest.skip(f"NOT TESTED HERE: runs at `{name}`: {kept.note if isinstance(kept, Kept) else kept.reason}")
    return name


@pytest.mark.parametrize("adapter", READERS)
@pytest.mark.parametrize("terminal", [False, True])
async def test_a_request_that_is_rewritten_after_the_check_is_read_as_it_was_checked(shop: Workshop, adapter, terminal):
    shop.hand_over = "bytes"
    script, text = READERS[adapter]
    shop.write(text, script)
    one = shop.root / "requests" / "one.json"
    one.write_text("as it was checked")
    async with open_spawner(shop.setup()) as spawner:
        process = started(await spawner.start(shop.request(adapter, terminal=terminal)))
        await shop.wait_for("up")
        one.write_text("as somebody would have it")
        one.with_suffix(".new").write_text("as somebody else would have it")
        one.with_suffix(".new").rename(one)
        (shop.root / "go").touch()

        status, out, err = await finish(process)

    assert (status.code, out.decode()) == (0, "as it was checked"), err
    assert process.digests["request"] == f"sha256:{hashlib.sha256(b'as it was checked').hexdigest()}"
    assert process.plan.argv[-1] == "/proc/self/fd/3"


async def test_at_every_level_the_copy_can_be_read_and_not_written(shop: Workshop, level: Isolation):
    shop.hand_over = "bytes"
    (shop.root / "requests" / "one.json").write_text("checked\n")
    shop.write(
        'cat "$2"; cat "$2"; for way in ">" ">>"; do eval "echo x $way \\"$2\\"" 2>/dev/null && echo wrote; done; exit 0',
        "runner.sh",
    )
    async with open_spawner(attrs.evolve(shop.setup(), isolation=level)) as spawner:
        status, out, err = await finish(await spawner.start(shop.request("bash")))

    assert (status.code, out) == (0, b"checked\nchecked\n"), err


async def test_a_file_that_is_swapped_all_the_time_is_read_as_its_digest_says(shop: Workshop):
    shop.hand_over = "bytes"
    one, two = shop.root / "requests" / "one.json", shop.root / "requests" / "two.json"
    one.write_text("one" * 20_000)
    two.write_text("two" * 20_000)
    shop.write('sha256sum <"$2"', "runner.sh")
    libc = ctypes.CDLL(None, use_errno=True)
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(two), 2)  # AT_FDCWD, RENAME_EXCHANGE
            time.sleep(0.0001)

    seen: set[str] = set()
    async with open_spawner(shop.setup()) as spawner:
        attacker = threading.Thread(target=flip)
        attacker.start()
        try:
            deadline = time.monotonic() + RACE_S
            while time.monotonic() < deadline or (len(seen) < 2 and time.monotonic() < deadline + MOST_S):
                process = await spawner.start(shop.request("bash"))
                if not isinstance(process, Process):  # caught in the middle of a rename: refused
                    continue
                out, _ = await output(process)
                await finish(process)
                seen.add(process.digests["request"])
                assert out.split()[0].decode() == process.digests["request"].removeprefix("sha256:")
        finally:
            stop.set()
            attacker.join()

    assert len(seen) == 2  # the attack was on


async def test_a_plan_shows_what_the_command_gets_and_what_was_checked(shop: Workshop):
    shop.hand_over = "bytes"
    async with open_spawner(shop.setup()) as spawner:
        allowed = await spawner.preview(shop.request())

    assert isinstance(allowed, Allowed)
    assert allowed.plan.argv[-1] == "/proc/self/fd/3"
    assert [(path.path, path.hands_bytes) for path in allowed.plan.paths][-1] == ("requests/one.json", True)


def test_nobody_can_change_what_is_sealed():
    fd = seal(b"sealed")
    try:
        for change in (
            lambda: os.pwrite(fd, b"x", 0),
            lambda: os.ftruncate(fd, 0),
            lambda: os.ftruncate(fd, 100),
            lambda: os.open(f"/proc/self/fd/{fd}", os.O_WRONLY),
        ):
            with pytest.raises(OSError, match=r"not permitted|denied"):
                change()

        assert Path(f"/proc/self/fd/{fd}").read_bytes() == b"sealed"
    finally:
        os.close(fd)
