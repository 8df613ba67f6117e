"""Does the public SDK's client get every answer, in both versions and bindings?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from a2a.client import Client
from a2a.client.errors import A2AClientError
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils import errors as sdk
from google.protobuf.json_format import MessageToDict

from tests.support.daemon import ADAPTER, HITL, Daemon
from tests.support.sdk import (
    BINDINGS,
    REQUIRED,
    context,
    message,
    numbers,
    send,
    talk,
    task_of,
)


def test_a_blocking_send_is_answered_with_the_finished_task(scripted: Callable[[str], Daemon], wire: tuple[str, str]):
    async def conversation(client: Client) -> None:
        (event,) = await send(client, message("tck-artifact-data"))
        assert event.task.status.state == TaskState.TASK_STATE_COMPLETED
        assert event.task.status.message.parts[0].text == "Hello from TCK"
        shown = MessageToDict(event.task.artifacts[0].parts[0])
        assert shown["data"] == {"key": "value", "count": 42}

    talk(scripted("full"), wire, conversation, streaming=False)


def test_a_send_that_does_not_wait_returns_at_once(scripted: Callable[[str], Daemon], wire: tuple[str, str]):
    async def conversation(client: Client) -> None:
        (event,) = await send(client, message("test-resubscribe-message-id"))
        assert event.task.status.state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
        await client.cancel_task(CancelTaskRequest(id=event.task.id))

    talk(scripted("full"), wire, conversation, streaming=False, polling=True)


def test_a_message_alone_arrives_as_a_message(scripted: Callable[[str], Daemon], wire: tuple[str, str]):
    async def conversation(client: Client) -> None:
        (event,) = await send(client, message("tck-message-response"))
        assert event.message.parts[0].text == "Direct message response"

    talk(scripted("full"), wire, conversation)
    talk(scripted("full"), wire, conversation, streaming=False)


def test_a_stream_begins_with_the_task_and_ends_with_its_end(scripted: Callable[[str], Daemon], wire: tuple[str, str]):
    async def conversation(client: Client) -> None:
        events = await send(client, message("tck-stream-artifact-chunked"))
        kinds = [event.WhichOneof("payload") for event in events]
        assert kinds[0] == "task"
        assert kinds[-3:] == ["artifact_update", "artifact_update", "status_update"]
        assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        assert "".join(event.artifact_update.artifact.parts[0].text for event in events[-3:-1]) == "chunk-1 chunk-2"
        assert [event.artifact_update.append for event in events[-3:-1]] == [False, True]

    talk(scripted("full"), wire, conversation)


def test_files_arrive_as_they_are(scripted: Callable[[str], Daemon], wire: tuple[str, str]):
    async def conversation(client: Client) -> None:
        raw = (await task_of(client, message("tck-artifact-file"))).artifacts[0].parts[0]
        url = (await task_of(client, message("tck-artifact-file-url"))).artifacts[0].parts[0]
        assert (raw.raw, raw.filename, raw.media_type) == (b"Generated file content", "output.txt", "text/plain")
        assert (url.url, url.filename, url.media_type) == ("https://example.com/output.txt", "output.txt", "text/plain")

    talk(scripted("full"), wire, conversation, streaming=False)


def test_a_task_is_got_followed_continued_and_canceled(scripted: Callable[[str], Daemon], wire: tuple[str, str]):
    async def conversation(client: Client) -> None:
        task = await task_of(client, message("tck-input-required", context_id="my-context"))
        assert task.context_id == "my-context"
        followed: list[Any] = []
        first = asyncio.Event()

        async def follow() -> None:
            async for event in client.subscribe(SubscribeToTaskRequest(id=task.id)):
                followed.append(event)
                first.set()

        following = asyncio.create_task(follow())
        await asyncio.wait_for(first.wait(), 10)
        await send(client, message("tck-complete-task", task_id=task.id))
        await asyncio.wait_for(following, 10)
        assert followed[0].task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert followed[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        whole = await client.get_task(GetTaskRequest(id=task.id))
        short = await client.get_task(GetTaskRequest(id=task.id, history_length=1))
        assert len(whole.history) >= 2
        assert len(short.history) == 1
        other = await task_of(client, message("tck-input-required"))
        canceled = await client.cancel_task(CancelTaskRequest(id=other.id))
        assert canceled.status.state == TaskState.TASK_STATE_CANCELED

    talk(scripted("full"), wire, conversation)


@pytest.mark.parametrize("binding", BINDINGS)
def test_lists_are_filtered_paged_and_counted(scripted: Callable[[str], Daemon], binding: str):
    async def conversation(client: Client) -> None:
        context_id = f"listed-{binding}-{next(numbers)}"
        for _ in range(3):
            await send(client, message(context_id=context_id))
        await send(client, message("tck-input-required", context_id=context_id))
        seen: list[str] = []
        token = ""
        while True:
            page = await client.list_tasks(ListTasksRequest(context_id=context_id, page_size=3, page_token=token))
            assert (page.page_size, page.total_size) == (3, 4)
            assert not any(task.artifacts for task in page.tasks)
            seen += [task.id for task in page.tasks]
            token = page.next_page_token
            if not token:
                break
        assert len(set(seen)) == len(seen) == 4
        waiting = await client.list_tasks(
            ListTasksRequest(context_id=context_id, status=TaskState.TASK_STATE_INPUT_REQUIRED, include_artifacts=True)
        )
        assert waiting.total_size == len(waiting.tasks) == 1
        since = ListTasksRequest(context_id=context_id)
        since.status_timestamp_after.CopyFrom(waiting.tasks[0].status.timestamp)
        assert (await client.list_tasks(since)).total_size == 1

    talk(scripted("full"), (binding, "1.0"), conversation, streaming=False)


def test_a_required_extension_is_asked_for_and_echoed(scripted: Callable[[str], Daemon], wire: tuple[str, str]):
    # In 0.3 the error has no name: JSON-RPC has an invalid request for it.
    told = sdk.InvalidRequestError if wire == ("JSONRPC", "0.3") else sdk.ExtensionSupportRequiredError

    async def conversation(client: Client) -> None:
        with pytest.raises(told):
            await send(client, message())
        (event,) = await send(client, message(), context(REQUIRED))
        assert event.task.status.state == TaskState.TASK_STATE_COMPLETED

    talk(scripted("required-extension"), wire, conversation, streaming=False)


def test_streams_that_are_off_are_refused(scripted: Callable[[str], Daemon]):
    daemon = scripted("caps-off")
    with httpx.Client(base_url=daemon.url, headers={"A2A-Version": "1.0"}, trust_env=False) as client:
        card = client.get("/.well-known/agent-card.json").json()
        refused = client.post("/message:stream", json=daemon.message())

    assert card["capabilities"]["streaming"] is False
    assert refused.json()["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"


def test_a_question_is_answered_by_the_sdk(shared: Daemon, wire: tuple[str, str]):
    """A real command that asks: the envelope arrives, and the answer is typed."""
    envelope = shared.envelope(shared.request([["ask", "Proceed? [y/N] "], ["print", "went on"]]))
    ctx = context(HITL, ADAPTER)

    async def conversation(client: Client) -> None:
        first = message("real")
        first.metadata.update({ADAPTER: envelope})
        events = await send(client, first, ctx)
        asked = events[-1].status_update
        assert asked.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        prompt = MessageToDict(asked.status.message.metadata)[HITL]
        answer = message("answer", task_id=asked.task_id, context_id=asked.context_id)
        answer.metadata.update({"hitl_response_for": {"prompt_id": prompt["prompt_id"], "payload": {"text": "y"}}})
        answered = await send(client, answer, ctx)
        assert answered[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        again = message("again", task_id=asked.task_id)
        again.metadata.update(MessageToDict(answer.metadata))
        with pytest.raises(A2AClientError) as refused:
            await send(client, again, ctx)
        if wire[0] == "JSONRPC":
            assert "hitl_already_answered_or_unknown" in str(refused.value)

    talk(shared, wire, conversation, token=shared.token)


def test_another_media_type_is_its_own_exception(shared: Daemon, wire: tuple[str, str]):
    async def conversation(client: Client) -> None:
        sent = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(raw=b"\xff", media_type="image/png")])
        with pytest.raises(sdk.ContentTypeNotSupportedError):
            await send(client, sent)

    talk(shared, wire, conversation, token=shared.token, streaming=False)


def test_a_daemon_in_the_profile_has_a_strict_card(scripted: Callable[[str], Daemon]):
    with httpx.Client(base_url=scripted("full").url, trust_env=False) as client:
        card = client.get("/.well-known/agent-card.json").json()

    assert card["defaultInputModes"] == ["*/*"]
    assert "securitySchemes" not in card
    assert not {"url", "protocolVersion", "additionalInterfaces", "preferredTransport"} & set(card)
