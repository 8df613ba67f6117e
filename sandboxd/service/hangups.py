"""Does a hangup mean that the config is to be read again?

In a service, yes. Where there is a terminal SIGHUP says that this is gone, which ends what was started from it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack

import trio


def open_hangups(stack: ExitStack) -> AsyncIterator[int] | None:
    """SIGHUP, from now on and until the stack unwinds; None where it will mean that the terminal is gone."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return stack.enter_context(trio.open_signal_receiver(signal.SIGHUP))
    return None
