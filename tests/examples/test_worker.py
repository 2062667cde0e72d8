"""The worker: what it saves, what it never saves twice, and how it ends."""

import contextlib
import itertools
import os
import random
import subprocess
import sys

import pytest

from receiptlab.cli import intake_command as command
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.work.lease import LEASE_MS
from receiptlab.contracts.work.work import Work
from receiptlab.errors import FileRefused, Refused, WrongArgument, WrongType, WrongValue
from receiptlab.examples import worker
from receiptlab.examples.batches import forget, take_in
from receiptlab.examples.handler import Failure
from receiptlab.examples.mailbox import Letter
from receiptlab.examples.stopping import Gone, Stop
from receiptlab.examples.webhooks import Webhook
from receiptlab.examples.worker import Policy, Worker
from receiptlab.store import Store
from receiptlab.values import sha256
from tests.faults import killed_workers

POLICY = Policy(hold_for=3_000, max_attempts=3, base=100, cap=400)
NAME = {"tenant": "acme", "namespace": "inbox"}


class Clock:
    """A clock that stands until it is moved; sleeping moves it."""

    def __init__(self, now=1_000):
        self.now = now

    def __call__(self):
        return self.now

    def sleep(self, milliseconds):
        self.now += milliseconds
        assert self.now < 10_000_000, "it waits for ever"


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "receipts.db", command.SCHEMA, timeout_ms=50) as store:
        yield store


@pytest.fixture
def clock():
    return Clock()


def add(store, *keys, processor="p", **name):
    for key in keys:
        horizons = {"retain_until": 10**9, "tombstone_until": 10**9}
        named = NAME | name | {"key": key, "digest": sha256(key)}
        Work(store).deliver(**named, processor=processor, processor_revision="1", **horizons, now=0)


def made(store, clock, handle=lambda item, beat: item["key"], name="w-1", policy=POLICY, **more):
    sleep = getattr(clock, "sleep", None)
    return Worker(store, "p", name, policy, handle, clock, sleep, **more)


def rows(store, sql):
    return store.read(f"SELECT {sql}")


def states(store):
    return dict(rows(store, "state, count(*) FROM work GROUP BY state"))


def sound(store):
    return {name: found for name, sql in killed_workers.WRONG.items() if (found := store.read(sql))} == {}


# What cannot be begun


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"max_attempts": 0}, WrongValue),
        ({"max_attempts": -1}, WrongValue),
        ({"max_attempts": True}, WrongType),
        ({"cap": -1}, WrongValue),
        ({"base": -1}, WrongValue),
        ({"hold_for": 0}, WrongValue),
        ({"hold_for": -5}, WrongValue),
        ({"hold_for": 2**61 + 1}, WrongValue),
        ({"hold_for": 0.5}, WrongType),
    ],
)
def test_a_policy_that_is_none_is_refused_before_anything_starts(wrong, error):
    with pytest.raises(error) as refused:
        Policy(**wrong)
    assert refused.value.argument == next(iter(wrong))


@pytest.mark.parametrize(
    "wrong", [{"name": ""}, {"name": "a\nb"}, {"namespace": ""}, {"namespace": "n" * 257}]
)
def test_a_name_that_is_none_is_refused(store, clock, wrong):
    with pytest.raises(WrongArgument):
        made(store, clock, **wrong)


def test_a_store_without_the_results_is_refused(tmp_path, clock):
    with (
        Store.create(tmp_path / "plain.db", Work.SCHEMA) as plain,
        pytest.raises(FileRefused, match="result"),
    ):
        made(plain, clock)


def test_a_claim_of_another_store_saves_nothing(store, clock, tmp_path):
    add(store, "a")
    with Store.create(tmp_path / "other.db", command.SCHEMA) as other:
        add(other, "a")
        [claim] = Work(other).next("inbox", "p", "w", 1, 500, 3, 0).claims
        with pytest.raises(Refused, match="other-store"):
            made(store, clock)._complete(claim, "out", 1)
    assert rows(store, "count(*) FROM result") == [(0,)]
    with pytest.raises(WrongValue):
        made(store, clock).run("sometime")


