"""The shape that all contracts share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sqlite3 import Connection
from types import SimpleNamespace
from typing import ClassVar

from receiptlab.errors import Refused
from receiptlab.store import Store
from receiptlab.values import MAX_INTEGER, checked

Guard = Callable[[SimpleNamespace, object], object]


def arguments(local: dict) -> dict:
    """A call's arguments by their names, from its `locals()`."""
    named = local.copy()
    del named["self"]
    return named


def writes(sql: str) -> Callable:
    """A write that is one statement on the call's arguments and answers nothing."""

    def write(db: Connection, call: SimpleNamespace, seen: object) -> None:
        db.execute(sql, vars(call))

    return write


def numbered(what: str, number: int) -> int:
    """The id that SQLite gave to a new row. Refused: exhausted, for the largest id there is, because after
    that one SQLite would pick ids at random (https://www.sqlite.org/autoinc.html)."""
    if number == MAX_INTEGER:
        raise Refused("exhausted", f"there is no {what} id left in this file; go on in a new one", (what,))
    return number


class Contract:
    """A contract over an open store. Subclasses fill in the tables of facts and write the calls.

    Every call raises WrongType or WrongValue for a wrong argument (they are TypeError and
    ValueError) and Refused for what the contract turns down: nothing was written. Locked, NotWritten
    and Indefinite are as `Store.write` says. `now` is the caller's time, in any one unit.
    """

    NAME: ClassVar[str]
    """What a case file calls it."""
    SCHEMA: ClassVar[tuple[str, ...]]
    """The statements that make its tables."""
    TABLES: ClassVar[tuple[str, ...]]
    """The tables that a case may make fail."""
    ARGUMENTS: ClassVar[Mapping[str, Callable]]
    """For each argument name the rule that a value must pass."""
    GUARDS: ClassVar[Mapping[str, tuple[Guard, ...]]]
    """For each call its guards, in their order. Every call that writes is here; a read is, if it has any."""
    READS: ClassVar[tuple[str, ...]] = ()
    """The calls that only look, or otherwise change no row."""
    FAILPOINTS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """For each call its own crash points, in the order in which an accepted call comes to them."""
    COUNTS: ClassVar[Mapping[str, str]]
    """What a run shows after each step: a name, and the SELECT that counts it."""

    def __init__(self, store: Store, guards: Mapping[str, tuple[Guard, ...]] | None = None) -> None:
        store.require(self.SCHEMA)
        self.store = store
        self.guards = self.GUARDS if guards is None else guards

    @classmethod
    def calls(cls) -> tuple[str, ...]:
        """Every call by its name."""
        return tuple(dict.fromkeys((*cls.GUARDS, *cls.READS)))

    @classmethod
    def writing(cls) -> tuple[str, ...]:
        """Every call that writes, by its name."""
        return tuple(call for call in cls.GUARDS if call not in cls.READS)

    def counted(self) -> tuple[int, ...]:
        """The counts as the file has them now, all at one moment."""
        return self.store.read("SELECT " + ", ".join(f"({sql})" for sql in self.COUNTS.values()))[0]

    def leases(self) -> list[tuple[str, str, int, int]]:
        """(on what, holder, fence, end) of each lease in the file, expired ones included."""
        return []

    def _transact(self, name: str, arguments: dict, see: Callable, write: Callable) -> object:
        """One call: check the arguments, then, in one transaction, see, guard and write."""
        return self._run(name, checked(self.ARGUMENTS, arguments), see, write)

    def _run(
        self,
        name: str,
        call: SimpleNamespace,
        see: Callable[[Connection, SimpleNamespace], object],
        write: Callable[[Connection, SimpleNamespace, object], object],
    ) -> object:
        with self.store.write() as db:
            return self._decide(name, db, call, see, write)

    def _decide(
        self, name: str, db: Connection, call: SimpleNamespace, see: Callable, write: Callable
    ) -> object:
        """See, guard and write, in the transaction that is open."""
        seen = see(db, call)
        for guard in self.guards[name]:
            saved = guard(call, seen)
            if saved is not None:
                return saved
        return write(db, call, seen)

    def _inside(self, db: Connection) -> None:
        if not (db is self.store.db and db.in_transaction):
            raise Refused("no-transaction", "stage inside `with store.write()` of this contract's store")
