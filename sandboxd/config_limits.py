"""How much may there be of everything, at most? (part of `config`)

`docs/limits.md` has them all, those that are fixed included; a test keeps that page and these defaults together.
"""

from __future__ import annotations

from typing import Any, Final

from sandboxd.policy.table import Table, spell_duration, spell_size
from sandboxd.values import frozen

_MIB: Final = 1024**2
_GIB: Final = 1024**3


@frozen
class HostLimits:
    """Bounds of the whole daemon.

    `max_tasks` counts tasks that are live, those that have not started yet included; of one instance and of one principal the
    file allows as many, where it says nothing else. `rate` is requests a second of one principal, 0: any number.
    `max_unsent_bytes`: output in answers that clients have not taken yet. `max_store_bytes` 0: as much as the disk has.
    """

    max_tasks: int = 64
    max_connections: int = 256
    max_body_bytes: int = _MIB
    keepalive_s: float = 5
    ping_s: float = 3
    stop_grace_s: float = 1
    rate: int = 100
    burst: int = 1000
    max_tasks_per_instance: int = 64
    max_tasks_per_principal: int = 64
    max_events: int = 50_000
    max_subscribers: int = 256
    max_subscribers_per_task: int = 64
    max_unsent_bytes: int = 64 * _MIB
    max_store_bytes: int = 16 * _GIB
    min_free_bytes: int = 64 * _MIB


def read_limits(table: Table) -> HostLimits:
    """The `[limits]` table."""
    standard = HostLimits()
    max_tasks = table.number("max_tasks", standard.max_tasks, most=10_000)
    limits = HostLimits(
        max_tasks=max_tasks,
        max_connections=table.number("max_connections", standard.max_connections, most=100_000),
        # Below 64 KiB an ordinary message with its envelope may not fit; above 64 MiB a few clients fill the memory.
        max_body_bytes=table.size("max_body", standard.max_body_bytes, least_bytes=65_536, most_bytes=64 * _MIB),
        keepalive_s=table.duration("keepalive", standard.keepalive_s, least_s=1, most_s=3600),
        ping_s=table.duration("ping", standard.ping_s, least_s=0.1, most_s=60),
        stop_grace_s=table.duration("stop_grace", standard.stop_grace_s, least_s=0.01, most_s=60),
        rate=table.number("rate", standard.rate, least=0, most=1_000_000),
        burst=table.number("burst", standard.burst, most=1_000_000),
        max_tasks_per_instance=_share(table, "max_tasks_per_instance", max_tasks),
        max_tasks_per_principal=_share(table, "max_tasks_per_principal", max_tasks),
        # Beyond a million a replay takes minutes.
        max_events=table.number("max_events", standard.max_events, least=100, most=1_000_000),
        max_subscribers=table.number("max_subscribers", standard.max_subscribers, most=100_000),
        max_subscribers_per_task=table.number("max_subscribers_per_task", standard.max_subscribers_per_task, most=100_000),
        # One task's output at the shipped policy's cap must fit.
        max_unsent_bytes=table.size("max_unsent", standard.max_unsent_bytes, least_bytes=16 * _MIB),
        max_store_bytes=table.size("max_store", standard.max_store_bytes, least_bytes=0),
        min_free_bytes=table.size("min_free", standard.min_free_bytes, least_bytes=0),
    )
    table.close()
    return limits


def _share(table: Table, key: str, max_tasks: int) -> int:
    number = table.number(key, max_tasks)
    if number > max_tasks:
        table.problem(key, f"is more than `max_tasks`, which is {max_tasks}")
    return number


def limits_json(limits: HostLimits) -> dict[str, Any]:
    """The table by the file's own keys; None: as when it is left out."""
    return {
        "max_tasks": limits.max_tasks,
        "max_connections": limits.max_connections,
        "max_body": spell_size(limits.max_body_bytes),
        "keepalive": spell_duration(limits.keepalive_s),
        "ping": spell_duration(limits.ping_s),
        "stop_grace": spell_duration(limits.stop_grace_s),
        "rate": limits.rate,
        "burst": limits.burst,
        "max_tasks_per_instance": _unless(limits.max_tasks_per_instance, limits.max_tasks),
        "max_tasks_per_principal": _unless(limits.max_tasks_per_principal, limits.max_tasks),
        "max_events": limits.max_events,
        "max_subscribers": limits.max_subscribers,
        "max_subscribers_per_task": limits.max_subscribers_per_task,
        "max_unsent": spell_size(limits.max_unsent_bytes),
        "max_store": spell_size(limits.max_store_bytes),
        "min_free": spell_size(limits.min_free_bytes),
    }


def _unless(number: int, usual: int) -> int | None:
    return None if number == usual else number
