"""The database file: created once, opened only if the lab made it, written in one way (F-1, F-2, F-3,
F-5)."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

from receiptlab.contracts.owner import SCHEMA, Owner
from receiptlab.database_file import APPLICATION_ID, SCHEMA_VERSION
from receiptlab.experiment.experiment import Experiment
from receiptlab.experiment.run import Recorder, Run
from receiptlab.outcomes import Outcome, attempt, mismatches
from receiptlab.sqlite_version import wal_reset_defect
from receiptlab.store import Store

VERSIONS = {
    (3, 6, 23): "no",
    (3, 7, 0): "yes",
    (3, 40, 1): "yes",
    (3, 44, 5): "yes",
    (3, 44, 6): "no",
    (3, 50, 6): "yes",
    (3, 50, 7): "no",
    (3, 51, 2): "yes",
    (3, 51, 3): "no",
}


def _note(record: Recorder, call: str, outcome: Outcome, wanted: str) -> None:
    """Record one step without counts. `wanted` is the expected outcome with its reason."""
    word, _, reason = wanted.partition(" ")
    expect = {"outcome": word, "reason": reason}
    wrong = mismatches(expect, "", outcome, ())
    record.add("operator", call, None, outcome.word, reason=outcome.reason, expect=expect, wrong=wrong)


def _close(outcome: Outcome) -> Outcome:
    if isinstance(outcome.answer, Store):
        outcome.answer.close()
    return outcome


def created_once() -> Run:
    """A path where something exists is never written to (F-1)."""
    record = Recorder(
        "creating a database file never overwrites anything", name="created-once", clauses=("F-1",)
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "receipts.db"
        _note(record, "create", _close(attempt(Store.create, path, SCHEMA)), "accepted")
        before = path.read_bytes()
        _note(record, "create again", _close(attempt(Store.create, path, SCHEMA)), "failed exists")
        same = "unchanged" if path.read_bytes() == before else "changed"
        _note(record, "compare the file", Outcome("read", same), "read unchanged")
        _note(record, "open", _close(attempt(Store.open, path)), "accepted")
    return record.run()


def _other(path: Path, application_id: int, version: int) -> None:
    db = sqlite3.connect(path)
    db.executescript(
        f"PRAGMA application_id = {application_id}; PRAGMA user_version = {version}; CREATE TABLE t (a)"
    )
    db.close()


def only_database_files_are_opened() -> Run:
    """Any file that the lab didn't make is refused by name and left unchanged (F-2)."""
    record = Recorder(
        "only the lab's database files are opened", name="only-database-files-are-opened", clauses=("F-2",)
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        here = Path(folder)
        (here / "empty").touch()
        (here / "text").write_text("SQLite is what this text is about.\n" * 9)
        _other(here / "application", APPLICATION_ID + 1, SCHEMA_VERSION)
        _other(here / "version", APPLICATION_ID, SCHEMA_VERSION + 1)
        before = {path: path.read_bytes() for path in here.iterdir()}
        refused = {
            "nothing": "missing",
            ".": "not-a-file",
            "empty": "empty",
            "text": "not-sqlite",
            "application": "application-id",
            "version": "schema-version",
        }
        for name, reason in refused.items():
            _note(record, f"open {name}", _close(attempt(Store.open, here / name)), f"failed {reason}")
        same = "unchanged" if {path: path.read_bytes() for path in here.iterdir()} == before else "changed"
        _note(record, "compare the files", Outcome("read", same), "read unchanged")
    return record.run()


def one_way_to_write() -> Run:
    """The settings of a connection, and three transactions that fail (F-3)."""
    lab = Experiment(Owner, "settings, and transactions that fail", name="one-way-to-write", clauses="F-3")
    for pragma, wanted in {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "secure_delete": 1,
    }.items():
        value = lab.store.read(f"PRAGMA {pragma}")[0][0]
        lab.note(
            "operator",
            pragma,
            None,
            Outcome("read", str(value)),
            expect={"outcome": "read", "reason": str(wanted)},
        )
    for name, reason in {
        "statement": "SQLITE_CONSTRAINT_NOTNULL",
        "commit": "SQLITE_CONSTRAINT_FOREIGNKEY",
    }.items():
        failed = {"outcome": "failed", "reason": reason, "counts": [0, 0, 0]}
        lab.step("operator", f"a failing {name}", None, _write_badly, lab.store, name, expect=failed)
    stopped = {"outcome": "unknown", "reason": "before_commit", "counts": [0, 0, 0]}
    lab.step(
        "operator",
        "stopped before commit",
        None,
        _write_well,
        lab.store,
        fault="before_commit",
        expect=stopped,
    )
    lab.step(
        "operator",
        "the next transaction",
        None,
        _write_well,
        lab.store,
        expect={"outcome": "accepted", "counts": [1, 0, 0]},
    )
    return lab.run


_INSERT = (
    "INSERT INTO work VALUES ('shop', 'order-17', 1, 1, 'policy-1', 0, 0, NULL, NULL, 'ready', 'open', 1, 0)"
)


_ORPHAN = "INSERT INTO receipt VALUES (1, 'shop', 'key-1', 'order-99', '{}', 'digest', 2, 'digest', 0)"


def _write_well(store: Store) -> None:
    with store.write() as db:
        db.execute(_INSERT)


def _write_badly(store: Store, where: str) -> None:
    with store.write() as db:
        db.execute(_INSERT)
        if where == "statement":
            db.execute("INSERT INTO outbox (topic) VALUES (NULL)")
        db.execute("PRAGMA defer_foreign_keys = ON")
        db.execute(_ORPHAN)


def wal_reset_range() -> Run:
    """Which SQLite versions have the WAL-reset defect (F-5)."""
    record = Recorder("which versions have the WAL-reset defect", name="wal-reset-range", clauses=("F-5",))
    for version, expected in VERSIONS.items():
        answer = Outcome("read", "yes" if wal_reset_defect(version) else "no")
        _note(record, ".".join(map(str, version)), answer, f"read {expected}")
    return record.run()


SCENARIOS = (created_once, only_database_files_are_opened, one_way_to_write, wal_reset_range)
