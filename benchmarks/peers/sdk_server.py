"""A server made of the public a2a-sdk: `sdk_server.py memory|sqlite`; prints its port once it listens.

Each message makes a task with one artifact, completed: what the daemon does with a message that names no command.
"""

import asyncio
import sys
from pathlib import Path

import listening
import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, Part
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette

FILE = Path("peer.sqlite3").resolve()


class Echo(AgentExecutor):
    async def execute(self, context, event_queue):
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.add_artifact([Part(text=context.get_user_input())], name="echo")
        await updater.complete()

    async def cancel(self, context, event_queue):
        raise NotImplementedError


async def main() -> None:
    with listening.loopback() as listener:
        port = listener.getsockname()[1]
        card = AgentCard(
            name="peer",
            description="echoes",
            version="1",
            supported_interfaces=[
                AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0")
            ],
            capabilities=AgentCapabilities(streaming=True),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
        )
        if sys.argv[1] == "memory":
            store = InMemoryTaskStore()
        else:
            file = FILE
            store = DatabaseTaskStore(create_async_engine(f"sqlite+aiosqlite:///{file}"))
        handler = DefaultRequestHandlerV2(Echo(), store, card)
        app = Starlette(routes=create_jsonrpc_routes(handler, "/"))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, loop="asyncio", http="h11"))
        print(port, flush=True)
        await server.serve(sockets=[listener])


asyncio.run(main())
