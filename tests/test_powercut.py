"""H-4: the power cut. What holds, what breaks without its syncs, and that planted bugs are found."""

from types import SimpleNamespace

import pytest

from receiptlab import show
from receiptlab.contracts import intake, retention
from receiptlab.contracts.dispatch import Dispatch
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.contracts.shape import arguments
from receiptlab.hazards import powercut, reopening, states
from receiptlab.hazards.disk import Disk, Event
from receiptlab.hazards.recording import ProvesNothing
from receiptlab.hazards.states import Past, Plan, sectors
from receiptlab.hazards.writing import SECRET, Step, lives
from receiptlab.store import Store
from receiptlab.values import checked
from tests.broken import TwoTransactions

WAL, LONG_WAL, JOURNAL = powercut.HOLDS
BARE_JOURNAL, NORMAL, OFF = powercut.BREAKS
LIVES = {life.name: life for life in lives()}
SCRUB = [step.name for step in LIVES["intake"].steps].index("scrub")
SCRUBBING = LIVES["intake"].steps[: SCRUB + 1]
BAD = ("lost", "damaged", "half", "back")


def cut(setting, *names, **life):
    """The rows of these contracts under one setting; with other parts of the life, if they are given."""
    return powercut.run("small", settings=[setting], of=[LIVES[name]._replace(**life) for name in names])


def bad(row):
    return {word: row[word] for word in BAD if row[word]}


# What holds


@pytest.mark.parametrize("name", LIVES)
def test_nothing_is_lost_or_half_done(name):
    [row] = cut(WAL, name)
    assert (bad(row), row["violations"], row["witness"]) == ({}, 0, "")
    assert row["kept"] == row["judged"] >= row["states"] > row["points"]


@pytest.mark.parametrize("name", ["owner", "retention", "receiver", "dispatch"])
def test_the_same_with_a_rollback_journal_whose_end_is_synced(name):
    [row] = cut(JOURNAL, name)
    assert (bad(row), row["violations"], row["witness"]) == ({}, 0, "")


def test_what_was_scrubbed_does_not_come_back():
    assert bad(cut(LONG_WAL, "intake", steps=SCRUBBING)[0]) == {}


def pack(self):
    """Store.pack as one writes it first: SQLite does not sync a WAL that it has cut off."""
    self.db.execute("VACUUM")
    [(busy, _, _)] = self.read("PRAGMA wal_checkpoint(TRUNCATE)")
    return not busy


def test_a_wal_that_is_emptied_after_the_packing_alone_comes_back(monkeypatch):
    monkeypatch.setattr(Store, "pack", pack)
    [row] = cut(LONG_WAL, "intake", steps=SCRUBBING)
    assert set(bad(row)) == {"back"}
    assert "truncate of fixture.db-wal" in row["witness"]


def test_every_call_that_writes_is_in_a_life():
    for contract in CONTRACTS.values():
        named = {step.name for step in LIVES[contract.NAME].steps}
        assert named >= set(contract.writing()), contract.NAME
    assert "scrub" in {step.name for step in LIVES["intake"].steps}
    writing = {"write_as", "send", "close_entry", "jump"}
    assert {step.name for step in LIVES[Dispatch.NAME].steps} >= writing


# What breaks


def test_with_synchronous_normal_an_acknowledged_call_is_lost_and_nothing_else_happens():
    for row in cut(NORMAL, "owner", "receiver"):
        assert set(bad(row)) == {"lost"}
        assert "an acknowledged call is not there" in row["witness"]
        assert "call 1" in row["witness"] and "fixture.db-wal" in row["witness"]


def test_with_synchronous_off_the_file_is_damaged_too():
    [row] = cut(OFF, "owner")
    assert set(bad(row)) == {"lost", "damaged", "half"}
    assert "fixture.db-wal" in row["witness"]


def test_a_rollback_journal_comes_back_when_its_deletion_is_not_synced():
    """FULL syncs the file and not the folder: the journal is there again, and the last call is undone."""
    for row in cut(BARE_JOURNAL, "owner", "receiver"):
        assert set(bad(row)) == {"lost"}
        assert "Lost: deletion of fixture.db-journal." in row["witness"]


# Planted bugs


class Closing(retention.Retention):
    def close_and_collect(self, namespace, through, now):
        call = checked(self.ARGUMENTS, arguments(locals()))
        with self.store.write() as db:
            db.execute(retention._CLOSE, vars(call))
        with self.store.write() as db:
            return retention.Closure(through, db.execute(retention._COLLECT, vars(call)).rowcount)


class Sweeping(intake.Intake):
    def sweep(self, limit, now):
        with self.store.write() as db:
            for (identity,) in db.execute(intake._DUE, {"limit": limit, "now": now}).fetchall():
                db.execute(intake._COMPACT, (now, identity))
                db.execute(intake._FORGET, (identity,))
        return super().sweep(limit, now)


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("retention", TwoTransactions, "without exactly one receipt"),
        ("retention", Closing, "a receipt of a closed epoch"),
        ("intake", Sweeping, "half: one part of a call is there"),
    ],
)
def test_a_call_in_two_transactions_is_found(name, kind, why):
    [row] = cut(WAL, name, on=lambda store: SimpleNamespace(store=store, **{name: kind(store)}))
    assert set(bad(row)) == {"half"}
    assert why in row["witness"]


def test_an_erasure_without_a_scrub_is_found():
    steps = [step for step in SCRUBBING if step.name != "scrub"]
    gone = (SECRET.encode(),)
    steps = tuple(step._replace(gone=gone) if step.name == "erase_identity" else step for step in steps)
    [row] = cut(LONG_WAL, "intake", steps=steps)
    assert set(bad(row)) == {"back"}
    assert f"call {SCRUB}, erase_identity" in row["witness"]


