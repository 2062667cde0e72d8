"""Real processes: they die where they are told to, wait where they are told to, and never hang a test."""

import os
import signal
import time
from pathlib import Path

import pytest

from receiptlab.contracts.retention import Retention
from receiptlab.errors import FileRefused
from receiptlab.faults.failpoints import failpoints_of
from receiptlab.faults.processes.children import FIRST_EXIT_CODE, Child, ChildFailed, exit_code
from receiptlab.scenarios.retention_runs import EXIT_CODES
from receiptlab.store import Store

CALL = {"namespace": "shop", "epoch": 1, "operation": "op-1", "payload": "pay 5", "now": 100}


@pytest.fixture
def path(tmp_path):
    Store.create(tmp_path / "receipts.db", Retention.SCHEMA).close()
    return tmp_path / "receipts.db"


def counts(path):
    with Store.open(path) as store:
        return Retention(store).counted()


@pytest.mark.parametrize("point", failpoints_of(Retention, "execute"))
def test_every_point_of_retention_ends_a_process_with_its_own_exit_code(path, point):
    with Child(Retention, path, "execute", CALL, die_at=point) as child:
        child.expect("READY").go().expect("CALLING")
        assert child.died() == exit_code(Retention, "execute", point)
    # A process that closes in good order writes the WAL back and removes it; a dead one cannot.
    assert Path(f"{path}-wal").exists()
    assert counts(path) == ((1, 1, 0) if point == "after_commit" else (0, 0, 0))


def test_no_two_points_share_an_exit_code():
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)
    assert min(EXIT_CODES.values()) == FIRST_EXIT_CODE
    assert max(EXIT_CODES.values()) < 126


def test_a_child_answers_like_the_contract(path):
    with Child(Retention, path, "execute", CALL) as child:
        child.expect("READY").go().expect("CALLING")
        told = child.outcome()
    assert told == {
        "word": "accepted",
        "reason": "",
        "fields": [],
        "answer": {"effect": 1, "executed_at": 100},
    }


def test_a_held_child_has_the_lock_and_loses_it_when_it_is_killed(path):
    with Child(Retention, path, "execute", CALL, hold_at="after_receipt") as child:
        child.expect("READY").go().expect("CALLING").expect("AT after_receipt")
        assert child.kill() == (-signal.SIGKILL if os.name != "nt" else 1)
    assert counts(path) == (0, 0, 0)


def test_a_hung_child_is_ended_and_named(path):
    with (
        Child(Retention, path, "execute", CALL, hold_at="before_commit", watchdog=1) as child,
        pytest.raises(ChildFailed, match=r"child retention execute: .* it hung and was killed after 1 s"),
    ):
        child.expect("READY").go().expect("CALLING").expect("AT before_commit").outcome()
    assert counts(path) == (0, 0, 0)


def test_a_child_that_somebody_else_kills_is_reported(path):
    with Child(Retention, path, "execute", CALL) as child:
        child.expect("READY")
        os.kill(child._process.pid, signal.SIGTERM)
        with pytest.raises(ChildFailed, match="it was killed by signal 15"):
            child.outcome()


def test_a_child_that_dies_elsewhere_is_told_with_what_it_printed(tmp_path):
    with (
        Child(Retention, tmp_path / "missing.db", "execute", CALL) as child,
        pytest.raises(
            ChildFailed, match=r"it should print 'READY'.*exit code 1; it printed: missing: .*missing\.db"
        ),
    ):
        child.expect("READY")


def test_a_child_that_says_something_else_is_not_waited_for(path):
    with (
        Child(Retention, path, "execute", CALL) as child,
        pytest.raises(ChildFailed, match="and printed 'READY'"),
    ):
        child.expect("AT before_commit")
    assert not child.hung  # it was killed at once, and not by its watchdog
    assert child._process.stdin.closed and child._process.stdout.closed and child._printed.closed


def test_a_child_that_does_not_die_at_its_point_is_reported(path):
    with Child(Retention, path, "execute", CALL, die_at="after_commit") as child:
        child.die_code = 99
        with pytest.raises(ChildFailed, match="it should die with exit code 99; it ended with exit code 44"):
            child.expect("READY").go().expect("CALLING").died()


def test_a_second_connection_of_one_process_does_not_cost_the_first_its_locks(path):
    """Two processes on one file. On POSIX, a file that is opened and closed beside SQLite loses the
    locks of the process: another process then takes itself for the last one and removes the WAL."""
    with Store.open(path) as store:
        mine = Retention(store)
        mine.execute(**CALL | {"operation": "op-0"})
        store.again().close()
        Store.open(path).close()
        with pytest.raises(FileRefused):
            Store.create(path, Retention.SCHEMA)
        with Child(Retention, path, "execute", CALL) as child:
            assert child.expect("READY").go().expect("CALLING").outcome()["word"] == "accepted"
        assert (path.parent / "receipts.db-wal").exists()
        assert mine.execute(**CALL | {"now": 200}).outcome == "replayed"
        assert mine.execute(**CALL | {"operation": "op-2", "now": 200}).outcome == "accepted"
        with Child(Retention, path, "execute", CALL | {"operation": "op-2"}) as child:
            assert child.expect("READY").go().expect("CALLING").outcome()["word"] == "replayed"
    assert counts(path) == (3, 3, 0)


def test_a_slow_parent_is_not_a_hung_child(path):
    with Child(Retention, path, "execute", CALL) as child:
        child.expect("READY").go().expect("CALLING")
        while child._process.poll() is None:
            time.sleep(0.01)
        child._bark()  # what its timer does when the time is up
        assert child.outcome()["word"] == "accepted"
        assert not child.hung
