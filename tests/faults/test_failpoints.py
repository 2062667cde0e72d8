"""H-1 and H-2: the failures that are made inside the process."""

import pytest

from receiptlab.contracts.owner import Owner
from receiptlab.errors import Indefinite, InjectedFault, NotWritten, Refused
from receiptlab.faults.failpoints import crash_at, failing, failpoints_of, fault
from tests.conftest import RESULT, WORK


def test_an_accepted_call_comes_to_every_listed_point_in_order(owner):
    with crash_at(owner.store, "nowhere") as reached:
        owner.accept(**RESULT)
    assert tuple(reached) == failpoints_of(Owner, "accept")


def test_a_replay_comes_to_the_last_two_points_and_a_refused_call_to_none(owner):
    owner.accept(**RESULT)
    with crash_at(owner.store, "nowhere") as reached:
        owner.accept(**RESULT)
        with pytest.raises(Refused):
            owner.accept(**RESULT | {"fence": 7})
    assert reached == ["before_commit", "after_commit"]
    assert failpoints_of(Owner, "get") == ()


@pytest.mark.parametrize("point", failpoints_of(Owner, "accept"))
def test_a_crash_point_stops_there_and_is_unknown_to_the_caller(owner, point):
    with crash_at(owner.store, point) as reached, pytest.raises(InjectedFault) as stopped:
        owner.accept(**RESULT)
    assert reached[-1] == stopped.value.reason == point
    assert isinstance(stopped.value, Indefinite)
    assert owner.counted() == ((1, 1, 1) if point == "after_commit" else (0, 0, 0))
    assert owner.accept(**RESULT).outcome == ("replayed" if point == "after_commit" else "accepted")
    assert owner.counted() == (1, 1, 1)


@pytest.mark.parametrize("table", ["receipt", "outbox"])
def test_a_failing_statement_leaves_the_file_as_it_was(owner, table):
    before = owner.get(**WORK)
    with failing(owner.store, "insert", table), pytest.raises(NotWritten, match="SQLITE_CONSTRAINT_TRIGGER"):
        owner.accept(**RESULT)
    assert (owner.counted(), owner.get(**WORK)) == ((0, 0, 0), before)
    assert owner.accept(**RESULT).outcome == "accepted"


def test_a_fault_is_gone_afterwards_and_the_file_never_knew(owner):
    schema = owner.store.read("SELECT name FROM sqlite_schema ORDER BY name")
    with fault(owner.store, "insert:outbox"):
        assert owner.store.read("SELECT name FROM sqlite_schema ORDER BY name") == schema
    with fault(owner.store, "before_commit"):
        pass
    assert owner.accept(**RESULT).outcome == "accepted"


def test_an_unknown_statement_is_refused(owner):
    with pytest.raises(ValueError, match="statement must be one of"), failing(owner.store, "select", "work"):
        pass
