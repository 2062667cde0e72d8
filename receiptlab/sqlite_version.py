"""The version and compile options of SQLite that the lab's claims depend on."""

from __future__ import annotations

import platform
import sqlite3

RELEVANT = ("THREADSAFE", "DEFAULT_SYNCHRONOUS", "DEFAULT_WAL_SYNCHRONOUS", "SECURE_DELETE", "OMIT_WAL")
"""Compile options that change what a database file does. https://www.sqlite.org/compile.html"""

_FIXED_EARLIER = ((3, 44, 6), (3, 50, 7))


def wal_reset_defect(version: tuple[int, int, int]) -> bool:
    """Whether this version has the WAL-reset defect.

    From 3.7.0 to 3.51.2 two connections that write and checkpoint at the same instant can, very
    rarely, damage a database in WAL mode. 3.51.3 fixes it, and so do 3.44.6 and 3.50.7.
    Source: Write-Ahead Logging, section on the WAL-reset bug, https://www.sqlite.org/wal.html
    """
    fixed = any(version[:2] == fix[:2] and version >= fix for fix in _FIXED_EARLIER)
    return (3, 7, 0) <= version <= (3, 51, 2) and not fixed


def report() -> dict[str, str]:
    """Python, SQLite, the compile options that matter, and whether the WAL-reset defect applies."""
    with_defect = wal_reset_defect(sqlite3.sqlite_version_info)
    db = sqlite3.connect(":memory:")
    try:
        options = [row[0] for row in db.execute("PRAGMA compile_options")]
    finally:
        db.close()
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "compile options": ", ".join(sorted(o for o in options if o.startswith(RELEVANT)))
        or "none that matter",
        "WAL-reset defect": "this version has it (very rare)"
        if with_defect
        else "this version does not have it",
    }
