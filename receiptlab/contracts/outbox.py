"""The outbox: messages that are pending, written beside what they are about.

A row is one persisted obligation, not one delivery. Any contract stages into it, inside its own
transaction or the caller's.
"""

from __future__ import annotations

from sqlite3 import Connection

from receiptlab.contracts.base import numbered

SCHEMA = (
    """CREATE TABLE outbox (
        id INTEGER NOT NULL PRIMARY KEY,
        topic TEXT NOT NULL, subject TEXT NOT NULL, staged_at INTEGER NOT NULL) STRICT""",
)
COUNT = "SELECT count(*) FROM outbox"

_STAGE = "INSERT INTO outbox (topic, subject, staged_at) VALUES (?, ?, ?)"


def stage(db: Connection, topic: str, subject: str, now: int) -> int:
    """Owe a message about `subject`, in the transaction that is open on `db`. Returns its id.
    Refused: exhausted, when no id is left."""
    return numbered("outbox", db.execute(_STAGE, (topic, subject, now)).lastrowid)
