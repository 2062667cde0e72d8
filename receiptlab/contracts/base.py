"""The shape that all contracts share: typed commands, guards in order, one transaction a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any, ClassVar, TypeVar

from receiptlab.errors import Refused
from receiptlab.store import Store
from receiptlab.values import MAX_INTEGER, Rule, check


@dataclass(frozen=True)
class Command:
    """The arguments of one call. Each guarded call has a subclass of this, with a field for each argument."""


Guard = Callable[[Any, Any], Any]
"""`guard(command, current)`: returns None to go on or a saved answer to end with, or raises Refused."""

Guards = Mapping[str, tuple[Guard, ...]]
"""For each call its guards, in order."""

C = TypeVar("C")
"""The command of a call."""
R = TypeVar("R")
"""What its transaction has read: the current rows."""
A = TypeVar("A")
"""Its answer."""
Read = Callable[[Connection, C], R]
"""Reads the current rows of a command."""
Write = Callable[[Connection, C, R], A]
"""Writes what the command asks for, and returns the answer."""


def writes(sql: str) -> Callable[[Connection, Any, Any], None]:
    """A write that is one statement with the command's fields as parameters, and has no answer."""

    def write(db: Connection, command: object, current: object) -> None:
        db.execute(sql, vars(command))

    return write


def numbered(what: str, number: int | None) -> int:
    """The id that SQLite gave to a new row. Refused: exhausted, for the largest id there is, because after
    that one SQLite would pick ids at random (https://www.sqlite.org/autoinc.html)."""
    if number is None or number == MAX_INTEGER:
        raise Refused("exhausted", f"no {what} id is left in this file; continue in a new file", (what,))
    return number


class AcceptedAnswer:
    """The base of the answers of calls that took effect."""

    outcome: ClassVar[str] = "accepted"


class ReadAnswer:
    """The base of the answers of calls that only read."""

    outcome: ClassVar[str] = "read"


class Contract:
    """A contract over an open store. Subclasses fill in the class attributes and write the calls.

    Every call raises WrongType or WrongValue for a wrong argument (they are TypeError and
    ValueError) and Refused for what the contract turns down: nothing was written. Locked, NotWritten
    and Indefinite are as in `Store.write`. `now` is the caller's time, in any one unit.
    """

    NAME: ClassVar[str]
    """Its name in a case file."""
    SCHEMA: ClassVar[tuple[str, ...]]
    """The statements that make its tables."""
    TABLES: ClassVar[tuple[str, ...]]
    """The tables that a case may make fail."""
    ARGUMENTS: ClassVar[Mapping[str, Rule]]
    """For each argument name the rule that a value must pass."""
    GUARDS: ClassVar[Guards]
    """For each call its guards, in order. It lists every call that writes, and the reads that have guards."""
    READS: ClassVar[tuple[str, ...]] = ()
    """The calls that only read, or otherwise change no row."""
    FAILPOINTS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """For each call its own failpoints, in the order in which an accepted call reaches them."""
    COUNTS: ClassVar[Mapping[str, str]]
    """What a run shows after each step: a name, and the SELECT that counts it."""

    def __init__(self, store: Store, guards: Guards | None = None) -> None:
        store.require(self.SCHEMA)
        self.store = store
        self.guards = self.GUARDS if guards is None else guards

    @classmethod
    def calls(cls) -> tuple[str, ...]:
        """The names of all calls."""
        return tuple(dict.fromkeys((*cls.GUARDS, *cls.READS)))

    @classmethod
    def writing(cls) -> tuple[str, ...]:
        """The names of the calls that write."""
        return tuple(call for call in cls.GUARDS if call not in cls.READS)

    def counted(self) -> tuple[int, ...]:
        """The current counts, all read at the same moment."""
        return self.store.read("SELECT " + ", ".join(f"({sql})" for sql in self.COUNTS.values()))[0]

    def leases(self) -> list[tuple[str, str, int, int]]:
        """(what is leased, holder, fence, end) of each lease in the file, expired ones included."""
        return []

    def _transact(self, name: str, command: C, read: Read[C, R], write: Write[C, R, A]) -> A:
        """Make one call: check its arguments, then `_run` it."""
        check(self.ARGUMENTS, vars(command))
        return self._run(name, command, read, write)

    def _run(self, name: str, command: C, read: Read[C, R], write: Write[C, R, A]) -> A:
        """Make a call whose arguments were checked before: `_decide` in its own transaction."""
        with self.store.write() as db:
            return self._decide(name, db, command, read, write)

    def _decide(self, name: str, db: Connection, command: C, read: Read[C, R], write: Write[C, R, A]) -> A:
        """In the open transaction, read the current rows, run the call's guards in order, then write.

        A guard that raises Refused ends the call. So does a guard that returns a saved answer: the call
        returns that answer and writes nothing.
        """
        current = read(db, command)
        for guard in self.guards[name]:
            saved: A | None = guard(command, current)
            if saved is not None:
                return saved
        return write(db, command, current)

    def _inside(self, db: Connection) -> None:
        """Refused: no-transaction, unless `db` is this store's connection inside `with store.write()`."""
        if not (db is self.store.db and db.in_transaction):
            raise Refused("no-transaction", "stage inside `with store.write()` of this contract's store")
