"""Checks of a naive version that a learner fixes: cut it off, and let another try run in between."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from receiptlab.errors import InjectedFault
from receiptlab.exercises.answers import NotYet, called, checks, filled, must_return
from receiptlab.interleaving.stepper import short
from receiptlab.outcomes import Outcome
from receiptlab.scenarios.naive import Naive
from receiptlab.store import FAILPOINTS, Store, Transaction
from receiptlab.values import sha256

CALL = ("key-1", sha256("result 1"))
ONCE = (1, 1, 1)
MOST = 10
"""Maximum number of transactions of one call that are cut off."""
WRITING = ("INSERT", "UPDATE", "DELETE", "REPLACE", "WITH")


@checks
def cut_off(answer: Callable[..., object]) -> str:
    """Your function writes a result, its receipt and its message. `answer(naive, key, digest)` is called when
    the key has no receipt yet. It is cut off before and after each of its commits, and called again.

    In the end there must be one result with one receipt and one message.
    """
    write = filled(answer, Callable, "a function")
    return _cut_off(lambda naive, key, digest: naive.saved(key) or write(naive, key, digest))


@checks
def at_once(answer: Callable[..., object]) -> str:
    """Your function returns the receipt of the key. If there is none, it writes result, receipt and message
    first. Another try of the same call runs just before each transaction of `answer(naive, key, digest)`.

    In the end there must be one result with one receipt and one message, also if the call is cut off, and
    every caller must get the receipt.
    """
    _cut_off(filled(answer, Callable, "a function"))
    for number in range(1, MOST + 1):
        with _naive() as naive, _rival(naive, answer, number) as tries:
            given = called("", answer, naive, *CALL)
            if not tries:
                break
            _must_be_once(naive, given, f"another try runs before transaction {number} of your call: ", True)
    with _naive() as naive:
        _must_be_once(naive, called("", answer, naive, *CALL), "called for the first time: ", True)
    return "there is one effect and every caller gets the receipt, wherever another try runs"


def _cut_off(accept: Callable[..., object]) -> str:
    with _naive() as naive, _writes_outside(naive.store) as outside:
        _must_be_once(naive, called("", accept, naive, *CALL), "called once: ")
        _must_be_once(naive, called("", accept, naive, *CALL), "called again with the same key: ", True)
    places = [(point, number) for number in range(1, MOST + 1) for point in FAILPOINTS]
    cuts = [place for place in places if _cut(accept, *place)]
    if not cuts:
        raise NotYet("nothing is written with `with naive.store.write() as db`")
    if outside:
        raise NotYet(
            f"{outside[0]} runs outside `with naive.store.write()`; a crash can strike before the rest"
        )
    return f"cut off at {len(cuts)} points and called again, there is one result, receipt and message"


def _cut(accept: Callable[..., object], point: str, number: int) -> bool:
    """Cut the call off where it reaches this point for this time. Returns whether it got there."""
    with _naive() as naive:
        reached: list[str] = []

        def failpoint(here: str) -> None:
            reached.append(here)
            if here == point and reached.count(point) == number:
                raise InjectedFault(point)

        naive.store.failpoint = failpoint
        given = called("", accept, naive, *CALL)
        if reached.count(point) < number:
            return False
        naive.store.failpoint = reached.append
        cut = f"cut off {point.replace('_', ' ')} of transaction {number}"
        if given.word != "unknown":
            raise NotYet(f"{cut}, your function catches the fault and goes on; a dead process cannot do that")
        _must_be_once(naive, called("", accept, naive, *CALL), f"{cut} and called again: ")
    return True


@contextlib.contextmanager
def _naive() -> Iterator[Naive]:
    with contextlib.closing(Store.temporary(Naive.SCHEMA, timeout_ms=100)) as store:
        yield Naive(store)


@contextlib.contextmanager
def _writes_outside(store: Store) -> Iterator[list[str]]:
    """Collects the statements that write outside a `with store.write()` block, in a word or two each."""
    outside: list[str] = []

    def trace(sql: str) -> None:
        if store._transaction.frame is None and sql.split(maxsplit=1)[0].upper() in WRITING:
            outside.append(short(sql))

    store.db.set_trace_callback(trace)
    try:
        yield outside
    finally:
        store.db.set_trace_callback(None)


@contextlib.contextmanager
def _rival(naive: Naive, accept: Callable[..., object], number: int) -> Iterator[list[Outcome]]:
    """Make the same call on a second connection just before this transaction of the first one begins."""
    begun, tries = [], []
    with contextlib.closing(naive.store.again()) as other:

        def write() -> Transaction:
            begun.append(number)
            if len(begun) == number:
                tries.append(called("", accept, Naive(other), *CALL))
            return Store.write(naive.store)

        naive.store.write = write
        yield tries


def _must_be_once(naive: Naive, given: Outcome, when: str, receipt: bool = False) -> None:
    """Raises NotYet unless the call returned, with its receipt where that is asked, and had one effect."""
    must_return(given, when)
    if naive.counted() != ONCE:
        raise NotYet(f"{when}results, receipts and messages are {naive.counted()}, not {ONCE}")
    if receipt and given.facts() != {"result_digest": CALL[1]}:
        raise NotYet(f"{when}your function does not return the receipt")
