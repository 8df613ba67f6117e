#!/usr/bin/env python3
"""How does a program with the public a2a-sdk run an adapter command and answer its questions?

    python examples/clients/sdk_client.py --url http://127.0.0.1:8765 --token-file STATE/cli.token

Sends the example's plan request, shows what happens, answers from `--answer` or from the terminal, prints the artifacts.
`--binding` and `--mode` choose among the four ways that the SDK has. Exit code 0: the task completed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest, Task, TaskState, TaskStatus
from google.protobuf.json_format import MessageToDict

HITL = "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1"
ADAPTER = "https://agentic-sandbox.aiwg.io/extensions/adapter-command/v1"
FOLDER = ".aiwg/ops/adapters/sandbox-agent-runner"


class Conversation:
    """One task from its message to its end: sends, shows, answers."""

    def __init__(self, client: Client, context: ClientCallContext, answers: Iterator[str]) -> None:
        self._client = client
        self._context = context
        self._answers = answers
        self._task_id = self._context_id = ""
        self._status = TaskStatus()

    async def hold(self, first: Message) -> Task:
        """Send the message, answer every question, and return the task as it ended."""
        await self._turn(first)
        while self._status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
            await self._turn(self._answer())
        return await self._client.get_task(GetTaskRequest(id=self._task_id), context=self._context)

    async def _turn(self, message: Message) -> None:
        """Send one message, and follow the task until it ends or asks."""
        async for state in self._states(message):
            show("state", TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", "-"))

    async def _states(self, message: Message) -> AsyncIterator[TaskState]:
        async for event in self._client.send_message(SendMessageRequest(message=message), context=self._context):
            match event.WhichOneof("payload"):
                case "task":
                    if not self._task_id:
                        show("task", event.task.id)
                    self._task_id, self._context_id, self._status = event.task.id, event.task.context_id, event.task.status
                    yield self._status.state
                case "status_update":
                    self._status = event.status_update.status
                    yield self._status.state
                case "artifact_update":
                    for part in event.artifact_update.artifact.parts:
                        show("output", part.text)

    def _answer(self) -> Message:
        envelope = MessageToDict(self._status.message.metadata)[HITL]
        show("prompt", envelope["prompt"])
        text = next(self._answers)
        show("answer", text)
        answer = message_of([Part(data={"struct_value": {"text": text}}, media_type="application/json")])
        answer.task_id, answer.context_id = self._task_id, self._context_id
        answer.metadata.update({"hitl_response_for": {"prompt_id": envelope["prompt_id"], "payload": {"text": text}}})
        return answer


def message_of(parts: list[Part]) -> Message:
    return Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=parts)


def command(options: argparse.Namespace) -> Message:
    """The adapter command; its envelope travels in the message's metadata."""
    envelope: dict[str, Any] = {
        "adapter": "sandbox-agent-runner",
        "mode": options.adapter_mode,
        "command": ["node", f"{FOLDER}/runner.mjs", "--request", options.request],
        "timeout_seconds": 300,
        "input_mode": "text-line",
    }
    message = message_of([Part(text=f"Run the bounded {options.adapter_mode} adapter.")])
    message.metadata.update({ADAPTER: envelope})
    return message


def answers_from(given: list[str]) -> Iterator[str]:
    """The answers of the command line in their order, then those of the person, if there is one."""
    yield from given
    while sys.stdin.isatty():
        yield input("your answer: ")
    raise SystemExit("cannot answer: there is no --answer left and no terminal")


def show(what: str, text: str) -> None:
    """One line a fact. What a task printed is data: only what can be printed is."""
    for line in text.splitlines():
        print(f"{what:9} {''.join(char if char.isprintable() else '·' for char in line)}", flush=True)


async def run(options: argparse.Namespace) -> int:
    headers = {"Authorization": f"Bearer {options.token_file.read_text().strip()}"}
    # A blocking send waits as long as the command runs; the SDK's own bound is five seconds.
    async with httpx.AsyncClient(headers=headers, timeout=httpx.Timeout(30, read=330), trust_env=False) as http:
        card = await A2ACardResolver(http, options.url).get_agent_card()
        config = ClientConfig(
            httpx_client=http, streaming=options.mode == "streaming", supported_protocol_bindings=[options.binding]
        )
        context = ClientCallContext(
            service_parameters=ServiceParametersFactory.create([with_a2a_extensions([HITL, ADAPTER])]), timeout=330
        )
        conversation = Conversation(ClientFactory(config).create(card), context, answers_from(options.answer))
        task = await conversation.hold(command(options))
    for artifact in task.artifacts:
        show("artifact", artifact.artifact_id)
        for part in artifact.parts:
            show("  |", part.text)
    return 0 if task.status.state == TaskState.TASK_STATE_COMPLETED else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", required=True, help="of the daemon, or of one of its instances (…/agents/NAME)")
    parser.add_argument("--token-file", required=True, type=Path)
    parser.add_argument("--binding", choices=["JSONRPC", "HTTP+JSON"], default="HTTP+JSON")
    parser.add_argument("--mode", choices=["blocking", "streaming"], default="streaming")
    parser.add_argument("--adapter-mode", choices=["plan", "assess"], default="plan")
    parser.add_argument("--request", default=f"{FOLDER}/examples/cycle-005-request.json", metavar="FILE")
    parser.add_argument("--answer", action="append", default=[], metavar="TEXT", help="for the next question; may be repeated")
    return asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
