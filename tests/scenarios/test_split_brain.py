"""Backups beside their originals: the counterexample to the letter, bad input, and 200 random histories."""

import contextlib
import random
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter

import pytest

from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import GUARDS, Receiver
from receiptlab.contracts.relay import BASE, CAP, SCHEMA, Relay, to_file
from receiptlab.contracts.work.claims import backoff
from receiptlab.errors import FileRefused, InjectedFault, Locked, NotWritten, Refused, WrongArgument
from receiptlab.faults.failpoints import crash_at
from receiptlab.faults.processes.children import environment
from receiptlab.scenarios import restoring
from receiptlab.scenarios.copy_experiment import SHOP, OwnerFile, backup
from receiptlab.scenarios.split_brain import two_owners_of_one_lease
from receiptlab.store import Store
from receiptlab.values import sha256

CLAIM = {"scope": "shop", "actor": "worker-a", "now": 10, "until": 1_000}
LATER = 10_000_000
"""A time at which every message that was put off is due again."""
RESULT = {"scope": "shop", "actor": "worker-a", "revision": 1, "epoch": 1, "policy": "policy-1", "now": 20}


@pytest.fixture
def receiver(tmp_path):
    with Store.create(tmp_path / "receiver.db", Receiver.SCHEMA, timeout_ms=200) as store:
        yield Receiver(store)


@pytest.fixture
def party(tmp_path, receiver):
    """An owner with two accepted results that are pending, and a writer identity."""
    Store.create(tmp_path / "owner.db", SCHEMA).close()
    party = OwnerFile(tmp_path / "owner.db")
    party.relay.write_as(receiver.register(SHOP, "host-1", 0))
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
    assert [step.answer["human_state"] for step in run.steps if step.call == "get"] == ["open", "open"]
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
    parties, snapshots, works = [OwnerFile(folder / "owner-0.db")], [], 0
    parties[0].relay.write_as(receiver.register(SHOP, "instance-0", 0))
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
                row = at.owner.get("shop", f"work-{number}")
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
            parties.append(OwnerFile(path))
            restored(drawn, parties[-1], receiver, len(parties) - 1, now, without)
        elif what == "crash":
            number = parties.index(at)
            at.store.close()
            parties[number] = OwnerFile(at.store.path)
    for party in parties:
        for late in range(1, 4):
            send(drawn, party, receiver, late * LATER)
        party.store.close()
    effects = Counter(subject for (subject,) in receiver.store.read("SELECT subject FROM effect"))
    receiver.store.close()
    return effects


def send(drawn, party, receiver, now):
    """Send, with a crash at one of the points, or none."""
    points = ("", "", "after_receiver", "after_mark", "before_commit", "after_commit")
    mine, theirs = drawn.choice(points), drawn.choice(("", "", "before_commit", "after_commit"))
    with contextlib.suppress(InjectedFault), crash_at(party.store, mine), crash_at(receiver.store, theirs):
        party.relay.send(to_file(party.relay, receiver, now), 10, now, base=2, cap=8)


def restored(drawn, party, receiver, number, now, without):
    """The procedure. It may be interrupted after any step, and is then begun anew."""
    for _ in range(drawn.randint(1, 2)):
        if without != "identity":
            party.relay.write_as(receiver.register(SHOP, f"instance-{number}", now))
    if without != "jump":
        party.relay.jump(receiver, now)


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
    other = OwnerFile(tmp_path / "copy.db")
    assert other.relay.writer() == party.relay.writer()
    assert [each.key for each in other.relay.pending(10)] == ["shop/key-1", "shop/key-2"]
    other.store.close()


def test_a_suspect_cannot_be_written(party):
    party.store.db.execute("PRAGMA query_only = ON")
    with pytest.raises(NotWritten, match="SQLITE_READONLY"):
        result(party, 1, 1, "key-9")
    with pytest.raises(NotWritten, match="SQLITE_READONLY"):
        party.relay.jump(NothingSeen, 1)


class NothingSeen:
    """A receiver that has seen nothing."""

    @staticmethod
    def known(owner, subject):
        return type("Known", (), {"fence": 0, "revision": 0})


def test_a_receiver_that_is_missing_locked_or_another_file(party, receiver, tmp_path):
    with pytest.raises(FileRefused) as missing:
        Store.open(tmp_path / "nothing.db")
    assert missing.value.reason == "missing"
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("PRAGMA application_id = 7")
        other.execute("CREATE TABLE t (x)")
    with pytest.raises(FileRefused) as foreign:
        Store.open(tmp_path / "other.db")
    assert foreign.value.reason == "application-id"
    with pytest.raises(FileRefused, match="made for another contract"):
        Receiver(party.store)
    with Store.open(receiver.store.path) as holder, holder.write():
        with pytest.raises(Locked):
            receiver.register(SHOP, "host-2", 1)
        sent = party.relay.send(to_file(party.relay, receiver, 1), 10, 1)
        assert sent == (0, 0, 0, 0, "SQLITE_BUSY"), "nothing reached it, so all is still pending"
    assert party.relay.send(to_file(party.relay, receiver, 2), 10, LATER).acknowledged == 2


