"""What may a caller do, and whose tasks does it see?

Six scopes, on every instance or on some:

* `view`: see every task of the instance. Without it a caller sees the tasks that its own principal created, and no others.
* `send`: create tasks. `answer`: answer the prompts of tasks that it sees. `cancel`: cancel tasks that it sees.
* `reissue`: have questions of tasks that it sees asked again, beyond the limit that their prompt had.
* `admin`: all of these, and the host's own affairs (its audit record).

A task that a caller does not see is not there for it: the refusal is the one for a task that does not exist. What a caller sees
and may not do is `Forbidden`, and is told before anything is looked up, so it tells nothing.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from sandboxd.values import frozen

Scope = Literal["view", "send", "answer", "cancel", "reissue", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)


@frozen
class Grants:
    """What a principal may do; `instances` None: on every one."""

    scopes: frozenset[Scope] = frozenset()
    instances: frozenset[str] | None = None

    def allows(self, scope: Scope, instance: str) -> bool:
        """Whether that is allowed on that instance."""
        return self.reaches(instance) and (scope in self.scopes or "admin" in self.scopes)

    def allows_everywhere(self, scope: Scope) -> bool:
        """Whether that is allowed on the whole host, which is more than on each instance of today."""
        return self.instances is None and (scope in self.scopes or "admin" in self.scopes)

    def reaches(self, instance: str) -> bool:
        """Whether anything at all is allowed there."""
        return bool(self.scopes) and (self.instances is None or instance in self.instances)


NOTHING: Final = Grants()
EVERYTHING: Final = Grants(frozenset({"admin"}))
