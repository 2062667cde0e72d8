"""Backups beside their originals: the counterexample to the letter, bad input, and 200 random histories."""

import contextlib
import random
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter

import pytest

from receiptlab.contracts.dispatch import SCHEMA, Dispatch, to_file
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import GUARDS, Receiver
from receiptlab.errors import InjectedFault, Locked, NotAFixture, NotWritten, Refused, WrongArgument
from receiptlab.hazards.children import environment
from receiptlab.hazards.faults import crash_at
from receiptlab.scenarios import restoring
from receiptlab.scenarios.split_brain import two_owners_of_one_lease
from receiptlab.scenarios.world import SHOP, Party, backup
from receiptlab.store import Store
from receiptlab.values import sha256

CLAIM = {"scope": "shop", "actor": "worker-a", "now": 10, "until": 1_000}
RESULT = {"scope": "shop", "actor": "worker-a", "revision": 1, "epoch": 1, "policy": "policy-1", "now": 20}


@pytest.fixture
def receiver(tmp_path):
    with Store.create(tmp_path / "receiver.db", Receiver.SCHEMA, timeout_ms=200) as store:
        yield Receiver(store)


@pytest.fixture
def party(tmp_path, receiver):
    """An owner with two accepted results that are owed, and a writer identity."""
    Store.create(tmp_path / "owner.db", SCHEMA).close()
    party = Party(tmp_path / "owner.db")
    party.dispatch.write_as(receiver.register(SHOP, "host-1", 0))
    for number in (1, 2):
        work(party, number)
        result(party, number, 1)
    yield party
    party.store.close()


def work(party, number):
    call = {
        "scope": "shop",
        "work": f"work-{number}",
        "revision": 1,
        "epoch": 1,
        "policy": "policy-1",
        "now": 0,
    }
    party.owner.add(**call)
    party.owner.claim(work=f"work-{number}", **CLAIM)


def result(party, number, fence, key=None):
    key = key or f"key-{number}"
    named = {"work": f"work-{number}", "key": key, "fence": fence, "result_digest": sha256(key)}
    return party.owner.accept(**RESULT | named)


def test_the_order_of_the_checks():
    assert {call: [guard.__name__ for guard in guards] for call, guards in GUARDS.items()} == {
        "register": ["writer_fenced", "register_replay"],
        "apply": ["writer_unknown", "writer_fenced", "key_reused", "replay", "fence"],
        "issue": ["writer_unknown", "writer_fenced", "issue_replay"],
    }


def test_the_counterexample_ends_at_one_one_one_twice():
    run = two_owners_of_one_lease()
    assert run.held
    assert (run.kind, run.clauses) == ("breaks", ("S-1",))
    assert run.last.counts == (1, 1, 1, 1, 1, 1, 0)
    assert [step.answer["human_state"] for step in run.steps if step.call == "look"] == ["open", "open"]
    accepted = [step for step in run.steps if step.call == "accept"]
    assert [(step.outcome, step.answer["revision"]) for step in accepted] == [("accepted", 2)] * 2
    assert len({step.answer["result_digest"] for step in accepted}) == 2


def test_each_step_left_out_breaks_exactly_its_clause():
    assert all(restoring.restore().last.answer.values())
    for step, clause in zip(restoring.PROCEDURE, restoring.CLAUSES, strict=True):
        kept = restoring.restore(step).last.answer
        assert [each for each, held in kept.items() if not held] == [clause], step.__name__


OPERATIONS = ["work", "claim", "backup", "restore", "crash"] + ["result", "send"] * 3


