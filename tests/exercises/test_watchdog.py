"""The time limit of a check, and the copies that a learner's code gets."""

import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from receiptlab.exercises import answers, watchdog
from receiptlab.exercises.number_identity import Apart, Number, apart, plain
from receiptlab.exercises.watchdog import TooLong, go_on, within

NEVER = 600.0


def test_what_a_call_returns_or_raises_comes_through():
    assert within(NEVER, lambda: 5) == 5
    assert within(None, lambda: threading.current_thread().name) == "receiptlab-check"
    for error in (KeyError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error):
            within(NEVER, lambda error=error: (_ for _ in ()).throw(error))


def running():
    return [thread for thread in threading.enumerate() if thread.name == "receiptlab-check"]


def test_a_call_that_loops_is_ended():
    before = running()

    def loops():
        while True:
            pass

    with pytest.raises(TooLong):
        within(0.1, loops)
    assert running() == before


def test_a_call_that_waits_for_a_lock_is_left_behind_asleep():
    lock, woken = threading.Lock(), threading.Event()
    lock.acquire()

    def waits():
        lock.acquire()
        woken.set()

    with pytest.raises(TooLong):
        within(0.1, waits)
    lock.release()


def test_a_call_that_makes_progress_is_not_stopped(monkeypatch):
    """Each wait of the watchdog lets the call do one step. No step takes part in the next wait."""
    step, made, waits, join = threading.Semaphore(0), threading.Semaphore(0), [], threading.Thread.join

    def wait(thread, timeout=None):
        waits.append(timeout)
        if len(waits) > 3:
            return join(thread, NEVER)
        step.release()
        made.acquire()

    def busy():
        for _ in range(3):
            step.acquire()
            go_on()
            made.release()
        return "ended"

    monkeypatch.setattr(watchdog._Thread, "join", wait)
    assert within(1.0, busy) == "ended"
    assert waits[:3] == [1.0] * 3
    go_on()  # outside of a check it does nothing


def test_only_an_answer_with_code_in_it_has_a_limit():
    assert answers._has_code(({"accept": ["fence", len]},))
    assert not answers._has_code((dict, {"accept": ["fence", 5]}, "accept"))


@dataclass(frozen=True)
class Row:
    fence: int
    name: str
    of: tuple


class Seen(NamedTuple):
    row: Row
    none: None
    flag: bool


def test_equal_numbers_of_two_copies_are_not_the_same_object():
    seen = Seen(Row(1, "order-17", (1, 2)), None, True)
    one, other = apart(seen), apart(seen)
    assert one == other == seen
    assert one.row.fence is not other.row.fence and one.row.of[0] is not other.row.of[0]
    assert one.none is None and one.flag is True
    assert type(plain(one).row.fence) is int and plain(one) == seen
    assert type(apart(SimpleNamespace(now=1)).now) is Number
    assert repr(one) == repr(seen)


def test_a_contract_takes_such_numbers_and_answers_with_them():
    class Contract:
        store = "its store"

        def get(self, work, *, fence):
            assert type(work) is type(fence) is int
            return Row(fence, "order-17", ())

    contract = Apart(Contract())
    assert contract.store == "its store"
    assert type(contract.get(Number(1), fence=Number(2)).fence) is Number
