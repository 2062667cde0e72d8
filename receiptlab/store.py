"""One SQLite file and the one way to write it. Standard library only.

`Store.write()` is the one way to change a row, and the only BEGIN IMMEDIATE in the package.
One writer at a time, one host: WAL needs shared memory and is no protocol between hosts
(https://www.sqlite.org/wal.html).
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from receiptlab import fixture
from receiptlab.errors import Damaged, Definite, Indefinite, Locked, NotAFixture, NotWritten

TIMEOUT_MS = 5_000
POINTS = ("before_commit", "after_commit")
_READING = ("SELECT", "PRAGMA", "EXPLAIN")


class Transaction:
    """What `Store.write` gives. A class and not a generator: it is on the path of every call."""

    __slots__ = ("frame", "store")

    def __init__(self, store: Store) -> None:
        self.store = store
        self.frame: FrameType | None = None

    def __enter__(self) -> sqlite3.Connection:
        store = self.store
        try:
            if store.db.in_transaction:
                self._settle(sys._getframe(1))
            store.db.execute("BEGIN IMMEDIATE")
            self.frame = sys._getframe(1)
        except sqlite3.Error as error:
            raise store._translated(error) from error
        except KeyboardInterrupt:
            store._roll_back()
            raise
        return store.db

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._commit()
        else:
            self.store._roll_back()
        self.frame = None
        if isinstance(error, sqlite3.Error):
            raise self.store._translated(error) from error

    def _commit(self) -> None:
        store, committing = self.store, False
        try:
            store.reach("before_commit")
            committing = True
            store.db.execute("COMMIT")
        except BaseException as error:
            store._roll_back()
            if isinstance(error, sqlite3.Error):
                raise store._translated(error, committing) from error
            raise
        store.reach("after_commit")

    def _settle(self, frame: FrameType | None) -> None:
        """A transaction is open already. If the `with` that began it still runs, this one is nested and
        refused. Else Ctrl-C struck between the two lines of a `with`, and what it left is rolled back."""
        while frame is not None:
            if frame is self.frame:
                what = "write() inside write() on one store; this one did nothing, the outer one goes on"
                raise NotWritten("nested", what)
            frame = frame.f_back
        self.store._roll_back()


class Store:
    """A connection to one fixture file. Make it with `create`, `open` or `temporary`.

    While it is open, do not open, copy or read the file by other means in the same process; see
    `receiptlab.fixture`.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, timeout_ms: int) -> None:
        self.path = path
        self.db = db
        self.timeout_ms = timeout_ms
        self.reach: Callable[[str], None] = _pass
        """Called with the name of each point that a call comes to; a hazard puts itself here."""
        self._transaction = Transaction(self)
        self._folder: tempfile.TemporaryDirectory | None = None

    @classmethod
    def create(cls, path: str | os.PathLike, schema: tuple[str, ...], timeout_ms: int = TIMEOUT_MS) -> Store:
        """Make a new fixture with the tables of `schema` and open it.

        Raises NotAFixture (exists) when the path or a leftover of SQLite beside it is there;
        whatever is there stays byte for byte as it was. Raises NotWritten when the schema is wrong
        or the disk is full; then nothing is left behind.
        """
        path = Path(path).absolute()
        fixture.new_file(path)
        store = None
        try:
            store = cls(path, fixture.connect(path, timeout_ms), timeout_ms)
            store._fill(schema)
        except BaseException as error:
            if store is not None:
                store.close()
            fixture.remove(path)
            if isinstance(error, Indefinite):  # a COMMIT that failed; the file that it went into is gone
                raise NotWritten(error.reason, f"{path.name} could not be made and was removed") from error
            raise
        return store

    @classmethod
    def open(cls, path: str | os.PathLike, timeout_ms: int = TIMEOUT_MS) -> Store:
        """Open a fixture that `create` made.

        Raises NotAFixture for anything else, with the reason, and leaves the file unchanged: it is
        looked at without a lock before it is opened. Raises Locked when another program keeps the
        whole file for itself.
        """
        path = Path(path).absolute()
        fixture.check(path)
        return cls(path, fixture.connect(path, timeout_ms), timeout_ms)

    @classmethod
    def temporary(cls, schema: tuple[str, ...], timeout_ms: int = TIMEOUT_MS) -> Store:
        """A new fixture in a temporary folder of its own, which `close` removes."""
        folder = tempfile.TemporaryDirectory(prefix="receiptlab-", ignore_cleanup_errors=True)
        try:
            store = cls.create(Path(folder.name) / "fixture.db", schema, timeout_ms)
        except BaseException:
            folder.cleanup()
            raise
        store._folder = folder
        return store

    def again(self) -> Store:
        """A second connection to the same file, with the same timeout."""
        return Store.open(self.path, self.timeout_ms)

    def write(self) -> Transaction:
        """One write transaction: BEGIN IMMEDIATE … COMMIT, rolled back on any exception.

        Use it as `with store.write() as db`. Raises Locked when another connection keeps the write
        lock for `timeout_ms`, NotWritten when a statement fails or when a write() is open already
        (both definite), and Indefinite when COMMIT itself fails in a way that leaves open what a
        later reader of the file will find.
        """
        return self._transaction

    def read(self, sql: str, values: tuple | dict = ()) -> list[tuple]:
        """The rows of one SELECT, as they stand in the file now. Raises ValueError for a statement
        that begins with anything but SELECT, PRAGMA or EXPLAIN."""
        if not sql.lstrip().startswith(_READING):
            raise ValueError("read() takes a SELECT; use write() to change something")
        try:
            return self.db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def require(self, schema: tuple[str, ...]) -> None:
        """Raises NotAFixture (tables) unless the file has the tables of `schema`, to the letter."""
        there = {sql for (sql,) in self.read("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")}
        for statement in schema:
            if statement.startswith("CREATE") and statement not in there:
                name = statement.split("(")[0].split()[-1]
                raise NotAFixture(
                    "tables",
                    f"{self.path.name} was made for another contract or by another version of the lab: "
                    f"table {name} is not as it should be; make it anew",
                )

    def pack(self) -> bool:
        """Build the file anew (VACUUM), so that free space in it holds nothing old, and empty the WAL.

        False when an open reader keeps the WAL from being emptied. Raises Locked, or NotWritten when
        the disk has no room for a copy; then the file is as it was.
        """
        # SQLite does not sync a WAL that it cuts off, so a power cut could bring back what was in it. VACUUM
        # writes the emptied WAL anew and syncs it; then what can come back is the packed file alone.
        emptied = self._empty_wal()
        try:
            self.db.execute("VACUUM")
        except sqlite3.Error as error:
            raise self._translated(error) from error
        return self._empty_wal() and emptied

    def _empty_wal(self) -> bool:
        [(busy, _, _)] = self.read("PRAGMA wal_checkpoint(TRUNCATE)")
        return not busy

    def close(self) -> None:
        """Close the connection; a temporary fixture is removed with it. Closing twice is harmless."""
        self.db.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _roll_back(self) -> None:
        """Undo what the transaction did. Where even that fails, closing the connection undoes it."""
        try:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
        except sqlite3.Error:
            self.db.close()

    def _translated(self, error: sqlite3.Error, committing: bool = False) -> Definite | Indefinite:
        """The lab's word for an error of SQLite: definite, unless COMMIT failed half way.

        A COMMIT that is turned away (locked, a deferred constraint) has written nothing. After
        any other failure of COMMIT the frames may or may not be in the WAL for the next reader.
        """
        code = getattr(error, "sqlite_errorcode", None)
        name = getattr(error, "sqlite_errorname", None) or type(error).__name__
        if name == "unknown":  # Python has no name for this code, and here the word means something else
            name = f"SQLITE_{code}"
        primary = code & 0xFF if code is not None else None
        if primary in fixture.BUSY:
            return Locked(
                name,
                f"another connection held {self.path.name} locked for {self.timeout_ms} ms; "
                "nothing was written; end the other program or call again",
            )
        if "closed database" in str(error):
            return NotWritten("closed", "this store was closed; nothing was written; open it again")
        if primary in fixture.DAMAGED:
            what = f"{self.path.name} is damaged ({name}: {error}); stop, and restore a backup"
            return Indefinite("damaged", f"COMMIT failed: {what}") if committing else Damaged(what)
        if committing and primary != sqlite3.SQLITE_CONSTRAINT:
            return Indefinite(name, f"COMMIT failed ({error}); look into the file before you go on")
        return NotWritten(name, f"the transaction was rolled back ({error}); nothing was written")

    def _fill(self, schema: tuple[str, ...]) -> None:
        with self.write() as db:
            for statement in schema:
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {fixture.APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {fixture.SCHEMA_VERSION}")
        # `open` reads the header from the file itself, so it must not wait in the WAL.
        self.read("PRAGMA wal_checkpoint(TRUNCATE)")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _pass(point: str) -> None:
    """What is called at a point where no hazard waits."""
