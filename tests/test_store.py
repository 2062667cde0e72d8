"""F-1 to F-3: the file, and the one way to write it."""

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


def refused(reason, call, *args, **how):
    """The message with which the call is refused for this reason."""
    with pytest.raises(FileRefused) as error:
        call(*args, **how)
    assert error.value.reason == reason
    return str(error.value)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "receipts.db"


# Create and open


@pytest.mark.parametrize(
    "there", ["receipts.db", "receipts.db-wal", "receipts.db-shm", "receipts.db-journal"]
)
def test_create_never_touches_what_is_there(path, there):
    path.with_name(there).write_bytes(b"somebody's own")
    before = contents(path.parent)
    refused("exists", Store.create, path, SCHEMA)
    assert contents(path.parent) == before


def test_create_does_not_follow_a_link_that_leads_nowhere(path):
    path.symlink_to(path.with_name("elsewhere.db"))
    refused("exists", Store.create, path, SCHEMA)
    assert not path.with_name("elsewhere.db").exists()


def test_create_leaves_nothing_behind_when_it_fails(path, monkeypatch):
    with pytest.raises(NotWritten):
        Store.create(path, ("CREATE TABLE broken (",))
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    refused("sqlite-too-old", Store.create, path, SCHEMA)
    assert contents(path.parent) == {}


def test_create_in_a_missing_or_read_only_folder_is_refused(plain_user):
    refused("no-access", Store.create, plain_user / "missing" / "receipts.db", SCHEMA)
    plain_user.chmod(0o555)
    refused("no-access", Store.create, plain_user / "receipts.db", SCHEMA)
    plain_user.chmod(0o755)


def database(path, application_id=0, version=0):
    db = sqlite3.connect(path)
    db.executescript(
        f"PRAGMA application_id={application_id}; PRAGMA user_version={version}; CREATE TABLE t (a)"
    )
    db.close()


def test_open_refuses_what_is_not_a_database_file(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("not a database, but long enough to be read as a header\n" * 9)
    (tmp_path / "short").write_bytes(b"SQLite format 3\x00")
    database(tmp_path / "application", APPLICATION_ID + 1, SCHEMA_VERSION)
    database(tmp_path / "version", APPLICATION_ID, SCHEMA_VERSION + 1)
    (tmp_path / "folder").mkdir()
    before = contents(tmp_path)
    for name, reason in {
        "missing": "missing", "folder": "not-a-file", "empty": "empty", "text": "not-sqlite",
        "short": "not-sqlite", "application": "application-id", "version": "schema-version",
    }.items():  # fmt: skip
        assert name in refused(reason, Store.open, tmp_path / name)
    assert contents(tmp_path) == before
    message = refused("schema-version", Store.open, tmp_path / "version")
    assert "open it with the version of the lab that made it" in message


def test_open_refuses_a_file_without_permission_and_says_which(plain_user):
    path = plain_user / "receipts.db"
    Store.create(path, SCHEMA).close()
    for mode, reading, why in ((0o000, False, "read"), (0o000, True, "read"), (0o444, False, "written")):
        path.chmod(mode)
        assert f"can't be {why}; " in refused("no-access", Store.open, path, reading=reading)


def test_a_path_with_signs_that_mean_something_in_an_address(tmp_path):
    path = tmp_path / "100% real?#1 ü.db"
    Store.create(path, SCHEMA).close()
    with Store.open(path) as store:
        assert Owner(store).counted() == (0, 0, 0)
    assert path.name in contents(tmp_path)


def test_the_header_is_in_the_file_when_create_returns(path):
    with Store.create(path, SCHEMA):
        assert int.from_bytes(path.read_bytes()[68:72], "big") == APPLICATION_ID


@pytest.mark.parametrize("schema", [("CREATE TABLE t (a INTEGER NOT NULL) STRICT",), Naive.SCHEMA])
def test_a_file_of_another_contract_is_refused(path, schema):
    with Store.create(path, schema) as store:
        refused("tables", Owner, store)


def test_a_file_whose_tables_were_changed_is_refused(owner):
    owner.store.db.execute("ALTER TABLE outbox ADD COLUMN extra TEXT NULL")
    assert "see table outbox" in refused("tables", Owner, owner.store)


def test_every_setting_is_made_and_not_left_to_the_build(path, monkeypatch):
    statements, connect = [], sqlite3.connect

    class Recording(sqlite3.Connection):
        def execute(self, sql, *values):
            statements.append(sql)
            return super().execute(sql, *values)

    monkeypatch.setattr(sqlite3, "connect", lambda *args, **how: connect(*args, factory=Recording, **how))
    Store.create(path, SCHEMA).close()
    statements.clear()
    with Store.open(str(path)) as store:
        made = [sql for sql in statements if "=" in sql]
        values = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "secure_delete": 1}
        assert {name: store.read(f"PRAGMA {name}")[0][0] for name in values} == values
    settings = ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON")
    # The first one is for the check of the header, on its own connection.
    assert made == [f"PRAGMA {each}" for each in ("writable_schema = ON", *settings)]


