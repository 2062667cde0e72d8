"""Intake against bare sqlite3, and letters in batches against one transaction each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from receiptlab.contracts import outbox
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.intake.items import FirstSeen, Redelivered, identity_of
from receiptlab.examples import mailbox
from receiptlab.examples.batches import BATCH, RETAIN, TOMBSTONE, take_in
from receiptlab.examples.mailbox import Letter
from receiptlab.store import Store
from receiptlab.values import sha256
from tools.bench_common import bare, rounds_of, rows, timed, verdict

DIGEST = sha256("please send five")
SCHEMA = (*Intake.SCHEMA, *mailbox.SCHEMA)
LETTERS = 20_000
FIRST, AGAIN, BATCHED = 1.3, 0.15, 0.2
"""The goals: a first delivery and a redelivery over the floor, batches over one transaction each."""

_CURRENT = """SELECT r.state, r.head, r.revisions, r.changed_at, h.digest, v.number, v.disposition, v.outcome
    FROM receipt r LEFT JOIN revision h ON h.identity = r.identity AND h.number = r.head
    LEFT JOIN revision v ON v.identity = r.identity AND v.digest = ?
    WHERE r.identity = ? ORDER BY v.number LIMIT 1"""
_RECEIPT = "INSERT INTO receipt VALUES (?, 'live', 'explicit', 'acme', 'inbox', ?, 1, 1, 0, 1, 0, ?, ?, ?)"
_REVISION = "INSERT INTO revision VALUES (?, 1, 'accepted', ?, ?, ?)"
_LETTER = """INSERT INTO letter (identity, revision, disposition, sender, subject, place, size, taken_in_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_OUTBOX = "INSERT INTO outbox (topic, subject, staged_at) VALUES (?, ?, ?)"


class Floor:
    """The floor of a first delivery: the same statements without a contract."""

    def __init__(self, path: Path) -> None:
        Store.create(path, SCHEMA).close()
        self.db = bare(path)

    def take(self, name: str) -> None:
        db, identity = self.db, identity_of("explicit", "acme", "inbox", name)
        db.execute("BEGIN IMMEDIATE")
        db.execute(_CURRENT, (DIGEST, identity)).fetchone()
        db.execute(_CURRENT, (DIGEST, identity)).fetchone()
        db.execute(_RECEIPT, (identity, name, RETAIN, TOMBSTONE, 0))
        db.execute(_REVISION, (identity, DIGEST, name, 0))
        db.execute(_LETTER, (identity, 1, "accepted", "ana@example.test", "Order", name, 300, 0))
        db.execute(_OUTBOX, ("letter", identity, 0))
        db.execute("COMMIT")


def measure(folder: Path, rounds: int) -> list[tuple[str, ...]]:
    """A first delivery with the consumer's row and its outbox row, and a redelivery, against the floor."""
    floor, second = Floor(folder / "floor.db"), Floor(folder / "second.db")
    intake = Intake(Store.create(folder / "intake.db", SCHEMA))

    def first(name: str) -> None:
        letter = _letter(name)
        with intake.store.write() as db:
            found = _classify(intake, name)
            assert isinstance(found, FirstSeen)
            staged = intake.stage_first(db, found, name, RETAIN, TOMBSTONE, 0)
            letter.write(db, staged, "accepted", 0)
            outbox.stage(db, "letter", staged.identity, 0)

    def again(name: str) -> None:
        assert isinstance(_classify(intake, name), Redelivered)

    calls = [("floor", floor.take), ("first delivery", first), ("floor again", second.take)]
    calls += [("redelivery", again)]
    times = rounds_of(calls, rounds, lambda names: None, shift=3)
    return rows(times, "floor", {"first delivery": FIRST, "redelivery": AGAIN})


def batching(folder: Path) -> list[tuple[str, ...]]:
    """Seconds to take in many small letters in batches, and with one transaction each."""
    seconds = {}
    for what, batch in {"one transaction each": 1, f"batches of {BATCH:,}": BATCH}.items():
        with Store.create(folder / f"{batch}.db", SCHEMA) as store:
            seconds[what] = timed(_all, store, batch) / 1e9
    single, many = seconds.values()
    told = ("", verdict(many / single, BATCHED))
    return [
        (what, f"{took:.2f}", f"{took / single:.3f}", goal)
        for (what, took), goal in zip(seconds.items(), told, strict=True)
    ]


BATCHING_COLUMNS = (f"{LETTERS:,} letters", "seconds", "over one transaction each", "goal")


def _all(store: Store, batch: int) -> None:
    report = take_in(store, Intake(store), _letters(), batch, now=0)
    assert report.first_seen == LETTERS


def _letters() -> Iterator[Letter]:
    for number in range(LETTERS):
        yield _letter(f"<{number}@example.test>")


def _letter(name: str) -> Letter:
    about = {"sender": "ana@example.test", "subject": "Order", "size": 300}
    return Letter(place=name, tenant="acme", namespace="inbox", key=name, digest=DIGEST, **about)


def _classify(intake: Intake, name: str) -> object:
    return intake.classify("explicit", "acme", "inbox", name, DIGEST)
