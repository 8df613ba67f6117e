"""A bare echo under uvicorn; prints its port once it listens."""

import asyncio
import socket

import uvicorn


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def main() -> None:
    # As uvicorn's own: asyncio takes Nagle's delay off a socket that names TCP, and one of `create_server` names nothing; then
    # each answer, which goes out in two pieces, waits 40 ms for the client's acknowledgement.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, loop="asyncio", http="h11"))
        print(listener.getsockname()[1], flush=True)
        await server.serve(sockets=[listener])


asyncio.run(main())
