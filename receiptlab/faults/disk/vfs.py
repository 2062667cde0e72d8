"""SQLite on a disk of `faults.disk.log`: a virtual file system, and a connection to replace a store's.

It needs apsw, which brings its own SQLite. The files that it leaves are opened with the SQLite of the
standard library.

Files of apsw have no shared memory. So a WAL needs the exclusive locking mode, in which SQLite keeps the
WAL's index in its own memory, and writes and syncs as usual. Only one connection can use it, so this
module says nothing about two.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import apsw

from receiptlab import database_file
from receiptlab.faults.disk.log import Disk, DiskFault

NAME = "receipts.db"
_FOLDER_TOO = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
_numbers = itertools.count(1)


class Setting(NamedTuple):
    """How a connection writes: its journal mode, its synchronous setting, and the number of WAL pages that
    triggers a checkpoint. SQLite's default is 1000; a small number makes checkpoints happen in a short
    run."""

    journal: str
    synchronous: str
    pages: int = 1000

    def __str__(self) -> str:
        often = f", checkpoint at {self.pages} pages" if self.pages != 1000 else ""
        return f"{self.journal.upper()}, synchronous {self.synchronous.upper()}{often}"


PRODUCT = ("wal", "full")
"""Placeholder for the journal mode and synchronous setting of `database_file.connect`."""


class FileSystem(apsw.VFS):
    """The virtual file system that leads SQLite to the disk."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.own_name = f"receiptlab-{next(_numbers)}"
        super().__init__(self.own_name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> OpenFile:
        plain = name.filename() if isinstance(name, apsw.URIFilename) else name
        create = bool(flags[0] & apsw.SQLITE_OPEN_CREATE)
        with _Expected():
            file = self.disk.open(plain, create)
        if file is None:
            raise apsw.exception_for(apsw.SQLITE_CANTOPEN)
        flags[1] = flags[0]
        return OpenFile(self.disk, file, plain, create and bool(flags[0] & _FOLDER_TOO))

    def xDelete(self, name: str, folder: bool) -> None:
        with _Expected():
            found = self.disk.delete(name, folder)
        if not found:
            raise apsw.exception_for(apsw.SQLITE_IOERR_DELETE_NOENT)

    def xAccess(self, name: str, flags: int) -> bool:
        return name in self.disk.names

    def xFullPathname(self, name: str) -> str:
        return name


class OpenFile(apsw.VFSFile):
    """An open file. The first sync of a new journal or WAL syncs its folder too, as SQLite does on Unix."""

    def __init__(self, disk: Disk, file: int, name: str | None, folder: bool) -> None:
        self.disk, self.file, self.name, self.folder = disk, file, name, folder

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self.disk.contents[self.file][offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        with _Expected():
            self.disk.write(self.file, self.name, offset, bytes(data))

    def xTruncate(self, size: int) -> None:
        with _Expected():
            self.disk.truncate(self.file, self.name, size)

    def xSync(self, flags: int) -> None:
        with _Expected():
            self.disk.sync(self.file, self.name, self.folder)
        self.folder = False

    def xFileSize(self) -> int:
        return len(self.disk.contents[self.file])

    def xLock(self, level: int) -> None:
        """No other connection exists."""

    def xUnlock(self, level: int) -> None:
        """No other connection exists."""

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 4096  # what SQLite assumes on Unix, like the next one

    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xClose(self) -> None:
        """Nothing to close."""


class _Expected:
    """Translates a fault of the disk into the error that apsw gives to SQLite."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DiskFault):
            raise apsw.exception_for(getattr(apsw, error.code)) from None


class ResultRows:
    """The result of a statement, in the form of a sqlite3 cursor."""

    def __init__(self, rows: list[tuple], lastrowid: int, rowcount: int) -> None:
        self._rows = iter(rows)
        self.lastrowid, self.rowcount = lastrowid, rowcount

    def fetchone(self) -> tuple | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple]:
        return list(self._rows)

    def __iter__(self) -> Iterator[tuple]:
        return self._rows


class Connection:
    """A connection to the disk, for `Store.db`: the part of sqlite3 that contracts use, with its errors."""

    def __init__(self, disk: Disk, pages: int = 1000) -> None:
        self.disk, self._pages, self.closed = disk, pages, False
        self._system = FileSystem(disk)
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        try:
            self._db = apsw.Connection(NAME, vfs=self._system.own_name, flags=flags)
        except apsw.Error as error:
            self._system.unregister()
            raise _as_sqlite3(error) from error
        # Not PRAGMA wal_autocheckpoint: SQLite ignores an error of its automatic checkpoint, apsw reports it.
        self._db.set_wal_hook(self._written)

    def execute(self, sql: str, values: tuple | dict = ()) -> ResultRows:
        """Run one statement to completion."""
        try:
            rows = list(self._db.execute(sql, values))
        except apsw.Error as error:
            raise _as_sqlite3(error) from error
        return ResultRows(rows, self._db.last_insert_rowid(), self._db.changes())

    @property
    def in_transaction(self) -> bool:
        return self._db.in_transaction

    @property
    def total_changes(self) -> int:
        return self._db.total_changes()

    def close(self) -> None:
        """Close the connection. Errors are ignored, as in sqlite3."""
        self.closed = True
        try:
            self._db.close()
        except apsw.Error:
            self._db.close(True)
        self._system.unregister()

    def _written(self, db: apsw.Connection, name: str, pages: int) -> int:
        if pages >= self._pages:
            with contextlib.suppress(apsw.Error):  # the commit is complete; the next one tries again
                db.wal_checkpoint(name)
        return apsw.SQLITE_OK


@functools.cache
def settings_of(connect: Callable) -> dict[str, object]:
    """The settings of a connection made by `connect`, as SQLite reports them."""
    with tempfile.TemporaryDirectory(prefix="receiptlab-") as folder:
        path = Path(folder) / NAME
        path.touch()
        with contextlib.closing(connect(path, 0)) as db:
            names = ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
            return {name: db.execute(f"PRAGMA {name}").fetchone()[0] for name in names}


def opened(disk: Disk, setting: Setting) -> Connection:
    """A connection with the settings of `database_file.connect`, so that a weaker setting there is noticed
    here. Only a setting other than PRODUCT replaces the journal mode and synchronous. Raises sqlite3's
    errors."""
    pragmas = dict(settings_of(database_file.connect))
    if setting[:2] != PRODUCT:
        pragmas |= {"journal_mode": setting.journal, "synchronous": setting.synchronous}
    db = Connection(disk, setting.pages)
    try:
        if pragmas["journal_mode"] == "wal":
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
        for name, value in pragmas.items():
            db.execute(f"PRAGMA {name} = {value}")
    except sqlite3.Error:
        db.close()
        raise
    return db


class _Seed(apsw.VFS):
    def __init__(self, seed: str) -> None:
        self.seed = seed
        super().__init__("receiptlab-seed", "", makedefault=True)

    def xRandomness(self, count: int) -> bytes:
        return hashlib.shake_256(self.seed.encode()).digest(count)


def seed(text: str) -> None:
    """Make SQLite use the same salts and nonces each time. This file system becomes the default for a
    moment, because SQLite only asks the default one for randomness."""
    system = _Seed(text)
    apsw.randomness(0)
    apsw.randomness(4)
    system.unregister()


_KINDS = {
    apsw.SQLITE_CONSTRAINT: sqlite3.IntegrityError,
    apsw.SQLITE_CORRUPT: sqlite3.DatabaseError,
    apsw.SQLITE_NOTADB: sqlite3.DatabaseError,
    apsw.SQLITE_MISUSE: sqlite3.ProgrammingError,
}


def _as_sqlite3(error: apsw.Error) -> sqlite3.Error:
    """The error that the standard library would raise, with SQLite's code and name."""
    if isinstance(error, apsw.ConnectionClosedError):
        return sqlite3.ProgrammingError("Cannot operate on a closed database.")
    code = getattr(error, "extendedresult", apsw.SQLITE_ERROR)
    made = _KINDS.get(code & 0xFF, sqlite3.OperationalError)(str(error))
    names = apsw.mapping_extended_result_codes | apsw.mapping_result_codes
    made.sqlite_errorcode, made.sqlite_errorname = code, names.get(code, "SQLITE_ERROR")
    return made
