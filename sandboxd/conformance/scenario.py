"""What is a scenario, and what does it need?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sandboxd.conformance.bench import Bench
from sandboxd.values import frozen

Need = Literal["prompt", "adapter", "example", "idempotency", "restart"]


@frozen
class Scenario:
    """One question to a door. `needs`: without one of them it is skipped, with the reason."""

    id: str
    title: str
    run: Callable[[Bench], None]
    needs: tuple[Need, ...] = ()
