"""F-10, F-11, and a disk that is really full: what the file system does to a database file."""

import contextlib
import itertools
import os
import shutil
import signal
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
def path(tmp_path):
    return tmp_path / "receipts.db"


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


def test_on_a_full_disk_no_file_is_made_and_packing_fails(small_disk):
    with Store.create(small_disk / "receipts.db", TABLE) as store:
        with store.write() as db:
            db.executemany("INSERT INTO t VALUES (?)", [("x" * 3_000,)] * 50)
        store.read("PRAGMA wal_checkpoint(TRUNCATE)")
        (small_disk / "filler").write_bytes(bytes(shutil.disk_usage(small_disk).free - 40_000))
        with pytest.raises(NotWritten, match="SQLITE_FULL"):
            store.pack()
        assert store.read("SELECT count(*) FROM t") == [(50,)]
    with pytest.raises(NotWritten):
        Store.create(small_disk / "other.db", SCHEMA)
    assert {each.name for each in small_disk.iterdir()} == {"filler", "receipts.db"}


def test_a_second_name_of_the_file_is_refused(path, tmp_path):
    """Each name would get its own WAL: 151 rows were acknowledged, and 100 were kept."""
    second = tmp_path / "second.db"
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


def test_a_symbolic_link_is_the_same_file(path, tmp_path):
    """SQLite keeps the WAL beside the file that the link leads to."""
    second = tmp_path / "second.db"
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


def in_child(call):
    """Run `call` in a forked child, which ends without closing anything. Returns how it ended."""
    child = os.fork()
    if not child:
        try:
            call()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fill(path):
    store = Store.create(path, SCHEMA)
    for number in "123":
        with store.write() as db:
            db.execute(ROW, (number,))
    return store


@pytest.fixture
def medium(tmp_path):
    """A file on a medium, and how to make the medium read-only."""

    @contextlib.contextmanager
    def read_only():
        with mounted(tmp_path / "medium", "--bind", tmp_path / "medium") as folder:
            subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True, timeout=60)
            yield

    (tmp_path / "medium").mkdir()
    return tmp_path / "medium" / "receipts.db", read_only


def test_a_read_only_medium_can_be_read(medium):
    path, read_only = medium
    fill(path).close()
    with read_only():
        with pytest.raises(FileRefused, match="no-access"):
            Store.open(path)
        assert read(path) == 3
        assert [each.name for each in path.parent.iterdir()] == ["receipts.db"]


@pytest.mark.parametrize("shm", [True, False])
def test_a_wal_on_a_read_only_medium_is_read_or_refused_and_never_left_out(medium, shm):
    """Without the -shm SQLite can't read the WAL there. The file by itself would lack the rows."""
    path, read_only = medium
    in_child(lambda: fill(path))
    if not shm:
        path.with_name("receipts.db-shm").unlink()
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    with read_only():
        if shm:
            assert read(path) == 3
        else:
            with pytest.raises(FileRefused, match=r"^no-access: .*copy the file and its"):
                Store.open(path, reading=True)
        assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before
    assert Store.open(path).read("SELECT count(*) FROM outbox") == [(3,)]


@pytest.mark.parametrize("locked", ["file", "folder", "file and folder"])
def test_without_write_permission_it_can_be_read(plain_user, locked):
    path = plain_user / "receipts.db"
    with Store.create(path, SCHEMA) as store, store.write() as db:
        db.execute(ROW, ("1",))
    if "file" in locked:
        path.chmod(0o444)
    if "folder" in locked:
        plain_user.chmod(0o555)
    with pytest.raises(FileRefused, match="no-access"):
        Store.open(path)
    assert read(path) == 1
    assert [each.name for each in plain_user.iterdir()] == ["receipts.db"]
    plain_user.chmod(0o755)


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


def test_where_everything_may_be_written_reading_opens_as_usual(path):
    Store.create(path, TABLE).close()
    with Store.open(path, reading=True) as store, store.write() as db:
        db.execute("INSERT INTO t VALUES ('a')")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_file_whose_making_was_killed_can_be_made_again(path, tmp_path):
    """Killed at every third line, each time on the same path. Either there is nothing there, and the next
    process makes it; or the whole file is there, and opens."""

    def make(lines):
        def count(frame, event, arg):
            nonlocal lines
            lines -= event == "line" and "receiptlab" in frame.f_code.co_filename
            if lines < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return count

        sys.settrace(count)
        Store.create(path, SCHEMA)

    made = 0
    for lines in itertools.count(4, 3):
        ended = in_child(lambda lines=lines: make(lines))
        if path.exists():
            made += 1
            with Store.open(path) as store:
                assert Owner(store).counted() == (0, 0, 0)
            assert path.stat().st_nlink == 1
            path.unlink()
        if not ended:
            break
        assert ended == -signal.SIGKILL
    assert lines > 100 and made > 1
    Store.create(path, SCHEMA).close()
    assert [each.name for each in tmp_path.iterdir()] == ["receipts.db"]


def test_of_two_that_make_one_file_the_second_is_refused_and_leaves_nothing(path, tmp_path, monkeypatch):
    made = Store._made.__func__

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


def test_where_there_are_no_hard_links_nothing_is_overwritten_either(path, tmp_path, monkeypatch):
    def no_links(*names):
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", no_links)
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
