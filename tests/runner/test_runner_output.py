"""Is every byte there that the program wrote, at whatever moment it exits?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from sandboxd.runner.client import open_spawner
from tests.runner.workshop import finish, read_until, started

ROUNDS = 100
KB_20 = b"".join(b"%06d some text that a program says\n" % number for number in range(560))


@pytest.mark.parametrize("terminal", [False, True])
async def test_no_output_is_lost_at_exit(shop, spawner, terminal):
    (shop.root / "text").write_bytes(KB_20)
    shop.write("cat text", "runner.sh")
    expected = KB_20.replace(b"\n", b"\r\n") if terminal else KB_20
    assert len(KB_20) > 19_000  # more than the kernel holds for a terminal: the child blocks until it is read

    async def rounds() -> None:
        for _ in range(ROUNDS // 4):
            status, out, err = await finish(await spawner.start(shop.request("bash", terminal=terminal)))
            assert (status.code, out == expected, err) == (0, True, b"")

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(rounds)


async def test_output_is_still_there_after_the_exit_is_known(shop, spawner):
    shop.write("echo last words", "runner.sh")
    process = started(await spawner.start(shop.request("bash", terminal=True)))
    await process.wait()

    _, out, _ = await finish(process)

    assert out == b"last words\r\n"


async def test_output_comes_as_it_is_written_and_a_prompt_without_newline_too(shop, spawner):
    shop.write("read -p 'Proceed? [y/N] ' answer; echo \"got $answer\"", "runner.sh")
    process = started(await spawner.start(shop.request("bash", terminal=True)))
    assert process.terminal_fd is not None

    assert await read_until(process.terminal_fd, b"[y/N] ") == b"Proceed? [y/N] "
    os.write(process.terminal_fd, b"y\n")
    _, out, _ = await finish(process)

    assert out == b"y\r\ngot y\r\n"


async def test_a_flood_that_nobody_reads_blocks_only_the_program(shop, spawner):
    shop.write("touch up; exec yes", "runner.sh")
    process = started(await spawner.start(shop.request("bash", terminal=True)))
    await shop.wait_for("up")

    shop.write("exit 0", "runner.sh")
    status, _, _ = await finish(await spawner.start(shop.request("bash")))

    assert status.code == 0
    assert await process.stop(grace_s=1) == ()
    process.close()


async def test_a_real_node_asks_on_its_terminal(shop, node: Path):
    shop.programs["node"] = str(node)
    shop.limits = 'memory = "1GiB"'
    shop.write(
        """
        import readline from "node:readline/promises";
        const prompt = readline.createInterface({ input: process.stdin, output: process.stdout });
        const answer = await prompt.question("Proceed? [y/N] ");
        prompt.close();
        console.log(`tty=${process.stdin.isTTY} answer=${answer}`);
        process.exitCode = 3;
        """,
        "runner.mjs",
    )
    async with open_spawner(shop.setup()) as spawner:
        process = started(await spawner.start(shop.request("node", terminal=True)))
        assert process.terminal_fd is not None
        await read_until(process.terminal_fd, b"[y/N] ")
        os.write(process.terminal_fd, b"y\r")
        status, out, _ = await finish(process)

    assert b"tty=true answer=y" in out
    assert status.code == 3
