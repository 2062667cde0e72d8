"""Leases: a short right to do one kind of thing, for one at a time.

A lease lasts ten seconds and cannot be renewed. Each time it is given its token rises, for good, so that
whoever held it before can be told apart. It is given in a transaction of its own; what is done under
it is another one, and that one looks at the token again.
"""

from __future__ import annotations

from dataclasses import dataclass
from sqlite3 import Connection
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

from receiptlab.errors import Refused

LEASE_MS = 10_000
"""How long a lease lasts, in milliseconds."""

SWEEP = ("", "sweep")
"""What the lease of the sweeper is on. No namespace is empty, so it meets no other."""

SCHEMA = (
    """CREATE TABLE lease (
        namespace TEXT NOT NULL, processor TEXT NOT NULL,
        token INTEGER NOT NULL, holder TEXT NULL, expires_at INTEGER NOT NULL,
        PRIMARY KEY (namespace, processor)) STRICT, WITHOUT ROWID""",
)


@dataclass(frozen=True)
class QueueLease:
    """A lease that was given: on what, to whom, its token, and when it ends."""

    namespace: str
    processor: str
    holder: str
    token: int
    until: int
    outcome: ClassVar[str] = "accepted"


class Held(NamedTuple):
    """The lease's row as the transaction has read it."""

    token: int = 0
    holder: str | None = None
    expires_at: int = 0


def busy(call: SimpleNamespace, seen: Held) -> None:
    # A lease that ends later than it can last was given by a clock that ran ahead; its token still fences it.
    if seen.holder is not None and call.now < seen.expires_at <= call.now + LEASE_MS:
        raise Refused("busy", "somebody has this lease; ask again when it was given back or has ended")


def lease_lost(call: SimpleNamespace, seen: Held) -> None:
    if seen.token != call.token or seen.holder is None or seen.expires_at <= call.now:
        raise Refused("lease-lost", "this lease has ended, or was given to another; acquire it anew")


# Its own row, or else the one without names: it keeps the highest token of the leases that were removed.
_SEE = """SELECT token, holder, expires_at FROM lease
    WHERE (namespace = ? AND processor = ?) OR (namespace = '' AND processor = '')
    ORDER BY namespace DESC, processor DESC LIMIT 1"""
_GIVE = """INSERT INTO lease VALUES (?, ?, ?, ?, ?) ON CONFLICT (namespace, processor)
    DO UPDATE SET token = excluded.token, holder = excluded.holder, expires_at = excluded.expires_at"""
_BACK = "UPDATE lease SET holder = NULL WHERE namespace = ? AND processor = ?"


def see(db: Connection, on: tuple[str, str]) -> Held:
    """The current lease. A lease that was removed starts again above every token that was removed."""
    return Held(*(db.execute(_SEE, on).fetchone() or ()))


def give(db: Connection, on: tuple[str, str], call: SimpleNamespace, seen: Held) -> QueueLease:
    """Give it to the caller, with the next token."""
    given = QueueLease(*on, call.worker, seen.token + 1, call.now + LEASE_MS)
    db.execute(_GIVE, (*on, given.token, given.holder, given.until))
    return given


def give_back(db: Connection, on: tuple[str, str]) -> None:
    """Nobody holds it any more; the token stays."""
    db.execute(_BACK, on)
