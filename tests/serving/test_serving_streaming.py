"""Does a frame that is sent on the spot keep its place among those that the reader takes?"""

from __future__ import annotations

from typing import Any

import trio

from sandboxd.serving.exchange import CURRENT
from sandboxd.serving.streaming import stream_answer


class Client:
    """Who takes everything at once."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def send_nowait(self, piece: bytes) -> bool:
        self.taken.append(piece)
        return True


async def test_no_frame_goes_before_one_that_was_handed_over_and_is_not_sent_yet():
    frames = [b"%d" % number for number in range(40)]
    client: Any = Client()

    async def source(tell):
        for handed, follows in zip(frames[::2], frames[1::2], strict=True):
            await tell(handed)
            if not tell.at_once(follows):  # the reader's turn has come, or not yet: trio decides by lot
                await tell(follows)

    token = CURRENT.set(client)
    try:
        made = stream_answer(source, closing=trio.Event(), ping_s=60)
    finally:
        CURRENT.reset(token)
    with trio.fail_after(10):
        async with made.response as pieces:
            async for piece in pieces:
                client.taken.append(piece)

    assert client.taken == frames
