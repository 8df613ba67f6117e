"""How are records that the daemon lists printed?

A table for a person, tabs in a pipe, or one object a line, which says its schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sandboxd.cli.console import Console

Record = Mapping[str, Any]
_HEADINGS: Final = {"task_id": "task", "prompt_id": "prompt", "config_id": "config", "message_id": "message"}


def print_records(
    console: Console,
    records: Iterable[Record],
    *,
    schema: str,
    names: tuple[str, ...],
    as_json: bool,
    styles: Mapping[str, str] | None = None,
) -> None:
    """Print the named fields of each, or each whole."""
    if as_json:
        print_objects(console, records, schema=schema)
        return
    console.table([_HEADINGS.get(name, name) for name in names], [row_of(one, names) for one in records], styles=styles or {})


def print_objects(console: Console, records: Iterable[Record], *, schema: str) -> None:
    """Print each as an object of its own."""
    for record in records:
        console.object({"schema": schema, **record})


def row_of(record: Record, names: Iterable[str]) -> list[str]:
    """The named fields as text, empty where the record has none."""
    words = {True: "yes", False: "no"}
    found = [record.get(name, "") for name in names]
    return [words[value] if isinstance(value, bool) else str(value) for value in found]
