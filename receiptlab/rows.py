"""What a step did to the rows of a file: the tables before it and after it, compared."""

from __future__ import annotations

from collections.abc import Mapping
from sqlite3 import Connection

from receiptlab.record import Change

SHOWN = 12
"""So many changed rows of one table are kept for a step; the last entry says how many more there were."""
LONGEST = 80


class Rows:
    """Remembers the rows of some files, to tell what has changed since it looked last."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}

    def changes(self, files: Mapping[str, Connection]) -> tuple[Change, ...]:
        """The rows that were added, changed or removed since the last look, table by table.

        `files` are open connections by the name that stands before their tables; "" stands for none.
        A file that is seen for the first time shows what it holds as added.
        """
        found: list[Change] = []
        for file, db in files.items():
            for table in _tables(db):
                name = f"{file}: {table}" if file else table
                now = _Table(db, table)
                found += _changes(name, self._tables.get(name), now)
                self._tables[name] = now
        return tuple(found)


class _Table:
    """The rows of one table by their primary key."""

    def __init__(self, db: Connection, table: str) -> None:
        about = db.execute(f"PRAGMA table_info({table})").fetchall()
        self.columns = [name for _, name, *_ in about]
        self.key = [place for place, column in enumerate(about) if column[5]]
        rows = db.execute(f"SELECT * FROM {table}").fetchall()
        self.rows = {self._key(row) if self.key else (n,): row for n, row in enumerate(rows)}

    def _key(self, row: tuple) -> tuple:
        return tuple(row[place] for place in self.key)

    def facts(self, row: tuple, than: tuple | None = None) -> dict[str, object]:
        """The columns of a row that are filled in; or those alone that differ from another row."""
        pairs = zip(self.columns, row, than or (None,) * len(row), strict=True)
        return {name: _short(value) for name, value, other in pairs if value != other}

    def name(self, row: tuple) -> str:
        """The primary key of a row, in words."""
        return ", ".join(f"{self.columns[place]} {_short(row[place])}" for place in self.key)


def _tables(db: Connection) -> list[str]:
    names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid").fetchall()
    return [name for (name,) in names if not name.startswith("sqlite_")]


def _changes(name: str, before: _Table | None, now: _Table) -> list[Change]:
    old = before.rows if before else {}
    found = []
    for key, row in now.rows.items():
        if key not in old:
            found.append(Change(name, "added", now.name(row), now.facts(row)))
        elif row != old[key]:
            was = now.facts(old[key], row)
            found.append(Change(name, "changed", now.name(row), now.facts(row, old[key]), was))
    found += [
        Change(name, "removed", now.name(row), was=now.facts(row))
        for key, row in old.items()
        if key not in now.rows
    ]
    if len(found) > SHOWN:
        rest = len(found) - SHOWN
        found = [*found[:SHOWN], Change(name, "more", f"{rest} more rows of this table")]
    return found


def _short(value: object) -> object:
    """As JSON can hold it, and not too long to read."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:LONGEST]}… ({len(value)} characters)"
    return value