@pytest.mark.parametrize("contract", [*CONTRACTS.values(), Naive], ids=lambda contract: contract.NAME)
def test_every_table_is_strict_and_says_null(contract):
    with Store.temporary(contract.SCHEMA) as store:
        ours = "type = 'table' AND name <> 'sqlite_sequence'"
        tables = dict(store.read(f"SELECT name, sql FROM sqlite_schema WHERE {ours}"))
    assert set(tables) >= set(contract.TABLES)
    for name, sql in tables.items():
        assert ") STRICT" in sql, name
        columns = re.findall(r"(\w+) (?:TEXT|INTEGER)", sql)
        assert [each for each in columns if not re.search(rf"\b{each} \w+ (NOT )?NULL", sql)] == [], name


def test_a_temporary_database_file_is_gone_when_it_is_closed():
    store = Store.temporary(SCHEMA)
    assert store.path.exists()
    store.close()
    assert not store.path.parent.exists()


def test_a_store_keeps_its_file_when_the_folder_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Store.create("receipts.db", SCHEMA) as store:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        with store.again() as second:
            assert second.path == tmp_path / "receipts.db"
            assert second.timeout_ms == store.timeout_ms


# Damage


@pytest.fixture
def damaged(path):
    """A store that opens, with a destroyed page in the middle of its table."""
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
    """Not NotWritten, which a caller may map to "try again later"."""
    with pytest.raises(Damaged, match="stop, and restore a backup") as met:
        call(damaged)
    assert met.value.reason == "damaged" and not isinstance(met.value, NotWritten)
    assert not damaged.db.in_transaction
    for again in ("try", "call again", "ask again"):
        assert again not in str(met.value)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_body_is_refused_or_read_and_never_anything_else(path, seed):
    draw = random.Random(seed)
    Store.create(path, SCHEMA).close()
    body = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 20, 2_000))):
        body[draw.randrange(100, len(body))] = draw.randrange(256)
    path.write_bytes(body if seed else body[:100] + b"\xff" * 4_000)
    try:
        with Store.open(path) as store:
            Owner(store).counted()
    except Definite:
        pass


# Write and read


class Stop(BaseException):
    """Like KeyboardInterrupt: no Exception."""


@pytest.mark.parametrize("error", [ValueError(), Refused("reason", "message"), Stop(), KeyboardInterrupt()])
def test_write_rolls_back_on_any_exception(store, error):
    with pytest.raises(type(error)), store.write() as db:
        db.execute(ROW)
        raise error
    assert not store.db.in_transaction
    assert store.read("SELECT count(*) FROM work") == [(0,)]
    with store.write() as db:
        db.execute(ROW)
    assert read_again(store, "SELECT count(*) FROM work") == [(1,)]