# What it saves


def test_every_item_is_done_once_with_its_result_and_its_message(store, clock):
    add(store, "a", "b", "c")
    tally = made(store, clock).run("drained")
    assert vars(tally) == {"done": 3, "failed": 0, "lost": 0, "dead_letters": 0}
    assert rows(store, "output, processor, revision FROM result ORDER BY id") == [
        ("a", "p", 1),
        ("b", "p", 1),
        ("c", "p", 1),
    ]
    assert rows(store, "count(*) FROM outbox WHERE topic = 'done'") == [(3,)]
    assert sound(store)


def test_the_item_is_told_whole(store, clock):
    told = []
    add(store, "a")
    made(store, clock, lambda item, beat: told.append(item) or "").run("drained")
    assert told == [
        NAME
        | {"work": 1, "attempt": 1, "processor": "p", "processor_revision": "1", "key": "a", "revision": 1}
        | {"digest": sha256("a"), "reference": ""}
    ]


def test_it_goes_over_all_namespaces_or_stays_in_one(store, clock):
    for number in (2, 1, 3):
        add(store, f"a{number}", f"b{number}", namespace=f"n-{number}")
    add(store, "x", processor="q", namespace="n-0")
    made(store, clock, namespace="n-3").run("drained")
    assert rows(store, "output FROM result ORDER BY id") == [("a3",), ("b3",)]
    one = made(store, clock)
    assert one.step()
    assert rows(store, "output FROM result WHERE id > 2 ORDER BY id") == [("a1",), ("a2",)]
    one.run("drained")
    assert one.left() == 0
    assert states(store) == {"done": 6, "pending": 1}


def test_what_fails_is_tried_again_and_dies_after_its_attempts(store, clock):
    def fail(item, beat):
        raise Failure("no\nwonder\x00", "x" + "é" * 2_000)

    told = []
    add(store, "a")
    tally = made(store, clock, fail, report=told.append).run("drained")
    assert (tally.failed, states(store)) == (3, {"dead": 1})
    assert rows(store, "DISTINCT error, detail FROM attempt") == [("nowonder", "é" * 1_024)]
    assert told == [f"work 1, attempt {number}: nowonder; it will be tried again" for number in (1, 2)] + [
        "work 1, attempt 3: nowonder; it is a dead letter now"
    ]
    assert rows(store, "count(*) FROM result") == [(0,)]
    assert sound(store)


@pytest.mark.parametrize(
    ("handle", "error"),
    [
        (lambda item, beat: 1 / 0, "ZeroDivisionError"),
        (lambda item, beat: "\ud800", "WrongValue"),
        (lambda item, beat: None, "WrongType"),
        (lambda item, beat: "x" * 1_048_577, "WrongValue"),
    ],
)
def test_what_a_handler_does_wrong_is_a_failure_of_the_item(store, clock, handle, error):
    add(store, "a")
    made(store, clock, handle).run("drained")
    assert (states(store), rows(store, "DISTINCT error FROM attempt")) == ({"dead": 1}, [(error,)])


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", ""),
        ("a" * 2_049, "a" * 2_048),
        ("ab" + "€" * 683, "€" * 682),
        ("\ud800", "\\ud800"),
        ("\x00\n", "\x00\n"),
    ],
)
def test_a_detail_is_cut_between_two_characters(text, kept):
    assert Failure("e", text).detail == kept
    assert (Failure("").error, Failure("e" * 200).error) == ("failure", "e" * 128)


# Claims that are held, and lost


def test_a_long_work_keeps_its_claim(store, clock):
    other = made(store, clock, name="w-2")
    stolen = []

    def long(item, beat):
        for _ in range(20):
            clock.now += 1_000
            beat()
            stolen.append(other.step())
        return "long"

    add(store, "a")
    made(store, clock, long).run("drained")
    assert not any(stolen)
    assert rows(store, "attempts, state FROM work") == [(1, "done")]


