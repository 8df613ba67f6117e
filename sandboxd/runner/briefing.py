"""What is a spawner told before anything else?

Its setup, as soon as there is somebody to tell it: it makes itself ready while the daemon goes on loading.
"""

from __future__ import annotations

from typing import Final

import trio

from sandboxd.runner.birth import Newborn, SpawnerUnavailable
from sandboxd.runner.protocol import SpawnerSetup, encode, to_json
from sandboxd.runner.setup import absolute

START_S: Final = 10.0  # to be told, and then to say that it is ready


async def brief(newborn: Newborn, setup: SpawnerSetup) -> None:
    """Tell a process that was begun its setup; `SpawnerUnavailable`.

    From then on it takes away what a dead one has left: whose the state folder is must be settled before. One that does not
    listen is found out by whoever waits for its first word.
    """
    with trio.move_on_after(START_S):
        try:
            await trio.SocketStream(newborn.sock).send_all(encode({"setup": to_json(absolute(setup))}))
        except trio.BrokenResourceError as error:
            raise SpawnerUnavailable(f"cannot start the spawner: {error}") from error