def test_a_commit_that_sqlite_rejects_is_rolled_back_and_definite(store):
    with pytest.raises(NotWritten, match="SQLITE_CONSTRAINT_FOREIGNKEY"), store.write() as db:
        db.execute(ROW)
        db.execute("PRAGMA defer_foreign_keys = ON")
        db.execute("INSERT INTO receipt VALUES (1, 'shop', 'key-1', 'order-99', '{}', 'd', 2, 'd', 0)")
    assert not store.db.in_transaction
    assert store.read("SELECT count(*) FROM work") == [(0,)]


class FailingCommit:
    """A connection whose COMMIT ends with an error."""

    def __init__(self, db, name):
        self.db, self.name = db, name

    def execute(self, sql, *values):
        if sql == "COMMIT":
            error = sqlite3.OperationalError("as if the disk had failed")
            error.sqlite_errorcode, error.sqlite_errorname = getattr(sqlite3, self.name), self.name
            raise error
        return self.db.execute(sql, *values)

    def __getattr__(self, name):
        return getattr(self.db, name)


@pytest.mark.parametrize(
    ("name", "reason", "advice"),
    [
        ("SQLITE_IOERR", "SQLITE_IOERR", "read the file before you continue"),
        ("SQLITE_CORRUPT", "damaged", "stop, and restore a backup"),
        ("SQLITE_NOTADB", "damaged", "stop, and restore a backup"),
    ],
)
def test_a_commit_that_fails_half_way_is_indefinite(store, name, reason, advice):
    store.db = FailingCommit(store.db, name)
    with pytest.raises(Indefinite, match=advice) as met, store.write() as db:
        db.execute(ROW)
    assert met.value.reason == reason
    assert not store.db.in_transaction


def test_a_locked_database_file_is_a_clear_error_and_nothing_is_lost(store):
    with store.again() as other, other.write() as db:
        db.execute(ROW)
        with pytest.raises(Locked, match="200 ms") as locked, store.write():
            pass
        assert isinstance(locked.value, Definite)
        with pytest.raises(Locked):
            store.pack()
    with store.write() as db:
        db.execute("UPDATE work SET revision = 2")
    assert store.read("SELECT revision FROM work") == [(2,)]


def test_a_file_that_another_program_locks_as_a_whole_cannot_be_opened(path):
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


def test_reading_takes_no_writing_statement_and_its_errors_are_definite(owner):
    with pytest.raises(ValueError, match="use write"):
        owner.store.read("UPDATE work SET revision = 9 RETURNING revision")
    assert owner.get("shop", "order-17").revision == 1
    with pytest.raises(NotWritten):
        owner.store.read("SELECT * FROM nothing")


@pytest.mark.parametrize(
    "call",
    [_change, Store.pack, lambda store: store.read("SELECT 1"), lambda store: store.require(SCHEMA)],
    ids=["write", "pack", "read", "require"],
)
def test_a_closed_store_says_so(store, call):
    store.close()
    with pytest.raises(Definite, match="closed"):
        call(store)
    store.close()


def test_write_inside_write_is_refused_and_the_outer_one_goes_on(store):
    with store.write() as db:
        db.execute(ROW)
        with pytest.raises(NotWritten, match="nested"), store.write():
            pass
        db.execute("UPDATE work SET revision = 2")
    assert read_again(store, "SELECT revision FROM work") == [(2,)]


def test_a_transaction_left_open_by_ctrl_c_is_rolled_back_by_the_next_write(store):
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
                for _ in range(100):  # not endless: Python swallows an interrupt inside a finaliser
                    owner.set_authority("shop", "order-17", epoch=number, policy="policy-1", now=number)
            except KeyboardInterrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
            owner.set_authority("shop", "order-17", epoch=number, policy="policy-2", now=number)
            work = owner.get("shop", "order-17")
            assert (work.epoch, work.policy, work.changed_at) == (number, "policy-2", number)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
