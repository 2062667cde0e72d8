"""An open database file. `Store.write()` is the only way to change a row, in one transaction.

It has the only BEGIN IMMEDIATE in the package. One process writes at a time, and all of them run on the same
host: WAL mode needs shared memory and doesn't work over a network (https://www.sqlite.org/wal.html).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from receiptlab import database_file, process, wal
from receiptlab.errors import Damaged, Definite, FileRefused, Indefinite, Locked, NotWritten

TIMEOUT_MS = 5_000
FAILPOINTS = ("before_commit", "after_commit")
"""The failpoints that every call with a write() reaches."""

_READING = ("SELECT", "PRAGMA", "EXPLAIN")


class Transaction:
    """The context manager that `Store.write` returns. A generator would be slower, and every call uses it."""

    __slots__ = ("changes", "frame", "store")

    def __init__(self, store: Store) -> None:
        self.store = store
        self.frame: FrameType | None = None
        self.changes = 0

    def __enter__(self) -> sqlite3.Connection:
        store = self.store
        store._check_process()
        try:
            if store.db.in_transaction:
                self._settle(sys._getframe(1))
            store.db.execute("BEGIN IMMEDIATE")
            self.frame = sys._getframe(1)
            self.changes = store.own.total_changes
        except sqlite3.Error as error:
            raise store._translated(error) from error
        except KeyboardInterrupt:
            store._roll_back()
            raise
        return store.db

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._commit()
        else:
            self.store._roll_back()
        self.frame = None
        if isinstance(error, sqlite3.Error):
            raise self.store._translated(error) from error

    def _commit(self) -> None:
        store, committing = self.store, False
        store._check_process()
        try:
            if store.own.total_changes != self.changes:
                store._stamp()
            store.failpoint("before_commit")
            committing = True
            store.db.execute("COMMIT")
        except BaseException as error:
            store._salts = None  # the stamp was rolled back too
            store._roll_back()
            if isinstance(error, sqlite3.Error):
                raise store._translated(error, committing) from error
            raise
        store.failpoint("after_commit")

    def _settle(self, frame: FrameType | None) -> None:
        """Handle a transaction that is already open: raise NotWritten (nested) while the `with` that began it
        still runs. Otherwise Ctrl-C struck just before the body of that `with`, so roll back what it left."""
        while frame is not None:
            if frame is self.frame:
                what = "write() was called inside write() on the same store; make the outer one do both"
                raise NotWritten("nested", what)
            frame = frame.f_back
        self.store._roll_back()


class Store:
    """A connection to one database file. Make it with `create`, `open` or `temporary`.

    It belongs to the process that opened it: in a forked child `close` does nothing, and every other call
    raises NotWritten (other-process). While it is open, don't open, copy or read the file by other means in
    the same process; `receiptlab.database_file` explains why.
    """

    def __init__(self, path: Path, db: Any, timeout_ms: int) -> None:
        self.path = path
        self.db: sqlite3.Connection = db
        """The connection. A fault may wrap it; `own` is never wrapped."""
        self.own: sqlite3.Connection = db
        self.timeout_ms = timeout_ms
        self._process = os.getpid()
        self._wal: int | None = None
        self._salts: bytes | None = None
        self._close_wal: Callable[[], object] = bool
        self.failpoint: Callable[[str], None] = _pass
        """The failpoint hook, called with the name of each failpoint that a call reaches."""
        self._transaction = Transaction(self)
        self._remove_folder: Callable[[], object] = bool

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], schema: tuple[str, ...], timeout_ms: int = TIMEOUT_MS
    ) -> Store:
        """Make a new database file with the tables of `schema` and open it.

        Raises FileRefused (exists) when there is a file at the path, or one that SQLite left beside it, and
        doesn't change that file. Raises NotWritten when the schema is wrong or the disk is full, and leaves
        nothing behind. The file gets its name only when it is complete.
        """
        path = Path(path).absolute()
        making = database_file.new_file(path)
        published = False
        try:
            cls._made(making, schema, timeout_ms).close()
            database_file.publish(making, path)
            published = True
            return cls.open(path, timeout_ms)
        except BaseException as error:
            database_file.remove(path if published else making)
            if isinstance(error, Indefinite):  # COMMIT failed, and its file has been removed
                raise NotWritten(error.reason, f"{path.name} could not be made and was removed") from error
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str], timeout_ms: int = TIMEOUT_MS, reading: bool = False) -> Store:
        """Open a database file that `create` made.

        With `reading`, the file and its folder may be write-protected; `write` then raises NotWritten.
        Raises FileRefused for any other file and leaves it unchanged: it is checked without a lock before it
        is opened. Raises Damaged, and Locked when another program has locked the whole file.
        """
        path = Path(path).absolute()
        store = cls(path, None, timeout_ms)
        process.enter(store, database_file.check(path, reading), lambda: database_file.no_foreign_wal(path))
        return store._connect(reading)

    @classmethod
    def temporary(cls, schema: tuple[str, ...], timeout_ms: int = TIMEOUT_MS) -> Store:
        """Make and open a database file in its own temporary folder, which `close` removes."""
        folder = tempfile.mkdtemp(prefix="receiptlab-")
        try:
            path = Path(folder) / "receipts.db"
            path.touch()
            store = cls._made(path, schema, timeout_ms)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        store._remove_folder = weakref.finalize(store, _remove, folder, os.getpid())
        return store

    @classmethod
    def _made(cls, path: Path, schema: tuple[str, ...], timeout_ms: int) -> Store:
        """Turn the empty file at `path` into a database file. The tables end up in the file, not in a WAL."""
        store, info = cls(path, None, timeout_ms), path.stat()
        process.enter(store, (info.st_dev, info.st_ino), lambda: None)
        store._connect()
        try:
            store._fill(schema)
        except BaseException:
            store.close()
            raise
        return store

    def _connect(self, reading: bool = False) -> Store:
        try:
            self.db = self.own = database_file.connect(self.path, self.timeout_ms, reading)
        except BaseException:
            process.leave(self)
            raise
        return self

    def again(self) -> Store:
        """Open a second connection to the same file, with the same timeout."""
        self._check_process()
        return Store.open(self.path, self.timeout_ms)

    def write(self) -> Transaction:
        """One write transaction: BEGIN IMMEDIATE … COMMIT, rolled back on any exception.

        Use it as `with store.write() as db`. Raises Locked when another connection keeps the write lock for
        longer than `timeout_ms`, and NotWritten when a statement fails or a write() is already open: nothing
        was written. Raises Indefinite when COMMIT fails and a later reader may or may not find the changes.
        """
        return self._transaction

    def read(self, sql: str, values: tuple[Any, ...] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Run one SELECT, PRAGMA or EXPLAIN and return its rows. Raises ValueError for a statement that
        begins with anything but SELECT, PRAGMA or EXPLAIN."""
        if not sql.lstrip().startswith(_READING):
            raise ValueError("read() takes a SELECT; use write() to change something")
        self._check_process()
        try:
            return self.db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def require(self, schema: tuple[str, ...]) -> None:
        """Raise FileRefused (tables) unless the file has exactly the tables of `schema`."""
        there = {sql for (sql,) in self.read("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")}
        for statement in schema:
            if statement.startswith("CREATE") and statement not in there:
                name = statement.split("(")[0].split()[-1]
                what = f"{self.path.name} was made for another contract or by another version of the lab"
                raise FileRefused("tables", f"{what} (see table {name}); open it with what made it")

    def pack(self) -> bool:
        """Rebuild the file (VACUUM), so that its free space holds no old data, and empty the WAL.

        False when an open reader keeps the WAL from being emptied. Raises Locked, or NotWritten when the disk
        has no room for a copy, and leaves the file as it was.
        """
        # SQLite doesn't sync a WAL that it truncates, so a power cut could bring back its content. VACUUM
        # overwrites the truncated WAL and syncs it. From then on only the rebuilt file can come back.
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
        """Close the connection, and remove the file if it is temporary. Closing twice is harmless. In a
        forked child nothing happens, because the file and its folder belong to the parent."""
        if os.getpid() == self._process:
            self._close_wal()
            self.db.close()
            process.leave(self)
            self._remove_folder()

    def __reduce__(self) -> str:
        what = (
            f"a store can't be sent to another process; send the path of {self.path.name} and open it there"
        )
        raise NotWritten("other-process", what)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise process.refusal(f"this store of {self.path.name} was opened in another process")

    def _stamp(self) -> None:
        """Raise the file's stamp, if this is the store's first transaction in the current WAL. It is another
        WAL when the salts in its header have changed. `receiptlab.wal` explains what the stamp is for."""
        try:
            if self._wal is None:
                self._wal = os.open(f"{os.path.realpath(self.path)}-wal", os.O_RDONLY)
                self._close_wal = weakref.finalize(self, os.close, self._wal)
            os.lseek(self._wal, wal.SALTS.start, os.SEEK_SET)
            salts = os.read(self._wal, 8)
        except OSError:
            salts = b""
        if salts != self._salts:
            version = self.own.execute("PRAGMA user_version").fetchone()[0]
            stamp = ((version >> 8) + 1) % wal.STAMPS
            self.own.execute(f"PRAGMA user_version = {stamp << 8 | database_file.SCHEMA_VERSION}")
            self._salts = salts

    def _roll_back(self) -> None:
        """Roll back. If even that fails, close the connection, which rolls back too. A forked child does
        neither."""
        if os.getpid() != self._process:
            return
        try:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
        except sqlite3.Error:
            self.db.close()

    def _translated(self, error: sqlite3.Error, committing: bool = False) -> Definite | Indefinite:
        """The lab's exception for an error of SQLite: Definite, except where COMMIT failed half-way.

        A COMMIT that SQLite rejects (locked, a deferred constraint) has written nothing. When the disk is
        full (SQLITE_FULL), the transaction's last frame is missing from the WAL or cut, and without it no
        reader sees the other frames. After any other failure of COMMIT the next reader may or may not find
        the transaction.
        """
        code = getattr(error, "sqlite_errorcode", None)
        name = getattr(error, "sqlite_errorname", None) or type(error).__name__
        if name == "unknown":  # Python has no name for this code, and here the word has another meaning
            name = f"SQLITE_{code}"
        primary = code & 0xFF if code is not None else None
        if primary in database_file.BUSY:
            what = f"another connection kept {self.path.name} locked for {self.timeout_ms} ms"
            return Locked(name, f"{what}; nothing was written; call again, or end the other program")
        if "closed database" in str(error):
            return NotWritten("closed", "this store was closed; nothing was written; open the file again")
        if primary in database_file.DAMAGED:
            what = f"{self.path.name} is damaged ({name}: {error}); stop, and restore a backup"
            return Indefinite("damaged", f"COMMIT failed: {what}") if committing else Damaged(what)
        if committing and primary not in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_FULL):
            what = f"COMMIT failed ({error}), and the changes may or may not be in the file"
            return Indefinite(name, f"{what}; read the file before you continue")
        return NotWritten(name, f"the transaction was rolled back ({error}); nothing was written")

    def _fill(self, schema: tuple[str, ...]) -> None:
        with self.write() as db:
            for statement in schema:
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {database_file.APPLICATION_ID}")
            stamp = wal.first_stamp(self.path)
            db.execute(f"PRAGMA user_version = {stamp << 8 | database_file.SCHEMA_VERSION}")
        # `open` reads the header from the file itself, so the header must not stay in the WAL.
        self.read("PRAGMA wal_checkpoint(TRUNCATE)")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _pass(point: str) -> None:
    """Default failpoint hook: does nothing."""


def _remove(folder: str, process_id: int) -> None:
    """Remove a temporary folder, except in a forked child: the folder belongs to the parent."""
    if os.getpid() == process_id:
        shutil.rmtree(folder, ignore_errors=True)
