"""Does the client keep its promises: no run is leaked, nothing is mixed up, refusals say why?"""

from __future__ import annotations

import os
import resource

import attrs
import pytest
import trio
import trio.lowlevel
import trio.testing

from sandboxd.errors import LoadError
from sandboxd.policy.model import Allowed, Denied
from sandboxd.runner import birth
from sandboxd.runner.client import Spawner, open_spawner
from sandboxd.runner.process import Process
from sandboxd.runner.protocol import SpawnFailed
from tests.runner.workshop import Workshop, finish, open_descriptors, started

SLEEP = "touch up-$AIWG_A2A_TASK_ID; exec sleep 60"


async def test_fifty_starts_at_once_each_get_their_own_run(shop: Workshop, spawner: Spawner):
    shop.write("echo $AIWG_A2A_TASK_ID; exit ${AIWG_A2A_TASK_ID#t-}", "runner.sh")
    results: dict[int, tuple[int | None, bytes]] = {}

    async def run(number: int) -> None:
        request = shop.request("bash", terminal=number % 2 == 0, task_id=f"t-{number}", text="x" * 50_000)
        status, out, _ = await finish(await spawner.start(request))
        results[number] = (status.code, out.strip())

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(run, number)

    assert results == {number: (number, f"t-{number}".encode()) for number in range(50)}
    assert shop.alive() == set()


async def test_a_caller_that_goes_away_leaves_no_run(shop, spawner):
    shop.write(SLEEP, "runner.sh")
    before = open_descriptors()
    for ticks in range(6):  # cancelled at another moment each time: before it is sent, while it starts, …
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                for number in range(3):
                    nursery.start_soon(spawner.start, shop.request("bash", task_id=f"t-{number}"))
                for _ in range(ticks):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

    # The spawner answers in order: after this reply all of those starts have happened.
    assert isinstance(await spawner.preview(shop.request("bash")), Allowed)
    assert await shop.wait_gone(3) == set()
    with trio.fail_after(20):
        while open_descriptors() != before:  # noqa: ASYNC110  # descriptors make no event
            await trio.sleep(0.01)


async def test_a_caller_that_is_cancelled_never_has_the_run_in_hand_and_lost(shop, spawner):
    shop.write(SLEEP, "runner.sh")
    kept: list[Process] = []

    async def start() -> None:
        kept.append(started(await spawner.start(shop.request("bash"))))

    for milliseconds in range(0, 12, 2):
        with trio.move_on_after(milliseconds / 1000):
            await start()
    for process in kept:
        assert await process.stop(grace_s=0) == ()
        process.close()

    assert isinstance(await spawner.preview(shop.request("bash")), Allowed)
    assert await shop.wait_gone(3) == set()


async def test_preview_says_what_would_run_and_starts_nothing(shop, spawner):
    shop.write("open('ran', 'w')")

    allowed = await spawner.preview(shop.request(terminal=True))

    assert isinstance(allowed, Allowed)
    assert allowed.plan.program == "/usr/bin/python3"
    assert allowed.plan.argv == ("python", "runner.py", "--request", "requests/one.json")
    assert allowed.plan.terminal
    assert [path.hole for path in allowed.plan.paths] == ["working_dir", "runner", "request"]
    assert not (shop.root / "ran").exists()


async def test_preview_denies_as_a_start_would(shop, spawner):
    (shop.root / "requests" / "link.json").symlink_to("one.json")
    request = shop.request(request="requests/link.json")

    previewed, begun = await spawner.preview(request), await spawner.start(request)

    assert isinstance(previewed, Denied)
    assert previewed == begun
    assert "is a symlink" in str(previewed.reasons[0])


async def test_the_policy_is_asked_before_the_file_system(shop, spawner):
    denied = await spawner.start(shop.request(request="../etc/none"))

    assert isinstance(denied, Denied)
    assert [(reason.field, reason.keyword) for reason in denied.reasons] == [("request", "path-under")]


async def test_the_plan_is_kept_whole_on_its_way(shop, spawner):
    process = started(await spawner.start(shop.request()))
    previewed = await spawner.preview(shop.request())
    await finish(process)

    assert isinstance(previewed, Allowed)
    assert process.plan == previewed.plan


async def test_the_adapters_of_each_instance_are_known(spawner):
    modes = ("plan", "assess")
    assert await spawner.adapters() == {"shop": (("bash", modes), ("node", modes), ("python", modes))}


