"""F-1 to F-3: the file, and the one way to write it."""

import os
import random
import re
import signal
import sqlite3

import pytest

from receiptlab.contracts.owner import SCHEMA, Owner
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.database_file import APPLICATION_ID, SCHEMA_VERSION
from receiptlab.errors import Damaged, Definite, FileRefused, Indefinite, Locked, NotWritten, Refused
from receiptlab.scenarios.naive import Naive
from receiptlab.store import Store

ROW = (
    "INSERT INTO work VALUES ('shop', 'order-17', 1, 1, 'policy-1', 0, 0, NULL, NULL, 'ready', 'open', 0, 0)"
)


def contents(folder):
    return {path.name: path.read_bytes() if path.is_file() else None for path in sorted(folder.iterdir())}


def read_again(store, sql):
    """What a second connection reads."""
    with store.again() as second:
        return second.read(sql)


def database(path, application_id=0, version=0):
    db = sqlite3.connect(path)
    db.executescript(
        f"PRAGMA application_id={application_id}; PRAGMA user_version={version}; CREATE TABLE t (a)"
    )
    db.close()


@pytest.mark.parametrize(
    "there", ["receipts.db", "receipts.db-wal", "receipts.db-shm", "receipts.db-journal"]
)
def test_create_never_touches_what_is_there(tmp_path, there):
    (tmp_path / there).write_bytes(b"somebody's own")
    before = contents(tmp_path)
    with pytest.raises(FileRefused, match="exists") as refused:
        Store.create(tmp_path / "receipts.db", SCHEMA)
    assert refused.value.reason == "exists"
    assert contents(tmp_path) == before


def test_create_does_not_follow_a_link_that_leads_nowhere(tmp_path):
    (tmp_path / "receipts.db").symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(FileRefused, match="exists"):
        Store.create(tmp_path / "receipts.db", SCHEMA)
    assert not (tmp_path / "elsewhere.db").exists()


def test_create_leaves_nothing_behind_when_it_fails(tmp_path):
    with pytest.raises(NotWritten):
        Store.create(tmp_path / "receipts.db", ("CREATE TABLE broken (",))
    assert contents(tmp_path) == {}


def test_create_in_a_missing_or_read_only_folder_is_refused(plain_user):
    with pytest.raises(FileRefused, match="no-access"):
        Store.create(plain_user / "missing" / "receipts.db", SCHEMA)
    plain_user.chmod(0o555)
    with pytest.raises(FileRefused, match="no-access"):
        Store.create(plain_user / "receipts.db", SCHEMA)
    plain_user.chmod(0o755)


def test_open_refuses_what_is_not_a_database_file(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("not a database, but long enough to be read as a header\n" * 9)
    (tmp_path / "short").write_bytes(b"SQLite format 3\x00")
    database(tmp_path / "application", APPLICATION_ID + 1, SCHEMA_VERSION)
    database(tmp_path / "version", APPLICATION_ID, SCHEMA_VERSION + 1)
    (tmp_path / "folder").mkdir()
    reasons = {
        "missing": "missing",
        "folder": "not-a-file",
        "empty": "empty",
        "text": "not-sqlite",
        "short": "not-sqlite",
        "application": "application-id",
        "version": "schema-version",
    }
    before = contents(tmp_path)
    for name, reason in reasons.items():
        with pytest.raises(FileRefused) as refused:
            Store.open(tmp_path / name)
        assert refused.value.reason == reason
        assert name in str(refused.value)
    assert contents(tmp_path) == before
    with pytest.raises(FileRefused, match="open it with the version of the lab that made it"):
        Store.open(tmp_path / "version")


def test_open_refuses_a_file_that_may_not_be_read_or_written(plain_user):
    Store.create(plain_user / "receipts.db", SCHEMA).close()
    path = plain_user / "receipts.db"
    for mode, reading, why in ((0o000, False, "read"), (0o000, True, "read"), (0o444, False, "written")):
        path.chmod(mode)
        with pytest.raises(FileRefused, match=f"^no-access: .* can't be {why}; "):
            Store.open(path, reading=reading)


def test_open_refuses_a_database_file_in_a_read_only_folder(plain_user):
    Store.create(plain_user / "receipts.db", SCHEMA).close()
    plain_user.chmod(0o555)
    with pytest.raises(FileRefused, match="no-access"):
        Store.open(plain_user / "receipts.db")
    plain_user.chmod(0o755)


def test_a_damaged_database_file_is_no_traceback_of_sqlite(tmp_path):
    path = tmp_path / "receipts.db"
    Store.create(path, SCHEMA).close()
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 4000)
    with pytest.raises(Definite), Store.open(path) as store:
        Owner(store)


