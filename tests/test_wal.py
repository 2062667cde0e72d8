"""F-8: a -wal or -journal that belongs to another file, or to another state of the file, is refused.

A service is killed, so its WAL stays; then something is copied over its file. Everything that SQLite would
take for its own is refused, and every WAL that a crash left is applied.
"""

import contextlib
import shutil
import sqlite3
import subprocess
import sys

import pytest

from receiptlab import wal
from receiptlab.errors import FileRefused
from receiptlab.faults.disk import vfs as filesystem
from receiptlab.faults.disk.log import Disk
from receiptlab.store import Store

SCHEMA = (
    "CREATE TABLE effect (id INTEGER PRIMARY KEY NOT NULL, what TEXT NOT NULL) STRICT",
    "CREATE INDEX effect_by_what ON effect (what)",
)
SERVICE = """
import os, sqlite3, sys
from pathlib import Path
from receiptlab.store import Store
here, path = Path.cwd(), "effects.db"
store = Store.open(path)
def effects(count, each=1, size=40):
    for _ in range(count):
        with store.write() as db:
            db.executemany("INSERT INTO effect (what) VALUES (?)", [(os.urandom(size // 2).hex(),)] * each)
def backup(name):
    with sqlite3.connect(name) as copy:
        store.db.backup(copy)
    copy.close()
def into(name):
    store.db.execute(f"VACUUM INTO '{name}'")
def checkpoint(how="PASSIVE"):
    store.read(f"PRAGMA wal_checkpoint({how})")
def reopen():
    global store
    store.close()
    store = Store.open(path)
"""


def service(folder, does):
    """Run a service on effects.db that ends without closing anything, as when it is killed."""
    code = SERVICE + does + "\nos._exit(0)\n"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=120)


@pytest.fixture
def path(tmp_path):
    Store.create(tmp_path / "effects.db", SCHEMA).close()
    return tmp_path / "effects.db"


def contents(folder):
    return {each.name: each.read_bytes() for each in sorted(folder.iterdir()) if each.is_file()}


def count(path):
    with Store.open(path) as store:
        assert store.read("PRAGMA integrity_check") == [("ok",)]
        return store.read("SELECT count(*) FROM effect")[0][0]


def refused(path, end="-wal"):
    """Whether the file beside `path` is refused, by its name, with nothing changed."""
    before = contents(path.parent)
    try:
        Store.open(path).close()
    except FileRefused as error:
        assert error.reason == "foreign-wal" and f"{path.name}{end}" in str(error)
        assert contents(path.parent) == before
        return True
    return False


BACKUPS = {
    "backup API": "effects({first}); backup('copy.db'); effects(20)",
    "VACUUM INTO": "effects({first}); into('copy.db'); effects(20)",
    "backup API before any effect": "backup('copy.db'); effects({first})",
    "backup API, then a checkpoint": "effects({first}); backup('copy.db'); effects(5); checkpoint(); effects(5)",
    "backup API, a WAL ago": "effects({first}); backup('copy.db'); effects(60); checkpoint('RESTART'); effects(60)",
    "backup API, many pages ago": "effects({first}); backup('copy.db'); effects(10, 400)",
}


@pytest.mark.parametrize("first", [1, 3, 50])
@pytest.mark.parametrize("does", BACKUPS.values(), ids=BACKUPS)
def test_a_backup_copied_over_the_file_of_a_killed_service(path, does, first):
    service(path.parent, does.format(first=first))
    shutil.copy(path.with_name("copy.db"), path)
    assert refused(path)
    path.with_name("effects.db-wal").unlink()  # what the message says to do
    path.with_name("effects.db-shm").unlink()
    count(path)


@pytest.mark.parametrize("first", [1, 50])
def test_a_file_copy_after_a_clean_close(path, first):
    """Closed, copied, used and closed again, used and killed: the copy is older than the WAL's beginning."""
    service(path.parent, f"effects({first}); store.close()")
    shutil.copy(path, path.with_name("copy.db"))
    service(path.parent, "effects(1); reopen(); effects(3)")
    shutil.copy(path.with_name("copy.db"), path)
    assert refused(path)


def test_a_file_copy_from_several_wals_ago(path):
    service(path.parent, "effects(5); store.close()")
    shutil.copy(path, path.with_name("copy.db"))
    service(
        path.parent, "effects(40); checkpoint('RESTART'); effects(40); checkpoint('RESTART'); effects(40)"
    )
    shutil.copy(path.with_name("copy.db"), path)
    assert refused(path)


