"""Failpoints and failing statements: make a call crash, or lose its answer, inside this process (H-1, H-2).

A crash at a failpoint (H-1) raises an exception at a named place in the call, before or after its commit. It
shows what a caller sees when the answer is lost. The process continues and rolls back properly, so this
proves nothing about power loss.

A failing statement (H-2) is a trigger that stops one kind of statement on one table. It shows that the
earlier statements of the transaction are undone. It proves nothing about a full disk.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from receiptlab.contracts.base import Contract
from receiptlab.errors import InjectedFault
from receiptlab.store import FAILPOINTS, Store

STATEMENTS = ("insert", "update", "delete")


def failpoints_of(contract: type[Contract], call: str) -> tuple[str, ...]:
    """Every failpoint that an accepted call reaches, in order. A replay reaches only the last two, and a
    refused call none. A call that only reads has none."""
    return (*contract.FAILPOINTS.get(call, ()), *FAILPOINTS) if call in contract.writing() else ()


@contextlib.contextmanager
def crash_at(store: Store, point: str) -> Iterator[list[str]]:
    """Raise InjectedFault whenever a call on this store reaches `point`, within the block.

    Yields the list of failpoints that were reached. A run that never reached `point` should fail.
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
    """Make every insert, update or delete on `table` over this connection fail.

    The trigger is temporary: it belongs to the connection and doesn't change the file.
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
    """The fault with this name in a case: a failpoint, or `insert:outbox` for a failing statement."""
    statement, colon, table = name.partition(":")
    with failing(store, statement, table) if colon else crash_at(store, name):
        yield
