"""Is the adapter-command envelope well-formed?

adapter-command/v1, Request Envelope. Malformed is the caller's mistake (`InvalidParams`, no task); whether a well-formed
command may run is `decide`'s business.
"""

from __future__ import annotations

from typing import Literal

import attrs

Mode = Literal["plan", "assess"]


@attrs.frozen
class AdapterCommand:
    """A well-formed envelope: `working_dir` None means the instance's root, `timeout_s` None the policy's default."""

    adapter: str
    mode: Mode
    command: tuple[str, ...]
    working_dir: str | None = None
    timeout_s: int | None = None
    text_line: bool = False