def test_a_life_in_which_nothing_is_written_proves_nothing():
    look = Step("look", lambda at: at.store.read("SELECT 1"))
    with pytest.raises(ProvesNothing, match="wrote and synced nothing"):
        cut(WAL, "owner", steps=(look,))
    add = LIVES["owner"].steps[0]
    with pytest.raises(ProvesNothing, match="ended as refused"):
        cut(WAL, "owner", steps=(add, add))


# The model


def past(*events):
    made = Past()
    for event in events:
        made.add(event)
    return made


CREATED = (Event("create", 1, "a"), Event("folder-sync", 1, "a"))
ALL = Plan(random=0, torn=0, alone=True, recent=100)


def contents(made, name="a", plan=ALL):
    return {state.files.get(name) for state in made.states(plan, "seed")}


def test_what_was_synced_is_there_and_what_was_not_is_there_or_not():
    one, two = Event("write", 1, "a", 0, b"one"), Event("write", 1, "a", 3, b"two")
    assert contents(past(*CREATED, one)) == {b"", b"one"}
    assert contents(past(*CREATED, one, two)) == {b"", b"one", b"onetwo", b"\0\0\0two"}
    assert contents(past(*CREATED, one, Event("sync", 1, "a"), two)) == {b"one", b"onetwo"}
    assert contents(past(*CREATED, one, Event("sync", 2, "b"), two)) == {b"", b"one", b"onetwo", b"\0\0\0two"}
    cut_off = Event("truncate", 1, "a", 1)
    assert contents(past(*CREATED, one, Event("sync", 1, "a"), cut_off)) == {b"one", b"o"}


def test_a_name_is_there_for_sure_when_the_folder_was_synced():
    write, sync = Event("write", 1, "a", 0, b"one"), Event("sync", 1, "a")
    assert contents(past(CREATED[0], write, sync)) == {None, b"one"}
    assert contents(past(*CREATED, write, sync)) == {b"one"}
    deleted = past(*CREATED, write, sync, Event("delete", 1, "a"))
    assert contents(deleted) == {None, b"one"}
    again = (Event("create", 2, "a"), Event("write", 2, "a", 0, b"new"), Event("sync", 2, "a"))
    assert contents(past(*CREATED, write, sync, Event("delete", 1, "a"), *again)) == {None, b"one", b"new"}
    deleted.add(Event("folder-sync", 0, "a"))
    assert contents(deleted) == {None}


def test_a_write_is_torn_at_sectors_of_the_file():
    assert sectors(Event("write", 1, "a", 500, b"x" * 600)) == [(0, 12), (12, 524), (524, 600)]
    assert sectors(Event("write", 1, "a", 512, b"x" * 512)) == [(0, 512)]
    write = Event("write", 1, "a", 0, b"x" * 1024)
    torn = contents(past(*CREATED, write), plan=Plan(0, 12, False, 100))
    assert torn == {b"", b"x" * 512, bytes(512) + b"x" * 512, b"x" * 1024}


def test_the_states_are_the_same_each_time():
    writes = [Event("write", 1, "a", 600 * number, b"x" * 600) for number in range(9)]
    plan = Plan(20, 2, True, 100)
    once = [state.files for state in past(*CREATED, *writes).states(plan, "seed")]
    assert once == [state.files for state in past(*CREATED, *writes).states(plan, "seed")]
    assert once != [state.files for state in past(*CREATED, *writes).states(plan, "another")]


def test_two_runs_give_the_same_rows():
    assert cut(WAL, "receiver") == cut(WAL, "receiver")


# A broken tool is noticed


def keep_what_is_not_synced(monkeypatch):
    monkeypatch.setattr(
        states, "_choices", lambda pending, plan, seed: [[states.Kept(each, None) for each in pending]]
    )


def ignore_what_was_acknowledged(monkeypatch):
    further = powercut._further

    def forgetting(*args):
        place = further(*args)
        return place._replace(acknowledged=min(0, place.acknowledged))

    monkeypatch.setattr(powercut, "_further", forgetting)


@pytest.mark.parametrize("blind", [keep_what_is_not_synced, ignore_what_was_acknowledged])
def test_a_tool_that_is_blind_finds_no_loss(monkeypatch, blind):
    """Both of these are what the rows of synchronous NORMAL stand on."""
    blind(monkeypatch)
    assert bad(cut(NORMAL, "owner")[0]) == {}


def forget_the_wal(monkeypatch):
    lay = reopening.lay

    def without(files, where):
        return lay({name: content for name, content in files.items() if "wal" not in name}, where)

    monkeypatch.setattr(reopening, "lay", without)


def forget_every_sync(monkeypatch):
    monkeypatch.setattr(Past, "_settle", lambda self, file: None)


def write_nothing_down_but_the_wal(monkeypatch):
    note = Disk._note

    def noting(self, kind, file, name, *more):
        if kind != "write" or "wal" in name:
            note(self, kind, file, name, *more)

    monkeypatch.setattr(Disk, "_note", noting)


@pytest.mark.parametrize("broken", [forget_the_wal, forget_every_sync, write_nothing_down_but_the_wal])
def test_a_tool_that_loses_something_finds_losses(monkeypatch, broken):
    broken(monkeypatch)
    assert bad(cut(WAL, "owner", steps=LIVES["owner"].steps[:4])[0]) != {}


def test_the_picture_says_every_number():
    rows = cut(NORMAL, "receiver")
    picture = show.states(rows)
    assert f"{rows[0]['kept']:,} kept, {rows[0]['lost']:,} lost" in picture.words
    assert picture.words.split(": ", 1)[1] in picture.svg
