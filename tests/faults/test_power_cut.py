"""H-4: the power cut. What holds, what breaks without its syncs, and that planted bugs are found."""

from types import SimpleNamespace

import pytest

from receiptlab import database_file, show
from receiptlab.contracts import retention
from receiptlab.contracts.intake import intake
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.contracts.relay import Relay
from receiptlab.faults.disk import crash_states as states
from receiptlab.faults.disk import power_cut as powercut
from receiptlab.faults.disk import reopening
from receiptlab.faults.disk.crash_states import Past, Plan, sectors
from receiptlab.faults.disk.log import Disk, Event
from receiptlab.faults.disk.recorder import ProvesNothing, Recording
from receiptlab.faults.disk.reopening import Found
from receiptlab.faults.disk.vfs import Setting
from receiptlab.faults.disk.workloads import SECRET, CallStep, lives
from receiptlab.store import Store
from receiptlab.values import check
from tests.faults.broken import TwoTransactions

WAL, LONG_WAL, JOURNAL = powercut.HOLDS
BARE_JOURNAL, NORMAL, OFF = powercut.BREAKS
LIVES = {workload.name: workload for workload in lives()}
SCRUB = [step.name for step in LIVES["intake"].steps].index("scrub")
SCRUBBING = LIVES["intake"].steps[: SCRUB + 1]
BAD = ("lost", "damaged", "half", "back")


def cut(setting, *names, **workload):
    """The rows of these contracts under one setting; with other parts of the life, if they are given."""
    return powercut.run("small", settings=[setting], of=[LIVES[name]._replace(**workload) for name in names])


def bad(row):
    return {word: row[word] for word in BAD if row[word]}


# What holds


@pytest.mark.parametrize("name", LIVES)
def test_nothing_is_lost_or_half_done(name):
    [row] = cut(WAL, name)
    assert (bad(row), row["violations"], row["witness"]) == ({}, 0, "")
    assert row["kept"] == row["judged"] >= row["states"] > row["points"] > row["calls"]


@pytest.mark.parametrize("name", ["owner", "retention", "receiver", "relay"])
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
    assert "truncate of receipts.db-wal" in row["witness"]


def pack_and_leave_the_wal(self):
    """Store.pack without its last truncate: the packed file is in the WAL, the old one still on the disk."""
    emptied = self._empty_wal()
    self.db.execute("VACUUM")
    return emptied


@pytest.mark.parametrize(("packing", "anomaly"), [(Store.pack, set()), (pack_and_leave_the_wal, {"back"})])
def test_bytes_in_free_space_are_gone_when_the_packed_file_is_written_back(monkeypatch, packing, anomaly):
    """With secure_delete off a deleted row stays in the file's free space, as in slack space otherwise."""
    monkeypatch.setattr(database_file, "connect", connecting("secure_delete = OFF"))
    monkeypatch.setattr(Store, "pack", packing)
    [row] = cut(LONG_WAL, "intake", steps=(SCRUBBING[5], *SCRUBBING[-2:]))
    assert set(bad(row)) == anomaly


def test_every_call_that_writes_is_in_a_life():
    for contract in CONTRACTS.values():
        named = {step.name for step in LIVES[contract.NAME].steps}
        assert named >= set(contract.writing()), contract.NAME
    assert "scrub" in {step.name for step in LIVES["intake"].steps}
    writing = {"write_as", "send", "close_entry", "jump"}
    assert {step.name for step in LIVES[Relay.NAME].steps} >= writing


# What breaks


def test_with_synchronous_normal_an_acknowledged_call_is_lost_and_nothing_else_happens():
    for row in cut(NORMAL, "owner", "receiver"):
        assert set(bad(row)) == {"lost"}
        assert "an acknowledged call is missing" in row["witness"]
        assert "call 1" in row["witness"] and "receipts.db-wal" in row["witness"]


def test_with_synchronous_off_the_file_is_damaged_too():
    [row] = cut(OFF, "owner")
    assert set(bad(row)) == {"lost", "damaged", "half"}
    assert "receipts.db-wal" in row["witness"]


def test_a_rollback_journal_comes_back_when_its_deletion_is_not_synced():
    """FULL syncs the file and not the folder: the journal is there again, and the last call is undone."""
    for row in cut(BARE_JOURNAL, "owner", "receiver"):
        assert set(bad(row)) == {"lost"}
        assert "Lost: deletion of receipts.db-journal." in row["witness"]