@pytest.fixture
def damaged(tmp_path):
    """A store that opens, with a destroyed page in the middle of its table."""
    path = tmp_path / "receipts.db"
    with Store.create(path, ("CREATE TABLE t (a TEXT NOT NULL) STRICT",)) as store, store.write() as db:
        db.executemany("INSERT INTO t VALUES (?)", [("x" * 100,)] * 2_000)
    content = bytearray(path.read_bytes())
    content[5 * 4096 : 6 * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    with Store.open(path) as store:
        yield store


def _change(store):
    with store.write() as db:
        db.execute("UPDATE t SET a = a || 'y'")


@pytest.mark.parametrize(
    "call", [lambda store: store.read("SELECT sum(length(a)) FROM t"), _change, Store.pack]
)
def test_a_damaged_page_is_its_own_error(damaged, call):
    """Not NotWritten: whoever maps that to "try again later" must not catch this one."""
    with pytest.raises(Damaged, match="stop, and restore a backup") as met:
        call(damaged)
    assert met.value.reason == "damaged" and not isinstance(met.value, NotWritten)
    assert not damaged.db.in_transaction
    for again in ("try", "call again", "ask again"):
        assert again not in str(met.value)


def test_a_commit_that_meets_damage_is_indefinite_and_says_damaged(store):
    store.db = _FailingCommit(store.db, "SQLITE_CORRUPT")
    with pytest.raises(Indefinite, match="stop, and restore a backup") as met, store.write() as db:
        db.execute(ROW)
    assert met.value.reason == "damaged"


def test_a_file_that_is_no_database_is_damaged_where_a_call_finds_out(store):
    store.db = _FailingCommit(store.db, "SQLITE_NOTADB")
    with pytest.raises(Indefinite) as met, store.write():
        pass
    assert met.value.reason == "damaged"


def test_a_path_with_signs_that_mean_something_in_an_address(tmp_path):
    path = tmp_path / "100% real?#1 ü.db"
    Store.create(path, SCHEMA).close()
    with Store.open(path) as store:
        assert Owner(store).counted() == (0, 0, 0)
    assert path.name in contents(tmp_path)


def test_the_header_is_in_the_file_when_create_returns(tmp_path):
    with Store.create(tmp_path / "receipts.db", SCHEMA):
        header = (tmp_path / "receipts.db").read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID


@pytest.mark.parametrize("schema", [("CREATE TABLE t (a INTEGER NOT NULL) STRICT",), Naive.SCHEMA])
def test_a_file_of_another_contract_is_refused(tmp_path, schema):
    with Store.create(tmp_path / "other.db", schema) as store, pytest.raises(FileRefused) as refused:
        Owner(store)
    assert refused.value.reason == "tables"


def test_a_file_whose_tables_were_changed_is_refused(owner):
    owner.store.db.execute("ALTER TABLE outbox ADD COLUMN extra TEXT NULL")
    with pytest.raises(FileRefused, match="see table outbox"):
        Owner(owner.store)


def test_settings_of_a_connection(store):
    settings = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "secure_delete": 1}
    with store.again() as second:
        for one in (store, second):
            assert {name: one.read(f"PRAGMA {name}")[0][0] for name in settings} == settings


@pytest.mark.parametrize("contract", [*CONTRACTS.values(), Naive], ids=lambda contract: contract.NAME)
def test_every_table_is_strict_and_says_null(contract):
    with Store.temporary(contract.SCHEMA) as store:
        ours = "type = 'table' AND name <> 'sqlite_sequence'"
        tables = store.read(f"SELECT name, sql FROM sqlite_schema WHERE {ours} ORDER BY name")
        assert {name for name, _ in tables} >= set(contract.TABLES)
        for name, sql in tables:
            assert re.search(r"\) STRICT", sql), name
            for column, _type in re.findall(r"(\w+) (TEXT|INTEGER)", sql):
                assert re.search(rf"\b{column} \w+ (NOT )?NULL", sql), (
                    f"{name}.{column} does not say NULL or NOT NULL"
                )


class Stop(BaseException):
    """Like KeyboardInterrupt: no Exception."""


@pytest.mark.parametrize("error", [ValueError, Refused, Stop, KeyboardInterrupt, SystemExit])
def test_write_rolls_back_on_any_exception(store, error):
    with pytest.raises(error), store.write() as db:
        db.execute(ROW)
        raise error("reason", "message") if error is Refused else error()
    assert not store.db.in_transaction
    assert store.read("SELECT count(*) FROM work") == [(0,)]
    with store.write() as db:
        db.execute(ROW)
    assert read_again(store, "SELECT count(*) FROM work") == [(1,)]


def test_a_commit_that_is_turned_away_is_rolled_back_and_definite(store):
    with pytest.raises(NotWritten, match="SQLITE_CONSTRAINT_FOREIGNKEY"), store.write() as db:
        db.execute(ROW)
        db.execute("PRAGMA defer_foreign_keys = ON")
        db.execute("INSERT INTO receipt VALUES (1, 'shop', 'key-1', 'order-99', '{}', 'd', 2, 'd', 0)")
    assert not store.db.in_transaction
    assert store.read("SELECT count(*) FROM work") == [(0,)]


class _FailingCommit:
    """A connection whose COMMIT ends with an error, by default an I/O error."""

    def __init__(self, db, name="SQLITE_IOERR"):
        self.db, self.name = db, name

    def execute(self, sql, *values):
        if sql == "COMMIT":
            error = sqlite3.OperationalError("as if the disk had failed")
            error.sqlite_errorcode, error.sqlite_errorname = getattr(sqlite3, self.name), self.name
            raise error
        return self.db.execute(sql, *values)

    def __getattr__(self, name):
        return getattr(self.db, name)