async def test_an_unknown_instance_is_denied(shop, spawner):
    denied = await spawner.start(attrs.evolve(shop.request(), instance="other"))

    assert isinstance(denied, Denied)
    assert "no instance `other`" in str(denied.reasons[0])


async def test_a_missing_root_is_denied_by_name_until_it_is_there(shop):
    gone = shop.root.rename(shop.root.with_name("elsewhere"))
    async with open_spawner(shop.setup()) as spawner:
        denied = await spawner.start(shop.request())
        gone.rename(shop.root)
        allowed = await spawner.preview(shop.request())

    assert isinstance(denied, Denied)
    assert str(denied.reasons[0]) == "`instance`: cannot open the root of instance `shop`: no such file or directory"
    assert isinstance(allowed, Allowed)


async def test_a_policy_that_cannot_be_read_is_a_load_error_naming_the_file(shop):
    setup = shop.setup()
    bad = shop.policies / "python.toml"
    bad.write_text("format = 1\nadaptor = 'x'\n")

    with pytest.raises(LoadError) as caught:
        async with open_spawner(setup):
            pass

    assert str(bad) in str(caught.value)
    assert "adaptor" in str(caught.value)


async def test_a_policy_that_others_can_write_is_refused(shop):
    setup = shop.setup()
    (shop.policies / "bash.toml").chmod(0o666)

    with pytest.raises(LoadError, match="0666"):
        async with open_spawner(setup):
            pass


async def test_a_process_that_was_begun_before_becomes_the_spawner(shop):
    shop.write("echo hello", "runner.sh")
    async with birth.newborn() as newborn, open_spawner(shop.setup(), newborn) as spawner:
        status, out, _ = await finish(await spawner.start(shop.request("bash")))

        assert spawner.pid == newborn.process.pid
    assert (status.code, out.strip()) == (0, b"hello")
    assert newborn.process.returncode == 0


async def test_a_process_that_is_never_told_its_setup_is_gone_in_the_end():
    async with birth.newborn() as newborn:
        assert newborn.process.returncode is None

    assert newborn.process.returncode is not None


async def test_two_policies_for_one_adapter_are_refused(shop):
    setup = shop.setup()
    twice = shop.policies / "twice.toml"
    twice.write_text((shop.policies / "bash.toml").read_text())
    (instance,) = setup.instances
    setup = attrs.evolve(setup, instances=(attrs.evolve(instance, policies=(*instance.policies, str(twice))),))

    with pytest.raises(LoadError, match="twice"):
        async with open_spawner(setup):
            pass


async def test_a_request_larger_than_a_frame_fails_alone(shop, spawner):
    failed = await spawner.start(shop.request(text="x" * 17 * 1024 * 1024))
    shop.write("pass")
    status, _, _ = await finish(await spawner.start(shop.request()))

    assert isinstance(failed, SpawnFailed)
    assert status.code == 0


async def test_a_daemon_without_descriptors_ends_the_run_it_cannot_hold(shop, spawner):
    shop.write(SLEEP, "runner.sh")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in open_descriptors())
    spare = [os.open("/", os.O_PATH) for _ in range(used)]  # no hole below the limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(spare) + 1, hard))
    try:
        failed = await spawner.start(shop.request("bash"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in spare:
            os.close(fd)

    assert isinstance(failed, SpawnFailed)
    assert "too many files open" in failed.message
    assert await shop.wait_gone(3) == set()
    shop.write("exit 0", "runner.sh")
    assert (await finish(await spawner.start(shop.request("bash"))))[0].code == 0


async def test_the_environment_of_the_daemon_decides_nothing_and_nobody_looks_into_the_spawner(shop, monkeypatch, tmp_path):
    (tmp_path / "sandboxd.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "sandboxd.py"))
    monkeypatch.chdir(tmp_path)

    async with open_spawner(shop.setup()) as spawner:
        with pytest.raises(PermissionError):
            await trio.Path(f"/proc/{spawner.pid}/environ").read_bytes()


async def test_the_loop_goes_on_while_runs_start(shop, spawner):
    shop.write("exit 0", "runner.sh")
    gaps: list[float] = []

    async def watch() -> None:
        last = trio.current_time()
        while True:
            await trio.lowlevel.checkpoint()
            gaps.append(trio.current_time() - last)
            last = trio.current_time()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        for _ in range(10):
            await finish(await spawner.start(shop.request("bash", terminal=True)))
        nursery.cancel_scope.cancel()

    assert sorted(gaps)[int(len(gaps) * 0.99)] < 0.02
