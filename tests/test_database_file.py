"""F-10, F-11, and a disk that is really full: what the file system does to a database file."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from receiptlab.contracts.owner import SCHEMA, Owner
from receiptlab.errors import FileRefused, NotWritten
from receiptlab.store import Store

ROW = "INSERT INTO outbox (topic, subject, staged_at) VALUES ('t', ?, 1)"
TABLE = ("CREATE TABLE t (a TEXT NOT NULL) STRICT",)


@contextlib.contextmanager
def mounted(folder, *options):
    """`folder` with something mounted on it, or the test is skipped."""
    folder.mkdir(exist_ok=True)
    done = None
    if os.name == "posix" and os.geteuid() == 0 and shutil.which("mount"):
        done = subprocess.run(["mount", *options, folder], capture_output=True, timeout=60, check=False)
    if done is None or done.returncode:
        pytest.skip("only an administrator may mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True, timeout=60)


@pytest.fixture
def small_disk(tmp_path):
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as folder:
        yield folder


def test_a_full_disk_is_definite_and_everything_acknowledged_is_there(small_disk):
    """Each row either was acknowledged and is there, or failed and is not, in this process and in the next."""
    path, kept, failed = small_disk / "receipts.db", 0, 0
    with Store.create(path, TABLE) as store:
        for _ in range(400):
            try:
                with store.write() as db:
                    db.execute("INSERT INTO t VALUES (?)", ("x" * 3_000,))
                kept += 1
            except NotWritten as full:
                failed += 1
                assert full.reason == "SQLITE_FULL"
            assert store.read("SELECT count(*) FROM t") == [(kept,)]
        assert kept and failed
        copy = small_disk.parent / "copy"
        copy.mkdir()
        for each in small_disk.iterdir():  # as a crash would leave it now
            shutil.copy(each, copy)
    for again in (path, copy / "receipts.db"):
        with Store.open(again) as store:
            assert store.read("SELECT count(*) FROM t") == [(kept,)]
            assert store.read("PRAGMA integrity_check") == [("ok",)]


def test_making_a_file_on_a_full_disk_leaves_nothing(small_disk):
    (small_disk / "filler").write_bytes(bytes(1_000_000))
    with pytest.raises(NotWritten):
        Store.create(small_disk / "receipts.db", SCHEMA)
    assert [each.name for each in small_disk.iterdir()] == ["filler"]


def test_packing_on_a_full_disk_fails_and_says_so(small_disk):
    path = small_disk / "receipts.db"
    with Store.create(path, TABLE) as store:
        with store.write() as db:
            db.executemany("INSERT INTO t VALUES (?)", [("x" * 3_000,)] * 50)
        store.read("PRAGMA wal_checkpoint(TRUNCATE)")
        free = shutil.disk_usage(small_disk).free
        (small_disk / "filler").write_bytes(bytes(free - 40_000))
        with pytest.raises(NotWritten, match="SQLITE_FULL"):
            store.pack()
        assert store.read("SELECT count(*) FROM t") == [(50,)]


def test_a_second_name_of_the_file_is_refused(tmp_path):
    """Each name would get its own WAL: 151 rows were acknowledged, and 100 were kept."""
    path, second = tmp_path / "receipts.db", tmp_path / "second.db"
    Store.create(path, SCHEMA).close()
    os.link(path, second)
    for name in (path, second):
        with pytest.raises(FileRefused, match="hard link") as refused:
            Store.open(name)
        assert refused.value.reason == "hard-link"
        with pytest.raises(FileRefused, match="exists"):
            Store.create(name, SCHEMA)
    assert {each.name for each in tmp_path.iterdir()} == {"receipts.db", "second.db"}
    second.unlink()
    with Store.open(path) as store:
        assert Owner(store).counted() == (0, 0, 0)


def test_a_symbolic_link_is_the_same_file(tmp_path):
    """SQLite keeps the WAL beside the file that the link leads to."""
    path, second = tmp_path / "receipts.db", tmp_path / "second.db"
    second.symlink_to(path)
    with Store.create(path, TABLE) as one, Store.open(second) as two:
        for store in (one, two):
            with store.write() as db:
                db.execute("INSERT INTO t VALUES ('a')")
        assert one.read("SELECT count(*) FROM t") == two.read("SELECT count(*) FROM t") == [(2,)]


def read(path):
    """What reading finds; writing must be refused."""
    with Store.open(path, reading=True) as store:
        with pytest.raises(NotWritten, match="SQLITE_READONLY"), store.write() as db:
            db.execute(ROW, ("w",))
        with pytest.raises(NotWritten, match="SQLITE_READONLY"):
            store.pack()
        return store.read("SELECT count(*) FROM outbox")[0][0]


def filled(path, rows=3, left=False):
    """A file with rows; with `left` they are in a WAL that a killed process left."""
    end = "os._exit(0)" if left else "store.close()"
    code = f"""
