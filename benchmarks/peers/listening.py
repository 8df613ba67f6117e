"""Where does a peer listen? At a socket such as uvicorn makes for itself."""

import socket


def loopback() -> socket.socket:
    """A listener on a port of the kernel's choice.

    asyncio takes Nagle's delay off a socket that names TCP, and one of `socket.create_server` names nothing: then each answer,
    which goes out in two pieces, waits 40 ms for the client's acknowledgement.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener
