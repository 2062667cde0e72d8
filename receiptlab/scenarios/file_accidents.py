"""What can happen to a database file from outside: a fork, a second name, missing permissions, damage (F-7,
F-10 to F-12)."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from receiptlab import database_file
from receiptlab.contracts.retention import SCHEMA, Retention
from receiptlab.experiment.run import Recorder, Run
from receiptlab.outcomes import Outcome, attempt
from receiptlab.scenarios.database_files import _close, _note
from receiptlab.store import Store

_CALL = {"namespace": "shop", "epoch": 1, "operation": "op-1", "payload": "pay 5", "now": 100}

_FORK = """
import os, sys
from receiptlab.outcomes import attempt
from receiptlab.store import Store
store = Store.open(sys.argv[1])
def write():
    with store.write() as db:
        db.execute("INSERT INTO boundary VALUES ('shop', 1)")
calls = (write, lambda: store.read("SELECT 1"), store.again, lambda: Store.open(sys.argv[1]))
if not os.fork():
    for call in calls:
        outcome = attempt(call)
        print(outcome.word, outcome.reason, flush=True)
    os._exit(0)
os.wait()
"""


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="receiptlab-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def one_process() -> Run:
    """A store is used in a forked child and handed to another process (F-7). Needs a system with fork."""
    record = Recorder("a store is used in another process", name="one-process", clauses=("F-7",))
    with _folder() as folder:
        path = folder / "receipts.db"
        with Store.create(path, SCHEMA) as store:
            _note(record, "hand it over", attempt(pickle.dumps, store), "failed other-process")
        done = subprocess.run(
            [sys.executable, "-c", _FORK, str(path)], capture_output=True, text=True, timeout=60, check=False
        )
        for call, line in zip(("write", "read", "again", "open"), done.stdout.splitlines(), strict=True):
            _note(record, f"{call} in a forked child", Outcome(*line.split()), "failed other-process")
        with Store.open(path) as store:
            rows = store.read("SELECT count(*) FROM boundary")[0][0]
        _note(record, "count the rows", Outcome("read", str(rows)), "read 0")
    return record.run()


def second_name() -> Run:
    """The same file has a second name (F-10)."""
    record = Recorder("the file has a second name", name="second-name", clauses=("F-10",))
    with _folder() as folder:
        path, second = folder / "receipts.db", folder / "second.db"
        Store.create(path, SCHEMA).close()
        os.link(path, second)
        for name in (path, second):
            _note(record, f"open {name.name}", _close(attempt(Store.open, name)), "failed hard-link")
        _note(record, "create second.db", attempt(Store.create, second, SCHEMA), "failed exists")
        second.unlink()
        _note(record, "open with one name", _close(attempt(Store.open, path)), "accepted")
    return record.run()


@contextlib.contextmanager
def _no_writing() -> Iterator[None]:
    """Pretend that nothing can be written. Missing permissions don't stop an administrator."""
    real = database_file._may
    database_file._may = lambda path, how: not how & os.W_OK and real(path, how)
    try:
        yield
    finally:
        database_file._may = real


def read_only() -> Run:
    """A file without write permission is read (F-11)."""
    record = Recorder("a file without write permission is read", name="read-only", clauses=("F-11",))
    with _folder() as folder:
        path = folder / "receipts.db"
        with Store.create(path, SCHEMA) as store:
            Retention(store).execute(**_CALL)
        with _no_writing():
            _note(record, "open", _close(attempt(Store.open, path)), "failed no-access")
            with Store.open(path, reading=True) as store:
                contract = Retention(store)
                found = len(contract.effects("shop", 1, "op-1").digests)
                _note(record, "effects", Outcome("read", str(found)), "read 1")
                later = attempt(contract.execute, **_CALL | {"operation": "op-2"})
                _note(record, "execute", later, "failed SQLITE_READONLY")
        only = ", ".join(sorted(each.name for each in folder.iterdir()))
        _note(record, "list the folder", Outcome("read", only), "read receipts.db")
    return record.run()


def damaged_page() -> Run:
    """A page in the middle of the file is destroyed (F-12)."""
    record = Recorder("a page of the file is destroyed", name="damaged-page", clauses=("F-12",))
    with _folder() as folder:
        path = folder / "receipts.db"
        with Store.create(path, SCHEMA) as store:
            Retention(store).execute(**_CALL)
            sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'receipt'"
            page, size = store.read(sql)[0][0], store.read("PRAGMA page_size")[0][0]
        content = bytearray(path.read_bytes())
        content[(page - 1) * size : page * size] = b"\xff" * size
        path.write_bytes(content)
        with Store.open(path) as store:
            again = attempt(Retention(store).execute, **_CALL)
            _note(record, "execute", again, "failed damaged")
            _note(record, "read", attempt(store.read, "SELECT * FROM receipt"), "failed damaged")
    return record.run()


SCENARIOS = (one_process, second_name, read_only, damaged_page)
