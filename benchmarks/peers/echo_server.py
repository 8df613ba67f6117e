"""A bare echo under uvicorn; prints its port once it listens."""

import asyncio

import listening
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
    with listening.loopback() as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, loop="asyncio", http="h11"))
        print(listener.getsockname()[1], flush=True)
        await server.serve(sockets=[listener])


asyncio.run(main())