def test_a_claim_is_renewed_once_a_third_of_it_is_over(store, clock):
    ends = []

    def work(item, beat):
        for step in (999, 1, 0, 999, 1):
            clock.now += step
            beat()
            ends.append(rows(store, "due FROM work")[0][0])
        return ""

    add(store, "a")
    made(store, clock, work).run("drained")
    assert ends == [4_000, 5_000, 5_000, 5_000, 6_000]


@pytest.mark.parametrize("beaten", [True, False], ids=["seen by the renewal", "seen by the completion"])
def test_who_lost_his_claim_saves_nothing(store, clock, beaten):
    other = made(store, clock, lambda item, beat: "second", name="w-2")
    told, went_on = [], []

    def slow(item, beat):
        clock.now += POLICY.hold_for
        other.step()
        if beaten:
            beat()
        went_on.append(True)
        return "first"

    add(store, "a")
    tally = made(store, clock, slow, report=told.append).run("drained")
    assert (tally.done, tally.lost, other.tally.done, bool(went_on)) == (0, 1, 1, not beaten)
    assert rows(store, "output FROM result") == [("second",)]
    assert rows(store, "count(*) FROM outbox WHERE topic = 'done'") == [(1,)]
    assert told == [
        "work 1, attempt 1: claim-lost: this is not the item's current fence; reserve again; "
        "nothing of this attempt was saved"
    ]


def test_a_claim_that_ended_and_that_nobody_took_is_lost_too(store, clock):
    def slow(item, beat):
        clock.now += POLICY.hold_for if item["attempt"] == 1 else 0
        return "out"

    add(store, "a")
    tally = made(store, clock, slow).run("drained")
    assert (tally.lost, tally.done) == (1, 1)
    assert rows(store, "result FROM attempt ORDER BY number") == [("expired",), ("done",)]


def test_who_failed_without_a_claim_does_not_fail_the_other(store, clock):
    other = made(store, clock, name="w-2")

    def slow(item, beat):
        clock.now += POLICY.hold_for
        other.step()
        raise Failure("late")

    add(store, "a")
    assert made(store, clock, slow).run("drained").lost == 1
    assert states(store) == {"done": 1}


def test_what_was_erased_meanwhile_is_not_saved(store, clock):
    def erased(item, beat):
        Intake(store).erase_identity("explicit", "acme", "inbox", "a", now=clock.now)
        return "out"

    add(store, "a")
    assert made(store, clock, erased).run("drained").lost == 1
    assert (rows(store, "count(*) FROM result"), states(store)) == ([(0,)], {})


def test_what_was_erased_as_soon_as_it_was_reserved_is_not_worked_on(store, clock):
    def erase(point):
        if point == "after_commit" and states(store) == {"claimed": 1}:
            with store.again() as other:
                Intake(other).erase_identity("explicit", "acme", "inbox", "a", now=clock.now)

    told, worked = [], []
    add(store, "a")
    store.failpoint = erase
    made(store, clock, lambda item, beat: worked.append(item), report=told.append).run("drained")
    assert told == [
        "work 1, attempt 1: not-found: the receipt was erased, or compacted, and its work is gone; "
        "nothing of this attempt was saved"
    ]
    assert not worked


def test_an_item_that_is_spent_is_buried_and_reported(store, clock):
    add(store, "a")
    for _ in range(POLICY.max_attempts):
        assert Work(store).next("inbox", "p", "dies", 1, 1_000, 99, clock.now).claims
        clock.now += 1_000
    told = []
    tally = made(store, clock, report=told.append).run("drained")
    assert (tally.dead_letters, states(store)) == (1, {"dead": 1})
    assert told == ["work 1: its last claim expired; after 3 attempts it is a dead letter now"]


# Others in the way


def test_a_lease_that_somebody_left_behind_is_waited_for(store, clock):
    add(store, "a")
    Work(store).acquire("inbox", "p", "died", clock.now)
    assert not made(store, clock).step()
    assert made(store, clock).run("drained").done == 1
    assert clock.now >= 1_000 + LEASE_MS


