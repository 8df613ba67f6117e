# mypy: ignore-errors
"""What does the last 0.3 release of the public SDK say to a daemon, and does it understand every answer?

Run by the Python of an environment of its own, which has that SDK (`scripts/test-sdk03`). Reads what to talk to as JSON from
stdin, does every `check_…` below, and writes as JSON what came of each: "ok" or a traceback.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import traceback
from typing import Any

import httpx
from a2a import types as t
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientHTTPError, A2AClientJSONRPCError
from a2a.grpc import a2a_pb2
from google.protobuf.json_format import ParseDict

HITL = "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1"
ADAPTER = "https://agentic-sandbox.aiwg.io/extensions/adapter-command/v1"
HOOK = "https://example.com/hook"
numbers = itertools.count()


class Talk:
    """One daemon, one transport.

    Every error of JSON-RPC arrives as the same exception, with A2A's code. Over REST it is the HTTP status that arrives, and
    the SDK's name of the error stands in the body.
    """

    def __init__(self, http: httpx.AsyncClient, given: dict[str, Any], card: t.AgentCard) -> None:
        self.http, self.given, self.card = http, given, card
        self.is_rpc = given["transport"] == "JSONRPC"
        (self.rest,) = {each.url for each in card.additional_interfaces or [] if each.transport == "HTTP+JSON"}

    def client(self, **options: Any) -> Client:
        config = ClientConfig(
            httpx_client=self.http,
            supported_transports=[self.given["transport"]],
            use_client_preference=True,
            extensions=[HITL, ADAPTER] if self.given["names_extensions"] else [],
            **options,
        )
        return ClientFactory(config).create(self.card, extensions=None)

    def asks(self, **more: Any) -> t.Message:
        """A command that asks one question."""
        return message("run", metadata={ADAPTER: self.given["asks"]}, **more)

    async def asking(self, client: Client) -> t.Task:
        """The task that has asked."""
        events = [event async for event in client.send_message(self.asks())]
        task = events[-1][0]
        assert task.status.state is t.TaskState.input_required, task
        return task

    async def refused(self, awaited: Any, kind: type, status: int) -> None:
        try:
            found = await awaited if not hasattr(awaited, "__aiter__") else [event async for event in awaited]
        except A2AClientJSONRPCError as error:
            assert self.is_rpc
            assert error.error.code == kind().code, repr(error.error)  # its union of classes always takes the first
        except A2AClientHTTPError as error:
            assert not self.is_rpc, error
            assert error.status_code == status, error
            if isinstance(error.__cause__, httpx.HTTPStatusError) and error.__cause__.response.is_stream_consumed:
                assert error.__cause__.response.json()["type"] == kind.__name__
        else:
            raise AssertionError(f"not refused: {found}")

    async def call(self, request: Any, answer: Any) -> Any:
        """A call that the SDK has types for, and its client no method."""
        sent = await self.http.post(self.given["url"], json=request.model_dump(mode="json", exclude_none=True))
        found = answer.model_validate(sent.json()).root
        assert not isinstance(found, t.JSONRPCErrorResponse), found
        return found.result


def message(text: str = "hello", **more: Any) -> t.Message:
    return t.Message(message_id=f"sdk03-{next(numbers)}", role=t.Role.user, parts=[t.Part(root=t.TextPart(text=text))], **more)


async def first(awaited: Any) -> Any:
    async for event in awaited:
        return event[0] if isinstance(event, tuple) else event
    raise AssertionError("no event")


async def check_the_card_is_read(talk: Talk) -> None:
    assert talk.card.protocol_version.startswith("0.3")
    offered = {talk.card.preferred_transport, *(each.transport for each in talk.card.additional_interfaces or [])}
    assert {"JSONRPC", "HTTP+JSON"} <= offered, offered
    assert HITL in {extension.uri for extension in talk.card.capabilities.extensions}


async def check_the_extended_card_is_read(talk: Talk) -> None:
    card = await talk.client().get_card()
    assert card.name == talk.card.name


async def check_a_blocking_send_returns_the_finished_task(talk: Talk) -> None:
    task = await first(talk.client(streaming=False).send_message(message("hi")))
    assert task.status.state is t.TaskState.completed
    assert task.artifacts[0].parts[0].root.text == "hi"


async def asking_check_a_send_that_does_not_wait_returns_at_once(talk: Talk) -> None:
    client = talk.client(streaming=False, polling=True)
    task = await first(client.send_message(talk.asks()))
    assert task.status.state in (t.TaskState.submitted, t.TaskState.working), task.status
    await client.cancel_task(t.TaskIdParams(id=task.id))


async def check_a_stream_begins_with_the_task_and_ends_with_its_end(talk: Talk) -> None:
    sent = message("run", metadata={ADAPTER: talk.given["prints"]})
    events = [event async for event in talk.client().send_message(sent)]
    assert events[0][1] is None
    assert any(isinstance(update, t.TaskArtifactUpdateEvent) for _, update in events)
    assert isinstance(events[-1][1], t.TaskStatusUpdateEvent)
    assert events[-1][1].final
    assert events[-1][0].status.state is t.TaskState.completed
    assert "printed" in "".join(part.root.text for each in events[-1][0].artifacts for part in each.parts)


async def check_a_stream_of_what_is_over_at_once_is_whole(talk: Talk) -> None:
    events = [event async for event in talk.client().send_message(message("hi"))]
    assert events[-1][0].status.state is t.TaskState.completed
    assert events[-1][0].artifacts[0].parts[0].root.text == "hi"


async def check_a_task_is_got(talk: Talk) -> None:
    client = talk.client(streaming=False)
    made = await first(client.send_message(message("hi")))
    got = await client.get_task(t.TaskQueryParams(id=made.id))
    short = await client.get_task(t.TaskQueryParams(id=made.id, history_length=1))
    assert (got.id, got.context_id, got.status.state) == (made.id, made.context_id, made.status.state)
    assert got.artifacts == made.artifacts
    assert len(short.history or []) <= 1


async def asking_check_a_task_is_canceled(talk: Talk) -> None:
    client = talk.client()
    task = await talk.asking(client)
    assert (await client.cancel_task(t.TaskIdParams(id=task.id))).status.state is t.TaskState.canceled


async def asking_check_a_question_is_answered(talk: Talk) -> None:
    client = talk.client()
    task = await talk.asking(client)
    answer = answer_to(task)
    events = [event async for event in client.send_message(answer)]
    assert events[-1][0].status.state is t.TaskState.completed, events[-1][0]
    late = answer_to(task)
    try:
        await first(client.send_message(late))
    except A2AClientJSONRPCError as error:
        assert "hitl_already_answered_or_unknown" in f"{error.error}", repr(error.error)
    except A2AClientHTTPError as error:
        assert (talk.is_rpc, error.status_code) == (False, 409), error
    else:
        raise AssertionError("a late answer was taken")


async def asking_check_a_blocking_send_returns_with_the_question(talk: Talk) -> None:
    client = talk.client(streaming=False)
    task = await first(client.send_message(talk.asks()))
    assert task.status.state is t.TaskState.input_required
    assert (await first(client.send_message(answer_to(task)))).status.state is t.TaskState.completed


def answer_to(task: t.Task) -> t.Message:
    prompt = task.status.message.metadata[HITL]
    response = {"hitl_response_for": {"prompt_id": prompt["prompt_id"], "payload": {"text": "y"}}}
    return message("y", task_id=task.id, context_id=task.context_id, metadata=response)


async def asking_check_a_task_is_followed_again(talk: Talk) -> None:
    client = talk.client()
    task = await talk.asking(client)
    seen: list[Any] = []
    has_begun = asyncio.Event()

    async def follow() -> None:
        async for event in client.resubscribe(t.TaskIdParams(id=task.id)):
            seen.append((event[0].status.state, event[1]))  # the task that it yields is one object, and changes
            has_begun.set()

    following = asyncio.create_task(follow())
    await asyncio.wait_for(has_begun.wait(), 10)
    await first(talk.client(streaming=False).send_message(answer_to(task)))
    await asyncio.wait_for(following, 10)
    assert seen[0][0] is t.TaskState.input_required
    assert seen[-1][0] is t.TaskState.completed
    assert seen[-1][1].final


async def check_a_push_config_is_set_got_listed_and_deleted(talk: Talk) -> None:
    client = talk.client(streaming=False)
    task = await first(client.send_message(message()))
    config = t.PushNotificationConfig(id="c-1", url=HOOK, token="t", authentication={"schemes": ["Bearer"], "credentials": "s"})
    made = await client.set_task_callback(t.TaskPushNotificationConfig(task_id=task.id, push_notification_config=config))
    found = await client.get_task_callback(t.GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id="c-1"))
    assert (made.task_id, made.push_notification_config.id, made.push_notification_config.url) == (task.id, "c-1", HOOK)
    assert made.push_notification_config.authentication.schemes == ["Bearer"]
    assert not made.push_notification_config.authentication.credentials
    assert found == made
    if talk.is_rpc:
        listing = t.ListTaskPushNotificationConfigRequest(id=1, params={"id": task.id})
        assert await talk.call(listing, t.ListTaskPushNotificationConfigResponse) == [made]
        named = {"id": task.id, "pushNotificationConfigId": "c-1"}
        deleting = t.DeleteTaskPushNotificationConfigRequest(id=2, params=named)
        assert await talk.call(deleting, t.DeleteTaskPushNotificationConfigResponse) is None
        assert await talk.call(listing, t.ListTaskPushNotificationConfigResponse) == []
        return
    configs = f"{talk.rest}/v1/tasks/{task.id}/pushNotificationConfigs"
    listed = ParseDict((await talk.http.get(configs)).json(), a2a_pb2.ListTaskPushNotificationConfigResponse())
    assert [each.name for each in listed.configs] == [f"tasks/{task.id}/pushNotificationConfigs/c-1"]
    assert (await talk.http.delete(f"{configs}/c-1")).status_code in (200, 204)
    assert not ParseDict((await talk.http.get(configs)).json(), a2a_pb2.ListTaskPushNotificationConfigResponse()).configs


async def check_an_unknown_task_is_not_found(talk: Talk) -> None:
    client = talk.client(streaming=False)
    await talk.refused(client.get_task(t.TaskQueryParams(id="none")), t.TaskNotFoundError, 404)
    await talk.refused(client.cancel_task(t.TaskIdParams(id="none")), t.TaskNotFoundError, 404)
    await talk.refused(client.send_message(message(task_id="none")), t.TaskNotFoundError, 404)
    await talk.refused(talk.client().send_message(message(task_id="none")), t.TaskNotFoundError, 404)


async def check_an_unknown_task_is_not_followed(talk: Talk) -> None:
    if talk.is_rpc:
        await talk.refused(talk.client().resubscribe(t.TaskIdParams(id="none")), t.TaskNotFoundError, 404)
        return
    # Over REST this SDK looks at the media type alone: an answer that is no stream arrives as its 400.
    await talk.refused(talk.client().resubscribe(t.TaskIdParams(id="none")), t.TaskNotFoundError, 400)


async def check_a_finished_task_is_neither_canceled_nor_continued(talk: Talk) -> None:
    client = talk.client(streaming=False)
    task = await first(client.send_message(message()))
    await talk.refused(client.cancel_task(t.TaskIdParams(id=task.id)), t.TaskNotCancelableError, 409)
    await talk.refused(client.send_message(message(task_id=task.id)), t.UnsupportedOperationError, 501)


async def check_another_media_type_is_not_taken(talk: Talk) -> None:
    part = t.Part(root=t.FilePart(file=t.FileWithBytes(bytes="/w==", mime_type="image/png")))
    sent = t.Message(message_id="image", role=t.Role.user, parts=[part])
    await talk.refused(talk.client(streaming=False).send_message(sent), t.ContentTypeNotSupportedError, 415)


async def check_no_parts_are_invalid_params(talk: Talk) -> None:
    sent = t.Message(message_id="empty", role=t.Role.user, parts=[])
    await talk.refused(talk.client(streaming=False).send_message(sent), t.InvalidParamsError, 400)


async def check_an_unknown_method_is_not_found(talk: Talk) -> None:
    if talk.is_rpc:
        answer = await talk.http.post(talk.given["url"], json={"jsonrpc": "2.0", "id": 1, "method": "no/such", "params": {}})
        assert t.JSONRPCErrorResponse.model_validate(answer.json()).error.code == t.MethodNotFoundError().code
        return
    assert (await talk.http.post(f"{talk.rest}/v1/no:such", json={})).status_code == 404


async def check_push_that_is_off_is_not_supported(talk: Talk) -> None:
    given = {**talk.given, "url": talk.given["caps_off"]}
    off = Talk(talk.http, given, await A2ACardResolver(talk.http, given["url"]).get_agent_card())
    assert not off.card.capabilities.streaming
    client = off.client()
    task = await first(client.send_message(message("tck-complete-task")))
    config = t.TaskPushNotificationConfig(task_id=task.id, push_notification_config=t.PushNotificationConfig(id="c", url=HOOK))
    await off.refused(client.set_task_callback(config), t.PushNotificationNotSupportedError, 501)
    named = t.GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id="c")
    await off.refused(client.get_task_callback(named), t.PushNotificationNotSupportedError, 501)


async def check_a_stranger_is_turned_away(talk: Talk) -> None:
    nobody = ClientCallContext(state={"http_kwargs": {"headers": {"Authorization": "Bearer none"}}})
    try:
        await talk.client().get_task(t.TaskQueryParams(id="none"), context=nobody)
    except A2AClientHTTPError as error:
        assert error.status_code == 401, error
    else:
        raise AssertionError("let in")


async def main() -> dict[str, str]:
    given = json.load(sys.stdin)
    results: dict[str, str] = {}
    headers = {"Authorization": f"Bearer {given['token']}"}
    async with httpx.AsyncClient(headers=headers, timeout=20, trust_env=False) as http:
        card = await A2ACardResolver(http, given["url"]).get_agent_card()
        for name, check in list(globals().items()):
            # Without hitl-prompt/v1 no command is asked on a terminal.
            if name.startswith(("check_", "asking_check_") if given["names_extensions"] else "check_"):
                try:
                    await asyncio.wait_for(check(Talk(http, given, card)), 60)
                    results[name] = "ok"
                except Exception:
                    results[name] = traceback.format_exc()
    return results


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main())))
