"""The public SDK's client, bound to one version and binding, and daemons in the public kit's profile for it to talk to."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import (
    AgentInterface,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
)

from tests.support.daemon import Daemon

BINDINGS = ("JSONRPC", "HTTP+JSON")
VERSIONS = ("1.0", "0.3")
REQUIRED = "urn:a2a:tck:required-extension"
numbers = itertools.count()

Talk = Callable[[Client], Awaitable[None]]


@asynccontextmanager
async def connected(
    url: str, binding: str, version: str, *, token: str = "", streaming: bool = True, polling: bool = False
) -> AsyncIterator[Client]:
    """A client that speaks one binding in one version, by a copy of the card that lists nothing else."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(headers=headers, timeout=30, trust_env=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        del card.supported_interfaces[:]
        card.supported_interfaces.append(AgentInterface(url=url, protocol_binding=binding, protocol_version=version))
        card.capabilities.extended_agent_card = True  # or the SDK answers from the card that it has
        config = ClientConfig(httpx_client=http, streaming=streaming, polling=polling, supported_protocol_bindings=[binding])
        yield ClientFactory(config).create(card)


def context(*extensions: str, **headers: str) -> ClientCallContext:
    parameters = ServiceParametersFactory.create([with_a2a_extensions(list(extensions))]) if extensions else {}
    return ClientCallContext(service_parameters={**parameters, **headers}, timeout=30)


def message(script: str = "tck-complete-task", **more: Any) -> Message:
    return Message(message_id=f"{script}-{next(numbers)}", role=Role.ROLE_USER, parts=[Part(text="hello")], **more)


async def send(client: Client, sent: Message, ctx: ClientCallContext | None = None, **configuration: Any) -> list[Any]:
    request = SendMessageRequest(message=sent, configuration=SendMessageConfiguration(**configuration))
    return [event async for event in client.send_message(request, context=ctx)]


async def task_of(client: Client, sent: Message) -> Task:
    """The task as it stands when the turn is over."""
    events = await send(client, sent)
    return await client.get_task(GetTaskRequest(id=events[0].task.id))


def talk(daemon: Daemon, wire: tuple[str, str], conversation: Talk, *, token: str = "", **options: Any) -> None:
    async def run() -> None:
        async with connected(daemon.url, *wire, token=token, **options) as client:
            await conversation(client)

    asyncio.run(run())
