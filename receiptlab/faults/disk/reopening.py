"""Checks of reopened files, with the SQLite of the standard library (for H-4 and H-5)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from receiptlab.database_file import APPLICATION_ID
from receiptlab.errors import FileRefused, LabError
from receiptlab.store import Store

NAME = "receipts.db"


class Found(NamedTuple):
    """`refused` is the reason why the file could not be opened, `damage` what SQLite found wrong in it,
    and `broken` the invariants that don't hold. `moment` is a digest of all rows."""

    refused: str = ""
    damage: str = ""
    broken: tuple[str, ...] = ()
    moment: str = ""


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """An empty folder for the files within the block, in memory where the system has that."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="receiptlab-", dir=place) as made:
        yield Path(made)


def lay(files: dict[str, bytes], where: Path) -> Path:
    """Write these files into the folder and remove all others. Returns the database's path."""
    for old in where.iterdir():
        old.unlink()
    for name, content in files.items():
        (where / name).write_bytes(content)
    return where / NAME


def moment(db: object) -> str:
    """A digest of every table and every row, over any connection."""
    digest = hashlib.sha256()
    for name, sql in db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name"):
        rows = sorted(map(repr, db.execute(f"SELECT * FROM {name}").fetchall()))
        digest.update(repr((name, sql, rows)).encode())
    return digest.hexdigest()


def look(path: Path, rules: dict[str, str], store: bool = True) -> Found:
    """Open the file and check all of it: as a database file of the lab or, without `store`, as any
    database."""
    try:
        with contextlib.closing(Store.open(path) if store else _plain(path)) as opened:
            db = opened.db if store else opened
            db.execute("PRAGMA synchronous = OFF")  # this check needn't be durable
            wrong = [text for (text,) in db.execute("PRAGMA integrity_check") if text != "ok"]
            wrong += [f"a reference of {row[0]}" for row in db.execute("PRAGMA foreign_key_check")]
            if wrong:
                return Found(damage=wrong[0])
            broken = tuple(name for name, sql in rules.items() if db.execute(sql).fetchone())
            return Found(broken=broken, moment=moment(db))
    except LabError as error:
        return Found(refused=getattr(error, "reason", "") or str(error))
    except sqlite3.Error as error:
        return Found(damage=f"{type(error).__name__}: {error}")


def _plain(path: Path) -> sqlite3.Connection:
    """Open any database, with its rollback journal applied. Raises FileRefused when there is none yet."""
    if not path.exists():
        raise FileRefused("missing", "there is no file")
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA synchronous = OFF")
    if db.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        db.close()
        raise FileRefused("empty", "nothing was written yet")
    return db
