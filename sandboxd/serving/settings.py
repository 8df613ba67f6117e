"""Which bounds do the doors keep?

Each has a precedent or a measurement beside it. The daemon fills in what the config may change; the rest is fixed here.
"""

from __future__ import annotations

from sandboxd.values import frozen


@frozen
class DoorSettings:
    """The bounds of all doors. Times in seconds, sizes in bytes.

    `public_url` (no slash at its end) is what cards and `Location` name; None: what the request's `Host` says.
    """

    public_url: str | None = None
    max_body_bytes: int = 1024 * 1024  # the largest message: 128 KiB of text (MAX_ARG_STRLEN), escaped up to 6-fold
    body_timeout_s: float = 10  # a slow body holds a connection and nothing else; nginx: 60 s a read
    max_connections: int = 256  # a door; each costs about 60 KiB
    keep_alive_s: float = 5  # an idle connection; hypercorn's and uvicorn's default
    stall_s: float = 30  # no 64 KiB leave within it: the reader is gone, its stream can be resumed by number
    half_close_s: float = 30  # a client that ended its side still gets an answer that begins by then: it may also have left
    graceful_s: float = 3  # at shutdown: running answers may end within it, then the sockets are closed under them
    linger_s: float = 1  # after an early refusal: read the rest of the body, or the client never sees the answer
    ping_s: float = 3  # a2a-sdk's client times a stream out after 5 s of silence
