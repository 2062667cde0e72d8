"""H-5: the disk that fails. Every call gets a clear error, and nothing is half done."""

import sqlite3
from types import SimpleNamespace

import pytest

from receiptlab import fixture
from receiptlab.contracts import retention
from receiptlab.errors import NotWritten
from receiptlab.hazards import diskfault, filesystem
from receiptlab.hazards.disk import Disk, Fault
from receiptlab.hazards.recording import ProvesNothing
from receiptlab.hazards.writing import Step, lives
from receiptlab.store import Store
from tests.broken import TwoTransactions

LIVES = {life.name: life for life in lives()}
WAL = filesystem.Setting("wal", "full")
WORDS = ("failed", "unknown", "answered")


def failing(name, setting=WAL, **life):
    """The four rows of a contract; with other parts of its life, if they are given."""
    return diskfault.run(settings=[setting], of=[LIVES[name]._replace(**life)])


def found(rows):
    return [(row["violations"], row["witness"]) for row in rows]


@pytest.mark.parametrize("name", LIVES)
def test_every_failure_is_told_and_nothing_is_half_done(name):
    rows = failing(name)
    assert found(rows) == [(0, "")] * 4
    assert [row["failure"] for row in rows] == [
        "full once",
        "full for good",
        "broken once",
        "broken for good",
    ]
    for row in rows:
        assert row["calls"] == len(LIVES[name].steps)
        assert row["faults"] == sum(row[word] for word in WORDS) > row["calls"]


@pytest.mark.parametrize("setting", [("wal", "full", 8), ("delete", "extra")])
def test_the_same_with_checkpoints_and_with_a_rollback_journal(setting):
    assert found(failing("receiver", setting)) == [(0, "")] * 4


def test_a_checkpoint_that_fails_takes_nothing_back():
    """The call was committed before; SQLite writes the WAL back at another time."""
    assert any(row["answered"] for row in failing("retention", ("wal", "full", 8)))


def test_a_commit_whose_sync_fails_is_unknown_and_can_be_there():
    rows = {row["failure"]: row for row in failing("retention")}
    assert rows["full once"]["unknown and there"] == 0
    assert rows["broken once"]["unknown and there"] > 0


def opening():
    return [diskfault.Trial(LIVES["work"], WAL, *each).run_opening() for each in diskfault.FAILURES]


def test_a_fixture_that_cannot_be_made_or_opened():
    """A file that could not be made was removed, and that is definite."""
    rows = opening()
    assert found(rows) == [(0, "")] * 4
    assert all(row["failed"] > 0 for row in rows)
    assert fixture.sqlite3 is sqlite3


# What the trial would notice


def on(kind):
    return lambda store: SimpleNamespace(store=store, retention=kind(store))


def test_a_call_in_two_transactions_is_found():
    for row in failing("retention", on=on(TwoTransactions)):
        assert row["violations"] > 0
        assert "an effect of an open epoch without exactly one receipt" in row["witness"]


def test_an_error_of_sqlite_that_comes_through_is_found(monkeypatch):
    class Raw(retention.Retention):
        def execute(self, *args):
            self.store.db.execute(f"PRAGMA application_id = {fixture.APPLICATION_ID}")
            return super().execute(*args)

    [full, *_] = failing("retention", on=on(Raw))
    assert "the caller got OperationalError" in full["witness"]


def test_a_store_that_takes_every_failure_for_definite_is_found(monkeypatch):
    monkeypatch.setattr(
        Store, "_translated", lambda self, error, committing=False: NotWritten("any", str(error))
    )
    rows = {row["failure"]: row for row in failing("retention")}
    assert "after failed: something was written" in rows["broken once"]["witness"]


def test_a_run_without_a_failure_and_one_without_an_end_prove_nothing(monkeypatch):
    with pytest.raises(ProvesNothing, match="no failure struck"):
        failing("owner", steps=(Step("look", lambda at: at.store.read("SELECT 1")),))
    monkeypatch.setattr(Fault, "__call__", lambda self, kind: setattr(self, "struck", 1))
    with pytest.raises(ProvesNothing, match="the failures have no end"):
        failing("owner", steps=LIVES["owner"].steps[:1])


def test_a_write_that_fails_is_half_done_and_strikes_when_it_should():
    disk = Disk({"a": b"...."})
    disk.before = Fault({"write": "SQLITE_FULL"}, 2, for_good=False)
    file = disk.open("a", create=False)
    disk.write(file, "a", 0, b"one!")
    with pytest.raises(Exception, match="SQLITE_FULL"):
        disk.write(file, "a", 0, b"two!")
    assert disk.files() == {"a": b"twe!"}
    disk.write(file, "a", 0, b"two!")
    assert disk.before.struck == 1


def test_errors_have_the_codes_of_the_standard_library():
    disk = Disk({"fixture.db": b""})
    db = filesystem.opened(disk, WAL)
    try:
        with pytest.raises(sqlite3.OperationalError, match="syntax error"):
            db.execute("nonsense")
        db.execute("CREATE TABLE t (a UNIQUE)")
        db.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(sqlite3.IntegrityError) as twice:
            db.execute("INSERT INTO t VALUES (1)")
        assert twice.value.sqlite_errorname == "SQLITE_CONSTRAINT_UNIQUE"
        assert twice.value.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE
    finally:
        db.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        db.execute("SELECT 1")
