"""Callers that run one statement at a time, each over its own connection to one real file. `explorer` uses
them.

A caller runs in a greenlet: a function that can be suspended and resumed, all on one thread. `store.db` is
replaced by a gate, at which the caller waits before each statement until it is chosen. The statement itself
runs on a real connection, under real locks.

The connections don't wait for locks (timeout 0) and don't sync, because this is about the order of
statements, not about power cuts.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field

from receiptlab.contracts.base import Contract
from receiptlab.experiment.sandbox import Sandbox
from receiptlab.outcomes import Outcome, attempt
from receiptlab.store import Store

RAN, FAILED, WAITS = "ran", "failed", "waits"
"""The results of a step. A caller that waits tries the same statement again later."""

_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+(\w+)", re.IGNORECASE)


@dataclass(frozen=True)
class Caller:
    """A caller of one call: `make` gets the contract over the caller's own connection."""

    actor: str
    call: str
    make: Callable[[Contract], object]
    now: int | None = None
    args: dict = field(default_factory=dict)


def calling(actor: str, call: str, /, **args: object) -> Caller:
    """A caller that makes one call of the contract."""
    return Caller(actor, call, lambda contract: getattr(contract, call)(**args), args.get("now"), args)


def short(sql: str) -> str:
    """A statement in a word or two: its verb and its table."""
    words = sql.split()
    table = _TABLE.search(sql)
    if table:
        return f"{words[0]} {table[1]}"
    return " ".join(words[:2])


def greenlets() -> tuple[type, type]:
    """The class greenlet and its GreenletExit. Raises ModuleNotFoundError without the package (`hazards`)."""
    from greenlet import GreenletExit, greenlet

    return greenlet, GreenletExit


class Gate:
    """Replaces a store's connection. It only has what a contract uses, so a statement that takes another
    way is an AttributeError and never runs unnoticed."""

    __slots__ = ("player",)

    def __init__(self, player: Player) -> None:
        self.player = player

    @property
    def in_transaction(self) -> bool:
        return self.player.db.in_transaction

    def execute(self, sql: str, values: tuple | dict = ()) -> sqlite3.Cursor:
        return self.player.execute(sql, values)

    def close(self) -> None:
        """Closing ends a transaction. The connection is kept for the next interleaving."""
        self.player.roll_back()


class Player:
    """A caller on its connection. `pending` is its next statement, `outcome` how its call ended."""

    def __init__(
        self, letter: str, caller: Caller, store: Store, contract: type[Contract], guards: dict | None
    ):
        self.letter, self.caller, self.store = letter, caller, store
        self.db = store.db
        self.db.execute("PRAGMA wal_autocheckpoint = 0")  # checkpoints only between interleavings
        self._new = lambda: contract(store, guards)
        self._greenlet, self._exit = greenlets()

    def begin(self, scheduler: object) -> None:
        """Start the call and run to its first statement, with a new contract object, which may keep state."""
        self.pending, self.came, self.error = "", "", ""
        self.outcome: Outcome | None = None
        self.waiting = self.leaving = self.may_wait = False
        self._scheduler = scheduler
        self.store.db = self.db
        contract = self._new()
        self.store.db = Gate(self)
        self._run = self._greenlet(lambda: attempt(self.caller.make, contract), scheduler)
        self.go()

    def go(self) -> None:
        """Run the pending statement, and the code after it up to the next one or the end of the call."""
        answer = self._run.switch()
        if self._run.dead:
            self.outcome = answer

    def execute(self, sql: str, values: tuple | dict) -> sqlite3.Cursor:
        """Called by the contract, in its greenlet."""
        while not self.leaving:
            self.pending, self.values = sql, values
            self._scheduler.switch()
            if self.leaving:
                raise self._exit
            self.may_wait = self._would_wait()
            try:
                cursor = self.db.execute(sql, values)
            except sqlite3.Error as error:
                self.error = getattr(error, "sqlite_errorname", None) or type(error).__name__
                self.waiting = self.may_wait and self.error == "SQLITE_BUSY"
                self.came = WAITS if self.waiting else FAILED
                if not self.waiting:
                    raise
            else:
                self.came, self.error, self._last = RAN, "", sql
                return cursor
        return self.db.execute(sql, values)  # the rollback of an abandoned call

    def _would_wait(self) -> bool:
        """SQLite only waits for a lock while the transaction has read nothing. Afterwards it returns the
        error at once, whatever the timeout (https://www.sqlite.org/c3ref/busy_handler.html)."""
        return not self.db.in_transaction or self._last.split()[0].upper() == "BEGIN"

    def leave(self) -> None:
        """Abandon the call, wherever it is, and roll back."""
        self.leaving = True
        run = self.__dict__.pop("_run", None)
        if run is not None and not run.dead:
            with contextlib.suppress(self._exit):
                run.switch()
        self.roll_back()

    def roll_back(self) -> None:
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")


class Start:
    """The rows that every interleaving begins with: those that `prepare` left in the sandbox's file."""

    def __init__(self, sandbox: Sandbox, prepare: Callable[[Contract], object] | None) -> None:
        self.observer = sandbox.observer
        if prepare is not None:
            prepare(self.observer)
        # Rows are put back, not pages: after a new copy of the pages, each connection would read its schema
        # again, which takes several times as long.
        self._db = db = self.observer.store.db
        db.execute("PRAGMA foreign_keys = OFF")  # the rows were consistent before
        self._version = self._schema_version()
        tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        self._tables = [f'"{name}"' for (name,) in tables]
        self.kept = self.rows()
        self._statements = []
        for table, rows in zip(self._tables, self.kept, strict=True):
            self._statements.append((f"DELETE FROM {table}", ()))
            marks = ", ".join("?" * len(rows[0])) if rows else ""
            self._statements += [(f"INSERT INTO {table} VALUES ({marks})", row) for row in rows]
        self.put_back()
        if self.rows() != self.kept:
            raise ValueError("the rows of this schema cannot be put back; it has a trigger that changes them")

    def put_back(self) -> None:
        """Make every table hold these rows again."""
        if self._schema_version() != self._version:
            raise ValueError("a caller changed the schema; only rows are put back between interleavings")
        with self.observer.store.write() as db:
            for sql, row in self._statements:
                db.execute(sql, row)

    def rows(self) -> tuple[tuple[tuple, ...], ...]:
        """Every row of every table, as the observing connection reads them now."""
        return tuple(tuple(self._db.execute(f"SELECT * FROM {table}")) for table in self._tables)

    def _schema_version(self) -> int:
        return self._db.execute("PRAGMA schema_version").fetchone()[0]