def test_a_commit_that_fails_half_way_is_indefinite(store):
    store.db = _FailingCommit(store.db)
    with pytest.raises(Indefinite, match="SQLITE_IOERR"), store.write() as db:
        db.execute(ROW)
    assert not store.db.in_transaction


def test_a_locked_database_file_is_a_clear_error_and_nothing_is_lost(store):
    with store.again() as other, other.write() as db:
        db.execute(ROW)
        with pytest.raises(Locked, match="200 ms") as locked, store.write():
            pass
        assert isinstance(locked.value, Definite)
    with store.write() as db:
        db.execute("UPDATE work SET revision = 2")
    assert store.read("SELECT revision FROM work") == [(2,)]


def test_a_file_that_another_program_holds_for_itself_cannot_be_opened(tmp_path):
    path = tmp_path / "receipts.db"
    Store.create(path, SCHEMA).close()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(Locked, match=re.escape(str(path))):
            Store.open(path, timeout_ms=50)
    finally:
        db.close()
    Store.open(path).close()


def test_reading_what_is_not_there_is_definite(store):
    with pytest.raises(NotWritten):
        store.read("SELECT * FROM nothing")


def test_a_closed_store_says_so(store):
    store.close()
    with pytest.raises(Definite), store.write():
        pass
    store.close()


def test_a_temporary_database_file_is_gone_when_it_is_closed():
    store = Store.temporary(SCHEMA)
    assert store.path.exists()
    store.close()
    assert not store.path.exists()
    assert not os.path.exists(store.path.parent)


def test_write_inside_write_is_refused_and_the_outer_one_goes_on(store):
    with store.write() as db:
        db.execute(ROW)
        with pytest.raises(NotWritten, match="nested"), store.write():
            pass
        db.execute("UPDATE work SET revision = 2")
    assert read_again(store, "SELECT revision FROM work") == [(2,)]


def test_what_an_interrupt_leaves_open_is_rolled_back_by_the_next_write(store):
    """Ctrl-C can strike between BEGIN and the body of the with, where no code of ours runs."""

    def interrupted():
        store.write().__enter__().execute(ROW)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert store.db.in_transaction
    with store.write() as db:
        db.execute(ROW)
    assert read_again(store, "SELECT count(*) FROM work") == [(1,)]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer signals")
def test_no_interrupt_makes_a_store_useless_or_leaves_half(owner):
    """Interrupts at many moments of real calls: each call took effect or not, and the store goes on."""

    def strike(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, strike)
    try:
        for number in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + number % 97) * 7)
                for _ in range(
                    100
                ):  # an interrupt inside a finaliser is swallowed by Python, so no endless loop
                    owner.set_authority("shop", "order-17", epoch=number, policy="policy-1", now=number)
            except KeyboardInterrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
            owner.set_authority("shop", "order-17", epoch=number, policy="policy-2", now=number)
            work = owner.get("shop", "order-17")
            assert (work.epoch, work.policy, work.changed_at) == (number, "policy-2", number)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_every_setting_is_said_and_not_left_to_the_build(tmp_path, monkeypatch):
    said = []

    class Telling(sqlite3.Connection):
        def execute(self, sql, *values):
            said.append(sql)
            return super().execute(sql, *values)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **kwargs: connect(*args, factory=Telling, **kwargs))
    Store.create(tmp_path / "receipts.db", SCHEMA).close()
    said.clear()
    Store.open(str(tmp_path / "receipts.db")).close()
    header = ("writable_schema = ON",)  # for the check of the header, on its own connection
    settings = (
        *header,
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        "secure_delete = ON",
    )
    assert [sql for sql in said if "=" in sql] == [f"PRAGMA {setting}" for setting in settings]


def test_an_old_sqlite_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    with pytest.raises(FileRefused, match="sqlite-too-old"):
        Store.create(tmp_path / "receipts.db", SCHEMA)
    assert contents(tmp_path) == {}


def test_reading_takes_no_writing_statement(owner):
    with pytest.raises(ValueError, match="use write"):
        owner.store.read("UPDATE work SET revision = 9 RETURNING revision")
    assert owner.get("shop", "order-17").revision == 1


def test_a_store_keeps_its_file_when_the_folder_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Store.create("receipts.db", SCHEMA) as store:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        with store.again() as second:
            assert second.path == tmp_path / "receipts.db"
            assert second.timeout_ms == store.timeout_ms


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_body_is_refused_or_read_and_never_anything_else(tmp_path, seed):
    path, draw = tmp_path / "receipts.db", random.Random(seed)
    Store.create(path, SCHEMA).close()
    body = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 20, 2_000))):
        body[draw.randrange(100, len(body))] = draw.randrange(256)
    path.write_bytes(body)
    try:
        with Store.open(path) as store:
            Owner(store).counted()
    except Definite:
        pass
