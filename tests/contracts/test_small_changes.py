"""What a small change could take away unnoticed: strict tables, frozen records, the last value of a limit, a
translated error, the second half of packing."""

import ast
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from receiptlab import database_file
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver
from receiptlab.contracts.retention import Retention
from receiptlab.contracts.work import work
from receiptlab.errors import Damaged, FileRefused, Locked, WrongValue
from receiptlab.experiment.library import own_cases
from receiptlab.experiment.player import play
from receiptlab.faults.ablation import guard_names
from receiptlab.store import Store
from receiptlab.values import MAX_BODY, bounded, countable, integer, sized, text, utf8

PACKAGE = Path(__file__).parents[2] / "receiptlab"
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def test_every_table_anywhere_in_the_package_is_strict():
    """The contracts' tables, and those of consumers, scenarios and exercises."""
    tables = [
        node.value
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "CREATE TABLE " in node.value
        if path.name != "database_files.py"  # a file that is not the lab's
    ]
    assert len(tables) > 20
    assert [sql for sql in tables if ") STRICT" not in sql] == []


def test_every_record_is_frozen():
    """An answer that a caller changes would no longer be what the file says."""
    loose = []
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            for each in node.decorator_list if isinstance(node, ast.ClassDef) else ():
                name = each.func if isinstance(each, ast.Call) else each
                given = {kw.arg: kw.value for kw in each.keywords} if isinstance(each, ast.Call) else {}
                frozen = given.get("frozen")
                if getattr(name, "id", "") == "dataclass" and not (frozen and frozen.value is True):
                    loose.append(f"{path.name}: {node.name}")
    assert sorted(loose) == ["batches.py: Report", "worker.py: Tally"]  # they count while a command runs


@pytest.mark.parametrize(
    "contract", [Owner, Retention, Receiver, Intake, work.Work], ids=lambda contract: contract.NAME
)
def test_each_guard_gets_the_records_that_it_is_annotated_with(contract):
    """mypy checks each guard by its annotations, but not that the table GUARDS gives it to the right call."""
    ran = set()

    def checking(call, guard):
        hints = get_type_hints(guard)

        def check(command, current):
            ran.add((call, guard.__name__))
            assert isinstance(command, hints["command"]), (call, guard.__name__)
            assert isinstance(current, hints["current"]), (call, guard.__name__)
            return guard(command, current)

        return check

    table = contract.GUARDS.items()
    guards = {call: tuple(checking(call, guard) for guard in each) for call, each in table}
    for case in own_cases():
        if case.contract == contract.NAME:
            play(case, guards)
    assert ran == set(guard_names(contract))