@pytest.mark.parametrize("used", [0, 1, 3, 50])
def test_another_lab_database(path, used):
    other = path.parent / "other"
    other.mkdir()
    Store.create(other / "effects.db", SCHEMA).close()
    service(other, f"effects({used}); store.close()")
    service(path.parent, "effects(3)")
    shutil.copy(other / "effects.db", path)
    assert refused(path)


def test_a_restored_file_goes_on_and_is_guarded_again(path):
    """The backup API gives every copy the same schema counter: two restored files differ by their stamps."""
    service(path.parent, "effects(3); backup('copy.db'); store.close()")
    shutil.copy(path.with_name("copy.db"), path)
    service(path.parent, "effects(3); backup('later.db'); effects(1); reopen(); effects(3)")
    for name in ("copy.db", "later.db"):
        shutil.copy(path.with_name(name), path)
        assert refused(path)


def test_a_vacuumed_copy_of_a_file_that_was_just_restored(path):
    """Its change counter is that of the restored file; its schema counter is one higher."""
    service(path.parent, "effects(3); backup('copy.db'); store.close()")
    shutil.copy(path.with_name("copy.db"), path)
    service(path.parent, "into('packed.db'); effects(3)")
    shutil.copy(path.with_name("packed.db"), path)
    assert refused(path)


def test_a_vacuumed_copy_beside_a_wal_without_page_1(path):
    """There are no counters to compare then, but such a copy is not in WAL mode."""
    service(path.parent, "effects(3); into('copy.db'); checkpoint('RESTART'); effects(1)")
    assert not wal._frames(path.with_name("effects.db-wal"), sums=True).images
    shutil.copy(path.with_name("copy.db"), path)
    assert refused(path)


def test_a_copy_with_fewer_pages_beside_a_wal_without_page_1(path):
    service(path.parent, "backup('copy.db'); effects(300); checkpoint('RESTART'); effects(1)")
    assert not wal._frames(path.with_name("effects.db-wal"), sums=True).images
    shutil.copy(path.with_name("copy.db"), path)
    assert refused(path)


def test_what_cannot_be_seen_damages_nothing(path):
    """A file copy that is what this WAL began with, to the byte: the newest state comes back."""
    service(path.parent, "effects(5); store.close()")
    shutil.copy(path, path.with_name("copy.db"))
    service(path.parent, "effects(20)")
    shutil.copy(path.with_name("copy.db"), path)
    assert not refused(path)
    assert count(path) == 25


CRASHES = {
    "no effect": ("", 0),
    "one effect": ("effects(1)", 1),
    "many": ("effects(70)", 70),
    "a transaction that was refused": ("effects(3)\nwith store.write() as db: db.execute('DELETE FROM effect'); os._exit(0)", 3),
    "checkpoints": ("effects(9); checkpoint(); effects(1); checkpoint('RESTART'); effects(1); checkpoint(); effects(2)", 13),
    "every WAL short": ("for _ in range(40): effects(1); checkpoint('RESTART')", 40),
    "a WAL as long as it gets": ("effects(12, 400)", 4800),
    "packed": ("effects(9); store.pack(); effects(1); store.pack()", 10),
    "packed first": ("store.pack(); effects(1)", 1),
    "new tables": (
        "effects(2); store.db.execute('CREATE TABLE more (a TEXT) STRICT'); effects(1)\n"
        "store.db.execute('CREATE INDEX again ON effect (id, what)'); checkpoint(); effects(3)", 6),
    "new tables first": ("with store.write() as db:\n for n in 'abc': db.execute(f'CREATE TABLE {n} (a TEXT)')\neffects(1)", 1),
    "reopened": ("effects(2); reopen(); effects(2); reopen(); effects(2)", 6),
    "two stores": ("one, two = store, store.again()\nfor store in (one, two) * 20: effects(1)", 40),
}  # fmt: skip


@pytest.mark.parametrize(("does", "found"), CRASHES.values(), ids=CRASHES)
def test_the_wal_of_a_crash_is_always_applied(path, does, found):
    service(path.parent, does)
    assert count(path) == found


def test_it_is_applied_through_a_link_and_beside_a_service_that_runs(path):
    service(path.parent, "effects(7)")
    link = path.parent / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    assert count(link) == 7
    service(path.parent, "effects(3)\nimport subprocess\nsubprocess.run([sys.executable, '-c', "
            "'from receiptlab.store import Store; Store.open(\"effects.db\")'], check=True)")  # fmt: skip


def test_a_wal_of_another_file_is_seen_through_a_link(path):
    service(path.parent, "effects(3); backup('copy.db'); effects(3)")
    shutil.copy(path.with_name("copy.db"), path)
    link = path.parent / "link.db"
    link.symlink_to(path)
    with pytest.raises(FileRefused, match="foreign-wal"):
        Store.open(link)