import os, sys
from receiptlab.contracts.owner import SCHEMA
from receiptlab.store import Store
store = Store.create(sys.argv[1], SCHEMA)
for number in range({rows}):
    with store.write() as db:
        db.execute({ROW!r}, (str(number),))
{end}
"""
    subprocess.run([sys.executable, "-c", code, path], check=True, timeout=60)


def test_a_read_only_medium_can_be_read(tmp_path):
    (tmp_path / "medium").mkdir()
    path = tmp_path / "medium" / "receipts.db"
    filled(path)
    with mounted(tmp_path / "medium", "--bind", tmp_path / "medium"):
        subprocess.run(["mount", "-o", "remount,bind,ro", tmp_path / "medium"], check=True, timeout=60)
        with pytest.raises(FileRefused, match="no-access"):
            Store.open(path)
        assert read(path) == 3
        assert [each.name for each in path.parent.iterdir()] == ["receipts.db"]


@pytest.mark.parametrize("shm", [True, False])
def test_a_wal_on_a_read_only_medium_is_read_or_refused_and_never_passed_over(tmp_path, shm):
    """Without the -shm SQLite can't read the WAL there. The file by itself would have forgotten the rows."""
    (tmp_path / "medium").mkdir()
    path = tmp_path / "medium" / "receipts.db"
    filled(path, left=True)
    if not shm:
        path.with_name("receipts.db-shm").unlink()
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    with mounted(tmp_path / "medium", "--bind", tmp_path / "medium"):
        subprocess.run(["mount", "-o", "remount,bind,ro", tmp_path / "medium"], check=True, timeout=60)
        if shm:
            assert read(path) == 3
        else:
            with pytest.raises(FileRefused, match="copy the file and its") as refused:
                Store.open(path, reading=True)
            assert refused.value.reason == "no-access"
        assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before
    assert Store.open(path).read("SELECT count(*) FROM outbox") == [(3,)]


@pytest.mark.parametrize("what", ["file", "folder", "both"])
def test_without_write_permission_it_can_be_read(plain_user, what):
    path = plain_user / "receipts.db"
    with Store.create(path, SCHEMA) as store, store.write() as db:
        db.execute(ROW, ("1",))
    if what != "folder":
        path.chmod(0o444)
    if what != "file":
        plain_user.chmod(0o555)
    with pytest.raises(FileRefused, match="no-access"):
        Store.open(path)
    assert read(path) == 1
    assert [each.name for each in plain_user.iterdir()] == ["receipts.db"]
    plain_user.chmod(0o755)


