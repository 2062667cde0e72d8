"""Two ways to make a call fail inside this process.

A crash point (H-1) raises at a named point of the call, before or after its commit. It shows
what a caller sees whose answer is lost. The process lives on and rolls back in good order, so it
proves nothing about power loss.

A failing statement (H-2) is a trigger that stops one kind of statement on one table. It shows
that what went before in the transaction is undone. It proves nothing about a full disk.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from receiptlab.contracts.base import Contract
from receiptlab.errors import InjectedFault
from receiptlab.store import FAILPOINTS, Store

STATEMENTS = ("insert", "update", "delete")


def failpoints_of(contract: type[Contract], call: str) -> tuple[str, ...]:
    """Every crash point that an accepted call comes to, in its order. A replay comes to the last two
    only, a refused call to none, and a call that only looks has none."""
    return (*contract.FAILPOINTS.get(call, ()), *FAILPOINTS) if call in contract.writing() else ()


@contextlib.contextmanager
def crash_at(store: Store, point: str) -> Iterator[list[str]]:
    """Raise InjectedFault whenever a call on this store comes to `point`, for the time of the block.

    Gives the list of the points that were reached; a run that never came to `point` should fail.
    """
    reached: list[str] = []

    def failpoint(here: str) -> None:
        reached.append(here)
        if here == point:
            raise InjectedFault(point)

    before, store.failpoint = store.failpoint, failpoint
    try:
        yield reached
    finally:
        store.failpoint = before


@contextlib.contextmanager
def failing(store: Store, statement: str, table: str) -> Iterator[None]:
    """Make each insert, update or delete on `table` over this connection fail.

    The trigger is a temporary one: it belongs to the connection and leaves the file as it is.
    """
    if statement not in STATEMENTS:
        raise ValueError(f"statement must be one of {', '.join(STATEMENTS)}, not {statement!r}")
    store.db.execute(
        f"CREATE TEMP TRIGGER injected_failure BEFORE {statement.upper()} ON main.{table} "
        "BEGIN SELECT RAISE(ABORT, 'injected failure'); END"
    )
    try:
        yield
    finally:
        store.db.execute("DROP TRIGGER temp.injected_failure")


@contextlib.contextmanager
def fault(store: Store, name: str) -> Iterator[None]:
    """The fault by its name in a case: a crash point, or `insert:outbox` for a failing statement."""
    statement, colon, table = name.partition(":")
    with failing(store, statement, table) if colon else crash_at(store, name):
        yield
