"""H-5: the disk that fails. Every call gets a clear error, and nothing is half done."""

import contextlib
import sqlite3
from types import SimpleNamespace

import pytest

from receiptlab import database_file
from receiptlab.contracts import retention
from receiptlab.errors import Indefinite, LabError, NotWritten, Refused
from receiptlab.faults.disk import expected_steps as expecting
from receiptlab.faults.disk import io_errors as diskfault
from receiptlab.faults.disk import opening
from receiptlab.faults.disk import vfs as filesystem
from receiptlab.faults.disk.log import Disk, DiskFault, Fault
from receiptlab.faults.disk.recorder import ProvesNothing
from receiptlab.faults.disk.reopening import Found
from receiptlab.faults.disk.workloads import CallStep, lives
from receiptlab.outcomes import Outcome
from receiptlab.store import Store
from tests.faults.broken import TwoTransactions

LIVES = {workload.name: workload for workload in lives()}
WAL = filesystem.Setting("wal", "full")
WORDS = ("failed", "unknown", "answered")
EXECUTE = LIVES["retention"].steps[:1]


def failing(name, setting=WAL, **workload):
    """The four rows of a contract; with other parts of its life, if they are given."""
    return diskfault.run(settings=[setting], of=[LIVES[name]._replace(**workload)])


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


def test_a_full_run_has_every_setting_and_tells_how_far_it_is():
    told, lives = [], [LIVES["retention"]._replace(steps=EXECUTE)]
    rows = diskfault.run("full", lambda *done: told.append(done), of=lives)
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert [row["setting"] for row in rows[::4]] == [
        str(filesystem.Setting(*each)) for each in diskfault.SETTINGS
    ]


def test_a_checkpoint_that_fails_takes_nothing_back():
    """The call was committed before; SQLite writes the WAL back at another time."""
    assert any(row["answered"] for row in failing("retention", ("wal", "full", 8)))


def test_a_commit_whose_sync_fails_is_unknown_and_can_be_there():
    rows = {row["failure"]: row for row in failing("retention")}
    assert rows["full once"]["unknown and there"] == 0
    assert rows["broken once"]["unknown and there"] > 0


def opening_rows():
    return [diskfault.Trial(LIVES["work"], WAL, *each).run_opening() for each in diskfault.FAILURES]


def test_a_file_that_cannot_be_made_or_opened():
    """A file that could not be made was removed, and that is definite."""
    rows = opening_rows()
    assert found(rows) == [(0, "")] * 4
    assert all(row["failed"] > 0 for row in rows)
    assert database_file.sqlite3 is sqlite3


def unclear(real, *arguments):
    try:
        return real(*arguments)
    except NotWritten as error:
        raise Indefinite(error.reason, "nobody knows") from error


def raw(real, *arguments):
    try:
        return real(*arguments)
    except LabError:
        raise KeyError("store") from None


def half_made(real, path, schema):
    store = real(path, schema)
    with contextlib.suppress(sqlite3.Error):
        store.db.execute("PRAGMA application_id = 1")
    return store


def stuck(real, path):
    """Once it failed it does so for ever."""
    if path in stuck.failed:
        raise NotWritten("stuck", "no")
    try:
        return real(path)
    except LabError:
        stuck.failed.append(path)
        raise


def rewriting(real, path):
    store = real(path)
    store.db.execute("CREATE TABLE more (x)")
    return store


OPENINGS = [
    ("create", unclear, "the outcome doesn't say whether there is a file"),
    ("create", raw, "the caller got KeyError: 'store'"),
    ("create", half_made, "application-id"),
    ("open", raw, "the caller got KeyError: 'store'"),
    ("open", stuck, "opened again, it ended as failed"),
    ("open", rewriting, "the file has other contents"),
]


@pytest.mark.parametrize(("call", "change", "why"), OPENINGS)
def test_a_planted_mistake_in_making_or_opening_is_found(monkeypatch, call, change, why):
    stuck.failed = []
    trial = diskfault.Trial(LIVES["receiver"], WAL, "broken", False)
    real = getattr(Store, call)
    planted = SimpleNamespace(create=Store.create, open=Store.open)
    setattr(planted, call, lambda *arguments: change(real, *arguments))
    monkeypatch.setattr(opening, "Store", planted)
    name = f"Store.{call}"
    monkeypatch.setattr(opening, "TRIALS", {name: opening.TRIALS[name]})
    assert why in trial.run_opening()["witness"]


