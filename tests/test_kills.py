"""H-3: SIGKILL at many moments, and that a writer which breaks its promise is found."""

import os
import signal
from pathlib import Path

import pytest

from receiptlab.errors import LabError
from receiptlab.hazards import kills
from receiptlab.hazards.children import ChildFailed

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
def test_nothing_that_was_acknowledged_is_lost_and_nothing_is_doubled():
    told = []
    rows = kills.run(15, progress=lambda *done: told.append(done))
    assert [row["contract"] for row in rows] == list(kills.KEPT)
    for row in rows:
        assert (row["lost"], row["doubled"], row["unasked"], row["wrong"]) == (0, 0, 0, []), row
        assert row["acknowledged"] > row["kills"] == 3
    assert told == [(contract, number, 3) for contract in kills.KEPT for number in (1, 2, 3)]


@posix
def test_a_writer_that_acknowledges_before_its_commit_is_found():
    assert found("Early", lambda row: row["lost"])


@posix
def test_a_receipt_in_a_second_transaction_is_found():
    assert found("TwoTransactions", lambda row: any("not the same" in what for what in row["wrong"]))


@posix
def test_a_writer_that_does_it_again_is_found():
    assert found("Forgetful", lambda row: row["doubled"])


@posix
def test_without_synchronous_nothing_is_found_and_the_module_says_so():
    assert not found("Unsynced", lambda row: row["lost"] or row["doubled"] or row["wrong"], rounds=1)
    assert "a file with `synchronous` off passes all of this too" in " ".join(kills.__doc__.split())


@posix
def test_a_writer_that_ends_by_itself_is_an_error_with_what_it_printed():
    with pytest.raises(ChildFailed, match=r"(?s)writer (anna|ben): ended with 1; it printed: .*KeyError"):
        kills.run(1, contracts=("retention",), program=(str(BROKEN), "nothing of that name"))


def test_where_there_is_no_sigkill_nothing_is_run(monkeypatch):
    monkeypatch.delattr(signal, "SIGKILL", raising=False)
    with pytest.raises(LabError, match="kills need a POSIX system"):
        kills.run(1)
