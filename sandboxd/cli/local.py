"""How does a command get an engine of its own, without a daemon?

The engine is the daemon's own: the same spawner decides, the same operations carry, with a store in a folder that goes away
with it. Nothing listens. The person who typed the command is the only client.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from sandboxd import logs, packs
from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT
from sandboxd.a2a.model import Message, Part, SendRequest, Task
from sandboxd.cli.exits import Exit, Failure, of_load_error
from sandboxd.cli.programs import find_program
from sandboxd.config import Config, Instance
from sandboxd.daemon import open_host
from sandboxd.errors import LoadError
from sandboxd.operations.access import EVERYTHING
from sandboxd.operations.cancel import cancel
from sandboxd.operations.host import Caller, Host
from sandboxd.operations.send import send
from sandboxd.operations.stream import StreamEvent
from sandboxd.operations.subscribe import subscribe
from sandboxd.policy.adapter import AdapterCommand, parse_adapter_command
from sandboxd.policy.load import load_policy
from sandboxd.policy.model import Decision, Policy
from sandboxd.runner.birth import SpawnerUnavailable
from sandboxd.runner.protocol import RunRequest, SpawnFailed
from sandboxd.store.base import StoreUnavailable
from sandboxd.values import frozen


@frozen
class Place:
    """Where a local run happens: an instance, its policies as they stand in their files, and where all that comes from."""

    config: Config
    instance: Instance
    policies: tuple[Policy, ...]
    source: str


@frozen
class Wish:
    """What the person asks for, before any policy has seen it. `holes` are the values that the command line gave."""

    adapter: str
    mode: str
    holes: Mapping[str, str]
    timeout_s: int | None
    text_line: bool
    text: str

    def envelope(self, policies: Sequence[Policy], *, programs: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The adapter-command envelope, with the argv that the adapter's policy describes.

        `programs`: all that was found, where no config names them.
        """
        fitting = [policy for policy in policies if policy.adapter == self.adapter]
        if not fitting:
            known = ", ".join(sorted(f"`{policy.adapter}`" for policy in policies)) or "none"
            raise Failure(
                f"cannot run `{self.adapter}`: no policy is for it", Exit.RUN_REFUSED, hint=f"policies here are for: {known}"
            )
        values = {"mode": self.mode, **self.holes}
        if programs is not None and fitting[0].program not in programs:
            name = fitting[0].program
            raise Failure(
                f"cannot run `{self.adapter}`: there is no program `{name}` on your PATH",
                Exit.RUN_REFUSED,
                hint=f"install it, or name it in a config: `[programs] {name} = …`, and --config FILE",
            )
        missing = {template.hole for template in fitting[0].argv if template.hole is not None} - values.keys()
        if missing:
            told = ", ".join("--request" if name == "request" else f"--set {name}=VALUE" for name in sorted(missing))
            raise Failure(
                f"cannot run `{self.adapter}`: its command has parts that are not given", Exit.RUN_REFUSED, hint=f"give {told}"
            )
        envelope: dict[str, Any] = {
            "adapter": self.adapter,
            "mode": self.mode,
            "command": [template.render(values) for template in fitting[0].argv],
        }
        envelope |= {} if self.timeout_s is None else {"timeout_seconds": self.timeout_s}
        return envelope | ({"input_mode": "text-line"} if self.text_line else {})


def command_of(envelope: Mapping[str, Any]) -> AdapterCommand:
    """The envelope as every door reads it; raises `InvalidParams`."""
    return parse_adapter_command(envelope, hitl_active=True)


def new_message(wish: Wish, envelope: Mapping[str, Any]) -> Message:
    """The A2A message that an orchestrator would send for it."""
    return Message(str(uuid.uuid4()), "user", (Part("text", wish.text),), metadata={ADAPTER_COMMAND: dict(envelope)})