def test_neither_copy_can_make_a_restore_receipt(party):
    """There is no table for one in an owner's file, and the receiver's contract does not open it."""
    tables = party.store.read("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    assert [name for (name,) in tables] == ["attempt", "outbox", "receipt", "relay", "work", "writer"]
    with pytest.raises(FileRefused):
        Receiver(party.store)


def test_a_file_without_an_identity_sends_nothing(tmp_path, receiver):
    with Store.create(tmp_path / "fresh.db", SCHEMA) as store, pytest.raises(Refused, match="no-writer"):
        to_file(Relay(store), receiver, 1)


def test_messages_go_in_order_and_resume_after_a_stop(party, receiver):
    receive, went = to_file(party.relay, receiver, 1), []

    def once(message):
        went.append(message.outbox)
        if len(went) == 2:
            raise NotWritten("unreachable", "no way")
        receive(message)

    assert party.relay.send(once, 10, 1) == (1, 0, 0, 0, "unreachable")
    assert party.relay.send(once, 10, LATER) == (1, 0, 0, 0, "")
    assert went == [1, 2, 2]
    assert party.relay.send(once, 10, 2 * LATER) == (0, 0, 0, 0, "")
    assert receiver.counted()[1] == 2


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(
    "point", ["after_sending", "after_receiver", "after_mark", "before_commit", "after_commit"]
)
def test_a_relay_that_stops_anywhere_loses_nothing_and_doubles_nothing(party, receiver, point, keyed):
    def look_up(message):
        receiver.look_up(SHOP, message.key)

    to, ask = to_file(party.relay, receiver, 1), {"keyed": keyed, "look_up": look_up}
    for _ in range(4):
        with contextlib.suppress(InjectedFault), crash_at(party.store, point):
            party.relay.send(to, 1, 1, **ask)
        assert receiver.counted()[1] <= 2
    for _ in range(4):
        party.relay.send(to, 10, 2, **ask)
    assert party.relay.pending(10) == []
    assert receiver.counted()[1:3] == (2, 0)
    assert party.store.read("SELECT state FROM relay ORDER BY outbox") == [("acknowledged",)] * 2


def test_without_keys_and_look_up_a_stop_in_the_middle_is_unclear_and_never_sent_again(party, receiver):
    sent = []
    with crash_at(party.store, "after_receiver"), pytest.raises(InjectedFault):
        party.relay.send(sent.append, 1, 1, keyed=False)
    assert len(sent) == 1
    assert party.relay.send(sent.append, 10, 2, keyed=False) == (1, 0, 1, 0, "")
    assert [message.outbox for message in sent] == [1, 2], "the first is not sent again"
    assert [(entry.outbox, entry.state) for entry in party.relay.reconciliation()] == [(1, "unclear")]


def test_a_look_up_that_cannot_be_asked_sends_nothing(party):
    sent = []

    def receive(message):
        sent.append(message.outbox)
        raise InjectedFault("after_commit")

    def look_up(message):
        raise NotWritten("unreachable", "no way")

    for number in range(3):
        told = party.relay.send(receive, 10, number * LATER, keyed=False, look_up=look_up)
        assert told == (0, 0, 0, 2, "")
    assert sent == [1, 2], "asked again each time, and not sent again"
    assert len(party.relay.pending(10)) == 2


def test_an_operator_closes_entries(party, receiver):
    receiver.register(SHOP, "copy-1", 1)
    party.relay.send(to_file(party.relay, receiver, 2), 10, 2)
    assert [entry.detail for entry in party.relay.reconciliation()] == ["writer-fenced"] * 2
    with pytest.raises(WrongArgument, match="verdict must be one of"):
        party.relay.close_entry(1, "perhaps", "who knows", 3)
    with pytest.raises(Refused, match="not-found: the outbox has no message with this id"):
        party.relay.close_entry(7, "happened", "it did", 3)
    party.relay.close_entry(1, "given-up", "the copy has done it", 3)
    party.relay.close_entry(2, "send-again", "a mistake", 3)
    assert party.relay.reconciliation() == []
    assert [message.outbox for message in party.relay.pending(10)] == [2]
    with pytest.raises(
        Refused, match="not-found: there is nothing to decide about a message in the state closed"
    ):
        party.relay.close_entry(1, "happened", "twice", 4)
    assert party.store.read("SELECT detail FROM relay WHERE outbox = 1") == [
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
    party.relay.jump(receiver, 5)
    row = party.owner.get("shop", "work-3")
    assert (row.fence, row.state, row.holder, row.revision) == (42, "ready", None, 1)
    with pytest.raises(Refused, match="state"):
        result(party, 3, 1)
    assert party.owner.claim(work="work-3", **CLAIM).fence == 43
    party.relay.jump(receiver, 6)
    receiver.apply(**effect | {"key": "j", "subject": "shop/work-3", "revision": 2, "fence": 50})
    party.relay.jump(receiver, 7)
    row = party.owner.get("shop", "work-3")
    assert (row.state, row.revision) == ("result-recorded", 2), "the receiver has its effect"


def test_the_longest_names_of_an_owner_are_no_obstacle(party, receiver):
    """A message that the receiver cannot take would hold up all behind it."""
    longest = "ü" * 128
    call = {"scope": longest, "work": longest, "revision": 1, "epoch": 1, "policy": "policy-1"}
    party.owner.add(**call, now=0)
    party.owner.claim(**CLAIM | {"scope": longest, "work": longest})
    party.owner.accept(**RESULT | call | {"key": longest, "fence": 1, "result_digest": sha256("x")})
    assert party.relay.send(to_file(party.relay, receiver, 1), 10, 1) == (3, 0, 0, 0, "")


def test_a_look_up_that_is_refused_for_another_reason_is_no_answer(party):
    sent = []

    def receive(message):
        sent.append(message.outbox)
        raise InjectedFault("after_commit")

    def look_up(message):
        raise Refused("writer-fenced", "not for you")

    for now in (1, LATER):
        party.relay.send(receive, 10, now, keyed=False, look_up=look_up)
    assert sent == [1, 2]


def test_when_a_writer_was_fenced_stays_as_it_was(receiver):
    for number in range(3):
        receiver.register(SHOP, f"host-{number}", 100 * number)
    issued = receiver.issue(SHOP, 3, "host-2", "fence", 500).facts()
    assert [writer["fenced_at"] for writer in issued["writers"]] == [100, 200, None]


def test_the_restore_receipt_names_what_of_each_writer_was_accepted_and_refused(party, receiver):
    party.relay.send(to_file(party.relay, receiver, 1), 1, 1)
    old = to_file(party.relay, receiver, 2)
    receiver.register(SHOP, "copy-1", 300)
    party.relay.send(old, 10, 2)
    told = receiver.issue(SHOP, 2, "copy-1", "isolation", 500).facts()
    assert (told["owner"], told["enforced"], told["issued_at"]) == (SHOP, "isolation", 500)
    assert [(each["instance"], each["accepted"], each["refused"]) for each in told["writers"]] == [
        ("host-1", ["shop/key-1"], ["shop/key-2: writer-fenced"]),
        ("copy-1", [], []),
    ]
    assert told["refused of strangers"] == []


def test_what_never_reached_the_receiver_is_not_unclear(party):
    """Nothing was sent, and that is known: without keys and look-up too it is simply pending."""

    def unreachable(message):
        raise NotWritten("unreachable", "no way")

    assert party.relay.send(unreachable, 10, 1, keyed=False) == (0, 0, 0, 0, "unreachable")
    sent = []
    assert party.relay.send(sent.append, 10, LATER, keyed=False) == (2, 0, 0, 0, "")
    assert [message.outbox for message in sent] == [1, 2]


def test_two_dispatchers_at_once_send_to_a_receiver_without_keys_once(party):
    """The second one comes while the first is at the first message, and takes the others."""
    other, sent = OwnerFile(party.store.path), []

    def first(message):
        if not sent:
            sent.append(("first", message.outbox))
            other.relay.send(lambda each: sent.append(("second", each.outbox)), 10, 1, keyed=False)
        else:
            sent.append(("first", message.outbox))

    party.relay.send(first, 10, 1, keyed=False)
    other.store.close()
    assert sorted(outbox for _, outbox in sent) == [1, 2]
    assert party.store.read("SELECT state FROM relay ORDER BY outbox") == [("acknowledged",)] * 2


@pytest.mark.parametrize(
    "late", [Refused("writer-fenced", "no"), NotWritten("unreachable", "no way"), TimeoutError()]
)
def test_what_is_acknowledged_stays_so_whatever_another_dispatcher_learns(party, receiver, late):
    other = OwnerFile(party.store.path)

    def slow(message):
        other.relay.send(to_file(other.relay, receiver, 1), 10, 1)
        raise late

    party.relay.send(slow, 10, 1)
    other.store.close()
    assert party.store.read("SELECT state FROM relay ORDER BY outbox") == [("acknowledged",)] * 2
    assert party.relay.reconciliation() == party.relay.pending(10) == []


def test_a_look_up_whose_answer_is_lost_is_no_answer_whatever_it_says(party):
    sent = []

    def receive(message):
        sent.append(message.outbox)
        raise InjectedFault("after_commit")

    def look_up(message):
        raise InjectedFault("not-found")

    for now in (1, LATER):
        party.relay.send(receive, 10, now, keyed=False, look_up=look_up)
    assert sent == [1, 2]


# A message that cannot be delivered (D-2).


def another(party, number, key):
    """One more result of the same work. An owner allows one, so its row is put back by hand."""
    with party.store.write() as db:
        db.execute("UPDATE work SET state = 'ready', revision = 1 WHERE work = ?", (f"work-{number}",))
    claim = party.owner.claim(work=f"work-{number}", **CLAIM)
    return result(party, number, claim.fence, key)


class Poison:
    """A receiver that fails for one key, with this error. `got` has the keys of the others."""

    def __init__(self, error, key="shop/key-1"):
        self.error, self.key, self.got, self.tried = error, key, [], 0

    def __call__(self, message):
        if message.key == self.key:
            self.tried += 1
            raise self.error
        self.got.append(message.key)


def states(party):
    return [state for (state,) in party.store.read("SELECT state FROM relay ORDER BY outbox")]


ERRORS = [
    TimeoutError("too slow"),
    ValueError("\ud800\n\x1b"),
    InjectedFault("after_commit"),
    NotWritten("SQLITE_TOOBIG", "too big"),
    WrongArgument("digest", "is wrong"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("keyed", [True, False])
def test_a_message_that_cannot_be_delivered_blocks_no_other(party, error, keyed):
    work(party, 3)
    result(party, 3, 1)
    poison = Poison(error)
    party.relay.send(poison, 10, 1, keyed=keyed)
    assert poison.got == ["shop/key-2", "shop/key-3"]
    assert states(party)[1:] == ["acknowledged"] * 2
    assert party.relay.send(poison, 10, 2, keyed=keyed) == (0, 0, 0, 0, "")
    assert poison.tried == 1, "it waits for its time"


def test_a_message_is_parked_after_its_attempts_and_an_operator_decides(party, receiver):
    poison, now, dues = Poison(TimeoutError("too slow")), 100, []
    for _ in range(3):
        sent = party.relay.send(poison, 10, now, max_attempts=3, base=10, cap=15)
        assert (sent.failed, sent.stopped) == (1, "")
        entry = party.relay.get(1)
        dues.append(entry.due and entry.due - now)
        now = entry.due or now
    wait = [backoff("shop/key-1", number, 10, 15) for number in (1, 2)]
    assert dues == [*wait, None]
    assert 5 <= wait[0] <= 10 and 7 <= wait[1] <= 15
    assert entry == party.relay.reconciliation()[0]
    times = (100, 100 + wait[0], 100 + sum(wait))
    history = tuple(f"{number} at {at}: TimeoutError" for number, at in enumerate(times, 1))
    assert entry == (1, "shop/key-1", "parked", "TimeoutError", None, history, 0)
    assert party.relay.pending(10) == []
    party.relay.send(poison, 10, LATER)
    assert poison.tried == 3, "a parked message is not sent by itself"
    party.relay.close_entry(1, "send-again", "it is repaired", LATER)
    assert (party.relay.get(1).state, party.relay.get(1).detail) == (
        "pending",
        "send-again: it is repaired",
    )
    assert party.relay.send(poison, 10, LATER, max_attempts=3).failed == 1
    assert party.relay.get(1).state == "parked", "one more attempt, and no more"
    assert len(party.relay.get(1).history) == 4
    party.relay.close_entry(1, "send-again", "now it is", LATER)
    assert party.relay.send(to_file(party.relay, receiver, LATER), 10, LATER).acknowledged == 1


def test_one_attempt_parks_at_once_where_one_is_allowed(party):
    assert party.relay.send(Poison(OSError()), 10, 1, max_attempts=1) == (1, 0, 0, 1, "")
    assert states(party) == ["parked", "acknowledged"]
    party.relay.close_entry(1, "given-up", "nobody wants it", 2)
    assert party.relay.reconciliation() == party.relay.pending(10) == []


def test_a_message_that_waits_is_listed_and_can_be_given_up(party):
    party.relay.send(Poison(OSError()), 10, 1)
    [entry] = party.relay.delayed()
    assert (entry.state, entry.detail, entry.due) == (
        "unanswered",
        "OSError",
        1 + backoff("shop/key-1", 1, BASE, CAP),
    )
    assert party.relay.reconciliation() == []
    assert [message.outbox for message in party.relay.pending(10)] == [1]
    party.relay.close_entry(1, "given-up", "nobody wants it", 2)
    assert party.relay.delayed() == party.relay.pending(10) == []


def test_an_outage_counts_no_attempts_and_parks_nothing(party, receiver):
    for number in (3, 4, 5):
        work(party, number)
        result(party, number, 1)
    tried = []

    def away(message):
        tried.append(message.outbox)
        raise NotWritten("unreachable", "no way")

    for now in range(100):
        assert party.relay.send(away, 10, now * LATER, max_attempts=1)[:4] == (0, 0, 0, 0)
    assert len(tried) == 200, "at the second message in a row it stops"
    assert {entry.state for entry in party.relay.delayed()} == {"waiting"}
    assert party.store.read("SELECT max(attempts) FROM relay") == [(0,)]
    to = to_file(party.relay, receiver, 1)
    assert party.relay.send(to, 10, 100 * LATER) == (5, 0, 0, 0, "")


def test_messages_that_reach_nobody_do_not_block_however_many_they_are(party):
    for number in (3, 4, 5):
        work(party, number)
        result(party, number, 1)
    got = []

    def receive(message):
        if message.outbox < 5:
            raise NotWritten("SQLITE_TOOBIG", "too big")
        got.append(message.outbox)

    for _ in range(3):
        party.relay.send(receive, 10, 1)
    assert got == [5]


def test_an_open_message_holds_back_its_own_subject_and_no_other(party):
    another(party, 1, "key-1b")
    another(party, 1, "key-1c")
    poison = Poison(TimeoutError())
    assert [message.key for message in party.relay.pending(10)] == ["shop/key-1", "shop/key-2"]
    party.relay.send(poison, 10, 1, max_attempts=2)
    assert poison.got == ["shop/key-2"]
    assert [(entry.state, entry.behind) for entry in party.relay.delayed()] == [("unanswered", 2)]
    assert [party.relay.get(outbox).due for outbox in (3, 4)] == [None, None]
    party.relay.send(poison, 10, LATER, max_attempts=2)
    assert [(entry.state, entry.behind) for entry in party.relay.reconciliation()] == [("parked", 2)]
    assert poison.got == ["shop/key-2"]
    party.relay.close_entry(1, "given-up", "nobody wants it", LATER)
    for _ in range(2):
        party.relay.send(poison, 10, LATER)
    assert poison.got == ["shop/key-2", "shop/key-1b", "shop/key-1c"]


@pytest.mark.parametrize("verdict", ["happened", "given-up", "send-again"])
def test_an_unclear_message_holds_back_its_subject_until_an_operator_decides(party, verdict):
    another(party, 1, "key-1b")
    party.relay.send(Poison(TimeoutError()), 10, 1, keyed=False)
    assert [(entry.state, entry.behind) for entry in party.relay.reconciliation()] == [("unclear", 1)]
    sent = []
    party.relay.send(sent.append, 10, 2, keyed=False)
    assert sent == []
    party.relay.close_entry(1, verdict, "asked", 3)
    for now in (4, 5):
        party.relay.send(sent.append, 10, now, keyed=False)
    assert [message.key[-2:] for message in sent] == (["-1", "1b"] if verdict == "send-again" else ["1b"])


def test_a_refused_message_lets_the_next_of_its_subject_pass(party):
    another(party, 1, "key-1b")
    poison = Poison(Refused("fence", "no"))
    party.relay.send(poison, 10, 1)
    party.relay.send(poison, 10, 1)
    assert poison.got == ["shop/key-2", "shop/key-1b"]
    assert [(entry.state, entry.behind) for entry in party.relay.reconciliation()] == [("refused", 0)]
    party.relay.close_entry(1, "send-again", "asked", 2)
    assert [message.key for message in party.relay.pending(10)] == ["shop/key-1"]


def test_a_look_up_goes_before_a_second_attempt_whoever_made_the_first(party):
    """A receiver without keys is asked, even where the first attempt was made by somebody who trusted its keys."""
    poison, asked = Poison(TimeoutError()), []
    party.relay.send(poison, 10, 1)
    told = party.relay.send(poison, 10, LATER, keyed=False, look_up=asked.append)
    assert (told, [message.key for message in asked]) == ((1, 0, 0, 0, ""), ["shop/key-1"])
    assert poison.tried == 1


def test_two_dispatchers_that_fail_at_the_same_attempt_count_it_once(party):
    other, poison = OwnerFile(party.store.path), Poison(TimeoutError())

    def receive(message):
        if message.outbox == 1 and not poison.tried:
            other.relay.send(poison, 1, 1)
        poison(message)

    party.relay.send(receive, 1, 1)
    other.store.close()
    assert poison.tried == 2
    assert party.relay.get(1).history == ("1 at 1: TimeoutError",)


def test_a_relay_that_stops_while_it_counts_an_attempt_has_not_counted_it(party):
    with pytest.raises(InjectedFault), crash_at(party.store, "after_attempt"):
        party.relay.send(Poison(TimeoutError()), 1, 1)
    assert (party.relay.get(1).state, party.relay.get(1).history) == ("pending", ())


@pytest.mark.parametrize("point", ["after_mark", "before_commit", "after_commit"])
def test_an_acknowledgement_is_there_once_it_is_committed(party, receiver, point):
    """And the next message of the subject is due in the same moment."""
    another(party, 1, "key-1b")
    with pytest.raises(InjectedFault), crash_at(party.store, point):
        party.relay.send(to_file(party.relay, receiver, 1), 1, 1)
    row = party.store.read("SELECT state, detail, changed_at FROM relay WHERE outbox = 1")
    due = party.store.read("SELECT due FROM relay WHERE outbox = 3")
    assert (row, due) == (
        ([("acknowledged", "", 1)], [(0,)]) if point == "after_commit" else ([("pending", "", 20)], [(None,)])
    )


def test_ctrl_c_is_no_failed_attempt(party):
    with pytest.raises(KeyboardInterrupt):
        party.relay.send(Poison(KeyboardInterrupt()), 10, 1)
    assert states(party) == ["pending", "pending"]


def test_what_is_told_of_any_error_is_plain_and_short(party):
    party.relay.send(Poison(InjectedFault("\ud800\n\x1b" * 100)), 10, 1)
    told = party.relay.get(1).detail
    assert told.isascii() and told.isprintable() and len(told) == 200


@pytest.mark.parametrize("now", [2**63 - 2, 2**63 - 1])
def test_the_end_of_time_is_no_obstacle(party, now):
    party.relay.send(Poison(TimeoutError()), 10, now)
    assert party.relay.get(1).due == 2**63 - 1


def test_a_message_that_is_not_there_is_on_no_list(party):
    with pytest.raises(Refused, match="not-found"):
        party.relay.get(7)
    for verdict in ("happened", "send-again", "given-up"):
        with pytest.raises(Refused, match="not-found"):
            party.relay.close_entry(1, verdict, "not sent yet", 1)


# Which answer stands against which (the sending side's guards against each other).

LEARNED = ["acknowledged", "refused", "unclear"]


@pytest.mark.parametrize("later", LEARNED)
@pytest.mark.parametrize("earlier", [*LEARNED, "closed", "parked"])
def test_what_a_slower_dispatcher_learns_changes_only_what_it_may(party, earlier, later):
    """An acknowledgement goes over everything but a decision; nothing goes over an acknowledgement, and a
    refusal gives way to an acknowledgement only."""
    other = OwnerFile(party.store.path)
    ends = {"acknowledged": None, "refused": Refused("fence", "no"), "unclear": TimeoutError()}

    def receive(message):
        if message.outbox == 2:
            return
        if earlier == "closed":
            other.relay.send(Poison(Refused("fence", "no")), 1, 10, keyed=False)
            other.relay.close_entry(1, "given-up", "enough", 11)
        elif earlier == "parked":
            other.relay.send(Poison(TimeoutError()), 1, 10, max_attempts=1)
        elif ends[earlier]:
            other.relay.send(Poison(ends[earlier]), 1, 10, keyed=earlier != "unclear")
        else:
            other.relay.send(lambda message: None, 1, 10)
        if ends[later]:
            raise ends[later]

    party.relay.send(receive, 10, 20, keyed=later != "unclear")
    other.store.close()
    over = earlier in ("unclear", "parked") or (earlier, later) == ("refused", "acknowledged")
    wanted = later if over else earlier
    [(state, detail, changed_at)] = party.store.read(
        "SELECT state, detail, changed_at FROM relay WHERE outbox = 1"
    )
    words = {"acknowledged": "", "refused": "fence", "unclear": "the answer was lost"}
    words |= {"closed": "given-up: enough", "parked": "TimeoutError"}
    assert (state, detail) == (wanted, words[wanted])
    assert changed_at == (20 if over else 11 if earlier == "closed" else 10)


def test_lists_are_in_the_order_of_the_outbox(party):
    for number in (3, 4):
        work(party, number)
        result(party, number, 1)
    with party.store.write() as db:
        for state, outbox in (("unclear", 1), ("refused", 2), ("parked", 3), ("unclear", 4)):
            db.execute("UPDATE relay SET state = ?, due = NULL WHERE outbox = ?", (state, outbox))
    assert [entry.outbox for entry in party.relay.reconciliation()] == [1, 2, 3, 4]
    with party.store.write() as db:
        for state, due, outbox in (
            ("waiting", 9, 4),
            ("unanswered", 8, 2),
            ("sending", 7, 3),
            ("waiting", 6, 1),
        ):
            db.execute("UPDATE relay SET state = ?, due = ? WHERE outbox = ?", (state, due, outbox))
    assert [entry.outbox for entry in party.relay.delayed()] == [1, 2, 3, 4]
    assert [message.outbox for message in party.relay.pending(3)] == [1, 3, 2], "what is due first"


def test_a_jump_keeps_to_its_scope(party, receiver):
    """Work of the same name in another scope is other work."""
    party.owner.add("other", "work-1", 1, 1, "policy-1", 0)
    effect = {
        "owner": SHOP,
        "generation": 1,
        "instance": "host-1",
        "key": "k",
        "digest": sha256("k"),
        "now": 1,
    }
    receiver.apply(**effect | {"subject": "other/work-1", "revision": 9, "fence": 40})
    party.relay.jump(receiver, 5)
    here, there = (party.owner.get(scope, "work-1") for scope in ("shop", "other"))
    assert (here.fence, here.revision, here.state) == (2, 2, "result-recorded")
    assert (there.fence, there.revision, there.state) == (41, 9, "result-recorded")


# The receiver's rows.


def test_the_file_itself_keeps_a_key_of_an_owner_unique(receiver):
    """The guards look first, so that no call of the contract reaches this; a write past them does."""
    receiver.register(SHOP, "host-1", 0)
    row = "INSERT INTO effect VALUES (NULL, 'shop', 'k', 1, 's', 1, 1, ?, 0)"
    with receiver.store.write() as db:
        db.execute(row, (sha256("a"),))
    with pytest.raises(NotWritten, match="UNIQUE"), receiver.store.write() as db:
        db.execute(row, (sha256("b"),))


def test_without_its_replay_guard_a_receiver_still_has_one_effect(receiver):
    """The unique key turns a second effect into an error."""
    receiver.register(SHOP, "host-1", 0)
    guards = GUARDS | {"apply": tuple(each for each in GUARDS["apply"] if each.__name__ != "replay")}
    lax = Receiver(receiver.store, guards)
    effect = (SHOP, 1, "host-1", "k", "s", 1, 1, sha256("k"))
    lax.apply(*effect, 1)
    with pytest.raises(NotWritten, match="UNIQUE"):
        lax.apply(*effect, 2)
    assert receiver.counted()[1] == 1


def test_refusals_have_a_count_and_their_first_and_last_time(receiver):
    receiver.register(SHOP, "host-1", 0)
    for now in (5, 7, 6):
        with pytest.raises(Refused, match="writer-unknown"):
            receiver.apply(SHOP, 1, f"host-{now}", "k", "s", 1, 1, sha256("k"), now)
    rows = receiver.store.read("SELECT generation, reason, times, first_at, last_at FROM refusal")
    assert rows == [(0, "writer-unknown", 3, 5, 6)]


def test_the_restore_receipt_says_how_often_and_keeps_the_order_of_the_first_time(receiver):
    receiver.register(SHOP, "host-1", 0)
    for key in ("a-2", "a-1", "a-3"):
        receiver.apply(SHOP, 1, "host-1", key, key, 1, 1, sha256(key), 0)
    receiver.register(SHOP, "copy-1", 1)
    for key in ("k-2", "k-1", "k-2", "k-3", "k-2"):
        with pytest.raises(Refused, match="writer-fenced"):
            receiver.apply(SHOP, 1, "host-1", key, "s", 1, 1, sha256(key), 2)
    told = receiver.issue(SHOP, 2, "copy-1", "fence", 3).facts()
    assert told["writers"][0]["accepted"] == ["a-2", "a-1", "a-3"]
    assert told["writers"][0]["refused"] == [
        "k-2: writer-fenced, 3 times",
        "k-1: writer-fenced",
        "k-3: writer-fenced",
    ]


def test_who_was_refused_before_it_was_registered_was_a_stranger_then(receiver):
    with pytest.raises(Refused, match="writer-unknown"):
        receiver.apply(SHOP, 1, "host-1", "k", "s", 1, 1, sha256("k"), 0)
    receiver.register(SHOP, "host-1", 1)
    told = receiver.issue(SHOP, 1, "host-1", "fence", 2).facts()
    assert (told["writers"][0]["refused"], told["refused of strangers"]) == ([], ["k: writer-unknown"])


# What a call costs, in steps of SQLite's virtual machine: no clock, the same each time.


def steps(store, call):
    """How many steps the call takes."""
    counted = []
    store.db.set_progress_handler(lambda: counted.append(1), 1)
    with contextlib.suppress(Refused):
        call()
    store.db.set_progress_handler(None, 1)
    return len(counted)


def receiver_costs(rows):
    with Store.temporary(Receiver.SCHEMA) as store:
        receiver, digest = Receiver(store), sha256("x")
        receiver.register(SHOP, "host-1", 0)
        with store.write() as db:
            effect = "INSERT INTO effect VALUES (NULL, 'shop', ?, 1, 's', 0, 0, ?, 0)"
            db.executemany(effect, ((f"k-{number}", digest) for number in range(rows)))
            refusal = "INSERT INTO refusal VALUES (NULL, 'shop', ?, 1, 'fence', 1, 0, 0)"
            db.executemany(refusal, ((f"k-{number}",) for number in range(rows)))
            writer = "INSERT INTO writer VALUES ('other', ?, ?, 0, iif(? < ?, 0, NULL))"
            db.executemany(writer, ((n, f"host-{n}", n, rows) for n in range(1, rows + 1)))
        here = (SHOP, 1, "host-1")
        return {
            "new": steps(store, lambda: receiver.apply(*here, "new", "s", 0, 0, digest, 1)),
            "replay": steps(store, lambda: receiver.apply(*here, "k-7", "s", 0, 0, digest, 1)),
            "reused": steps(store, lambda: receiver.apply(*here, "k-7", "s", 0, 1, digest, 1)),
            "stranger": steps(store, lambda: receiver.apply(SHOP, 9, "x", "k", "s", 0, 0, digest, 1)),
            "look_up": steps(store, lambda: receiver.look_up(SHOP, "k-7")),
            "known": steps(store, lambda: receiver.known(SHOP, "s")),
            "register": steps(store, lambda: receiver.register("other", "one more", 1)),
        }


def relay_costs(rows):
    """What is pending stays the same: 20 messages; what else there is grows."""
    with Store.temporary(SCHEMA) as store:
        relay, digest = Relay(store), sha256("x")
        with store.write() as db:
            db.execute(
                "INSERT INTO work VALUES ('s', 'w', 1, 1, 'p', 0, 1, NULL, NULL, 'ready', 'open', 1, 0)"
            )
            for number in range(rows + 20):
                command = f'{{"scope":"s","key":"{number}","work":"{number}","fence":1}}'
                receipt = "INSERT INTO receipt VALUES (NULL, 's', ?, 'w', ?, ?, 2, ?, 0)"
                db.execute(receipt, (str(number), command, digest, digest))
                db.execute("INSERT INTO outbox VALUES (NULL, 'result-recorded', ?, 0)", (str(number + 1),))
            db.execute("UPDATE relay SET subject = subject || outbox, due = 0")
            for state, kept, due in (("acknowledged", 0, None), ("pending", 1, None), ("waiting", 2, LATER)):
                sql = "UPDATE relay SET state = ?, due = ? WHERE outbox <= ? AND outbox % 3 = ?"
                db.execute(sql, (state, due, rows, kept))
            held = "UPDATE relay SET subject = 'held' WHERE outbox <= ? AND outbox % 3 = 1"
            db.execute(held, (rows,))
        costs = {
            "pending": steps(store, lambda: relay.pending(10)),
            "send": steps(store, lambda: relay.send(lambda message: None, 2, 1)),
            "refused": steps(
                store, lambda: relay.send(Poison(Refused("fence", "no"), f"s/{rows + 2}"), 1, 1)
            ),
            "failed": steps(store, lambda: relay.send(Poison(OSError(), f"s/{rows + 3}"), 1, 1)),
            "get": steps(store, lambda: relay.get(rows + 3)),
            "reconciliation": steps(store, relay.reconciliation),
            "close": steps(store, lambda: relay.close_entry(rows + 3, "happened", "asked", 2)),
        }
        [ended] = store.read("SELECT group_concat(state, ' ') FROM relay WHERE outbox > ? LIMIT 1", (rows,))
        assert ended[0].startswith("acknowledged acknowledged closed unanswered pending")
        return costs


@pytest.mark.parametrize("costs", [receiver_costs, relay_costs])
def test_a_call_costs_the_same_however_many_rows_there_are(costs):
    few, many = costs(300), costs(6_000)
    assert {name: many[name] for name in few if many[name] > 1.5 * few[name]} == {}
    assert min(few.values()) > 5
