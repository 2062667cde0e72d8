"""Create, check and open a database file. Never overwrites an existing file.

On POSIX systems, closing any handle on a file drops all locks that the process holds on it, including those
of SQLite (https://www.sqlite.org/howtocorrupt.html, section 2.2). So a process that has a database file open
must not read or copy it by other means. In this package only SQLite opens an existing file, and
`receiptlab.wal`, which `Store.open` calls only while the process doesn't have the file open.
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

APPLICATION_ID = 0x52434C42  # "RCLB"; protects against accidents, not against forgery
SCHEMA_VERSION = 1  # the low byte of user_version; above it is the stamp, see `receiptlab.wal`
SQLITE_NEEDED = (3, 37, 0)  # the first with STRICT tables, https://www.sqlite.org/stricttables.html
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_BESIDE = ("-wal", "-shm", "-journal")
_MAKING = "-making-"


def new_file(path: Path) -> Path:
    """Make an empty file beside `path`, which `publish` renames to `path` once it is complete.

    Raises FileRefused (exists, no-access) and changes nothing.
    """
    for there in (path, *(Path(f"{path}{end}") for end in _BESIDE)):
        if os.path.lexists(there):
            what = "open it" if there == path else "move it away"
            raise FileRefused("exists", f"{there} already exists; {what}, or choose another name")
    making = Path(f"{path}{_MAKING}{os.getpid()}-{threading.get_ident()}")
    remove(making)  # a killed process with the same number may have left one
    try:
        os.close(os.open(making, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644))
    except OSError as error:
        what = f"{path} can't be created ({error.strerror}); choose a folder that exists and is writable"
        raise FileRefused("no-access", what) from None
    return making


def publish(making: Path, path: Path) -> None:
    """Give the complete file its name. Raises FileRefused (exists) if the name is taken.

    A process that is killed before this leaves a harmless file `…-making-…`, which the next call for the same
    path removes. On a file system without hard links, `path` is an empty file for a moment.
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
        raise FileRefused("exists", f"{path} already exists; open it, or choose another name") from None
    for leftover in _unfinished(path):
        with contextlib.suppress(OSError):
            leftover.unlink()
    if os.name == "posix":  # elsewhere a folder can't be opened and needs no sync
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _unfinished(path: Path) -> list[Path]:
    """The unfinished files for this path, of processes that were killed or lost the race for the name."""
    ends = "|".join(_BESIDE)
    ours = re.compile(rf"{re.escape(path.name)}{_MAKING}\d+-\d+({ends})?")
    return [each for each in path.parent.iterdir() if ours.fullmatch(each.name)]


def remove(path: Path) -> None:
    """Remove an unfinished database file and the files that SQLite left beside it."""
    for end in ("", *_BESIDE):
        with contextlib.suppress(OSError):
            os.unlink(f"{path}{end}")


def check(path: Path, reading: bool = False) -> tuple[int, int]:
    """Check that the file is a database file of this lab, without changing it. Returns its device and inode.

    Raises FileRefused. With `reading` it need not be writable.
    """
    try:
        info = path.stat()
        if info.st_nlink > 1:
            info = _one_name(path, info)
    except OSError as error:
        reason = "missing" if isinstance(error, FileNotFoundError) else "no-access"
        what = f"{path}: {error.strerror}; correct the path, or create a database file first"
        raise FileRefused(reason, what) from None
    if not path.is_file():
        raise FileRefused("not-a-file", f"{path} is not a file; correct the path")
    if not info.st_size:
        what = f"{path} is empty; another program may be creating it, so try again or choose another path"
        raise FileRefused("empty", what)
    if info.st_nlink > 1:
        what = f"{path} has {info.st_nlink} names (hard links), and each name would get its own WAL"
        what += "; remove the others, or make a copy with SQLite's backup API and open the copy"
        raise FileRefused("hard-link", what)
    if not _may(path, os.R_OK):
        raise FileRefused("no-access", f"{path} can't be read; check its permissions")
    if not reading and not _may(path, os.W_OK):
        raise FileRefused(
            "no-access", f"{path} can't be written; check its permissions, or open it for reading"
        )
    application, version = _header(path, info.st_size)
    if application != APPLICATION_ID:
        what = f"{path} is a database of another application; correct the path"
        raise FileRefused("application-id", what)
    if version & 0xFF != SCHEMA_VERSION or version < 0:
        what = (
            f"{path} has schema version {version & 0xFF}, and this version of the lab reads {SCHEMA_VERSION}"
        )
        what += "; open it with the version of the lab that made it"
        raise FileRefused("schema-version", what)
    return info.st_dev, info.st_ino


