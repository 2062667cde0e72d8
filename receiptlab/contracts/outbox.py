"""The transactional outbox: messages that are written in the same transaction as the effect they announce.

A row is an obligation to send a message, not a delivery. Any contract stages into it, inside its own
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
    """Stage a message about `subject` in the open transaction of `db`. Returns its id.
    Refused: exhausted, when no id is left."""
    return numbered("outbox", db.execute(_STAGE, (topic, subject, now)).lastrowid)