def history(seed, folder, without=""):
    """One random history of owners that crash, are backed up and restored; every instance that ever was
    goes on working. Returns how many effects each work has at the receiver."""
    drawn = random.Random(seed)
    receiver = Receiver(Store.create(folder / "receiver.db", Receiver.SCHEMA))
    Store.create(folder / "owner-0.db", SCHEMA).close()
    parties, snapshots, works = [Party(folder / "owner-0.db")], [], 0
    parties[0].dispatch.write_as(receiver.register(SHOP, "instance-0", 0))
    for now in range(1, 70):
        what = drawn.choice(OPERATIONS)
        at = drawn.choice(parties)
        if what == "work" and works < 8:
            works += 1
            work(parties[-1], works)
        elif what == "claim" and works:
            with contextlib.suppress(Refused):
                name = f"work-{drawn.randint(1, works)}"
                at.owner.claim(work=name, **CLAIM)
        elif what == "result" and works:
            number = drawn.randint(1, works)
            with contextlib.suppress(Refused):
                row = at.owner.look("shop", f"work-{number}")
                named = {"work": row.work, "key": f"key-{now}", "fence": row.fence, "revision": row.revision}
                at.owner.accept(**RESULT | named | {"result_digest": sha256(str(now))})
        elif what == "send":
            send(drawn, at, receiver, now)
        elif what == "backup" and len(snapshots) < 4:
            snapshots.append(folder / f"snapshot-{len(snapshots)}.db")
            backup(parties[-1].store, snapshots[-1])
        elif what == "restore" and snapshots and len(parties) < 4:
            path = folder / f"owner-{len(parties)}.db"
            shutil.copy(drawn.choice(snapshots), path)
            parties.append(Party(path))
            restored(drawn, parties[-1], receiver, len(parties) - 1, now, without)
        elif what == "crash":
            number = parties.index(at)
            at.store.close()
            parties[number] = Party(at.store.path)
    for party in parties:
        for _ in range(3):
            send(drawn, party, receiver, 99)
        party.store.close()
    effects = Counter(subject for (subject,) in receiver.store.read("SELECT subject FROM effect"))
    receiver.store.close()
    return effects


def send(drawn, party, receiver, now):
    """Send, with a crash at one of the points, or none."""
    points = ("", "", "after_receiver", "after_mark", "before_commit", "after_commit")
    mine, theirs = drawn.choice(points), drawn.choice(("", "", "before_commit", "after_commit"))
    with contextlib.suppress(InjectedFault), crash_at(party.store, mine), crash_at(receiver.store, theirs):
        party.dispatch.send(to_file(party.dispatch, receiver, now), 10, now)


def restored(drawn, party, receiver, number, now, without):
    """The procedure. It may be interrupted after any step, and is then begun anew."""
    for _ in range(drawn.randint(1, 2)):
        if without != "identity":
            party.dispatch.write_as(receiver.register(SHOP, f"instance-{number}", now))
    if without != "jump":
        party.dispatch.jump(receiver, now)


def test_two_hundred_random_histories_have_one_effect_for_each_work(tmp_path):
    tried = Counter()
    for seed in range(200):
        folder = tmp_path / str(seed)
        folder.mkdir()
        effects = history(seed, folder)
        assert set(effects.values()) <= {1}, f"seed {seed}: {effects}"
        tried["effects"] += sum(effects.values())
        tried["files"] += len(list(folder.glob("owner-*.db")))
    assert tried["effects"] > 200
    assert tried["files"] > 400


@pytest.mark.parametrize("without", ["identity", "jump"])
def test_the_same_histories_without_a_step_have_more(tmp_path, without):
    """The control: the histories do reach what the procedure is there for."""
    for seed in range(200):
        folder = tmp_path / str(seed)
        folder.mkdir()
        if max(history(seed, folder, without).values(), default=0) > 1:
            return
    pytest.fail("no history needed it")


def test_a_backup_in_the_middle_of_writes_is_whole(party, tmp_path):
    """The copy has what was committed when it was taken, and nothing of an open transaction."""
    with Store.open(party.store.path) as reader, party.store.write() as db:
        db.execute("UPDATE work SET fence = 99")
        backup(reader, tmp_path / "copy.db")
    with Store.open(tmp_path / "copy.db") as copy:
        assert copy.read("SELECT fence FROM work ORDER BY work") == [(1,), (1,)]
        assert copy.read("PRAGMA integrity_check") == [("ok",)]
        assert Owner(copy).counted() == (2, 2, 2)


