"""F-7: a store belongs to the process that opened it."""

import copy
import gc
import os
import pickle
import subprocess
import sys

import pytest

from receiptlab.contracts.owner import SCHEMA, Owner
from receiptlab.errors import Definite, NotWritten
from receiptlab.faults.processes.children import environment
from receiptlab.store import Store

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

ROW = (
    "INSERT INTO work VALUES ('shop', 'order-17', 1, 1, 'policy-1', 0, 0, NULL, NULL, 'ready', 'open', 0, 0)"
)


def forked(call):
    """How the call in a forked child ends: the reason it was refused with, or "accepted"."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        answer = "accepted"
        try:
            call()
        except Definite as error:
            answer = getattr(error, "reason", str(error))
        except BaseException as error:
            answer = repr(error)
        os.write(writing, answer.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with open(reading, "rb") as answer:
        return answer.read().decode()


def write(store):
    with store.write() as db:
        db.execute(ROW)


CALLS = {
    "write": write,
    "read": lambda store: store.read("SELECT 1"),
    "pack": Store.pack,
    "again": Store.again,
    "open": lambda store: Store.open(store.path),
    "require": lambda store: store.require(SCHEMA),
    "a call": lambda store: Owner(store).revoke("shop", 1),
    "a linked name": lambda store: Store.open(store.path.with_name("link.db")),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_call_in_a_forked_child_is_refused(store, call):
    store.path.with_name("link.db").symlink_to(store.path)
    write(store)
    assert forked(lambda: call(store)) == "other-process"
    store.close()
    with Store.open(store.path) as store:
        assert store.read("SELECT count(*) FROM work") == [(1,)]


class Untouchable:
    """In the place of a connection that a child must not use."""

    def __getattr__(self, name):
        os._exit(7)


def test_the_child_touches_nothing_of_sqlite(store):
    """The check comes first: a connection that must not be used isn't."""

    def child():
        store.db = Untouchable()
        for call in (CALLS["write"], CALLS["read"], CALLS["pack"], CALLS["again"]):
            with pytest.raises(NotWritten, match="other-process"):
                call(store)
        store.close()

    assert forked(child) == "accepted"


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_a_transaction_open_at_the_fork_stays_the_parents(store, ends):
    """The child leaves the `with` too. It neither commits nor rolls back."""
    with store.write() as db:
        db.execute(ROW)
        child = os.fork()
        if not child:
            store.db = store.own = Untouchable()
            try:
                stop = ValueError() if ends == "badly" else None
                if store._transaction.__exit__(type(stop), stop, None) is None and ends == "badly":
                    os._exit(0)
            except NotWritten as error:
                os._exit(0 if error.reason == "other-process" else 3)
            os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        db.execute("UPDATE work SET revision = 2")
    with store.again() as second:
        assert second.read("SELECT revision FROM work") == [(2,)]


def test_a_file_that_was_not_open_at_the_fork_can_be_opened_in_the_child(store, tmp_path):
    path = tmp_path / "closed.db"
    Store.create(path, SCHEMA).close()

    def child():
        with Store.open(path) as closed:
            write(closed)
        Store.create(tmp_path / "new.db", SCHEMA).close()

    assert forked(child) == "accepted"
    with Store.open(path) as closed:
        assert closed.read("SELECT count(*) FROM work") == [(1,)]


def test_the_grandchild_is_refused_too_and_so_is_a_child_that_let_its_store_go(tmp_path):
    store = Store.create(tmp_path / "receipts.db", SCHEMA)

    def child():
        nonlocal store
        path, store = store.path, None
        gc.collect()
        assert forked(lambda: Store.open(path)) == "other-process"
        Store.open(path)

    assert forked(child) == "other-process"
    store.close()