def test_with_a_clock_that_stands_a_lease_is_not_waited_for_for_ever(store, clock):
    add(store, "a")
    Work(store).acquire("inbox", "p", "died", clock.now)
    waited = []
    one = Worker(store, "p", "w", POLICY, lambda item, beat: "", lambda: 1_000, waited.append)
    with pytest.raises(Refused, match="busy"):
        one.run("idle")
    assert len(waited) == worker.PATIENCE


@pytest.mark.parametrize("at_most", [0, 1_000, 5_000])
def test_draining_waits_no_longer_than_it_may_and_says_for_what(store, clock, at_most):
    """An item was claimed by a clock that was an hour ahead."""
    told = []
    add(store, "a", "b")
    Work(store).next("inbox", "p", "ahead", 1, 10_000, 3, 3_600_000)
    one = made(store, clock, report=told.append)
    assert one.run("drained", at_most).done == 1
    assert (clock.now, one.gave_up, one.left()) == (1_000 + at_most, True, 1)
    rest = "1 not finished, none can be claimed now; the first is due in "
    waiting, gave_up = (
        f"waiting: {rest}3,607 s, at 1970-01-01 01:00:10 UTC",
        f"gave up after {at_most / 1_000:g} s: ",
    )
    assert told[:-1] == ([waiting] if at_most > 2_000 else [])
    assert told[-1].startswith(gave_up + rest)
    assert Work(store).reset_ahead(60_000, 10, clock.now).works == (1,)
    again = made(store, clock)
    assert (again.run("drained", at_most).done, again.gave_up) == (1, False)


def test_draining_a_queue_that_another_worker_holds_says_so(store, clock):
    told = []
    add(store, "a")
    Work(store).acquire("inbox", "p", "died", clock.now)
    assert made(store, clock, report=told.append).run("drained", LEASE_MS).done == 1
    assert told == ["waiting: 1 not finished, none can be claimed now; another worker holds the queue"]


def test_draining_is_over_when_another_worker_finishes_the_last_item_meanwhile(store, clock):
    add(store, "a")
    [claim] = Work(store).next("inbox", "p", "other", 1, 60_000, 3, clock.now).claims
    one, looked = made(store, clock), []

    def over(ends):
        looked.append(1)
        if len(looked) == 2:
            Work(store).complete(claim.work, claim.fence, "", clock.now)
            return False  # it had looked before
        return Worker._over(one, ends)

    one._over = over
    one.run("drained", 200)
    assert (len(looked), one.gave_up) == (3, False)


def test_idle_ends_once_nothing_is_due_now(store, clock):
    add(store, "a", "b")

    def fail(item, beat):
        if item["key"] == "a":
            raise Failure("e")
        return ""

    one = made(store, clock, fail)
    assert vars(one.run("idle")) == {"done": 1, "failed": 1, "lost": 0, "dead_letters": 0}
    assert one.left() == 1


def test_a_locked_file_is_asked_again(store, clock):
    add(store, "a")
    pauses = []
    with store.again() as other, contextlib.ExitStack() as held:

        def take(item, beat):
            held.enter_context(other.write())
            clock.now += 1_000
            beat()  # the renewal meets the lock, and the claim goes on
            return "out"

        def sleep(milliseconds):
            pauses.append(milliseconds)
            held.close()

        with other.write():
            assert not made(store, clock, take).step()
        Worker(store, "p", "w", POLICY, take, clock, sleep).step()
    assert pauses == [worker.PAUSE]
    assert states(store) == {"done": 1}


def test_a_file_that_stays_locked_costs_the_claim_and_not_the_worker(store, clock, monkeypatch):
    monkeypatch.setattr(worker, "PATIENCE", 2)
    add(store, "a")
    told = []
    with store.again() as other, contextlib.ExitStack() as held:

        def take(item, beat):
            held.enter_context(other.write())
            return "out"

        assert made(store, clock, take, report=told.append).step()
    assert "could not be finished (SQLITE_BUSY" in told[0]
    assert states(store) == {"claimed": 1}


