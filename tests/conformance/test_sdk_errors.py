"""Does every A2A error arrive at the public SDK's client as its own exception, in both versions and bindings?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from a2a.client import Client
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Role,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from a2a.utils import errors as sdk

from tests.support.daemon import Daemon
from tests.support.sdk import BINDINGS, VERSIONS, Talk, context, message, send, talk, task_of


async def drain(stream: Any) -> None:
    async for _ in stream:
        pass


async def unknown_task(client: Client) -> None:
    await client.get_task(GetTaskRequest(id="none"))


async def unknown_task_to_follow(client: Client) -> None:
    await drain(client.subscribe(SubscribeToTaskRequest(id="none")))


async def cancel_of_the_finished(client: Client) -> None:
    task = await task_of(client, message())
    await client.cancel_task(CancelTaskRequest(id=task.id))


async def message_to_the_finished(client: Client) -> None:
    task = await task_of(client, message())
    await send(client, message(task_id=task.id))


async def message_to_nobody(client: Client) -> None:
    await send(client, message(task_id="none"))


async def wrong_context(client: Client) -> None:
    task = await task_of(client, message("tck-input-required"))
    await send(client, message(task_id=task.id, context_id="another"))


async def no_parts(client: Client) -> None:
    await send(client, Message(message_id="tck-complete-task", role=Role.ROLE_USER))


async def push_set(client: Client) -> None:
    task = await task_of(client, message())
    config = TaskPushNotificationConfig(task_id=task.id, id="c", url="https://example.com/")
    await client.create_task_push_notification_config(config)


async def push_get(client: Client) -> None:
    await client.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(task_id="none", id="c"))


async def push_list(client: Client) -> None:
    await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id="none"))


async def push_delete(client: Client) -> None:
    await client.delete_task_push_notification_config(DeleteTaskPushNotificationConfigRequest(task_id="none", id="c"))


async def extended_card(client: Client) -> None:
    await client.get_extended_agent_card(GetExtendedAgentCardRequest())


async def page_too_large(client: Client) -> None:
    await client.list_tasks(ListTasksRequest(page_size=1000))


async def follow_the_finished(client: Client) -> None:
    task = await task_of(client, message())
    await drain(client.subscribe(SubscribeToTaskRequest(id=task.id)))


async def another_version(client: Client) -> None:
    await client.get_task(GetTaskRequest(id="none"), context=context(**{"A2A-Version": "99.0"}))


EVERYWHERE: dict[Talk, type[Exception]] = {
    unknown_task: sdk.TaskNotFoundError,
    unknown_task_to_follow: sdk.TaskNotFoundError,
    cancel_of_the_finished: sdk.TaskNotCancelableError,
    message_to_the_finished: sdk.UnsupportedOperationError,
    message_to_nobody: sdk.TaskNotFoundError,
    wrong_context: sdk.InvalidParamsError,
    no_parts: sdk.InvalidParamsError,
    push_set: sdk.PushNotificationNotSupportedError,
    push_get: sdk.PushNotificationNotSupportedError,
}
IN_10: dict[Talk, type[Exception]] = {
    push_list: sdk.PushNotificationNotSupportedError,
    push_delete: sdk.PushNotificationNotSupportedError,
    page_too_large: sdk.InvalidParamsError,
    follow_the_finished: sdk.UnsupportedOperationError,
    another_version: sdk.VersionNotSupportedError,
}


def profile_of(provoke: Talk) -> str:
    return "caps-off" if provoke in (push_set, push_get, push_list, push_delete) else "full"


@pytest.mark.parametrize("provoke", EVERYWHERE, ids=lambda case: case.__name__)
def test_each_error_arrives_as_its_own_exception(scripted: Callable[[str], Daemon], wire: tuple[str, str], provoke: Talk):
    async def conversation(client: Client) -> None:
        with pytest.raises(EVERYWHERE[provoke]):
            await provoke(client)

    talk(scripted(profile_of(provoke)), wire, conversation, streaming=provoke is unknown_task_to_follow)


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("provoke", IN_10, ids=lambda case: case.__name__)
def test_each_error_of_10_arrives_as_its_own_exception(scripted: Callable[[str], Daemon], binding: str, provoke: Talk):
    async def conversation(client: Client) -> None:
        with pytest.raises(IN_10[provoke]):
            await provoke(client)

    talk(scripted(profile_of(provoke)), (binding, "1.0"), conversation, streaming=provoke is follow_the_finished)


def test_what_03_lacks_is_told_by_jsonrpc(scripted: Callable[[str], Daemon]):
    for provoke, told in (
        (push_list, sdk.PushNotificationNotSupportedError),
        (push_delete, sdk.PushNotificationNotSupportedError),
        (extended_card, sdk.ExtendedAgentCardNotConfiguredError),
    ):

        async def conversation(client: Client, provoke: Talk = provoke, told: type[Exception] = told) -> None:
            with pytest.raises(told):
                await provoke(client)

        talk(scripted(profile_of(provoke)), ("JSONRPC", "0.3"), conversation, streaming=False)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refused_stream_arrives_as_its_own_exception(scripted: Callable[[str], Daemon], version: str):
    async def conversation(client: Client) -> None:
        with pytest.raises(sdk.TaskNotFoundError):
            await message_to_nobody(client)

    talk(scripted("full"), ("JSONRPC", version), conversation)


@pytest.mark.parametrize("binding", BINDINGS)
def test_the_extended_card_arrives_or_is_not_supported(scripted: Callable[[str], Daemon], binding: str):
    async def conversation(client: Client) -> None:
        card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert card.name == "default"

    async def refused(client: Client) -> None:
        with pytest.raises(sdk.UnsupportedOperationError):
            await extended_card(client)

    talk(scripted("full"), (binding, "1.0"), conversation)
    talk(scripted("caps-off"), (binding, "1.0"), refused)
