"""H-3: SIGKILL at many moments, and that a writer which breaks its promise is found."""

import contextlib
import io
import os
import re
import signal
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from receiptlab.contracts.registry import CONTRACTS
from receiptlab.errors import LabError
from receiptlab.faults.processes import killed_program as killed
from receiptlab.faults.processes import kills
from receiptlab.faults.processes.children import ChildFailed
from receiptlab.store import Store

SAME = "identity, revision, processor, processor_revision"
BROKEN = Path(__file__).with_name("broken.py")

posix = pytest.mark.skipif(os.name != "posix", reason="this system has no SIGKILL")


def found(name, wrong, rounds=8):
    """Does a row of a few rounds show it? Where a kill strikes is not in our hands, so one may miss it."""
    for seed in range(rounds):
        [row] = kills.run(8, seed, contracts=("retention",), program=(str(BROKEN), name))
        if wrong(row):
            return True
    return False


@posix
def test_nothing_that_was_acknowledged_is_lost_and_nothing_is_doubled(monkeypatch):
    told, ended, finish = [], [], kills.KilledWriter.finish
    monkeypatch.setattr(kills.KilledWriter, "finish", lambda self: (finish(self), ended.append(self.name)))
    rows = kills.run(15, progress=lambda *done: told.append(done))
    assert [row["contract"] for row in rows] == list(kills.KEPT)
    for row in rows:
        assert (row["lost"], row["duplicated"], row["unasked"], row["wrong"]) == (0, 0, 0, []), row
        assert row["acknowledged"] > row["kills"] == 3
    assert ended == ["anna", "ben"] * 5  # else what was committed and not answered would be unasked
    assert told == [(contract, number, 3) for contract in kills.KEPT for number in (1, 2, 3)]


@posix
def test_a_writer_that_acknowledges_before_its_commit_is_found():
    assert found("Early", lambda row: row["lost"])


@posix
def test_a_receipt_in_a_second_transaction_is_found():
    """After the kill that struck, and in the end, since the effect is done a second time."""

    def wrong(row):
        return row["wrong"][:1] and re.match(r"after kill \d: not the same: \d+, \d+", row["wrong"][0])

    assert found("TwoTransactions", lambda row: wrong(row) and row["wrong"][-1].startswith("not the same"))


@posix
def test_a_writer_that_does_it_again_is_found():
    assert found("Forgetful", lambda row: row["duplicated"])


@posix
def test_without_synchronous_nothing_is_found_and_the_module_says_so():
    assert not found("Unsynced", lambda row: row["lost"] or row["duplicated"] or row["wrong"], rounds=1)
    assert "a file with `synchronous` off passes this too" in " ".join(kills.__doc__.split())


@posix
def test_a_writer_that_says_nothing_is_ended_and_named(monkeypatch, tmp_path):
    """When it is to be killed after its next answer, and when it is to end by itself."""
    monkeypatch.setattr(kills, "WATCHDOG_SECONDS", 0)
    writer = kills.KilledWriter("retention", tmp_path, "anna", ("-c", "import time; time.sleep(60)")).start()
    with pytest.raises(ChildFailed, match="writer anna: hung and was killed; it printed: nothing"):
        writer.kill(1, 0)
    with pytest.raises(ChildFailed, match=f"writer anna: ended with -{signal.SIGKILL}; it printed: nothing"):
        writer.finish()
    assert writer.process.poll() == -signal.SIGKILL
    assert writer.process.stdin.closed and writer.process.stdout.closed and writer.printed.closed


@posix
def test_a_writer_that_ends_by_itself_is_an_error_with_what_it_printed():
    with pytest.raises(ChildFailed, match=r"(?s)writer (anna|ben): ended with 1; it printed: .*KeyError"):
        kills.run(1, contracts=("retention",), program=(str(BROKEN), "nothing of that name"))


def change(path, *statements):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for sql in statements:
            db.execute(sql)


# What is counted, without a kill: calls that are made here, and a fault planted for each number.


def made(contract, tmp_path, pieces=3):
    """A file with these pieces of business, and the writer that was told of them."""
    path = tmp_path / "receipts.db"
    kind = CONTRACTS[contract]
    with Store.create(path, kind.SCHEMA) as store:
        business = killed.BUSINESS[contract]
        told = {number: business(kind(store), "anna", number, 1)[1] for number in range(1, pieces + 1)}
    return path, SimpleNamespace(name="anna", acknowledged=told, again=0)


