"""Which statements keep what became of answers? (each within a transaction of the caller's)"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime

from sandboxd.cockpit import audit, rows
from sandboxd.cockpit.audit import Entry
from sandboxd.cockpit.codec import to_us
from sandboxd.cockpit.receipts.receipt import Receipt
from sandboxd.cockpit.record import Record


def awaited(connection: sqlite3.Connection, host: str, limit: int) -> Sequence[Record]:
    """Accepted answers of that host of which more may become known, the oldest first."""
    where = "WHERE number IN (SELECT prompt FROM receipts_awaited) AND host = ? ORDER BY number LIMIT ?"
    return rows.select(connection, where, host, limit)


def put(connection: sqlite3.Connection, record: Record, receipts: Iterable[Receipt], now: datetime) -> None:
    """Put on record and into the audit what is new of it, and tell the channels that want to know; nothing is awaited then."""
    news = list[str]()
    for receipt in receipts:
        said_us = None if receipt.said_at is None else to_us(receipt.said_at)
        is_new = connection.execute(
            "INSERT OR IGNORE INTO receipts (prompt, what, at_us, said_at_us, how) VALUES (?, ?, ?, ?, ?)",
            (record.number, receipt.what, to_us(now), said_us, receipt.how),
        ).rowcount
        if is_new:
            audit.append(connection, _entry(record, receipt, now))
            news.append(receipt.what)
    if news:
        rows.add_news(connection, record, now, "receipt", why=", ".join(news))
    connection.execute("DELETE FROM receipts_awaited WHERE prompt = ?", (record.number,))


def _entry(record: Record, receipt: Receipt, now: datetime) -> Entry:
    place, took = record.place, now - record.approval.received_at
    return Entry(
        *(now, place.host, record.prompt_id, place.task_id, place.context_id, "receipt", receipt.what),
        why=receipt.how,
        rev=record.approval.rev,
        took_ms=int(took.total_seconds() * 1000),
        links=record.links,
    )
