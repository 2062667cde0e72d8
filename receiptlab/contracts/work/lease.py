"""The lease on a queue: at most one worker at a time reserves its items, and at most one sweeps.

A lease lasts ten seconds and cannot be renewed. Its fencing token rises each time it is acquired, so that
a former holder is recognised. Acquiring it is one transaction and acting under it is another, which checks
the token again.
"""

from __future__ import annotations

from dataclasses import dataclass
from sqlite3 import Connection
from typing import NamedTuple

from receiptlab.contracts.base import AcceptedAnswer

LEASE_MS = 10_000
"""How long a lease lasts, in milliseconds."""

SWEEP = ("", "sweep")
"""The namespace and processor of the sweeper's lease. No real namespace is empty."""

SCHEMA = (
    """CREATE TABLE lease (
        namespace TEXT NOT NULL, processor TEXT NOT NULL,
        token INTEGER NOT NULL, holder TEXT NULL, expires_at INTEGER NOT NULL,
        PRIMARY KEY (namespace, processor)) STRICT, WITHOUT ROWID""",
)


@dataclass(frozen=True)
class QueueLease(AcceptedAnswer):
    """An acquired lease: its queue, its holder, its fencing token, and when it expires."""

    namespace: str
    processor: str
    holder: str
    token: int
    until: int


class LeaseRow(NamedTuple):
    """The lease's current row. A lease that was never acquired has the token 0."""

    token: int = 0
    holder: str | None = None
    expires_at: int = 0


# The lease's row, or else the row without names: it keeps the highest token of all removed leases.
_READ = """SELECT token, holder, expires_at FROM lease
    WHERE (namespace = ? AND processor = ?) OR (namespace = '' AND processor = '')
    ORDER BY namespace DESC, processor DESC LIMIT 1"""
_ACQUIRE = """INSERT INTO lease VALUES (?, ?, ?, ?, ?) ON CONFLICT (namespace, processor)
    DO UPDATE SET token = excluded.token, holder = excluded.holder, expires_at = excluded.expires_at"""
_RELEASE = "UPDATE lease SET holder = NULL WHERE namespace = ? AND processor = ?"


def read(db: Connection, on: tuple[str, str]) -> LeaseRow:
    """The current lease. A lease that was removed starts again above the token of every removed lease."""
    return LeaseRow(*(db.execute(_READ, on).fetchone() or ()))


def acquire(db: Connection, on: tuple[str, str], worker: str, token: int, now: int) -> QueueLease:
    """Write the lease with this token, for a worker."""
    lease = QueueLease(*on, worker, token, now + LEASE_MS)
    db.execute(_ACQUIRE, (*on, token, worker, lease.until))
    return lease


def release(db: Connection, on: tuple[str, str]) -> None:
    """Leave the lease without a holder. The token stays."""
    db.execute(_RELEASE, on)
