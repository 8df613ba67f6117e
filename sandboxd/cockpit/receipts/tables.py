"""Which tables have what became of answers, in the cockpit's own file?

`receipts`: what is known, each once, and never changed. `receipts_awaited`: accepted answers of which more may become known.
"""

from __future__ import annotations

from typing import Final

RECEIPTS: Final = """
CREATE TABLE receipts (
    prompt INTEGER NOT NULL REFERENCES prompts,
    what TEXT NOT NULL CHECK (what IN ('read', 'discarded', 'unfinished', 'went-on', 'ended', 'silent')),
    at_us INTEGER NOT NULL,
    said_at_us INTEGER,
    how TEXT NOT NULL,
    PRIMARY KEY (prompt, what)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER a_receipt_is_never_changed BEFORE UPDATE ON receipts
BEGIN
    SELECT RAISE(ABORT, 'a receipt is never changed');
END;
CREATE TABLE receipts_awaited (prompt INTEGER PRIMARY KEY REFERENCES prompts) STRICT;
INSERT INTO receipts SELECT number, 'silent', strftime('%s', 'now') * 1000000, NULL, 'it was answered before this was kept'
    FROM prompts WHERE status = 'responded';
"""