def test_a_wal_that_holds_nothing_is_in_nobodys_way(path):
    """SQLite applies neither: a WAL cut within its first transaction, nor one whose header is torn."""
    service(path.parent, "effects(3); backup('copy.db'); effects(3)")
    shutil.copy(path.with_name("copy.db"), path)
    kept = path.with_name("effects.db-wal").read_bytes()
    header, changed = kept[:24] + bytes(8) + kept[32:], kept[:60] + b"\xff\xff" + kept[62:]
    for torn in (kept[:100], header, changed, kept[:4000] + bytes(len(kept) - 4000)):
        path.with_name("effects.db-wal").write_bytes(torn)
        assert count(path) == 3
        shutil.copy(path.with_name("copy.db"), path)


def test_an_old_journal_is_refused(path):
    """A rollback journal would be played back into the file. A lab file needs none but to get into WAL mode."""
    other = path.with_name("other.db")
    code = """
import os, sqlite3
db = sqlite3.connect("other.db", isolation_level=None)
db.executescript("PRAGMA cache_size = 1; CREATE TABLE t (a); BEGIN")
db.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 200)
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], cwd=path.parent, check=True, timeout=60)
    shutil.move(f"{other}-journal", f"{path}-journal")
    assert refused(path, "-journal")


def test_a_copy_of_vacuum_into_survives_a_crash_while_it_gets_into_wal_mode(path, tmp_path):
    """At each write and sync of that the files are taken as they are then, and opened."""
    with Store.open(path) as store:
        with store.write() as db:
            db.execute("INSERT INTO effect (what) VALUES ('a')")
        store.db.execute(f"VACUUM INTO '{tmp_path / 'copy.db'}'")
    disk, taken = Disk({"receipts.db": (tmp_path / "copy.db").read_bytes()}), []
    disk.before = lambda kind: taken.append(disk.files())
    with contextlib.closing(filesystem.opened(disk, filesystem.Setting("wal", "full"))) as db:
        db.execute("INSERT INTO effect (what) VALUES ('b')")
    states = {tuple(sorted(files.items())): files for files in taken}
    assert any(files.get("receipts.db-journal") for files in states.values())
    for number, files in enumerate(states.values()):
        (tmp_path / f"{number}").mkdir()
        for name, content in files.items():
            (tmp_path / f"{number}" / name).write_bytes(content)
        assert count(tmp_path / f"{number}" / "receipts.db") in (1, 2)


def test_the_checksum_is_that_of_sqlite(path):
    """All frames of a long WAL are counted as committed, with checksums as without."""
    service(path.parent, "effects(30)")
    frames = wal._frames(path.with_name("effects.db-wal"), sums=True)
    assert frames == wal._frames(path.with_name("effects.db-wal"), sums=False)
    assert frames.pages and len(frames.images) >= 2


def test_a_file_of_an_earlier_version_of_the_lab_still_opens(path):
    """It has no stamp."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 1")
    db.close()
    service(path.parent, "effects(5)")
    assert count(path) == 5


def test_a_store_raises_the_stamp_only_where_it_changes_rows(path):
    def stamp():
        with contextlib.closing(sqlite3.connect(path)) as db:
            return db.execute("PRAGMA user_version").fetchone()[0] >> 8

    before = stamp()
    with Store.open(path) as store, store.write() as db:
        db.execute("SELECT 1")
    assert stamp() == before
    with Store.open(path) as store:
        for again in (0, 0, 0, 1, 0, 0):
            if again:
                store.read("PRAGMA wal_checkpoint(RESTART)")
            with store.write() as db:
                db.execute("INSERT INTO effect (what) VALUES ('a')")
    # In the first transaction and, once the WAL is there, in the second; then in the second of the next WAL.
    assert (stamp() - before) % wal.STAMPS == 3


def test_a_stamp_that_was_rolled_back_is_raised_by_the_next_transaction(path):
    with Store.open(path) as store:
        store.failpoint = _interrupt
        with pytest.raises(KeyboardInterrupt), store.write() as db:
            db.execute("INSERT INTO effect (what) VALUES ('a')")
        store.failpoint = lambda point: None
        before = store.read("PRAGMA user_version")
        with store.write() as db:
            db.execute("INSERT INTO effect (what) VALUES ('a')")
        assert store.read("PRAGMA user_version") != before


def _interrupt(point):
    raise KeyboardInterrupt


def test_the_stamp_begins_again_after_its_end(path):
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {(wal.STAMPS - 1) << 8 | 1}")
    db.close()
    service(path.parent, "effects(1)")
    assert count(path) == 1
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