def test_a_copy_of_the_file_without_its_wal_is_an_older_state(party, tmp_path):
    """Copying the file alone is no backup: what is in the WAL is not in it. Another process copies it."""
    code = "import shutil, sys; shutil.copy(*sys.argv[1:])"
    copy = tmp_path / "copy.db"
    arguments = [sys.executable, "-c", code, str(party.store.path), str(copy)]
    subprocess.run(arguments, check=True, timeout=60, env=environment())
    with Store.open(copy) as store:
        assert Owner(store).counted() == (0, 0, 0)
    assert party.owner.counted() == (2, 2, 2)


def test_a_copy_can_be_opened_while_the_original_is_open(party, tmp_path):
    backup(party.store, tmp_path / "copy.db")
    other = Party(tmp_path / "copy.db")
    assert other.dispatch.writer() == party.dispatch.writer()
    assert [each.key for each in other.dispatch.owed(10)] == ["shop/key-1", "shop/key-2"]
    other.store.close()


def test_a_suspect_cannot_be_written(party):
    party.store.db.execute("PRAGMA query_only = ON")
    with pytest.raises(NotWritten, match="SQLITE_READONLY"):
        result(party, 1, 1, "key-9")
    with pytest.raises(NotWritten, match="SQLITE_READONLY"):
        party.dispatch.jump(NothingSeen, 1)


class NothingSeen:
    """A receiver that has seen nothing."""

    @staticmethod
    def known(owner, subject):
        return type("Known", (), {"fence": 0, "revision": 0})


def test_a_receiver_that_is_missing_locked_or_another_file(party, receiver, tmp_path):
    with pytest.raises(NotAFixture) as missing:
        Store.open(tmp_path / "nothing.db")
    assert missing.value.reason == "missing"
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("PRAGMA application_id = 7")
        other.execute("CREATE TABLE t (x)")
    with pytest.raises(NotAFixture) as foreign:
        Store.open(tmp_path / "other.db")
    assert foreign.value.reason == "application-id"
    with pytest.raises(NotAFixture, match="made for another contract"):
        Receiver(party.store)
    with Store.open(receiver.store.path) as holder, holder.write():
        with pytest.raises(Locked):
            receiver.register(SHOP, "host-2", 1)
        sent = party.dispatch.send(to_file(party.dispatch, receiver, 1), 10, 1)
        assert sent == (0, 0, 0, "SQLITE_BUSY"), "nothing reached it, so all is still owed"
    assert party.dispatch.send(to_file(party.dispatch, receiver, 2), 10, 2).acknowledged == 2