def test_a_witness_names_the_call_the_moment_and_what_was_lost():
    tally = powercut.CrashStateCount(Recording(LIVES["owner"], Setting(*WAL)))
    lost, verdict = ("one", "two", "three", "four", "five"), powercut.Verdict("lost", "it is gone")
    last = len(tally.recording.events)
    told = tally._tell(states.State({}, lost), powercut.Place(last, 0, 0, 2), verdict)
    assert told == (
        "lost: it is gone. In call 3, claim, after: it was acknowledged. Lost: one; two; three; and 2 more."
    )
    told = tally._tell(states.State({}, lost[:3]), powercut.Place(1), verdict)
    assert told == (
        "lost: it is gone. In the creation of the file, after: create receipts.db. Lost: one; two; three."
    )
    told = tally._tell(states.State({}, ()), powercut.Place(), verdict)
    assert told == "lost: it is gone. In the creation of the file, after: nothing. Lost: nothing."


# Planted bugs


class Closing(retention.Retention):
    def close_and_collect(self, namespace, through, now):
        named = {"namespace": namespace, "through": through, "now": now}
        check(self.ARGUMENTS, named)
        with self.store.write() as db:
            db.execute(retention._CLOSE, named)
        with self.store.write() as db:
            return retention.Closure(through, db.execute(retention._COLLECT, named).rowcount)


class Sweeping(intake.Intake):
    def sweep(self, limit, now):
        with self.store.write() as db:
            for (identity,) in db.execute(intake._DUE, {"limit": limit, "now": now}).fetchall():
                db.execute(intake._COMPACT, (now, identity))
                db.execute(intake._CLEAR_OUTCOMES, (identity,))
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


class Hasty(Relay):
    """It does not wait for the disk before it sends, and does afterwards."""

    def send(self, receive, *args, **how):
        def receiving(message):
            try:
                receive(message)
            finally:
                self.store.db.execute("PRAGMA synchronous = FULL")

        self.store.db.execute("PRAGMA synchronous = OFF")
        return super().send(receiving, *args, **how)


def test_a_message_that_is_sent_before_its_mark_is_on_the_disk_is_found():
    """Whoever received it has seen the mark. When the call ends, all of it is on the disk. Without a checkpoint,
    since a WAL that is begun anew without a sync can also bring older pages back."""

    def on(store):
        return SimpleNamespace(store=store, owner=Owner(store), relay=Hasty(store))

    steps = [step for step in LIVES["relay"].steps[:9] if step.name != "send" or step.parts == 2]
    assert bad(cut(LONG_WAL, "relay", steps=steps)[0]) == {}
    [row] = cut(LONG_WAL, "relay", steps=steps, on=on)
    assert set(bad(row)) == {"lost"}
    assert "send" in row["witness"]


def test_an_erasure_without_a_scrub_is_found():
    steps = [step for step in SCRUBBING if step.name != "scrub"]
    gone = (SECRET.encode(),)
    steps = tuple(step._replace(gone=gone) if step.name == "erase_identity" else step for step in steps)
    [row] = cut(LONG_WAL, "intake", steps=steps)
    assert set(bad(row)) == {"back"}
    assert f"call {SCRUB}, erase_identity" in row["witness"]


def connecting(pragma):
    """`database_file.connect` with one setting changed."""
    connect = database_file.connect

    def weaker(*arguments):
        db = connect(*arguments)
        db.execute(f"PRAGMA {pragma}")
        return db

    return weaker


def test_a_product_that_syncs_less_is_found(monkeypatch):
    """The workload runs with what `database_file.connect` sets, under the settings that must hold."""
    monkeypatch.setattr(database_file, "connect", connecting("synchronous = NORMAL"))
    [row] = cut(WAL, "receiver")
    assert set(bad(row)) == {"lost"}


def test_a_life_in_which_nothing_is_written_proves_nothing():
    look = CallStep("get", lambda at: at.store.read("SELECT 1"))
    with pytest.raises(ProvesNothing, match="owner get wrote nothing"):
        cut(WAL, "owner", steps=(look,))
    add = LIVES["owner"].steps[0]
    with pytest.raises(ProvesNothing, match="ended as refused"):
        cut(WAL, "owner", steps=(add, add))


