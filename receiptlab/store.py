"""One SQLite file: made, opened and written in one way. Standard library only.

`Store.write()` is the one way to write, and the only BEGIN IMMEDIATE in the package.
One writer at a time, one host: WAL needs shared memory and is no protocol between hosts
(https://www.sqlite.org/wal.html).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

from receiptlab.errors import Definite, Indefinite, Locked, NotAFixture, NotWritten

APPLICATION_ID = 0x52434C42  # "RCLB"; guards against accidents, not against an editor of the file
SCHEMA_VERSION = 1
SQLITE_NEEDED = (3, 37, 0)  # the first with STRICT tables, https://www.sqlite.org/stricttables.html
TIMEOUT_MS = 5_000
POINTS = ("before_commit", "after_commit")

_MAGIC = b"SQLite format 3\x00"
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Transaction:
    """What `Store.write` gives. A class and not a generator: it is on the path of every call."""

    __slots__ = ("store",)

    def __init__(self, store: Store) -> None:
        self.store = store

    def __enter__(self) -> sqlite3.Connection:
        db = self.store.db
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise self.store._translated(error) from error
        return db

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._commit()
            return
        self.store._roll_back()
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


class Store:
    """A connection to one fixture file. Make it with `create`, `open` or `temporary`."""

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
        whatever is there stays byte for byte as it was.
        """
        path = Path(path)
        _new_file(path)
        try:
            store = _connect(path, timeout_ms)
            try:
                store._fill(schema)
            except BaseException:
                store.close()
                raise
        except BaseException:
            _remove(path)
            raise
        return store

    @classmethod
    def open(cls, path: str | os.PathLike, timeout_ms: int = TIMEOUT_MS) -> Store:
        """Open a fixture that `create` made.

        Raises NotAFixture for anything else, with the reason, and leaves the file unchanged:
        its first bytes are read and checked before SQLite sees it.
        """
        path = Path(path)
        _check_header(path)
        return _connect(path, timeout_ms)

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
        """A second connection to the same file, as another process would have."""
        return Store.open(self.path, self.timeout_ms)

    def write(self) -> Transaction:
        """One write transaction: BEGIN IMMEDIATE … COMMIT, rolled back on any exception.

        Use it as `with store.write() as db`. Raises Locked when another connection keeps the write
        lock for `timeout_ms`, NotWritten when a statement fails (both definite), and Indefinite when
        COMMIT itself fails in a way that leaves open what a later reader of the file will find.
        """
        return self._transaction

    def read(self, sql: str, values: tuple | dict = ()) -> list[tuple]:
        """The rows of one SELECT, as they stand in the file now."""
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
        primary = code & 0xFF if code is not None else None
        if primary in _BUSY:
            return Locked(
                name,
                f"another connection held {self.path.name} locked for {self.timeout_ms} ms; "
                "nothing was written; end the other program or call again",
            )
        if committing and primary != sqlite3.SQLITE_CONSTRAINT:
            return Indefinite(name, f"COMMIT failed ({error}); look into the file before you go on")
        return NotWritten(name, f"the transaction was rolled back ({error}); nothing was written")

    def _fill(self, schema: tuple[str, ...]) -> None:
        with self.write() as db:
            for statement in schema:
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        # `open` reads the header from the file itself, so it must not wait in the WAL.
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _pass(point: str) -> None:
    """What is called at a point where no hazard waits."""


def _new_file(path: Path) -> None:
    for leftover in (Path(f"{path}{end}") for end in ("-wal", "-shm", "-journal")):
        if os.path.lexists(leftover):
            raise NotAFixture("exists", f"{leftover} is there already; move it away or take another name")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644))
    except FileExistsError:
        raise NotAFixture("exists", f"{path} is there already; open it or take another name") from None
    except OSError as error:
        raise NotAFixture(
            "no-access", f"{path} cannot be made ({error.strerror}); take a folder that exists and is yours"
        ) from None


def _remove(path: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(OSError):
            os.unlink(f"{path}{end}")


def _check_header(path: Path) -> None:
    """Refuse all that is not a fixture by its first 100 bytes, https://www.sqlite.org/fileformat.html"""
    try:
        if not path.is_file():
            reason = "not-a-file" if path.exists() else "missing"
            raise NotAFixture(reason, f"{path} is no file; make a fixture first, or correct the path")
        with path.open("r+b") as file:  # for writing, or SQLite would open it for reading alone
            header = file.read(100)
    except OSError as error:
        raise NotAFixture("no-access", f"{path} cannot be read and written ({error.strerror})") from None
    if not header:
        raise NotAFixture("empty", f"{path} is empty; it may be another program's file in the making")
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise NotAFixture("not-sqlite", f"{path} is no SQLite database")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise NotAFixture("application-id", f"{path} is a database of another application")
    version = int.from_bytes(header[60:64], "big")
    if version != SCHEMA_VERSION:
        raise NotAFixture(
            "schema-version",
            f"{path} has schema version {version}, this lab reads {SCHEMA_VERSION}; make it anew",
        )


def _connect(path: Path, timeout_ms: int) -> Store:
    if sqlite3.sqlite_version_info < SQLITE_NEEDED:
        needed = ".".join(map(str, SQLITE_NEEDED))
        raise NotAFixture("sqlite-too-old", f"SQLite {needed} is needed, this is {sqlite3.sqlite_version}")
    db = None
    try:
        db = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=timeout_ms / 1000
        )
        mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA secure_delete = ON")
    except sqlite3.Error as error:
        if db is not None:
            db.close()
        raise _cannot_open(path, error, timeout_ms) from error
    if mode != "wal":
        db.close()
        raise NotAFixture("no-wal", f"the folder of {path} cannot hold a WAL (mode {mode}); use a local disk")
    return Store(path, db, timeout_ms)


def _cannot_open(path: Path, error: sqlite3.Error, timeout_ms: int) -> Definite:
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY:
        return Locked(name, f"another program held {path} locked for {timeout_ms} ms; end it and open again")
    return NotAFixture(
        "no-access", f"{path} cannot be opened for writing ({name}: {error}); check the file and its folder"
    )
