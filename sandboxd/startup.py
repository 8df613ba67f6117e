"""What comes before everything else, so that two processes can load their code at once?

The config is read, and what must be true of this process is made so. Then the spawner's process is begun, and a thread that
opens the store, and most of the daemon's own code is imported only then: nobody is answered before all three are done.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import trio

from sandboxd import garbage, logs, packs, watches
from sandboxd.config import DEFAULT_PATH, Config, parse_config
from sandboxd.errors import LoadError, Problem, Unable
from sandboxd.runner import birth, linux
from sandboxd.service import delegation
from sandboxd.service.hangups import open_hangups
from sandboxd.service.manager import Manager, take
from sandboxd.store.opening import begin_store
from sandboxd.store.schema import STORE_NAME

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_CONFIG: Final = 78  # EX_CONFIG (sysexits.h): systemd need not try again

_log = logs.logger(__name__)


def main(config_path: Path | None = None) -> int:
    """Run the daemon until SIGTERM or SIGINT; the exit status."""
    garbage.hold_off()
    logs.configure()
    # A daemon that hangs is ended with SIGABRT by the service manager's watchdog: then it says where it hung.
    faulthandler.enable()
    manager = Manager()
    try:
        manager = take(os.environ, os.getpid())
        file = packs.read(config_path or DEFAULT_PATH)  # it grants execution, so it is as closely held as a policy
        config = parse_config(file.path, file.text)
        _refuse_root(config)
        os.umask(0o077)
        linux.give_memory_back()
        linux.prctl(linux.PR_SET_DUMPABLE, 0)  # a task of the same user may not look into this process, nor may a core file
        _make_state_dir(config)
        watches.do_without(_no_watch_left)
        trio.run(_run, config, manager, delegation.settle() if manager.is_unit else None)
    except BaseException as error:
        return _last_word(error, manager)
    finally:
        manager.notifier.close()
    return EXIT_OK


def _no_watch_left() -> None:
    _log.warning("no epoll watch is left to its user (fs.epoll.max_user_watches), whose tasks have them: it goes on by poll")


async def _run(config: Config, manager: Manager, cgroup: Path | None) -> None:
    with ExitStack() as stack:
        hangups = open_hangups(stack)  # a SIGHUP that comes while it starts must not end it
        async with birth.newborn() as newborn, begin_store(config.state_dir / STORE_NAME) as begun:
            from sandboxd import daemon  # noqa: PLC0415 - at the top it would be loaded before the spawner begins

            await daemon.run(config, manager, cgroup, hangups, newborn, begun=begun)


def _refuse_root(config: Config) -> None:
    if os.geteuid() == 0 and not config.listen.allow_root:
        why = "commands would run as root; run it as a user of its own, or say `allow_root = true` if that is meant"
        raise LoadError(str(config.source or DEFAULT_PATH), [Problem("listen.allow_root", why)])


def _make_state_dir(config: Config) -> None:
    try:
        config.state_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot make the folder `{config.state_dir}`: {(error.strerror or str(error)).lower()}"
        raise LoadError(str(config.source or DEFAULT_PATH), [Problem("state_dir", why)]) from error


def _last_word(error: BaseException, manager: Manager) -> int:
    """Say why the daemon ended to whoever started it; a bug of ours is raised again."""
    leaves = list(_leaves(error))
    if not all(isinstance(leaf, (Unable, OSError)) for leaf in leaves):
        raise error
    for leaf in leaves:
        sys.stderr.write(f"error: {leaf}\n")  # not the log: that is for what happens while it runs
        manager.notifier.failed(str(leaf))
    return EXIT_CONFIG if all(isinstance(leaf, LoadError) for leaf in leaves) else EXIT_FAILED


def _leaves(error: BaseException) -> Iterable[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error
