"""Which rows of a file a step changed, by comparing its tables before and after the step."""

from __future__ import annotations

from collections.abc import Mapping
from sqlite3 import Connection

from receiptlab.experiment.run import Change

SHOWN = 12
"""Maximum number of changed rows recorded per table and step. The last entry counts the others."""
LONGEST = 80


class Rows:
    """Remembers the rows of one or more files and finds those that changed since the last comparison."""

    def __init__(self) -> None:
        self._files: dict[str, list[_Table]] = {}

    def changes(self, files: Mapping[str, Connection]) -> tuple[Change, ...]:
        """The rows that were added, changed or removed since the last comparison, table by table.

        `files` are open connections by the prefix for their tables' names ("" for none). All rows of a new
        file count as added. Tables that are created later are not compared.
        """
        found: list[Change] = []
        for file, db in files.items():
            if file not in self._files:
                self._files[file] = [_Table(db, name, file) for name in _tables(db)]
            for table in self._files[file]:
                found += table.changes(db)
        return tuple(found)


class _Table:
    """One table: its columns, its primary key, and its rows at the last comparison."""

    def __init__(self, db: Connection, name: str, file: str) -> None:
        about = db.execute(f"PRAGMA table_info({name})").fetchall()
        self.name = f"{file}: {name}" if file else name
        self.columns = [column for _, column, *_ in about]
        self.key = [place for place, column in enumerate(about) if column[5]]
        self.sql = f"SELECT * FROM {name}"
        self.rows: dict[tuple, tuple] = {}

    def changes(self, db: Connection) -> list[Change]:
        """The differences from the last comparison."""
        old, rows = self.rows, db.execute(self.sql).fetchall()
        # Without a primary key, rows are identified by their position.
        keys = (tuple(row[place] for place in self.key) or (number,) for number, row in enumerate(rows))
        self.rows = dict(zip(keys, rows, strict=True))
        found = [self._change(old.get(key), row) for key, row in self.rows.items() if old.get(key) != row]
        found += [self._change(row, None) for key, row in old.items() if key not in self.rows]
        if len(found) <= SHOWN:
            return found
        return [*found[:SHOWN], Change(self.name, "more", f"{len(found) - SHOWN} more rows of this table")]

    def _change(self, old: tuple | None, row: tuple | None) -> Change:
        what = "added" if old is None else "removed" if row is None else "changed"
        key = ", ".join(f"{self.columns[place]} {_short((row or old)[place])}" for place in self.key)
        return Change(self.name, what, key, self._facts(row, old), self._facts(old, row))

    def _facts(self, row: tuple | None, other: tuple | None) -> dict[str, object]:
        """The columns of a row that are filled in, or only those that differ from `other`."""
        if row is None:
            return {}
        pairs = zip(self.columns, row, other or (None,) * len(row), strict=True)
        return {name: _short(value) for name, value, than in pairs if value != than}


def _tables(db: Connection) -> list[str]:
    names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid").fetchall()
    return [name for (name,) in names if not name.startswith("sqlite_")]


def _short(value: object) -> object:
    """The value in a form that JSON has, shortened when it is too long to read."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:LONGEST]}… ({len(value)} characters)"
    return value
