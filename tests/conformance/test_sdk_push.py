"""Does the public SDK's client set up push notifications, in both versions, and read what it gets?"""

from __future__ import annotations

from collections.abc import Callable

from a2a.client import Client
from a2a.types import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    TaskPushNotificationConfig,
)

from tests.support.daemon import Daemon
from tests.support.sdk import message, talk, task_of

URL = "https://example.com/hook"


def test_a_config_is_made_found_and_deleted(scripted: Callable[[str], Daemon], wire: tuple[str, str]):
    async def conversation(client: Client) -> None:
        task = await task_of(client, message())
        wanted = TaskPushNotificationConfig(task_id=task.id, id="c-1", url=URL, token="t")
        wanted.authentication.CopyFrom(AuthenticationInfo(scheme="Bearer", credentials="secret"))
        made = await client.create_task_push_notification_config(wanted)
        found = await client.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(task_id=task.id, id="c-1"))

        assert (made.id, made.task_id, made.url, made.token) == ("c-1", task.id, URL, "t")
        assert made.authentication.scheme == "Bearer"
        assert not made.authentication.credentials
        assert found == made
        if wire == ("HTTP+JSON", "0.3"):  # this SDK's client has no list and no delete there
            return
        listed = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task.id))
        assert list(listed.configs) == [made]
        await client.delete_task_push_notification_config(DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="c-1"))
        listed = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task.id))
        assert not listed.configs

    talk(scripted("full"), wire, conversation, streaming=False)
