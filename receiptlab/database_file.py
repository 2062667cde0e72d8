"""The database file itself: made only where nothing is, opened only if it is one. Standard library only.

On POSIX systems, closing any handle on a file drops the locks that the process holds on it, SQLite's too
(https://www.sqlite.org/howtocorrupt.html, section 2.2). So do not read or copy a database file by other means in
a process that has it open. Here only SQLite opens an existing file, and `receiptlab.wal`, which is asked
only while this process doesn't have the file open.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
from pathlib import Path

from receiptlab import wal
from receiptlab.errors import Damaged, Definite, FileRefused, Locked

APPLICATION_ID = 0x52434C42  # "RCLB"; guards against accidents, not against an editor of the file
SCHEMA_VERSION = 1  # the low byte of user_version; above it is the stamp, see `receiptlab.wal`
SQLITE_NEEDED = (3, 37, 0)  # the first with STRICT tables, https://www.sqlite.org/stricttables.html
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_BESIDE = ("-wal", "-shm", "-journal")
_MAKING = "-making-"


def new_file(path: Path) -> Path:
    """Make an empty file beside `path`, to become the file at `path` when it is whole; see `publish`.

    Raises FileRefused (exists, no-access) and touches nothing.
    """
    for there in (path, *(Path(f"{path}{end}") for end in _BESIDE)):
        if os.path.lexists(there):
            what = "open it" if there == path else "move it away"
            raise FileRefused("exists", f"{there} is there already; {what} or take another name")
    making = Path(f"{path}{_MAKING}{os.getpid()}-{threading.get_ident()}")
    remove(making)  # left behind by a process of this number that was killed
    try:
        os.close(os.open(making, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644))
    except OSError as error:
        what = f"{path} cannot be made ({error.strerror}); take a folder that exists and is yours"
        raise FileRefused("no-access", what) from None
    return making


def publish(making: Path, path: Path) -> None:
    """Give the whole file its name, never over something that is there. Raises FileRefused (exists).

    A process that is killed before this leaves a file `…-making-…` that is in nobody's way; the next one
    to get here removes it. Where the file system has no hard links, `path` is for a moment an empty file.
    """
    try:
        try:
            os.link(making, path)
        except FileExistsError:
            raise
        except OSError:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            os.replace(making, path)
    except FileExistsError:
        raise FileRefused("exists", f"{path} is there already; open it or take another name") from None
    for leftover in _unfinished(path):
        with contextlib.suppress(OSError):
            leftover.unlink()
    if os.name == "posix":  # elsewhere a folder can't be opened, and needs no sync
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _unfinished(path: Path) -> list[Path]:
    """What killed processes left of a file in the making, and what lost the race for its name."""
    ends = "|".join(_BESIDE)
    ours = re.compile(rf"{re.escape(path.name)}{_MAKING}\d+-\d+({ends})?")
    return [each for each in path.parent.iterdir() if ours.fullmatch(each.name)]


def remove(path: Path) -> None:
    """Remove a database file that could not be finished, and what SQLite left beside it."""
    for end in ("", *_BESIDE):
        with contextlib.suppress(OSError):
            os.unlink(f"{path}{end}")


def check(path: Path, reading: bool = False) -> tuple[int, int]:
    """Raises FileRefused for all that is no database file, and leaves it unchanged. Returns the file's device and
    number. With `reading` it need not be writable."""
    try:
        info = path.stat()
        if info.st_nlink > 1:
            info = _one_name(path, info)
    except OSError as error:
        reason = "missing" if isinstance(error, FileNotFoundError) else "no-access"
        raise FileRefused(
            reason, f"{path}: {error.strerror}; make a database file first, or correct the path"
        ) from None
    if not path.is_file():
        raise FileRefused("not-a-file", f"{path} is no file; correct the path")
    if not info.st_size:
        raise FileRefused("empty", f"{path} is empty; it may be another program's file in the making")
    if info.st_nlink > 1:
        what = (
            f"{path} has {info.st_nlink} names (hard links), and each name would get its own WAL; "
            "remove the others, or make a copy with SQLite's backup API and open that"
        )
        raise FileRefused("hard-link", what)
    if not _may(path, os.R_OK if reading else os.R_OK | os.W_OK):
        raise FileRefused("no-access", f"{path} may not be read and written; check its rights")
    application, version = _header(path, info.st_size)
    if application != APPLICATION_ID:
        raise FileRefused("application-id", f"{path} is a database of another application")
    if version & 0xFF != SCHEMA_VERSION or version < 0:
        what = f"{path} has schema version {version & 0xFF}, this lab reads {SCHEMA_VERSION}; make it anew"
        raise FileRefused("schema-version", what)
    return info.st_dev, info.st_ino


def _one_name(path: Path, info: os.stat_result) -> os.stat_result:
    """The file's entry once the name is gone under which it was made: `publish` may have been killed."""
    for leftover in _unfinished(path) if path.is_file() else ():
        if os.path.samestat(leftover.lstat(), info):
            leftover.unlink(missing_ok=True)
    return path.stat()


