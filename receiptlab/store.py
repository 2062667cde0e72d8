"""One SQLite file and the one way to write it. Standard library only.

`Store.write()` is the one way to change a row, and the only BEGIN IMMEDIATE in the package.
One writer at a time, one host: WAL needs shared memory and is no protocol between hosts
(https://www.sqlite.org/wal.html).
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
from types import FrameType

from receiptlab import database_file, process, wal
from receiptlab.errors import Damaged, Definite, FileRefused, Indefinite, Locked, NotWritten

TIMEOUT_MS = 5_000
FAILPOINTS = ("before_commit", "after_commit")
_READING = ("SELECT", "PRAGMA", "EXPLAIN")


class Transaction:
    """What `Store.write` gives. A class and not a generator: it is on the path of every call."""

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
        store._check_process()
        try:
            if store.own.total_changes != self.changes:
                store._stamp()
            store.failpoint("before_commit")
            committing = True
            store.db.execute("COMMIT")
        except BaseException as error:
            store._salts = None  # a stamp went with it
            store._roll_back()
            if isinstance(error, sqlite3.Error):
                raise store._translated(error, committing) from error
            raise
        store.failpoint("after_commit")

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
    """A connection to one database file file. Make it with `create`, `open` or `temporary`.

    It belongs to the process that opened it: in a forked child every call but `close`, which does nothing
    there, raises NotWritten (other-process). While it is open, do not open, copy or read the file by other
    means in the same process; see `receiptlab.database_file`.
    """

    def __init__(self, path: Path, db: sqlite3.Connection | None, timeout_ms: int) -> None:
        self.path = path
        self.db = self.own = db
        """The connection. A hazard may put something in front of `db`; `own` stays."""
        self.timeout_ms = timeout_ms
        self._process = os.getpid()
        self._wal: int | None = None
        self._salts: bytes | None = None
        self._close_wal: Callable[[], object] = bool
        self.failpoint: Callable[[str], None] = _pass
        """Called with the name of each point that a call comes to; a hazard puts itself here."""
        self._transaction = Transaction(self)
        self._remove_folder: Callable[[], object] = bool

    @classmethod
    def create(cls, path: str | os.PathLike, schema: tuple[str, ...], timeout_ms: int = TIMEOUT_MS) -> Store:
        """Make a new database file with the tables of `schema` and open it.

        Raises FileRefused (exists) when the path or a leftover of SQLite beside it is there;
        whatever is there stays byte for byte as it was. Raises NotWritten when the schema is wrong
        or the disk is full; then nothing is left behind. The file gets its name when it is whole.
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
            if isinstance(error, Indefinite):  # a COMMIT that failed; the file that it went into is gone
                raise NotWritten(error.reason, f"{path.name} could not be made and was removed") from error
            raise

    @classmethod
    def open(cls, path: str | os.PathLike, timeout_ms: int = TIMEOUT_MS, reading: bool = False) -> Store:
        """Open a database file that `create` made.

        With `reading`, a file or folder without write permission will do; then `write` is refused.
        Raises FileRefused for anything else, with the reason, and leaves the file unchanged: it is
        looked at without a lock before it is opened. Raises Damaged, and Locked when another program
        keeps the whole file for itself.
        """
        path = Path(path).absolute()
        store = cls(path, None, timeout_ms)
        process.enter(store, database_file.check(path, reading), lambda: database_file.no_foreign_wal(path))
        return store._connect(reading)

    @classmethod
    def temporary(cls, schema: tuple[str, ...], timeout_ms: int = TIMEOUT_MS) -> Store:
        """A new database file in a temporary folder of its own, which `close` removes."""
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
        """A database file in the empty file at `path`, with its tables in the file itself and not only in a WAL."""
        store, info = cls(path, None, timeout_ms), path.stat()
        process.enter(store, (info.st_dev, info.st_ino), bool)
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
        """A second connection to the same file, with the same timeout."""
        self._check_process()
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
        self._check_process()
        try:
            return self.db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def require(self, schema: tuple[str, ...]) -> None:
        """Raises FileRefused (tables) unless the file has the tables of `schema`, to the letter."""
        there = {sql for (sql,) in self.read("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")}
        for statement in schema:
            if statement.startswith("CREATE") and statement not in there:
                name = statement.split("(")[0].split()[-1]
                raise FileRefused(
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
        """Close the connection; a temporary database file is removed with it. Closing twice is harmless. In a
        forked child nothing happens: the file and its folder are the parent's."""
        if os.getpid() == self._process:
            self._close_wal()
            self.db.close()
            process.leave(self)
            self._remove_folder()

    def __reduce__(self) -> str:
        raise process.refusal(f"a store can't be handed to another process; hand over {self.path.name!r}")

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise process.refusal(f"this store of {self.path.name} was opened in another process")

    def _stamp(self) -> None:
        """Raise the file's stamp in the open transaction, if it is the first that this store writes into this
        WAL as it finds it. Why: `receiptlab.wal`. SQLite draws new salts when it begins a WAL anew."""
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
        """Undo what the transaction did. Where even that fails, closing the connection undoes it. A forked
        child does neither."""
        if os.getpid() != self._process:
            return
        try:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
        except sqlite3.Error:
            self.db.close()

    def _translated(self, error: sqlite3.Error, committing: bool = False) -> Definite | Indefinite:
        """The lab's word for an error of SQLite: definite, unless COMMIT failed half way.

        A COMMIT that is turned away (locked, a deferred constraint) has written nothing. Where the disk
        is full, the last frame of the transaction is missing in the WAL, or cut: SQLITE_FULL is the
        answer to a write alone, and without that frame nobody sees the rest. After any other failure
        of COMMIT the frames may or may not be in the WAL for the next reader.
        """
        code = getattr(error, "sqlite_errorcode", None)
        name = getattr(error, "sqlite_errorname", None) or type(error).__name__
        if name == "unknown":  # Python has no name for this code, and here the word means something else
            name = f"SQLITE_{code}"
        primary = code & 0xFF if code is not None else None
        if primary in database_file.BUSY:
            return Locked(
                name,
                f"another connection held {self.path.name} locked for {self.timeout_ms} ms; "
                "nothing was written; end the other program or call again",
            )
        if "closed database" in str(error):
            return NotWritten("closed", "this store was closed; nothing was written; open it again")
        if primary in database_file.DAMAGED:
            what = f"{self.path.name} is damaged ({name}: {error}); stop, and restore a backup"
            return Indefinite("damaged", f"COMMIT failed: {what}") if committing else Damaged(what)
        if committing and primary not in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_FULL):
            return Indefinite(name, f"COMMIT failed ({error}); look into the file before you go on")
        return NotWritten(name, f"the transaction was rolled back ({error}); nothing was written")

    def _fill(self, schema: tuple[str, ...]) -> None:
        with self.write() as db:
            for statement in schema:
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {database_file.APPLICATION_ID}")
            stamp = wal.first_stamp(self.path)
            db.execute(f"PRAGMA user_version = {stamp << 8 | database_file.SCHEMA_VERSION}")
        # `open` reads the header from the file itself, so it must not wait in the WAL.
        self.read("PRAGMA wal_checkpoint(TRUNCATE)")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _pass(point: str) -> None:
    """What is called at a point where no hazard waits."""


def _remove(folder: str, process_id: int) -> None:
    """Remove a temporary folder, unless this is a forked child: it is the parent's."""
    if os.getpid() == process_id:
        shutil.rmtree(folder, ignore_errors=True)