def test_neither_copy_can_make_a_restore_receipt(party):
    """There is no table for one in an owner's file, and the receiver's contract does not open it."""
    tables = party.store.read("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    assert [name for (name,) in tables] == ["dispatch", "outbox", "receipt", "work", "writer"]
    with pytest.raises(NotAFixture):
        Receiver(party.store)


def test_a_file_without_an_identity_sends_nothing(tmp_path, receiver):
    with Store.create(tmp_path / "fresh.db", SCHEMA) as store, pytest.raises(Refused, match="no-writer"):
        to_file(Dispatch(store), receiver, 1)


def test_messages_go_in_order_and_resume_after_a_stop(party, receiver):
    receive, went = to_file(party.dispatch, receiver, 1), []

    def once(message):
        went.append(message.outbox)
        if len(went) == 2:
            raise NotWritten("unreachable", "no way")
        receive(message)

    assert party.dispatch.send(once, 10, 1) == (1, 0, 0, "unreachable")
    assert party.dispatch.send(once, 10, 2) == (1, 0, 0, "")
    assert went == [1, 2, 2]
    assert party.dispatch.send(once, 10, 3) == (0, 0, 0, "")
    assert receiver.counted()[1] == 2


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(
    "point", ["after_sending", "after_receiver", "after_mark", "before_commit", "after_commit"]
)
def test_a_dispatcher_that_stops_anywhere_loses_nothing_and_doubles_nothing(party, receiver, point, keyed):
    def look_up(message):
        receiver.look_up(SHOP, message.key)

    to, ask = to_file(party.dispatch, receiver, 1), {"keyed": keyed, "look_up": look_up}
    for _ in range(4):
        with contextlib.suppress(InjectedFault), crash_at(party.store, point):
            party.dispatch.send(to, 1, 1, **ask)
        assert receiver.counted()[1] <= 2
    for _ in range(4):
        party.dispatch.send(to, 10, 2, **ask)
    assert party.dispatch.owed(10) == []
    assert receiver.counted()[1:3] == (2, 0)
    assert party.store.read("SELECT state FROM dispatch ORDER BY outbox") == [("acknowledged",)] * 2


def test_without_keys_and_look_up_a_stop_in_the_middle_is_unclear_and_never_sent_again(party, receiver):
    sent = []
    with crash_at(party.store, "after_receiver"), pytest.raises(InjectedFault):
        party.dispatch.send(sent.append, 1, 1, keyed=False)
    assert len(sent) == 1
    assert party.dispatch.send(sent.append, 10, 2, keyed=False) == (1, 0, 1, "")
    assert [message.outbox for message in sent] == [1, 2], "the first is not sent again"
    assert [(entry.outbox, entry.state) for entry in party.dispatch.reconciliation()] == [(1, "unclear")]


def test_a_look_up_that_cannot_be_asked_sends_nothing(party):
    sent = []

    def receive(message):
        sent.append(message.outbox)
        raise InjectedFault("after_commit")

    def look_up(message):
        raise NotWritten("unreachable", "no way")

    for _ in range(3):
        told = party.dispatch.send(receive, 10, 1, keyed=False, look_up=look_up)
        assert told[:3] == (0, 0, 0)
    assert sent == [1], "asked again each time, and not sent again"
    assert len(party.dispatch.owed(10)) == 2


def test_an_operator_closes_entries(party, receiver):
    receiver.register(SHOP, "copy-1", 1)
    party.dispatch.send(to_file(party.dispatch, receiver, 2), 10, 2)
    assert [entry.told for entry in party.dispatch.reconciliation()] == ["writer-fenced"] * 2
    with pytest.raises(WrongArgument, match="verdict must be one of"):
        party.dispatch.close_entry(1, "perhaps", "who knows", 3)
    with pytest.raises(Refused, match="not-found"):
        party.dispatch.close_entry(7, "happened", "it did", 3)
    party.dispatch.close_entry(1, "given-up", "the copy has done it", 3)
    party.dispatch.close_entry(2, "send-again", "a mistake", 3)
    assert party.dispatch.reconciliation() == []
    assert [message.outbox for message in party.dispatch.owed(10)] == [2]
    with pytest.raises(Refused, match="not-found"):
        party.dispatch.close_entry(1, "happened", "twice", 4)
    assert party.store.read("SELECT told FROM dispatch WHERE outbox = 1") == [
        ("given-up: the copy has done it",)
    ]


def test_a_jump_ends_leases_and_goes_past_everything(party, receiver):
    work(party, 3)
    effect = {
        "owner": SHOP,
        "generation": 1,
        "instance": "host-1",
        "key": "k",
        "digest": sha256("k"),
        "now": 1,
    }
    receiver.apply(**effect | {"subject": "shop/work-3", "revision": 1, "fence": 41})
    party.dispatch.jump(receiver, 5)
    row = party.owner.look("shop", "work-3")
    assert (row.fence, row.state, row.holder, row.revision) == (42, "ready", None, 1)
    with pytest.raises(Refused, match="state"):
        result(party, 3, 1)
    assert party.owner.claim(work="work-3", **CLAIM).fence == 43
    party.dispatch.jump(receiver, 6)
    receiver.apply(**effect | {"key": "j", "subject": "shop/work-3", "revision": 2, "fence": 50})
    party.dispatch.jump(receiver, 7)
    row = party.owner.look("shop", "work-3")
    assert (row.state, row.revision) == ("result-recorded", 2), "the receiver has its effect"


def test_the_longest_names_of_an_owner_are_no_obstacle(party, receiver):
    """A message that the receiver cannot take would hold up all behind it."""
    longest = "ü" * 128
    call = {"scope": longest, "work": longest, "revision": 1, "epoch": 1, "policy": "policy-1"}
    party.owner.add(**call, now=0)
    party.owner.claim(**CLAIM | {"scope": longest, "work": longest})
    party.owner.accept(**RESULT | call | {"key": longest, "fence": 1, "result_digest": sha256("x")})
    assert party.dispatch.send(to_file(party.dispatch, receiver, 1), 10, 1) == (3, 0, 0, "")


def test_a_look_up_that_is_refused_for_another_reason_is_no_answer(party):
    sent = []

    def receive(message):
        sent.append(message.outbox)
        raise InjectedFault("after_commit")

    def look_up(message):
        raise Refused("writer-fenced", "not for you")

    for _ in range(2):
        party.dispatch.send(receive, 1, 1, keyed=False, look_up=look_up)
    assert sent == [1]


def test_when_a_writer_was_fenced_stays_as_it_was(receiver):
    for number in range(3):
        receiver.register(SHOP, f"host-{number}", 100 * number)
    issued = receiver.issue(SHOP, 3, "host-2", "fence", 500).facts()
    assert [writer["fenced_at"] for writer in issued["writers"]] == [100, 200, None]


def test_the_restore_receipt_names_what_of_each_writer_was_accepted_and_refused(party, receiver):
    party.dispatch.send(to_file(party.dispatch, receiver, 1), 1, 1)
    old = to_file(party.dispatch, receiver, 2)
    receiver.register(SHOP, "copy-1", 300)
    party.dispatch.send(old, 10, 2)
    told = receiver.issue(SHOP, 2, "copy-1", "isolation", 500).facts()
    assert (told["owner"], told["enforced"], told["issued_at"]) == (SHOP, "isolation", 500)
    assert [(each["instance"], each["accepted"], each["refused"]) for each in told["writers"]] == [
        ("host-1", ["shop/key-1"], ["shop/key-2: writer-fenced"]),
        ("copy-1", [], []),
    ]
    assert told["refused of strangers"] == []


def test_what_never_reached_the_receiver_is_not_unclear(party):
    """Nothing was sent, and that is known: without keys and look-up too it is simply owed."""

    def unreachable(message):
        raise NotWritten("unreachable", "no way")

    assert party.dispatch.send(unreachable, 10, 1, keyed=False) == (0, 0, 0, "unreachable")
    sent = []
    assert party.dispatch.send(sent.append, 10, 2, keyed=False) == (2, 0, 0, "")
    assert [message.outbox for message in sent] == [1, 2]


def test_two_dispatchers_at_once_send_to_a_receiver_without_keys_once(party):
    """The second one comes while the first is at the first message, and takes the others."""
    other, sent = Party(party.store.path), []

    def first(message):
        if not sent:
            sent.append(("first", message.outbox))
            other.dispatch.send(lambda each: sent.append(("second", each.outbox)), 10, 1, keyed=False)
        else:
            sent.append(("first", message.outbox))

    party.dispatch.send(first, 10, 1, keyed=False)
    other.store.close()
    assert sorted(outbox for _, outbox in sent) == [1, 2]
    assert party.store.read("SELECT state FROM dispatch ORDER BY outbox") == [("acknowledged",)] * 2


@pytest.mark.parametrize("late", [Refused("writer-fenced", "no"), NotWritten("unreachable", "no way")])
def test_what_is_acknowledged_stays_so_whatever_another_dispatcher_learns(party, receiver, late):
    other = Party(party.store.path)

    def slow(message):
        other.dispatch.send(to_file(other.dispatch, receiver, 1), 10, 1)
        raise late

    party.dispatch.send(slow, 10, 1)
    other.store.close()
    assert party.store.read("SELECT state FROM dispatch ORDER BY outbox") == [("acknowledged",)] * 2
    assert party.dispatch.reconciliation() == party.dispatch.owed(10) == []


def test_a_look_up_whose_answer_is_lost_is_no_answer_whatever_it_says(party):
    sent = []

    def receive(message):
        sent.append(message.outbox)
        raise InjectedFault("after_commit")

    def look_up(message):
        raise InjectedFault("not-found")

    for _ in range(2):
        party.dispatch.send(receive, 1, 1, keyed=False, look_up=look_up)
    assert sent == [1]