@pytest.mark.parametrize(
    ("found", "place", "verdict"),
    [
        (Found(moment="two"), (2, 2), "kept"),
        (Found(moment="two"), (1, 1), "kept"),  # committed, and its mark was not yet made
        (Found(moment="two"), (1, 2), "kept"),
        (Found(moment="one"), (2, 2), "lost: an acknowledged call is missing"),
        (Found(moment="two"), (0, 0), "half: one part of a call is there"),  # it was not begun yet
        (Found(moment="three"), (2, 3), "half: one part of a call is there"),  # a moment between transactions
        (Found(moment="another"), (2, 2), "half: the file holds what it never held"),
        (Found(broken=("a rule", "another"), moment="two"), (2, 2), "half: a rule"),
        (Found(damage="torn"), (2, 2), "damaged: torn"),
        (Found(damage="torn"), (-1, 0), "damaged: torn"),
        (Found(refused="missing"), (0, 0), "lost: missing"),
        (Found(refused="empty"), (0, 0), "lost: empty"),
        (Found(refused="application-id"), (0, 0), "damaged: application-id"),
        (Found(refused="missing"), (-1, 0), "kept"),  # nobody was told that there is a file
    ],
)
def test_every_verdict(found, place, verdict):
    of = SimpleNamespace(moments=["zero", "one", "two", "three"], half={3})
    acknowledged, committed = place
    place = powercut.Place(9, acknowledged, committed)
    judged = powercut.judge(found, {"a": b"the SECRET"}, place, [], of)
    assert ": ".join(filter(None, judged)) == verdict
    assert powercut.judge(found, {"a": b"", "b": b"the SECRET"}, place, [b"x", b"SECRET"], of).word == "back"


def test_a_recording_without_a_write_proves_nothing():
    recording = Recording(LIVES["owner"], Setting(*WAL))
    recording.disk.log.clear()
    with pytest.raises(ProvesNothing, match="owner: no state differs from the final one"):
        powercut.cut(recording, ALL)


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


def test_a_torn_write_comes_with_the_others_and_without_those_after_it():
    one, two = Event("write", 1, "a", 0, b"x" * 1024), Event("write", 1, "a", 1024, b"y")
    half = {b"x" * 512 + bytes(512), bytes(512) + b"x" * 512}
    whole = {b"", b"x" * 1024, b"x" * 1024 + b"y", bytes(1024) + b"y"}
    torn = contents(past(*CREATED, one, two), plan=Plan(0, 12, False, 100))
    assert (
        torn
        == {each[:512] if each[512:] == bytes(512) else each for each in half}
        | {each + b"y" for each in half}
        | whole
    )


def test_subsets_are_drawn_where_there_is_more_than_one_write():
    one, two, three = (Event("write", 1, "a", at, b"x") for at in range(3))
    drawn = Plan(60, 0, False, 100)
    assert contents(past(*CREATED, one, two, three), plan=drawn) == {
        *(b"", b"x", b"xx", b"xxx", b"\0x", b"\0xx", b"\0\0x", b"x\0x")
    }
    assert len(list(past(*CREATED, one).states(drawn, "seed"))) == 3


def test_a_truncate_is_done_or_not_and_never_in_part():
    cut_off = Event("truncate", 1, "a", 1)
    drawn = {states._drawn(cut_off, str(number)).parts for number in range(40)}
    assert drawn == {None, ()}
    write = Event("write", 1, "a", 0, b"x" * 1024)
    assert {states._drawn(write, str(number)).parts for number in range(40)} == {
        *(None, (), ((0, 512),), ((512, 1024),), ((0, 512), (512, 1024)))
    }
    assert contents(past(*CREATED, write, cut_off), plan=Plan(0, 12, False, 100)) >= {b"x", b"x" * 1024}


def test_the_states_are_the_same_each_time():
    writes = [Event("write", 1, "a", 600 * number, b"x" * 600) for number in range(9)]
    plan = Plan(20, 2, True, 100)
    once = [state.files for state in past(*CREATED, *writes).states(plan, "seed")]
    assert once == [state.files for state in past(*CREATED, *writes).states(plan, "seed")]
    assert once != [state.files for state in past(*CREATED, *writes).states(plan, "another")]


def test_the_log_of_a_workload_is_the_same_each_time():
    """To the byte: SQLite's salts and nonces are drawn from a seed."""
    workload = LIVES["receiver"]
    for setting in (Setting(*WAL), Setting(*JOURNAL)):
        once = Recording(workload, setting).live().events
        assert once == Recording(workload, setting).live().events
        assert once != Recording(workload._replace(name="another"), setting).live().events


def test_two_runs_give_the_same_rows_and_tell_how_far_they_are():
    told, settings = [], [WAL, NORMAL]
    workload = LIVES["receiver"]._replace(steps=LIVES["receiver"].steps[:2])
    rows = powercut.run("small", lambda *done: told.append(done), settings, [workload])
    assert told == [(0, 2), (1, 2), (2, 2)]
    assert rows == powercut.run("small", settings=settings, of=[workload])


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
    assert f"{rows[0]['kept']:,} kept everything, {rows[0]['lost']:,} lost" in picture.words
    assert picture.words.split(": ", 1)[1] in picture.svg