def counted(contract, path, *writers):
    row = kills._reckoned(contract, path, list(writers))
    return tuple(row[name] for name in ("acknowledged", "lost", "duplicated", "unasked"))


@pytest.mark.parametrize("contract", kills.KEPT)
def test_what_is_acknowledged_and_not_there_or_there_and_not_acknowledged_is_counted(contract, tmp_path):
    path, anna = made(contract, tmp_path)
    ben = SimpleNamespace(name="ben", acknowledged={}, again=4)
    assert counted(contract, path, anna, ben) == (3, 0, 0, 0)
    assert kills._reckoned(contract, path, [anna, ben])["again"] == 4
    assert kills._unsound(contract, path) == []
    first = anna.acknowledged.pop(1)
    assert counted(contract, path, anna, ben) == (2, 0, 0, 1)
    ben.acknowledged[1] = first
    assert counted(contract, path, anna, ben) == (3, 1, 0, 1)
    anna.acknowledged |= {1: "another name", 4: 4}
    ben.acknowledged.clear()
    assert counted(contract, path, anna, ben) == (4, 2, 0, 1)


@pytest.mark.parametrize(
    ("contract", "sql"),
    [
        ("retention", "INSERT INTO effect SELECT NULL, namespace, epoch, operation, digest, 0 FROM effect"),
        ("work", f"INSERT INTO effect SELECT NULL, {SAME}, reference, 0 FROM effect"),
        ("intake", "INSERT INTO outbox SELECT NULL, topic, subject, 0 FROM outbox"),
    ],
)
def test_what_is_there_twice_is_counted(contract, sql, tmp_path):
    """In the other two a UNIQUE of the schema holds the key."""
    path, anna = made(contract, tmp_path)
    change(path, sql)
    assert counted(contract, path, anna)[2] == 3


UNEQUAL = {
    "owner": (
        "UPDATE work SET results = 0",
        "DELETE FROM receipt",
        "DELETE FROM outbox",
        "UPDATE work SET state = 'ready'",
    ),
    "retention": ("DELETE FROM effect", "DELETE FROM receipt"),
    "intake": (
        "DELETE FROM revision WHERE number = 1",
        "DELETE FROM outbox",
        "UPDATE receipt SET revisions = 2",
        "INSERT INTO receipt SELECT identity || 'x', 'live', '', '', '', '', 1, 0, 0, 0, 0, 1, 1, 1 FROM receipt",
    ),
    "work": (
        "UPDATE work SET state = 'dead'",
        "DELETE FROM effect",
        "DELETE FROM outbox WHERE topic = 'done'",
        "UPDATE attempt SET result = 'failed'",
        "UPDATE receipt SET unsettled = 1",
    ),
    "receiver": ("INSERT INTO refusal VALUES (NULL, 'anna', '9', 1, 'fence', 1, 1, 1)",),
}


@pytest.mark.parametrize(("contract", "sql"), [(name, sql) for name in UNEQUAL for sql in UNEQUAL[name]])
def test_each_of_the_equal_numbers_counts(contract, sql, tmp_path):
    path, _ = made(contract, tmp_path)
    change(path, sql)
    [wrong] = kills._unsound(contract, path)
    assert wrong.startswith("not the same: ")


def test_the_integrity_of_the_file_is_checked(tmp_path):
    path, _ = made("owner", tmp_path)
    change(path, "PRAGMA ignore_check_constraints = ON", "UPDATE work SET revoked = 7")
    assert kills._unsound("owner", path) == ["integrity: CHECK constraint failed in work"] * 3


def test_a_line_that_was_not_finished_was_not_said(tmp_path):
    writer = kills.KilledWriter("retention", tmp_path, "anna", ())
    writer._read(io.BytesIO(b'[1, "replayed", 7]\n[2, "replayed", 8]\n[3, "accepted", 9'))
    assert (writer.acknowledged, writer.again, writer.silent) == ({1: 7, 2: 8}, 1, True)
    writer._read(io.BytesIO(b'[3, "accepted", 9]\n[4, "replayed", 9]\n'))
    assert (len(writer.acknowledged), writer.again) == (4, 1)


def test_fewer_kills_than_contracts_are_refused():
    with pytest.raises(LabError, match="kills must be 2 or more, one for each contract, not 1"):
        kills.run(1, contracts=("owner", "work"))


def test_where_there_is_no_sigkill_nothing_is_run(monkeypatch):
    monkeypatch.delattr(signal, "SIGKILL", raising=False)
    with pytest.raises(LabError, match="kills need a POSIX system"):
        kills.run(5)