def test_the_turn_is_held_around_the_writes_and_never_while_it_works(store, clock):
    depth, seen = [], []

    @contextlib.contextmanager
    def turns(path):
        assert path == store.path
        depth.append(path)
        yield
        depth.pop()

    def handle(item, beat):
        seen.append(("handle", len(depth)))
        return ""

    store.failpoint = lambda point: seen.append((point, len(depth)))
    add(store, "a")
    seen.clear()
    made(store, clock, handle, turns=turns).run("drained")
    assert ("handle", 0) in seen
    assert [many for point, many in seen if point == "after_commit"] == [1, 1, 1]


# Stopping


def test_asked_to_stop_it_finishes_what_it_has_and_takes_nothing_more(store, clock):
    stop = Stop()
    add(store, "a", "b")
    tally = made(store, clock, lambda item, beat: stop() or "out", stop=stop).run()
    assert (tally.done, states(store)) == (1, {"done": 1, "pending": 1})


def test_asked_twice_it_gives_up_and_says_so_in_the_history(store, clock):
    stop = Stop()

    def handle(item, beat):
        stop()
        stop()
        beat()
        return "out"

    add(store, "a")
    assert made(store, clock, handle, stop=stop).run().failed == 1
    assert rows(store, "state FROM work") == [("failed",)]
    assert rows(store, "error FROM attempt") == [("stopped",)]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("when", ["reserving", "finishing"])
def test_asked_while_it_waits_for_the_turn(store, clock, times, when):
    stop, entered = Stop(), []

    @contextlib.contextmanager
    def turns(path):
        entered.append(path)
        for _ in range(times if len(entered) == (1 if when == "reserving" else 2) else 0):
            stop()
        yield

    add(store, "a")
    made(store, clock, stop=stop, turns=turns).run()
    assert states(store) == ({"pending": 1} if when == "reserving" else {"done": 1})
    assert sound(store)


def test_asked_before_it_begins_it_does_nothing(store, clock):
    stop = Stop()
    stop()
    add(store, "a")
    assert made(store, clock, stop=stop).run("drained").done == 0


# The file


def replaced(store, how):
    os.rename(store.path, f"{store.path}.old")
    if how == "replaced":
        store.path.write_bytes(b"something else")


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be removed there")
@pytest.mark.parametrize("how", ["removed", "replaced"])
@pytest.mark.parametrize("when", ["before it takes", "while it works", "while it waits for the turn"])
def test_a_file_that_is_gone_ends_the_worker_and_nothing_is_claimed_saved(store, clock, how, when):
    add(store, "a", "b")

    @contextlib.contextmanager
    def turns(path):
        if when == "while it waits for the turn":
            replaced(store, how)
        yield

    def handle(item, beat):
        replaced(store, how)
        return ""

    one = made(store, clock, handle, turns=turns)
    if when == "before it takes":
        replaced(store, how)
    with pytest.raises(Gone, match="removed or replaced"):
        one.run("drained")
    assert one.tally.done == 0
    taken = 1 if when == "while it works" else 0
    assert rows(store, "count(*) FROM work WHERE state <> 'pending'") == [(taken,)]
    assert rows(store, "count(*) FROM result") == [(0,)]


def test_a_file_that_is_gone_is_noticed_when_nothing_is_due(store, clock):
    one = made(store, clock)
    replaced(store, "removed")
    with pytest.raises(Gone):
        one.run()


def test_a_file_that_goes_while_the_result_is_written_is_not_claimed_saved(store, clock):
    add(store, "a")
    one = made(store, clock)
    store.failpoint = lambda point: replaced(store, "removed") if point == "after_work" else None
    with pytest.raises(Gone):
        one.run()
    assert one.tally.done == 0


# A clock that jumps


class Jumping:
    """A clock of one worker: near the common time, and now and then far off, ahead or behind."""

    def __init__(self, draw, common):
        self.draw, self.common = draw, common

    def __call__(self):
        self.common[0] += self.draw.randrange(50)
        off = self.draw.choice((0, 0, 0, 1)) * self.draw.randrange(-40_000, 40_000)
        return max(0, self.common[0] + off)