@pytest.mark.parametrize(
    ("rule", "last", "beyond"),
    [
        (text, "k" * 128, "k" * 129),
        (utf8, "x" * MAX_BODY, "x" * (MAX_BODY + 1)),
        (utf8, "ü" * (MAX_BODY // 2), "ü" * (MAX_BODY // 2) + "x"),
        (sized(1, 256), "ü" * 128, "ü" * 128 + "x"),
        (sized(2, 3), "ab", "a"),
        (integer, 2**63 - 1, 2**63),
        (countable, 2**63 - 2, 2**63 - 1),
        (bounded(1, 9), 9, 10),
        (bounded(1, 9), 1, 0),
        (work.ARGUMENTS["max_attempts"], 1_000_000, 1_000_001),
        (work.ARGUMENTS["max_attempts"], 1, 0),
    ],
)
def test_the_last_value_of_a_limit_is_allowed_and_the_next_is_not(rule, last, beyond):
    assert MAX_BODY == 1_048_576
    assert rule("value", last) == last
    with pytest.raises(WrongValue, match=r"^value "):
        rule("value", beyond)


def test_the_smallest_database_is_read_as_one(tmp_path):
    """A page has at least 512 bytes. Such a file is another program's database, and one byte less is none."""
    path = tmp_path / "small.db"
    with sqlite3.connect(path) as db:
        db.executescript("PRAGMA page_size = 512; PRAGMA user_version = 1")
    db.close()
    assert path.stat().st_size == 512
    for cut, reason in ((512, "application-id"), (511, "not-sqlite")):
        path.write_bytes(path.read_bytes()[:cut])
        with pytest.raises(FileRefused) as refused:
            Store.open(path)
        assert refused.value.reason == reason


def bytes_seen_by_others(folder):
    """What is in the files, read by another process, since this one has them open."""
    code = "import pathlib, sys; sys.stdout.buffer.write(b''.join(p.read_bytes() for p in pathlib.Path(sys.argv[1]).iterdir()))"
    return subprocess.run([sys.executable, "-c", code, folder], capture_output=True, check=True).stdout


@pytest.mark.parametrize("checkpointed", [True, False])
def test_after_packing_nothing_old_is_in_any_file_while_the_store_is_open(tmp_path, checkpointed):
    """VACUUM writes into the WAL: without the second truncation the file itself still has the old pages."""
    with Store.create(tmp_path / "receipts.db", ("CREATE TABLE t (a TEXT NOT NULL) STRICT",)) as store:
        store.db.execute("PRAGMA secure_delete = OFF")
        with store.write() as db:
            db.executemany("INSERT INTO t VALUES (?)", [(f"SECRET-{n}",) for n in range(500)])
        if checkpointed:
            store.read("PRAGMA wal_checkpoint(TRUNCATE)")
        with store.write() as db:
            db.execute("DELETE FROM t")
        assert b"SECRET" in bytes_seen_by_others(tmp_path)
        assert store.pack() is True
        assert b"SECRET" not in bytes_seen_by_others(tmp_path)


def _error(name):
    error = sqlite3.OperationalError("as SQLite says it")
    error.sqlite_errorcode, error.sqlite_errorname = getattr(sqlite3, name), name
    return error


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("SQLITE_CORRUPT", Damaged, "damaged"),
        ("SQLITE_NOTADB", Damaged, "damaged"),
        ("SQLITE_CANTOPEN", FileRefused, "no-access"),
        ("SQLITE_PERM", FileRefused, "no-access"),
        ("SQLITE_BUSY", Locked, "SQLITE_BUSY"),
    ],
)
@pytest.mark.parametrize("connect", [database_file.connect, database_file._connect_reading])
def test_what_opening_meets_has_its_own_reason(tmp_path, monkeypatch, connect, name, kind, reason):
    def fails(*args, **how):
        raise _error(name)

    monkeypatch.setattr(sqlite3, "connect", fails)
    with pytest.raises(kind) as refused:
        connect(tmp_path / "receipts.db", 0)
    assert type(refused.value) is kind and refused.value.reason == reason
    assert ("restore a backup" in str(refused.value)) == (reason == "damaged")


def test_the_command_line_says_damaged_and_not_try_again(tmp_path):
    from receiptlab.cli import intake_command as command

    path = tmp_path / "my.db"
    with Store.create(path, command.SCHEMA) as store:
        page = store.read("SELECT rootpage FROM sqlite_schema WHERE name = 'work'")[0][0]
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "receiptlab", "status", "--db", path],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "damaged" in done.stderr and "stop, and restore a backup" in done.stderr
    assert "again" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["status"], ["results"], ["dead"], ["status", "--metrics"]])
def test_the_reading_commands_open_what_cannot_be_written(tmp_path, monkeypatch, capsys, arguments):
    from receiptlab.cli import commands as cli
    from receiptlab.cli import intake_command as command

    path = tmp_path / "my.db"
    Store.create(path, (*command.SCHEMA, *_results())).close()
    real = database_file._may
    monkeypatch.setattr(database_file, "_may", lambda path, how: not how & 2 and real(path, how))
    assert cli.main([*arguments, "--db", str(path)]) == 0
    capsys.readouterr()
    for writing in (["requeue", "1"], ["sweep"]):
        assert cli.main([*writing, "--db", str(path)]) == 2
        assert "no-access" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["my.db"]


def _results():
    from receiptlab.cli import intake_command as command
    from receiptlab.examples import worker

    return [sql for sql in worker.SCHEMA if sql not in command.SCHEMA]
