"""F-5: the report about SQLite."""

import sqlite3

import pytest

from receiptlab.sqlite_version import report, wal_reset_defect


@pytest.mark.parametrize(
    ("version", "has_it"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 44, 7), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 0), True),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 53, 0), False),
    ],
)
def test_range_of_the_wal_reset_defect(version, has_it):
    assert wal_reset_defect(version) is has_it


def test_the_report_names_this_version():
    found = report()
    assert found["sqlite"] == sqlite3.sqlite_version
    assert "THREADSAFE" in found["compile options"]
    has_it = wal_reset_defect(sqlite3.sqlite_version_info)
    assert found["WAL-reset defect"].startswith("this version has it" if has_it else "this version does not")
