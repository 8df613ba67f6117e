"""What do the operations work on, and who calls them?"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from sandboxd.errors import InstanceNotFound, TaskNotFound
from sandboxd.live.clock import Clock
from sandboxd.live.supervisor import Supervisor
from sandboxd.operations.once import Once
from sandboxd.runner.client import Spawner
from sandboxd.schemas.judge import Judge
from sandboxd.store.base import Store
from sandboxd.store.feed import Feed
from sandboxd.tasks.view import TaskView


@attrs.frozen
class Instance:
    """A configured workspace; `adapters` is what its active policies allow: (adapter, modes), empty when nothing."""

    id: str
    shown: str
    adapters: tuple[tuple[str, tuple[str, ...]], ...]
    isolation: str


@attrs.frozen
class Earlier:
    """What an equal request led to before: the task, and the event whose view it was told first."""

    task_id: str
    seq: int


@attrs.frozen
class Caller:
    """Who asks (an authenticated principal), and which extensions this one request activated.

    `earlier`: this message was acted on already, so it is to be told what came of that, and nothing else is to happen.
    """

    principal: str
    extensions: frozenset[str] = frozenset()
    earlier: Earlier | None = None


@attrs.frozen
class Host:
    """Everything that an operation needs, put together once by `daemon.py`."""

    instances: Mapping[str, Instance]
    default_instance: str
    store: Store
    feed: Feed
    spawner: Spawner
    supervisor: Supervisor
    clock: Clock
    judge: Judge
    once: Once = attrs.field(default=attrs.Factory(lambda self: Once(self.store, self.clock), takes_self=True))

    def instance(self, instance_id: str) -> Instance:
        """The instance, or `InstanceNotFound`."""
        try:
            return self.instances[instance_id]
        except KeyError:
            raise InstanceNotFound(f"cannot find instance `{instance_id}`: it is not configured") from None

    async def view(self, instance_id: str, task_id: str) -> TaskView:
        """The task as it stands; `TaskNotFound` when this instance has none of that id."""
        self.instance(instance_id)
        view = await self.store.view(task_id)
        if view is None or view.instance != instance_id:
            raise not_found(task_id)
        return view


def not_found(task_id: str) -> TaskNotFound:
    """The refusal for a task that is not there for this caller; it tells nothing about other instances."""
    return TaskNotFound(f"cannot find task `{task_id}`: this instance has none of that id", facts={"taskId": task_id})
