"""The fixture file itself: made only where nothing is, opened only if it is one. Standard library only.

Nothing here opens an existing file but SQLite. On POSIX systems, closing any handle on a file drops
the locks that the process holds on it, SQLite's too (https://www.sqlite.org/howtocorrupt.html, section
2.2). So do not read or copy a fixture by other means in a process that has it open.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from receiptlab.errors import Damaged, Definite, Locked, NotAFixture

APPLICATION_ID = 0x52434C42  # "RCLB"; guards against accidents, not against an editor of the file
SCHEMA_VERSION = 1
SQLITE_NEEDED = (3, 37, 0)  # the first with STRICT tables, https://www.sqlite.org/stricttables.html
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

_BESIDE = ("-wal", "-shm", "-journal")
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def new_file(path: Path) -> None:
    """Make an empty file at `path`. Raises NotAFixture (exists, no-access) and touches nothing."""
    for leftover in (Path(f"{path}{end}") for end in _BESIDE):
        if os.path.lexists(leftover):
            raise NotAFixture("exists", f"{leftover} is there already; move it away or take another name")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644))
    except FileExistsError:
        raise NotAFixture("exists", f"{path} is there already; open it or take another name") from None
    except OSError as error:
        what = f"{path} cannot be made ({error.strerror}); take a folder that exists and is yours"
        raise NotAFixture("no-access", what) from None


def remove(path: Path) -> None:
    """Remove a fixture that could not be finished, and what SQLite left beside it."""
    for end in ("", *_BESIDE):
        with contextlib.suppress(OSError):
            os.unlink(f"{path}{end}")


def check(path: Path) -> None:
    """Raises NotAFixture for all that is no fixture, and leaves it unchanged."""
    try:
        size = path.stat().st_size
    except OSError as error:
        reason = "missing" if isinstance(error, FileNotFoundError) else "no-access"
        raise NotAFixture(
            reason, f"{path}: {error.strerror}; make a fixture first, or correct the path"
        ) from None
    if not path.is_file():
        raise NotAFixture("not-a-file", f"{path} is no file; correct the path")
    if not size:
        raise NotAFixture("empty", f"{path} is empty; it may be another program's file in the making")
    if not os.access(path, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise NotAFixture("no-access", f"{path} may not be read and written; check its rights")
    application, version = _header(path, size)
    if application != APPLICATION_ID:
        raise NotAFixture("application-id", f"{path} is a database of another application")
    if version != SCHEMA_VERSION:
        what = f"{path} has schema version {version}, this lab reads {SCHEMA_VERSION}; make it anew"
        raise NotAFixture("schema-version", what)


def _header(path: Path, size: int) -> tuple[int, int]:
    """Application id and schema version, as the file alone has them: read without locks or a WAL."""
    if size >= 512:
        try:
            with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
                # While another process checkpoints, or after it died in that, the first page counts pages
                # that are still in the WAL alone. Without this SQLite takes the file for a damaged one.
                db.execute("PRAGMA writable_schema = ON")
                names = ("application_id", "user_version")
                return tuple(db.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        except (sqlite3.Error, UnicodeError) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_CANTOPEN:
                what = f"{path} cannot be opened ({error}); this process may have too many open files"
                raise NotAFixture("no-access", what) from None
    raise NotAFixture("not-sqlite", f"{path} is no SQLite database")


def connect(path: Path, timeout_ms: int) -> sqlite3.Connection:
    """A connection with every setting said. Raises NotAFixture or Locked."""
    if sqlite3.sqlite_version_info < SQLITE_NEEDED:
        needed = ".".join(map(str, SQLITE_NEEDED))
        raise NotAFixture("sqlite-too-old", f"SQLite {needed} is needed, this is {sqlite3.sqlite_version}")
    db = None
    try:
        db = sqlite3.connect(
            f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=timeout_ms / 1000
        )
        mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA secure_delete = ON")
    except (sqlite3.Error, UnicodeError) as error:
        if db is not None:
            db.close()
        raise _cannot_open(path, error, timeout_ms) from error
    if mode != "wal":
        db.close()
        raise NotAFixture("no-wal", f"the folder of {path} cannot hold a WAL (mode {mode}); use a local disk")
    return db


def _cannot_open(path: Path, error: Exception, timeout_ms: int) -> Definite:
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in BUSY:
        return Locked(name, f"another program held {path} locked for {timeout_ms} ms; end it and open again")
    if code in DAMAGED or isinstance(error, UnicodeError):
        return Damaged(f"{path} is damaged ({name}: {error}); stop, and restore a backup")
    return NotAFixture(
        "no-access", f"{path} cannot be opened for writing ({name}: {error}); check its folder"
    )
