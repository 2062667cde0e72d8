"""Checks of a naive version that a learner mends: it is cut off, and another try gets in between."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from receiptlab.errors import InjectedFault
from receiptlab.exercises.answers import NotYet, checks, filled, raised
from receiptlab.exercises.watchdog import go_on
from receiptlab.interleaving.stepper import short
from receiptlab.outcomes import Outcome, attempt
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
    return _cut_off(_looking(filled(answer, Callable, "a function")))


@checks
def at_once(answer: Callable[..., object]) -> str:
    """Your function returns the receipt of the key, and writes result, receipt and message first where there
    is none. Another try of the same call is made whole just before each transaction of
    `answer(naive, key, digest)`.

    In the end there must be one result with one receipt and one message, also where the call is cut off, and
    every caller must have got the receipt.
    """
    _cut_off(filled(answer, Callable, "a function"))
    for number in range(1, MOST + 1):
        with _naive() as naive, _rival(naive, answer, number) as tries:
            given = _made(answer, naive)
            if not tries:
                break
            when = f"another try comes before transaction {number} of your call"
            _must_be_once(naive, when)
            _must_be_replayed(given, when)
    with _naive() as naive:
        _must_be_replayed(_made(answer, naive), "called for the first time")
    return "there is one effect and every caller gets the receipt, wherever another try comes in"


def _looking(write: Callable[..., object]) -> Callable[..., object]:
    def accept(naive: Naive, key: str, digest: str) -> object:
        return naive.saved(key) or write(naive, key, digest)

    return accept


def _cut_off(accept: Callable[..., object]) -> str:
    with _naive() as naive, _watched(naive.store) as outside:
        _ended(_made(accept, naive), "called once")
        _must_be_once(naive, "called once")
        again = _made(accept, naive)
        _must_be_once(naive, "called again with the same key")
        _must_be_replayed(again, "called again with the same key")
    cuts = [
        (point, number)
        for number in range(1, MOST + 1)
        for point in FAILPOINTS
        if _cut(accept, point, number)
    ]
    if not cuts:
        raise NotYet("nothing is written with `with naive.store.write() as db`")
    if outside:
        raise NotYet(
            f"{outside[0]} runs outside of `with naive.store.write()`; a crash can strike before the rest"
        )
    return f"cut off at {len(cuts)} points and called again, there is one result, receipt and message"


def _cut(accept: Callable[..., object], point: str, number: int) -> bool:
    """Whether the call came to this point for this time, and was cut off there."""
    with _naive() as naive:
        reached: list[str] = []

        def failpoint(here: str) -> None:
            reached.append(here)
            if here == point and reached.count(point) == number:
                raise InjectedFault(point)

        naive.store.failpoint = failpoint
        given = _made(accept, naive)
        if reached.count(point) < number:
            return False
        naive.store.failpoint = reached.append
        cut = f"cut off {point.replace('_', ' ')} of transaction {number}"
        if given.word != "unknown":
            raise NotYet(
                f"{cut}, your function catches the fault and goes on; a process that ended cannot do that"
            )
        when = f"{cut} and called again"
        _ended(_made(accept, naive), when)
        _must_be_once(naive, when)
    return True


@contextlib.contextmanager
def _naive() -> Iterator[Naive]:
    with contextlib.closing(Store.temporary(Naive.SCHEMA, timeout_ms=100)) as store:
        yield Naive(store)


@contextlib.contextmanager
def _watched(store: Store) -> Iterator[list[str]]:
    """The statements that write outside of a `with store.write()` block, in a word or two each."""
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
    """A second connection that makes the same call just before this transaction of the first one begins."""
    begun, tries = [], []
    with contextlib.closing(naive.store.again()) as other:

        def write() -> Transaction:
            begun.append(number)
            if len(begun) == number:
                tries.append(_made(accept, Naive(other)))
            return Store.write(naive.store)

        naive.store.write = write
        yield tries


def _made(accept: Callable[..., object], naive: Naive) -> Outcome:
    go_on()
    try:
        return attempt(accept, naive, *CALL)
    except Exception as error:
        raise NotYet(raised(error)) from None


def _ended(given: Outcome, when: str) -> None:
    if given.word not in ("accepted", "replayed"):
        raise NotYet(f"{when}, your function ends as {given.word} {given.reason}")


def _must_be_once(naive: Naive, when: str) -> None:
    if naive.counted() != ONCE:
        raise NotYet(f"{when}: results, receipts and messages are {naive.counted()}, not {ONCE}")


def _must_be_replayed(given: Outcome, when: str) -> None:
    _ended(given, when)
    if given.facts() != {"result_digest": CALL[1]}:
        raise NotYet(f"{when}: your function does not return the receipt")