def test_a_file_that_is_left_behind_is_found(monkeypatch):
    monkeypatch.setattr(database_file, "remove", lambda path: None)
    row = diskfault.Trial(LIVES["receiver"], WAL, "broken", False).run_opening()
    assert "Store.create" in row["witness"]
    assert "after failed: a file was left behind" in row["witness"]


# What the trial would notice: a fault is planted for each thing that it looks at


def test_every_end_of_a_call_is_compared_with_what_is_in_the_file():
    step, moments = EXECUTE[0], ("before", "between", "after")
    expected = expecting.ExpectedStep(step, {}, moments, ("accepted", ""), ("replayed", ""), "twice")

    def wrong(word, *found, parts=1):
        return expected._replace(step=step._replace(parts=parts)).wrong(Outcome(word), Found(*found))

    assert wrong("failed", "", "", (), "before") == ""
    assert wrong("failed", "", "", (), "after") == "after failed: something was written"
    assert wrong("failed", "", "", (), "between", parts=2) == ""
    for moment in moments:
        assert wrong("unknown", "", "", (), moment) == ""
    assert wrong("accepted", "", "", (), "after") == ""
    assert wrong("accepted", "", "", (), "before") == "after accepted: not all of it was written"
    assert wrong("unknown", "", "", (), "another") == "after unknown: the file holds what it never held"
    assert wrong("unknown", "missing") == "after unknown: missing"
    assert wrong("unknown", "", "torn") == "after unknown: torn"
    assert wrong("unknown", "", "", ("a rule", "another"), "before") == "after unknown: a rule"
    look = expected._replace(step=CallStep("get", lambda at: None, parts=2))
    assert look.made_again("between", None) == ""  # a part of it is there: any end is right
    assert look.made_again("after", None) == "made again, it ended as accepted , not as replayed "


def on(kind):
    return lambda store: SimpleNamespace(store=store, retention=kind(store))


def test_a_call_in_two_transactions_is_found():
    for row in failing("retention", on=on(TwoTransactions)):
        assert row["violations"] > 0
        assert "an effect of an open epoch without exactly one receipt" in row["witness"]


class Optimist(retention.Retention):
    """It answers that all went well, whatever happened."""

    def execute(self, *args):
        try:
            return super().execute(*args)
        except LabError:
            return retention.Executed(1, args[-1])


class NoteOfFailure(retention.Retention):
    """A call that failed leaves another one in the file."""

    def execute(self, namespace, epoch, operation, payload, now):
        try:
            return super().execute(namespace, epoch, operation, payload, now)
        except LabError:
            super().execute(namespace, epoch, f"{operation} failed", payload, now)
            raise


class Remembers(retention.Retention):
    """The object that failed once answers otherwise the next time; a new one does not."""

    failed = False

    def execute(self, *args):
        if self.failed:
            return retention.Executed(1, args[-1], "replayed")
        try:
            return super().execute(*args)
        except LabError:
            self.failed = True
            raise


class FallsOver(Remembers):
    """The next time it raises an error that no caller knows."""

    def execute(self, *args):
        if self.failed:
            raise KeyError("state")
        return super().execute(*args)


class DoesLess(Remembers):
    """The next time it answers rightly and leaves something else in the file."""

    def execute(self, *args):
        failed, self.failed = self.failed, False
        return super().execute(*args[:-1], args[-1] + failed)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Optimist, "after accepted: not all of it was written"),
        (NoteOfFailure, "after failed: the file holds what it never held"),
        (Remembers, "made again, it ended as replayed , not as accepted"),
        (FallsOver, "made again, the caller got KeyError: 'state'"),
        (DoesLess, "made again, it left another result"),
    ],
)
def test_a_contract_that_takes_a_failure_badly_is_found(kind, why):
    """What the connection does that failed, and what is in the file, are looked at each by itself."""
    full, for_good, *_ = failing("retention", steps=EXECUTE, on=on(kind))
    assert full["violations"] > 0
    assert why in full["witness"]
    if kind is FallsOver:  # it is asked again on a disk that still fails, too
        assert why in for_good["witness"]


class KnowsItsOwn(retention.Retention):
    """It answers again only what the same object was asked before; a restarted process refuses."""

    asked = False

    def execute(self, *args):
        before, self.asked = self.asked, True
        done = super().execute(*args)
        if done.outcome == "replayed" and not before:
            raise Refused("unknown", "that was somebody else")
        return done