@pytest.mark.parametrize("seed", range(6))
def test_under_clocks_that_jump_nothing_is_committed_twice(store, seed):
    """Four workers over one file, each begun within the work of another; a model counts what was saved."""
    draw, common, saved = random.Random(seed), [100_000], {}
    add(store, *map(str, range(12)))
    add(store, *map(str, range(12)), namespace="other")
    workers, depth = [], [0]

    def handle(item, beat):
        depth[0] += 1
        for _ in range(draw.randrange(4) if depth[0] < 4 else 0):
            idle = [one for one in workers if one not in busy]
            if idle:
                step(draw.choice(idle))
            if draw.random() < 0.5:
                beat()
        depth[0] -= 1
        if draw.random() < 0.2:
            raise Failure("odd")
        return f"{item['namespace']} {item['key']}"

    busy = []

    def step(one):
        busy.append(one)
        before = one.tally.done
        try:
            one.step()
        finally:
            busy.remove(one)
        saved[one.name] = saved.get(one.name, 0) + one.tally.done - before

    with contextlib.ExitStack() as stores:
        for number in range(4):
            own, clock = stores.enter_context(store.again()), Jumping(draw, common)
            policy = Policy(hold_for=3_000, max_attempts=50, base=100, cap=400)
            workers.append(Worker(own, "p", f"w-{number}", policy, handle, clock, None))
        for _ in range(150):
            depth[0] = 0
            step(draw.choice(workers))
    rest = Clock(common[0] + 100_000)
    last = made(store, rest, lambda item, beat: f"{item['namespace']} {item['key']}", policy=policy)
    last.run("drained")
    assert states(store) == {"done": 24}
    assert sound(store)
    outputs = [output for (output,) in rows(store, "output FROM result ORDER BY output")]
    assert outputs == sorted(f"{n} {k}" for n, k in itertools.product(("inbox", "other"), range(12)))
    assert sum(one.tally.done for one in workers) + last.tally.done == 24
    assert sum(one.tally.lost for one in workers) > 0 or rows(
        store, "count(*) FROM attempt WHERE result = 'expired'"
    ) > [(0,)]


# With intake, compaction and erasure


def delivery(key, body=b"{}"):
    return Webhook(
        place=f"line {key}", tenant="acme", namespace="inbox", key=key, digest=sha256(body.decode("latin-1")),
        size=len(body), body=body,
    )  # fmt: skip


def letter(key, digest, sender="ana"):
    about = {"sender": sender, "subject": "Hi", "size": 1, "place": "here"}
    return Letter(tenant="acme", namespace="inbox", key=key, digest=sha256(digest), **about)


def test_intake_stages_work_for_each_accepted_revision_and_each_processor(store):
    intake = Intake(store)
    source = [delivery("a"), delivery("a"), delivery("a", b"other"), letter("l", "1"), letter("l", "2")]
    report = take_in(store, intake, source, now=0, processors=[("p", "1"), ("q", "1")])
    assert (report.work, report.counts()["collisions"], "work" in report.counts()) == (6, 1, False)
    assert rows(store, "processor, revision, count(*) FROM work GROUP BY 1, 2") == [
        ("p", 1, 2), ("p", 2, 1), ("q", 1, 2), ("q", 2, 1),
    ]  # fmt: skip
    assert take_in(store, intake, source, now=1, processors=[("p", "1")]).work == 0
    assert take_in(store, intake, source, now=1, processors=[("p", "2")]).work == 3
    assert take_in(store, intake, source, now=1).work == 0


def test_a_batch_that_was_rolled_back_counts_no_work(store):
    lost = iter([True])

    def race(call, seen):
        if next(lost, False):
            raise Refused("head-moved", "somebody was quicker")

    intake = Intake(store, {**Intake.GUARDS, "stage": (*Intake.GUARDS["stage"], race)})
    report = take_in(store, intake, [delivery("a"), delivery("b")], now=0, processors=[("p", "1")])
    assert (report.work, states(store)) == (2, {"pending": 2})


