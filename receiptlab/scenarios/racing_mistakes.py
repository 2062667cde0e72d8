"""Mistakes that only show in some interleavings, planted on purpose. `interleavings` explores them (H-6).

Each passes a test in which the calls follow one another. They are the versions of `naive` over more than
one connection, and contracts without one of their guards.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from receiptlab.contracts.retention import Retention
from receiptlab.contracts.work.work import Work, claim_lost_expiry, claim_lost_fence
from receiptlab.errors import Refused
from receiptlab.faults.ablation import without
from receiptlab.interleaving.stepper import Caller
from receiptlab.scenarios import interleavings
from receiptlab.scenarios.interleavings import Race, among
from receiptlab.scenarios.naive import (
    Looked,
    Naive,
    Saved,
    accept_by_key_alone,
    accept_in_two_transactions,
    write_all,
    write_message,
    write_receipt,
    write_result,
)

KEY, DIGEST = "key-1", "result 1"
_COUNTED = "SELECT (SELECT results FROM work), (SELECT count(*) FROM receipt)"
_SAVED = "SELECT result_digest FROM receipt WHERE key = ?"


def accept_deferred(naive: Naive, key: str, digest: str) -> Saved | None:
    """All in one transaction, begun with BEGIN, which takes the lock only at the first write, after the
    read."""
    db = naive.store.db
    try:
        db.execute("BEGIN")
        saved = db.execute(_SAVED, (key,)).fetchone()
        if not saved:
            write_result(db, digest)
            write_receipt(db, key, digest)
            write_message(db, digest)
        db.execute("COMMIT")
    except sqlite3.Error as error:
        naive.store._roll_back()
        raise naive.store._translated(error) from error
    return Saved(*saved) if saved else None


def accept_and_forget_to_end(naive: Naive, key: str, digest: str) -> Saved | None:
    """A retry returns early and leaves its transaction open."""
    transaction = naive.store.write()
    db = transaction.__enter__()
    if saved := db.execute(_SAVED, (key,)).fetchone():
        return Saved(*saved)
    write_result(db, digest)
    write_receipt(db, key, digest)
    write_message(db, digest)
    transaction.__exit__(None, None, None)
    return None


def look_for_half(naive: Naive) -> Looked:
    """A reader that expects as many receipts as results. Refused: half."""
    [(results, receipts)] = naive.store.read(_COUNTED)
    if results != receipts:
        raise Refused("half", f"there are {results} results and {receipts} receipts")
    return Looked(results > 0)


def _racing(function: Callable, *who: str) -> tuple[Caller, ...]:
    named = {"key": KEY, "digest": DIGEST}
    return tuple(Caller(actor, "accept", lambda naive: function(naive, **named), args=named) for actor in who)


_READER = Caller("reader", "get", look_for_half)
_ONCE = among(0, *((accepted, 1, 1, 1) for accepted in (0, 1)))
_WHOLE = among(0, (1, 1, 1, 1))


def _seen_whole(counts: tuple[int, ...], outcomes: tuple) -> str:
    return interleavings.WRONG if ("refused", "half") in outcomes else _WHOLE(counts, outcomes)


def _accepted_before(naive: Naive) -> None:
    write_all(naive, KEY, DIGEST)


_TWO = ("client", "its retry")
PLANTED = (
    Race("check outside of the transaction", Naive, _racing(accept_by_key_alone, *_TWO), None, _ONCE),
    Race("a deferred transaction", Naive, _racing(accept_deferred, *_TWO), None, _ONCE),
    Race(
        "result and receipt in two transactions",
        Naive,
        (*_racing(accept_in_two_transactions, "client"), _READER),
        None,
        _seen_whole,
    ),
    Race(
        "a transaction left open",
        Naive,
        _racing(accept_and_forget_to_end, "a retry", "another retry"),
        _accepted_before,
        _ONCE,
    ),
    Race(
        "execute without the guard closed",
        Retention,
        (interleavings.execute("client"), interleavings.CLOSE),
        None,
        interleavings.CLOSED,
        without(Retention, "execute", "closed"),
    ),
    Race(
        "complete without the guard of the state",
        Work,
        (interleavings.COMPLETE, interleavings.COMPLETE),
        interleavings.reserved,
        interleavings.DONE_ONCE,
        Work.GUARDS | {"complete": (claim_lost_fence, claim_lost_expiry)},
    ),
)

LARGE = Race(
    "check outside of the transaction, three callers",
    Naive,
    _racing(accept_by_key_alone, *_TWO, "its retry again"),
    None,
    _ONCE,
)
"""27,870 interleavings, which take some seconds."""
