"""Can names that are swapped under a living spawner lead it somewhere else?"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
import time
from collections.abc import Callable

from sandboxd.policy.model import Allowed, Denied
from sandboxd.runner.client import Spawner, open_spawner
from sandboxd.runner.process import Process
from tests.runner.workshop import Workshop, finish

SECRET = hashlib.sha256(b"SECRET").hexdigest()
RACE_S = 1.0


async def test_a_folder_that_flips_to_a_symlink_while_requests_come_in_is_never_followed(shop: Workshop, spawner: Spawner):
    outside = shop.root.parent / "outside"
    outside.mkdir()
    (outside / "one.json").write_text("SECRET")
    (shop.root / "evil").symlink_to(outside)
    libc = ctypes.CDLL(None, use_errno=True)
    stop = threading.Event()

    def flip() -> None:
        folder, evil = os.fsencode(shop.root / "requests"), os.fsencode(shop.root / "evil")
        while not stop.is_set():
            libc.renameat2(-100, folder, -100, evil, 2)  # AT_FDCWD, RENAME_EXCHANGE
            time.sleep(0.0002)  # most flips must fall between two requests, some into one

    attacker = threading.Thread(target=flip)
    attacker.start()
    started = denied = 0
    try:
        deadline = time.monotonic() + RACE_S
        while time.monotonic() < deadline:
            decision = await spawner.preview(shop.request())
            denied += isinstance(decision, Denied)
            if isinstance(decision, Allowed):
                process = await spawner.start(shop.request())
                if isinstance(process, Process):
                    started += 1
                    assert SECRET not in process.digests["request"]
                    await finish(process)
    finally:
        stop.set()
        attacker.join()

    assert started and denied


async def test_every_kind_of_swapped_request_is_denied_with_its_reason(shop: Workshop, spawner: Spawner):
    request = shop.root / "requests" / "one.json"
    secret = shop.root.parent / "secret"
    secret.write_text("SECRET")

    def swap(make: Callable[[], object]) -> None:
        request.unlink() if not request.is_dir() else request.rmdir()
        make()

    for make, why in (
        (lambda: request.symlink_to(secret), "is a symlink"),
        (lambda: request.hardlink_to(secret), "2 names"),
        (lambda: os.mkfifo(request), "a fifo"),
        (request.mkdir, "a directory"),
        (lambda: request.symlink_to(request.name), "is a symlink"),
    ):
        swap(make)
        denied = await spawner.start(shop.request())
        assert isinstance(denied, Denied), why
        assert why in "; ".join(map(str, denied.reasons))


async def test_a_root_that_is_replaced_under_the_spawner_changes_nothing(shop: Workshop):
    shop.write("import os; print(open('mark').read(), end='')")
    (shop.root / "mark").write_text("first")
    async with open_spawner(shop.setup()) as spawner:
        moved = shop.root.rename(shop.root.parent / "moved")
        shop.root.mkdir()
        (shop.root / "requests").mkdir()
        (shop.root / "requests" / "one.json").write_text("{}")
        (shop.root / "runner.py").write_text("print('second')")

        _, out, _ = await finish(await spawner.start(shop.request()))

    assert out == b"first"
    assert (moved / "mark").exists()