def _one_name(path: Path, info: os.stat_result) -> os.stat_result:
    """Remove the second name that a killed `publish` leaves, and return the file's new stat."""
    for leftover in _unfinished(path) if path.is_file() else ():
        if os.path.samestat(leftover.lstat(), info):
            leftover.unlink(missing_ok=True)
    return path.stat()


def _may(path: Path, how: int) -> bool:
    return os.access(path, how, effective_ids=os.access in os.supports_effective_ids)


def no_foreign_wal(path: Path) -> None:
    """Raise FileRefused (foreign-wal) if the -wal or -journal beside the file belongs to another file.
    This process must not have the file open."""
    try:
        found = wal.foreign(path)
    except OSError as error:
        what = f"the WAL of {path} can't be read ({error.strerror}); check its permissions"
        raise FileRefused("no-access", what) from None
    if found:
        what = (
            f"{found} belongs to another file or to another state of {path.name}, and applying it would "
            f"damage this one; nothing was changed; to use {path.name} as it is, move {found.name} away and "
            "open it again (keep it: it has the last calls of the file that it belongs to)"
        )
        raise FileRefused("foreign-wal", what)


def _header(path: Path, size: int) -> tuple[int, int]:
    """The application id and user_version in the file itself, read without locks and without the WAL."""
    if size >= 512:
        try:
            with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
                # During a checkpoint, or after a process died in one, the first page counts pages that are
                # still only in the WAL. Without this pragma SQLite would report the file as damaged.
                db.execute("PRAGMA writable_schema = ON")
                application = db.execute("PRAGMA application_id").fetchone()[0]
                return application, db.execute("PRAGMA user_version").fetchone()[0]
        except (sqlite3.Error, UnicodeError) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_CANTOPEN:
                what = f"{path} can't be opened ({error}); close other files, this process may have too many"
                raise FileRefused("no-access", what) from None
    raise FileRefused("not-sqlite", f"{path} is not an SQLite database; correct the path")


def connect(path: Path, timeout_ms: int, reading: bool = False) -> sqlite3.Connection:
    """Open a connection and set everything that the lab relies on. With `reading`, a write-protected file or
    folder gets a read-only connection. Raises FileRefused, Damaged or Locked."""
    if sqlite3.sqlite_version_info < SQLITE_NEEDED:
        needed = ".".join(map(str, SQLITE_NEEDED))
        what = f"the lab needs SQLite {needed}, this is {sqlite3.sqlite_version}; use a newer Python"
        raise FileRefused("sqlite-too-old", what)
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
        raise FileRefused("no-wal", f"{path} can't have a WAL in its folder (mode {mode}); use a local disk")
    return db


def _connect_reading(path: Path, timeout_ms: int) -> sqlite3.Connection:
    """Open a read-only connection. If there is no WAL, the file is complete and not in use, so it is read
    without locks, which would need files beside it. If there is one, SQLite needs the -shm file too."""
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
                f"{path} can't be read here, because SQLite may not create the -shm file that it needs to "
                f"read the last calls from {beside['-wal'].name}; stop the service, copy the file and its "
                "-wal together into your own folder, and open the copy"
            )
            raise FileRefused("no-access", what) from error
        raise _cannot_open(path, error, timeout_ms) from error
    return db


def _cannot_open(path: Path, error: Exception, timeout_ms: int) -> Definite:
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in BUSY:
        what = f"another program kept {path} locked for {timeout_ms} ms; open it again, or end that program"
        return Locked(name, what)
    if code in DAMAGED or isinstance(error, UnicodeError):
        return Damaged(f"{path} is damaged ({name}: {error}); stop, and restore a backup")
    return FileRefused(
        "no-access", f"{path} can't be opened ({name}: {error}); check its folder's permissions"
    )