def test_a_retry_that_only_the_same_process_gets_right_is_found():
    rows = {row["failure"]: row for row in failing("retention", steps=EXECUTE, on=on(KnowsItsOwn))}
    assert "made again, it ended as refused unknown, not as replayed" in rows["broken once"]["witness"]


def test_a_transaction_that_stays_open_is_found(monkeypatch):
    """SQLite rolls back by itself after most errors, but not where a journal cannot be opened."""
    monkeypatch.setattr(Store, "_roll_back", lambda self: None)
    rows = {row["failure"]: row for row in failing("retention", ("delete", "extra"), steps=EXECUTE)}
    assert "after failed: a transaction is still open" in rows["broken once"]["witness"]


class WritesAtTheEnd(Store):
    """A store that writes when it is closed."""

    last = ""

    def close(self):
        with contextlib.suppress(sqlite3.Error):
            self.db.execute(self.last)
        super().close()


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ("UPDATE receipt SET digest = 'x'", "a receipt without exactly one effect"),
        ("UPDATE effect SET executed_at = 5", "it holds what it never held"),
        ("PRAGMA application_id = 1", "application-id"),
    ],
)
def test_what_is_written_when_the_connection_is_closed_is_found(monkeypatch, last, why):
    monkeypatch.setattr(WritesAtTheEnd, "last", last)
    monkeypatch.setattr(expecting, "Store", WritesAtTheEnd)
    [full, *_] = failing("retention", steps=EXECUTE)
    assert full["witness"].endswith(f"after the connection was closed: {why}")


def test_an_error_of_sqlite_that_comes_through_is_found(monkeypatch):
    class Raw(retention.Retention):
        def execute(self, *args):
            self.store.db.execute(f"PRAGMA application_id = {database_file.APPLICATION_ID}")
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
        failing("owner", steps=(CallStep("get", lambda at: at.store.read("SELECT 1")),))
    monkeypatch.setattr(Fault, "__call__", lambda self, kind: setattr(self, "struck", 1))
    with pytest.raises(ProvesNothing, match="the failures never end"):
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


def test_a_failure_for_good_strikes_from_its_operation_on():
    fault, struck = Fault({"write": "SQLITE_FULL"}, 2, for_good=True), []
    for kind in ("write", "sync", "write", "sync", "write"):
        with contextlib.suppress(DiskFault):
            fault(kind)
        struck.append(fault.struck)
    assert struck == [0, 0, 1, 1, 2]


OPERATIONS = {
    "write": lambda disk: disk.write(1, "a", 1, b"xy"),
    "truncate": lambda disk: disk.truncate(1, "a", 1),
    "sync": lambda disk: disk.sync(1, "a", folder=True),
    "open": lambda disk: disk.open("b", create=True),
    "delete": lambda disk: disk.delete("a", folder=True),
}
DONE = {
    "write": ({"a": b".xy"}, ["write of 2 bytes at 1 of a"]),
    "truncate": ({"a": b"."}, ["truncate of a to 1 bytes"]),
    "sync": ({"a": b"..."}, ["sync a", "folder-sync a"]),
    "open": ({"a": b"...", "b": b""}, ["create b"]),
    "delete": ({}, ["delete a", "folder-sync a"]),
}


@pytest.mark.parametrize("kind", diskfault.BROKEN)
def test_each_operation_of_the_disk_is_written_down_and_can_fail(kind):
    disk = Disk({"a": b"..."})
    disk.before = Fault(diskfault.BROKEN, 1, for_good=False)
    with pytest.raises(DiskFault, match=diskfault.BROKEN[kind]):
        OPERATIONS[kind](disk)
    assert (disk.files(), disk.log) == ({"a": b".x." if kind == "write" else b"..."}, [])
    OPERATIONS[kind](disk)
    assert (disk.files(), [str(event) for event in disk.log]) == DONE[kind]


def test_a_file_is_made_only_where_that_was_asked_for():
    disk = Disk()
    assert disk.open("a", create=False) is None
    assert disk.delete("a", folder=True) is False
    assert disk.open("a", create=True) == disk.open("a", create=False) != disk.open(None, create=True)
    assert (disk.files(), len(disk.log)) == ({"a": b""}, 1)
    assert disk.delete("a", folder=False) is True
    assert [event.kind for event in disk.log] == ["create", "delete"]
    assert disk.open("a", create=True) == 3  # another file of the same name


def test_errors_have_the_codes_of_the_standard_library():
    disk = Disk({"receipts.db": b""})
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