LEAVES = """
import gc, os, sys
from receiptlab.store import Store
store = Store.{how}
with store.write() as db:
    db.execute("INSERT INTO t VALUES (1)")
child = os.fork()
if not child:
    if "{end}" == "close":
        store.close()
    if "{end}" == "collected":
        del store, db
        gc.collect()
    sys.exit()  # the interpreter ends as usual: what it ends must not be the parent's
os.waitpid(child, 0)
with store.write() as db:
    db.execute("INSERT INTO t VALUES (2)")
print(store.path.exists(), sorted(os.listdir(store.path.parent)))
with store.again() as second:
    print(second.read("SELECT count(*) FROM t"))
store.close()
print(store.path.exists())
"""


@pytest.mark.parametrize("end", ["exit", "close", "collected"])
@pytest.mark.parametrize("where", ["temporary", "own"])
def test_a_child_that_ends_takes_nothing_from_its_parent(tmp_path, end, where):
    schema = "('CREATE TABLE t (a INTEGER NOT NULL) STRICT',)"
    how = f"temporary({schema})" if where == "temporary" else f"create('receipts.db', {schema})"
    done = subprocess.run(
        [sys.executable, "-c", LEAVES.format(how=how, end=end)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    files = ["receipts.db", "receipts.db-shm", "receipts.db-wal"]
    assert done.stdout.splitlines() == [f"True {files}", "[(2,)]", str(where == "own")]


OUTLIVES = """
import os, signal, subprocess, sys, time
from receiptlab.store import Store
store = Store.create("receipts.db", ("CREATE TABLE t (a INTEGER NOT NULL) STRICT",))
with store.write() as db:
    db.execute("INSERT INTO t VALUES (1)")
go, parent_gone = os.pipe()
if os.fork():
    store.close()
    os._exit(0)
os.close(parent_gone)
os.read(go, 1)  # the parent is gone
code = '''
import os
from receiptlab.store import Store
store = Store.open("receipts.db")
with store.write() as db:
    db.execute("INSERT INTO t VALUES (2)")
os._exit(0)
'''
subprocess.run([sys.executable, "-c", code], check=True)
open("ready", "w").close()
sys.exit()
"""


def test_a_child_that_outlives_its_parent_takes_no_wal_from_others(tmp_path):
    """Nobody else has the file open then, so closing the inherited connection would remove the WAL by its
    name: the one of a service that was killed meanwhile, with a row that was acknowledged."""
    done = subprocess.Popen([sys.executable, "-c", OUTLIVES], cwd=tmp_path, stdout=subprocess.PIPE)
    done.communicate(timeout=60)  # the pipe is closed when the child has ended too
    assert (tmp_path / "ready").exists()
    with Store.open(tmp_path / "receipts.db") as store:
        assert store.read("SELECT count(*) FROM t") == [(2,)]


@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_store_cannot_be_sent_to_another_process(store, how):
    with pytest.raises(NotWritten, match=r"^other-process: .*; send the path of"):
        how(store)


def test_a_contract_cannot_be_sent_to_another_process(store):
    with pytest.raises(NotWritten, match=r"^other-process: .*; send the path of"):
        pickle.dumps(Owner(store))


COLLECTED = """
import gc, sys, weakref
from receiptlab import store as module
from receiptlab.contracts.owner import SCHEMA
from receiptlab.store import Store

class Cycle:
    def __init__(self, store):
        self.itself, self.close = self, weakref.finalize(self, store.close)

gc.disable()
Cycle(Store.create(sys.argv[1] + "/one.db", SCHEMA))
foreign = module.wal.foreign
module.wal.foreign = lambda path: gc.collect() and None or foreign(path)
Store.create(sys.argv[1] + "/two.db", SCHEMA).close()
print("open")
"""


def test_the_garbage_collector_can_close_a_store_while_another_one_is_opened(tmp_path):
    """It runs wherever it likes: here, while the opening store is checked."""
    done = subprocess.run(
        [sys.executable, "-c", COLLECTED, str(tmp_path)],
        env=environment(), capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "open\n"), done.stderr
