"""Naive versions of accept, as one would write them first. `counterexamples` runs them.

None of this is part of a contract. Each function is short, looks right, and passes a test in which nothing
fails. They use their own tables, without unique constraints, so that a duplicated effect can be seen.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import ClassVar

from receiptlab.contracts.base import Contract


@dataclass(frozen=True)
class Saved:
    """The answer of a naive version that found a receipt."""

    result_digest: str
    outcome: str = "replayed"


@dataclass(frozen=True)
class Looked:
    """Whether there was a receipt when it was checked."""

    found: bool
    outcome: str = "read"


class Naive(Contract):
    """One row of work, its receipts and an outbox, over an open store."""

    NAME = "naive"
    SCHEMA = (
        """CREATE TABLE work (results INTEGER NOT NULL, result_digest TEXT NULL, holder TEXT NULL,
            fence INTEGER NOT NULL, expires_at INTEGER NULL) STRICT""",
        """CREATE TABLE receipt (id INTEGER NOT NULL PRIMARY KEY, key TEXT NOT NULL,
            result_digest TEXT NOT NULL) STRICT""",
        "CREATE TABLE outbox (id INTEGER NOT NULL PRIMARY KEY, result_digest TEXT NOT NULL) STRICT",
        "INSERT INTO work VALUES (0, NULL, NULL, 0, NULL)",
    )
    TABLES = ("work", "receipt", "outbox")
    GUARDS: ClassVar = {}
    COUNTS: ClassVar = {
        "results": "SELECT results FROM work",
        "receipts": "SELECT count(*) FROM receipt",
        "outbox": "SELECT count(*) FROM outbox",
    }

    def leases(self) -> list[tuple[str, str, int, int]]:
        """The lease, in the form of the owner's."""
        return self.store.read(
            "SELECT 'the work', holder, fence, expires_at FROM work WHERE holder IS NOT NULL"
        )

    def saved(self, key: str) -> Saved | None:
        """The saved answer of this key, if there is one."""
        rows = self.store.read("SELECT result_digest FROM receipt WHERE key = ? ORDER BY id", (key,))
        return Saved(*rows[0]) if rows else None


def write_result(db: sqlite3.Connection, digest: str) -> None:
    db.execute("UPDATE work SET results = results + 1, result_digest = ?", (digest,))


def write_receipt(db: sqlite3.Connection, key: str, digest: str) -> None:
    db.execute("INSERT INTO receipt (key, result_digest) VALUES (?, ?)", (key, digest))


def write_message(db: sqlite3.Connection, digest: str) -> None:
    db.execute("INSERT INTO outbox (result_digest) VALUES (?)", (digest,))


def accept_in_two_transactions(naive: Naive, key: str, digest: str) -> Saved | None:
    """First the result, then the receipt and the message."""
    if saved := naive.saved(key):
        return saved
    with naive.store.write() as db:
        write_result(db, digest)
    with naive.store.write() as db:
        write_receipt(db, key, digest)
        write_message(db, digest)
    return None


def accept_then_send(naive: Naive, key: str, digest: str) -> Saved | None:
    """Result and receipt in one transaction, the message in another one after it."""
    if saved := naive.saved(key):
        return saved
    with naive.store.write() as db:
        write_result(db, digest)
        write_receipt(db, key, digest)
    with naive.store.write() as db:
        write_message(db, digest)
    return None


def accept_without_key(naive: Naive, digest: str) -> None:
    """All in one transaction, with nothing that distinguishes a retry from a new result."""
    with naive.store.write() as db:
        write_result(db, digest)
        write_message(db, digest)


def look(naive: Naive, key: str) -> Looked:
    """The first half of look-then-write."""
    return Looked(naive.saved(key) is not None)


def write_all(naive: Naive, key: str, digest: str) -> None:
    """The second half of look-then-write: the caller found that the key is new."""
    with naive.store.write() as db:
        write_result(db, digest)
        write_receipt(db, key, digest)
        write_message(db, digest)


def accept_by_key_alone(naive: Naive, key: str, digest: str) -> Saved | None:
    """A known key is answered from its receipt, whatever else the call says."""
    return naive.saved(key) or write_all(naive, key, digest)


def lease(naive: Naive, actor: str, until: int) -> None:
    """Hand the work to this actor."""
    with naive.store.write() as db:
        db.execute("UPDATE work SET holder = ?, expires_at = ?, fence = fence + 1", (actor, until))


def finish_by_id(naive: Naive, digest: str) -> None:
    """The worker has looked at its own lease before; the write itself names only the work."""
    with naive.store.write() as db:
        write_result(db, digest)
        write_message(db, digest)
        db.execute("UPDATE work SET holder = NULL, expires_at = NULL")