@pytest.mark.parametrize("wrong", [{"retain": 5, "tombstone": 4}, {"retain": -1}, {"tombstone": -1}])
def test_horizons_that_are_none_are_refused(store, wrong):
    with pytest.raises(WrongArgument):
        take_in(store, Intake(store), [], now=0, **wrong)


def test_compacted_receipts_lose_their_work_and_keep_their_results(store, clock):
    take_in(store, Intake(store), [delivery("a")], now=0, processors=[("p", "1")], retain=5, tombstone=10**9)
    made(store, clock).run("drained")
    work = Work(store)
    work.sweep("s", work.acquire_sweep("s", clock.now).token, 10, 3, clock.now)
    assert (states(store), rows(store, "output FROM result")) == ({}, [("a",)])
    again = take_in(store, Intake(store), [delivery("a")], now=clock.now, processors=[("p", "1")])
    assert (again.redelivered, again.work) == (1, 0)


def test_forgetting_takes_the_results_of_what_was_erased(store, clock):
    intake = Intake(store)
    take_in(store, intake, [delivery("a"), delivery("b", b"2")], now=0, processors=[("p", "1")])
    made(store, clock, lambda item, beat: f"secret {item['key']}").run("drained")
    intake.erase_identity("explicit", "acme", "inbox", "a", now=clock.now)
    assert forget(store, Letter, Webhook) == 2
    assert rows(store, "output FROM result") == [("secret b",)]
    assert intake.scrub().done
    store.close()
    assert b"secret a" not in b"".join(path.read_bytes() for path in store.path.parent.glob("receipts.db*"))


# Workers that are killed


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@forks
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ten_workers_do_a_thousand_items_while_they_are_killed(tmp_path, seed):
    path = tmp_path / "receipts.db"
    killed_workers.fill(path, 1_000)
    kills = killed_workers.kill_while_working(path, seed)
    assert kills >= 5
    killed_workers.sweep(path, killed_workers.fast())
    assert killed_workers.wrong(path, killed_workers.WRONG | killed_workers.UNFINISHED) == {}


@forks
def test_one_sweep_closes_all_that_was_left_open_and_one_worker_does_the_rest(tmp_path):
    path = tmp_path / "receipts.db"
    killed_workers.fill(path, 300)
    assert killed_workers.kill_while_working(path, 4, until=4) == 4
    assert "a claim that nobody holds" in killed_workers.wrong(path, killed_workers.WRONG)
    killed_workers.sweep(path, killed_workers.fast() + killed_workers.POLICY.hold_for)
    assert killed_workers.wrong(path, killed_workers.WRONG) == {}
    killed_workers.work_alone(path)
    assert killed_workers.wrong(path, killed_workers.WRONG | killed_workers.UNFINISHED) == {}


def test_a_file_opens_after_a_checkpoint_that_was_cut_off(tmp_path):
    """The first page was written back, the others are in the WAL alone: what a kill in a checkpoint leaves."""
    path, copy = tmp_path / "receipts.db", tmp_path / "copy.db"
    with Store.create(path, ("CREATE TABLE t (x TEXT) STRICT",)) as store:
        with store.write() as db:
            db.executemany("INSERT INTO t VALUES (?)", [("x" * 2_000,)] * 200)
        run = (
            "import shutil, sys; a, b = sys.argv[1:]; shutil.copy(a, b); shutil.copy(a + '-wal', b + '-wal')"
        )
        subprocess.run([sys.executable, "-c", run, str(path), str(copy)], check=True, timeout=60)
        store.read("PRAGMA wal_checkpoint(PASSIVE)")
    with open(copy, "r+b") as file:
        file.write(path.read_bytes()[:4_096])
    assert int.from_bytes(path.read_bytes()[28:32], "big") * 4_096 > copy.stat().st_size
    with Store.open(copy) as store:
        assert store.read("SELECT count(*) FROM t") == [(200,)]
