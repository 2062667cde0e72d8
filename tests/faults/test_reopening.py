"""What is looked at when a file is opened again: each kind of harm is planted once and found."""

import contextlib
import sqlite3

import pytest

from receiptlab.contracts.owner import Owner
from receiptlab.faults.disk import reopening
from receiptlab.store import Store

ADD = {"scope": "shop", "revision": 1, "epoch": 1, "policy": "p", "now": 1}
RULES = {"two of them": "SELECT 1 WHERE (SELECT count(*) FROM work) = 2", "never": "SELECT 1 WHERE 0"}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / reopening.NAME
    with Store.create(path, Owner.SCHEMA) as store:
        Owner(store).add(**ADD, work="one")
    return path


def change(path, *statements):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for sql in statements:
            db.execute(sql)


def both(path):
    """What is found in it as a database file of the lab, and as any one."""
    return reopening.look(path, RULES), reopening.look(path, RULES, store=False)


def test_a_sound_file_is_nothing_but_its_rows(path):
    before = both(path)
    assert before[0] == before[1] == (*("", "", ()), before[0].moment)
    change(path, "VACUUM")
    assert both(path) == before
    change(path, "UPDATE work SET epoch = 2")
    assert both(path)[0].moment == both(path)[1].moment != before[0].moment


def test_a_table_more_is_another_moment(path):
    before = both(path)
    change(path, "CREATE TABLE more (x)")
    assert both(path)[0].moment == both(path)[1].moment != before[0].moment


def test_a_rule_that_does_not_hold_is_found(path):
    with Store.open(path) as store:
        Owner(store).add(**ADD, work="two")
    assert [found.broken for found in both(path)] == [("two of them",)] * 2


def test_what_the_integrity_check_finds_is_damage(path):
    change(path, "PRAGMA ignore_check_constraints = ON", "UPDATE work SET revoked = 7")
    assert [found.damage for found in both(path)] == ["CHECK constraint failed in work"] * 2


def test_a_reference_that_leads_nowhere_is_damage(path):
    change(path, "INSERT INTO receipt VALUES (1, 'shop', 'k', 'nothing', '', '', 1, '', 1)")
    assert [found.damage for found in both(path)] == ["a reference of receipt"] * 2


def test_a_page_that_was_overwritten_is_damage(path):
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * 4096 + content[8192:])
    for found in both(path):
        assert found.damage.startswith("DatabaseError: ")
        assert found.moment == ""


def test_a_file_that_is_none_of_the_lab_is_refused_with_the_reason(path, tmp_path):
    change(path, "PRAGMA application_id = 1")
    assert [found.refused for found in both(path)] == ["application-id", "empty"]
    path.unlink()
    assert [found.refused for found in both(path)] == ["missing"] * 2


def test_the_files_that_are_laid_out_are_all_there_is(path, tmp_path):
    (tmp_path / "receipts.db-wal").write_bytes(b"old")
    assert reopening.lay({reopening.NAME: b"new", "b": b"other"}, tmp_path) == path
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {path.name: b"new", "b": b"other"}
