"""The owner against bare sqlite3 with the same selects, update and inserts in one transaction."""

from __future__ import annotations

from pathlib import Path

from receiptlab.contracts import owner
from receiptlab.contracts.owner import Owner
from receiptlab.store import Store
from receiptlab.values import sha256
from tools.bench_common import bare, rounds_of, rows

DIGEST = sha256("result")
GOALS = {"first accept": 1.25, "replay": 0.12}

_SELECT_WORK = "SELECT * FROM work WHERE scope = ? AND work = ?"
_SELECT_RECEIPT = """SELECT id, scope, key, work, revision, result_digest, accepted_at, command, digest
    FROM receipt WHERE scope = ? AND key = ?"""
_UPDATE = """UPDATE work SET revision = revision + 1, results = results + 1, state = 'result-recorded',
    holder = NULL, expires_at = NULL, changed_at = ? WHERE scope = ? AND work = ?"""
_RECEIPT = """INSERT INTO receipt (scope, key, work, command, digest, revision, result_digest, accepted_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_OUTBOX = "INSERT INTO outbox (topic, subject, staged_at) VALUES (?, ?, ?)"
_LEASED = """INSERT INTO work
    VALUES ('shop', ?, 1, 1, 'policy-1', 0, 1, 'worker-a', 160, 'leased', 'open', 0, 0)"""
_COMMAND = "x" * 215  # as long as the command that the owner stores


class Floor:
    """The floor of an accept: the same statements without a contract."""

    def __init__(self, path: Path) -> None:
        Store.create(path, owner.SCHEMA).close()
        self.db = bare(path)

    def accept(self, work: str) -> None:
        db = self.db
        db.execute("BEGIN IMMEDIATE")
        db.execute(_SELECT_WORK, ("shop", work)).fetchone()
        db.execute(_SELECT_RECEIPT, ("shop", work)).fetchone()
        db.execute(_UPDATE, (120, "shop", work))
        row = db.execute(_RECEIPT, ("shop", work, work, _COMMAND, DIGEST, 2, DIGEST, 120)).lastrowid
        db.execute(_OUTBOX, ("result-recorded", str(row), 120))
        db.execute("COMMIT")


def measure(folder: Path, rounds: int) -> list[tuple[str, ...]]:
    """The rows of the report."""
    floor, second = Floor(folder / "floor.db"), Floor(folder / "second.db")
    one = Owner(Store.create(folder / "owner.db", owner.SCHEMA))

    def accept(work: str) -> None:
        one.accept("shop", work, "worker-a", work, 1, 1, "policy-1", 1, DIGEST, 120)

    def prepare(works: list[str]) -> None:
        for db in (floor.db, second.db, one.store.db):
            db.executemany(_LEASED, [(work,) for work in works])

    calls = [
        ("floor", floor.accept),
        ("first accept", accept),
        ("floor again", second.accept),
        ("replay", accept),
    ]
    return rows(rounds_of(calls, rounds, prepare, shift=3), "floor", GOALS)
