"""What do the operations work on, and who calls them?"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from sandboxd.errors import Forbidden, InstanceNotFound, TaskNotFound
from sandboxd.live.clock import Clock
from sandboxd.live.supervisor import Supervisor
from sandboxd.operations.access import NOTHING, Grants, Scope
from sandboxd.operations.followers import Followers
from sandboxd.operations.once import Once
from sandboxd.operations.outbox import Outbox
from sandboxd.operations.storage import Storage
from sandboxd.operations.unsent import Unsent
from sandboxd.runner.client import Spawner
from sandboxd.schemas.judge import Judge
from sandboxd.store.base import Store
from sandboxd.store.feed import Feed
from sandboxd.tasks.view import TaskView
from sandboxd.values import frozen


@frozen
class Instance:
    """A configured workspace; `adapters` is what its active policies allow: (adapter, modes), empty when nothing.

    `isolation` is the level that every task there gets at least, `levels` for each adapter the one that this host keeps for it,
    or why it keeps none.
    """

    id: str
    shown: str
    adapters: tuple[tuple[str, tuple[str, ...]], ...]
    isolation: str
    levels: Mapping[str, str] = attrs.field(factory=dict)


@frozen
class Earlier:
    """What an equal request led to before: the task, and the event whose view it was told first."""

    task_id: str
    seq: int


@frozen
class Caller:
    """Who asks (an authenticated principal), which extensions this one request activated, and what the principal may do.

    `door` is where the request came in (`unix`, `tcp`; empty: in this process), for the record. `earlier`: this message was
    acted on already, so it is to be told what came of that, and nothing else is to happen. `modes`: the media types that this
    one request says it takes, empty: it does not say.
    """

    principal: str
    extensions: frozenset[str] = frozenset()
    grants: Grants = NOTHING
    door: str = ""
    earlier: Earlier | None = None
    modes: tuple[str, ...] = ()

    def need(self, scope: Scope, instance: str, wish: str) -> None:
        """`Forbidden` unless this caller may do that there; ask before anything is looked up."""
        if not self.grants.allows(scope, instance):
            why = f"this needs the scope `{scope}` on instance `{instance}`"
            raise Forbidden(f"cannot {wish}: {why}", facts={"scope": scope})


@frozen
class Capabilities:
    """What the agent's card promises. `required_extensions`: a message that does not activate them is refused."""

    streaming: bool = True
    push_notifications: bool = False
    extended_card: bool = False
    required_extensions: tuple[str, ...] = ()


@frozen
class Host:
    """Everything that an operation needs, put together once by `daemon.py`.

    `plays_scripts`: the public kit's profile, where no message starts a command. `outbox`: how push notifications leave; None:
    there are none. `storage` None: nobody looks whether the disk has room (`sandboxd run`).
    """

    instances: dict[str, Instance]
    default_instance: str
    store: Store
    feed: Feed
    spawner: Spawner
    supervisor: Supervisor
    clock: Clock
    judge: Judge
    capabilities: Capabilities = Capabilities()
    plays_scripts: bool = False
    outbox: Outbox | None = None
    storage: Storage | None = None
    followers: Followers = attrs.field(factory=Followers)
    unsent: Unsent = attrs.field(factory=Unsent)
    once: Once = attrs.field(default=attrs.Factory(lambda self: Once(self.store, self.clock), takes_self=True))

    def allow(self, adapters: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]) -> None:
        """Tell from now on that these are each instance's adapters: its policies have changed."""
        for name, instance in self.instances.items():
            levels = self.spawner.levels.get(name, {})
            self.instances[name] = attrs.evolve(instance, adapters=adapters.get(name, ()), levels=levels)

    def instance(self, instance_id: str) -> Instance:
        """The instance, or `InstanceNotFound`. Only for what everybody may know of it: operations `enter`."""
        try:
            return self.instances[instance_id]
        except KeyError:
            raise _no_instance(instance_id) from None

    def enter(self, caller: Caller, instance_id: str) -> Instance:
        """The instance; `InstanceNotFound` also when nothing there is for this caller."""
        if not caller.grants.reaches(instance_id):
            raise _no_instance(instance_id)
        return self.instance(instance_id)

    async def view(self, caller: Caller, instance_id: str, task_id: str, *, history_length: int | None = None) -> TaskView:
        """The task as it stands, with at least that much of its history (None: all).

        `TaskNotFound` when this instance has none of that id that the caller may see.
        """
        self.enter(caller, instance_id)
        view = await self.find(caller, instance_id, task_id, history_length=history_length)
        if view is None:
            raise not_found(task_id)
        return view

    async def find(
        self, caller: Caller, instance_id: str, task_id: str, *, history_length: int | None = None
    ) -> TaskView | None:
        """The same, None when it is not there for this caller."""
        view = await self.store.view(task_id, history_length=history_length)
        if view is None or view.instance != instance_id:
            return None
        if caller.grants.allows("view", instance_id) or await self.store.owner(task_id) == caller.principal:
            return view
        return None


def _no_instance(instance_id: str) -> InstanceNotFound:
    return InstanceNotFound(f"cannot find instance `{instance_id}`: there is none of that name for this caller")


def not_found(task_id: str) -> TaskNotFound:
    """The refusal for a task that is not there for this caller; it tells nothing about other instances."""
    return TaskNotFound(f"cannot find task `{task_id}`: this instance has none of that id", facts={"taskId": task_id})