def test_what_may_not_be_read_is_refused_for_reading_too(plain_user):
    path = plain_user / "receipts.db"
    Store.create(path, SCHEMA).close()
    path.chmod(0o000)
    with pytest.raises(FileRefused, match="no-access"):
        Store.open(path, reading=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_file_that_a_service_writes_is_read_as_it_is_now(plain_user):
    """The service may write, this user may not: SQLite reads the WAL through the -shm that is there."""
    path, (go, tell), (wait, done) = plain_user / "receipts.db", os.pipe(), os.pipe()
    service = os.fork()
    if not service:
        with Store.create(path, SCHEMA) as store:
            for number in "12":
                with store.write() as db:
                    db.execute(ROW, (number,))
                os.write(done, b"x")
                os.read(go, 1)
        os._exit(0)
    os.read(wait, 1)
    for each in plain_user.iterdir():
        each.chmod(0o444)
    plain_user.chmod(0o555)
    with Store.open(path, reading=True) as store:
        assert store.read("SELECT count(*) FROM outbox") == [(1,)]
        os.write(tell, b"x")
        os.read(wait, 1)
        assert store.read("SELECT count(*) FROM outbox") == [(2,)]
    os.write(tell, b"x")
    os.waitpid(service, 0)
    plain_user.chmod(0o755)


def test_where_everything_may_be_written_reading_opens_as_usual(tmp_path):
    path = tmp_path / "receipts.db"
    Store.create(path, TABLE).close()
    with Store.open(path, reading=True) as store, store.write() as db:
        db.execute("INSERT INTO t VALUES ('a')")


KILLED = """
import os, signal, sys
from receiptlab import database_file
from receiptlab.contracts.owner import SCHEMA
from receiptlab.store import Store
at = int(sys.argv[2])
def count(frame, event, arg):
    global at
    at -= event == "line" and ("receiptlab" in frame.f_code.co_filename)
    if at < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return count
sys.settrace(count)
Store.create(sys.argv[1], SCHEMA).close()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a kill at a line needs signals")
def test_a_file_whose_making_was_killed_can_be_made_again(tmp_path):
    """Killed at many lines, each time on the same path. Either there is nothing there, and the next process
    makes it; or the whole file is there, and opens."""
    path, made, killed = tmp_path / "receipts.db", 0, 0
    for at in range(4, 400, 6):
        done = subprocess.run([sys.executable, "-c", KILLED, path, str(at)], timeout=60, check=False)
        killed += done.returncode != 0
        if path.exists():
            made += 1
            with Store.open(path) as store:
                assert Owner(store).counted() == (0, 0, 0)
            assert path.stat().st_nlink == 1
            path.unlink()
        if not done.returncode:
            break
    assert killed > 10 and made > 1
    assert len(list(tmp_path.iterdir())) <= 3 * killed
    Store.create(path, SCHEMA).close()
    assert [each.name for each in tmp_path.iterdir()] == ["receipts.db"]


def test_of_two_that_make_one_file_the_second_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    path, made = tmp_path / "receipts.db", Store._made.__func__

    def slow(cls, making, schema, timeout_ms):
        monkeypatch.setattr(Store, "_made", classmethod(made))
        Store.create(path, TABLE).close()  # meanwhile another one finishes
        making.touch()  # and removed what it took for a leftover
        return made(cls, making, schema, timeout_ms)

    monkeypatch.setattr(Store, "_made", classmethod(slow))
    with pytest.raises(FileRefused, match="exists"):
        Store.create(path, SCHEMA)
    with Store.open(path) as store:
        store.require(TABLE)
    assert [each.name for each in tmp_path.iterdir()] == ["receipts.db"]


def test_where_there_are_no_hard_links_nothing_is_overwritten_either(tmp_path, monkeypatch):
    def no_links(*names):
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "receipts.db"
    Store.create(path, SCHEMA).close()
    Store.open(path).close()
    before = path.read_bytes()
    with pytest.raises(FileRefused, match="exists"):
        Store.create(path, SCHEMA)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["receipts.db"]


def test_a_file_of_somebody_elses_with_a_name_like_ours_stays(tmp_path):
    for name in ("receipts.db-making-cake", "receipts.db-making-1-2.txt", "other.db-making-1-2"):
        Path(tmp_path / name).touch()
    Path(tmp_path / "receipts.db-making-1-2-wal").touch()
    Store.create(tmp_path / "receipts.db", SCHEMA).close()
    assert len(list(tmp_path.iterdir())) == 4