def _may(path: Path, how: int) -> bool:
    return os.access(path, how, effective_ids=os.access in os.supports_effective_ids)


def no_foreign_wal(path: Path) -> None:
    """Raises FileRefused (foreign-wal) where a -wal or -journal beside the file belongs to another file.
    No connection of this process may have the file open."""
    try:
        found = wal.foreign(path)
    except OSError as error:
        raise FileRefused("no-access", f"{path}: its WAL can't be read ({error.strerror})") from None
    if found:
        what = (
            f"{found} was left by another file, or by another state of {path.name}; applied to this one it "
            f"would damage it. Nothing was changed. To go on with {path.name} as it is, move {found.name} "
            "away (keep it: it holds the last calls of the file that it belongs to), then open again"
        )
        raise FileRefused("foreign-wal", what)


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
                raise FileRefused("no-access", what) from None
    raise FileRefused("not-sqlite", f"{path} is no SQLite database")


def connect(path: Path, timeout_ms: int, reading: bool = False) -> sqlite3.Connection:
    """A connection with every setting said. With `reading` it can't write where file or folder can't be
    written. Raises FileRefused, Damaged or Locked."""
    if sqlite3.sqlite_version_info < SQLITE_NEEDED:
        needed = ".".join(map(str, SQLITE_NEEDED))
        raise FileRefused("sqlite-too-old", f"SQLite {needed} is needed, this is {sqlite3.sqlite_version}")
    if reading and not (_may(path, os.W_OK) and _may(Path(os.path.realpath(path)).parent, os.W_OK)):
        return _connect_reading(path, timeout_ms)
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
        raise FileRefused("no-wal", f"the folder of {path} cannot hold a WAL (mode {mode}); use a local disk")
    return db


def _connect_reading(path: Path, timeout_ms: int) -> sqlite3.Connection:
    """A connection that can't write. Without a WAL nobody has the file open and it is complete: it is read
    without locks, which would need files beside it. With one, SQLite needs to find the -shm there too."""
    beside = {end: Path(f"{os.path.realpath(path)}{end}") for end in _BESIDE}
    live = beside["-shm"].exists() or (beside["-wal"].exists() and beside["-wal"].stat().st_size)
    address = f"{path.as_uri()}?mode=ro{'' if live else '&immutable=1'}"
    db = None
    try:
        db = sqlite3.connect(address, uri=True, isolation_level=None, timeout=timeout_ms / 1000)
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except (sqlite3.Error, UnicodeError) as error:
        if db is not None:
            db.close()
        if live and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CANTOPEN:
            what = (
                f"{path} can't be read here: {beside['-wal'].name} holds its last calls, and SQLite may not "
                "make the -shm file that it needs for them. Copy the file and its -wal, both, into a folder "
                "of your own while no service runs, and open the copy"
            )
            raise FileRefused("no-access", what) from error
        raise _cannot_open(path, error, timeout_ms) from error
    return db


def _cannot_open(path: Path, error: Exception, timeout_ms: int) -> Definite:
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in BUSY:
        return Locked(name, f"another program held {path} locked for {timeout_ms} ms; end it and open again")
    if code in DAMAGED or isinstance(error, UnicodeError):
        return Damaged(f"{path} is damaged ({name}: {error}); stop, and restore a backup")
    return FileRefused(
        "no-access", f"{path} cannot be opened for writing ({name}: {error}); check its folder"
    )
