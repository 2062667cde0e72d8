"""Retention against bare sqlite3, and the cost of what is kept."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

from receiptlab.contracts import retention
from receiptlab.contracts.retention import Retention
from receiptlab.store import Store
from receiptlab.values import sha256
from tools.bench_common import bare, rounds_of, rows, timed

DIGEST = sha256("pay 5")
RESULT = '{"effect":100000,"executed_at":100}'
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)

_BOUNDARY = "SELECT closed_through FROM boundary WHERE namespace = ?"
_SAVED = "SELECT digest, result FROM receipt WHERE namespace = ? AND epoch = ? AND operation = ?"
_EFFECT = "INSERT INTO effect (namespace, epoch, operation, digest, executed_at) VALUES (?, ?, ?, ?, ?)"
_RECEIPT = "INSERT INTO receipt VALUES (?, ?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM receipt WHERE namespace = ? AND epoch <= ?"


class Floor:
    """The floor of a first execution: the same statements without a contract."""

    def __init__(self, path: Path) -> None:
        Store.create(path, retention.SCHEMA).close()
        self.db = bare(path)

    def execute(self, operation: str) -> None:
        db = self.db
        db.execute("BEGIN IMMEDIATE")
        db.execute(_BOUNDARY, ("shop",)).fetchone()
        db.execute(_SAVED, ("shop", 2, operation)).fetchone()
        db.execute(_EFFECT, ("shop", 2, operation, DIGEST, 100))
        db.execute(_RECEIPT, ("shop", 2, operation, DIGEST, RESULT, 100))
        db.execute("COMMIT")


def measure(folder: Path, rounds: int) -> list[tuple[str, ...]]:
    """Each answer of execute against the floor."""
    floor, second = Floor(folder / "floor.db"), Floor(folder / "second.db")
    one = Retention(Store.create(folder / "retention.db", retention.SCHEMA))
    one.close_and_collect("shop", through=1, now=0)

    def execute(operation: str) -> None:
        one.execute("shop", 2, operation, "pay 5", 100)

    def refused(epoch: int) -> object:
        def call(operation: str) -> None:
            try:
                one.execute("shop", epoch, operation, "pay 5", 100)
            except retention.Refused:
                return
            raise AssertionError("it should have been refused")

        return call

    def expire(names: list[str]) -> None:
        for name in names:
            one.expire_result("shop", 2, name, 110)

    calls = [("floor", floor.execute), ("first execute", execute), ("floor again", second.execute)]
    calls += [("replay", execute), ("closed answer", refused(1))]
    times = rounds_of(calls, rounds, lambda names: None, shift=3)
    late = [("tombstone answer", refused(2))]
    times |= rounds_of(late, rounds, expire, shift=0)
    return rows(times, "floor", {})


def filled(path: Path, receipts: int, epochs: int = 10, tombstones: bool = False) -> Store:
    """A database file with this many receipts, spread evenly over the epochs 1, 2, 3 …"""
    store = Store.create(path, retention.SCHEMA)
    result, part = (None if tombstones else RESULT), receipts // epochs
    with store.write() as db:
        for epoch in range(1, epochs + 1):
            keys = (("shop", epoch, f"op-{number:07}") for number in range(part))
            db.executemany(_RECEIPT, ((*key, DIGEST, result, 100) for key in keys))
    store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return store


def size_of(folder: Path) -> list[tuple[str, str]]:
    """Bytes on disk that each policy keeps for one receipt, and for one closed namespace."""
    sizes, many = {}, 100_000
    with Store.create(folder / "empty.db", retention.SCHEMA) as empty:
        nothing = _bytes(empty)
    for name, tombstones in {"a live receipt": False, "a tombstone": True}.items():
        with filled(folder / f"{tombstones}.db", many, tombstones=tombstones) as store:
            sizes[name] = (_bytes(store) - nothing) / many
    with Store.create(folder / "closed.db", retention.SCHEMA) as store:
        with store.write() as db:
            db.executemany("INSERT INTO boundary VALUES (?, 9, 0)", [(f"shop-{n:06}",) for n in range(many)])
        sizes["a closed range"] = (_bytes(store) - nothing) / many
    return [(name, round(size, 1)) for name, size in sizes.items()]


def _bytes(store: Store) -> int:
    store.db.execute("VACUUM")
    return store.read("PRAGMA page_count")[0][0] * store.read("PRAGMA page_size")[0][0]


def closing(folder: Path) -> list[dict[str, float]]:
    """Milliseconds for closing a range and for a bare DELETE of it, as the range grows."""
    told = []
    for size in SIZES:
        mine, theirs = [], []
        filled(folder / "whole.db", 10 * size).close()
        for name in ("mine.db", "theirs.db"):
            shutil.copyfile(folder / "whole.db", folder / name)
        one, other = Retention(Store.open(folder / "mine.db")), bare(folder / "theirs.db")
        for epoch in range(1, 8):
            close = ("shop", epoch, 200)
            for times, call, arguments in (
                (mine, one.close_and_collect, close),
                (theirs, other.execute, (_DELETE, ("shop", epoch))),
            )[:: 1 if epoch % 2 else -1]:
                times.append(timed(call, *arguments))
        one.store.close()
        other.close()
        for name in ("whole.db", "mine.db", "theirs.db"):
            (folder / name).unlink()
        ratio = statistics.median(a / b for a, b in zip(mine, theirs, strict=True))
        middle = [statistics.median(times) / 1e6 for times in (mine, theirs)]
        told.append(
            {"receipts": size, "of": 10 * size, "closing ms": middle[0], "bare ms": middle[1], "ratio": ratio}
        )
    return [{name: round(value, 3) for name, value in row.items()} for row in told]