@contextlib.contextmanager
def place(config: Config | None, root: Path, instance: str) -> Iterator[Place]:
    """Where to run: the config's instance, else the shipped policies on `root`. The store's folder goes away at the end."""
    with tempfile.TemporaryDirectory(prefix="sandboxd-run-") as state:
        try:
            if config is None:
                files = sorted(packs.shipped("policies").glob("*.toml"))
                policies = tuple(read_policy(file) for file in files)
                config = Config.for_run(root, files, own_programs(policies), Path(state))
                yield Place(
                    config,
                    config.default_instance,
                    policies,
                    f"shipped policy on {config.default_instance.root}; no config was given",
                )
            else:
                here = _instance(config, instance)
                policies = tuple(read_policy(file) for file in here.policies)
                yield Place(
                    attrs.evolve(config, state_dir=Path(state)), here, policies, f"config {config.source}, instance {here.id}"
                )
        except LoadError as error:
            raise of_load_error(error, Exit.RUN_REFUSED) from error


def read_policy(path: Path) -> Policy:
    """The policy in a file that may be trusted; `LoadError`."""
    file = packs.read(path)
    return load_policy(str(path), file.text, file.digest)


def own_programs(policies: Sequence[Policy]) -> dict[str, str]:
    """Where this person finds the policies' programs: for a run without a config, and only there."""
    found = {policy.program: find_program(policy.program) for policy in policies}
    return {name: path for name, path in found.items() if path}


def own_name() -> str:
    """The user who runs this, by name where there is one."""
    try:
        return f"{pwd.getpwuid(os.getuid()).pw_name} (uid {os.getuid()})"
    except KeyError:
        return f"uid {os.getuid()}"


@frozen
class LocalEngine:
    """The operations on one host in this process, as one client uses them."""

    host: Host
    caller: Caller
    instance: str

    async def preview(self, command: AdapterCommand, text: str) -> Decision:
        """What the spawner would start, with every path opened; nothing starts."""
        request = RunRequest(str(uuid.uuid4()), str(uuid.uuid4()), self.instance, command, text)
        decision = await self.host.spawner.preview(request)
        if isinstance(decision, SpawnFailed):
            raise Failure(f"cannot look at the request: {decision.message}", Exit.RUN_REFUSED)
        return decision

    async def send(self, message: Message) -> Task:
        """Create a task or answer its question, without waiting for its end."""
        reply = await send(self.host, self.caller, self.instance, SendRequest(message), wait=False)
        assert isinstance(reply, Task)  # only scripts are answered with a bare message
        return reply

    @contextlib.asynccontextmanager
    async def events(self, task_id: str, *, after: int) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """The task as it stood at `after`, then its news up to its end."""
        async with await subscribe(self.host, self.caller, self.instance, task_id, after=after) as events:
            yield events

    async def cancel(self, task_id: str, reason: str) -> Task:
        """End the task."""
        return await cancel(self.host, self.caller, self.instance, task_id, reason=reason)


@contextlib.asynccontextmanager
async def open_engine(where: Place) -> AsyncIterator[LocalEngine]:
    """An engine in this process for that place; everything it started is gone when it closes."""
    logs.configure(level="warning")  # what goes on is told by the run itself
    caller = Caller(f"uid:{os.getuid()}", frozenset({HITL_PROMPT, ADAPTER_COMMAND}), EVERYTHING)
    try:
        with unwrapped():  # the host's nursery puts whatever its user raises into a group
            async with open_host(where.config) as host:
                yield LocalEngine(host, caller, where.instance.id)
    except (StoreUnavailable, SpawnerUnavailable) as error:
        raise Failure(f"cannot start the engine: {error}", Exit.RUN_REFUSED) from error


def _instance(config: Config, name: str) -> Instance:
    if not name:
        return config.default_instance
    for instance in config.instances:
        if instance.id == name:
            return instance
    known = ", ".join(instance.id for instance in config.instances)
    raise Failure(
        f"cannot run on instance `{name}`: the config has none of that name", Exit.RUN_REFUSED, hint=f"it has: {known}"
    )


@contextlib.contextmanager
def unwrapped() -> Iterator[None]:
    """What trio gathered in groups is one error again, the first."""
    try:
        yield
    except BaseExceptionGroup as group:
        error = group.exceptions[0]
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
