"""Work beyond its case files: policies, backoff, load, clocks that jump, and what SQL may call."""

import importlib
import pickle
import pkgutil
import random
import sqlite3
import threading
from collections import Counter
from dataclasses import is_dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiptlab import contracts, database_file
from receiptlab.contracts.intake.items import identity_of
from receiptlab.contracts.work.claims import LATEST, LONGEST, WorkClaim, backoff
from receiptlab.contracts.work.lease import LEASE_MS
from receiptlab.contracts.work.work import _DUE, _OVERDUE, GUARDS, Work
from receiptlab.errors import Refused, WrongArgument
from receiptlab.experiment.library import own_cases
from receiptlab.experiment.player import play
from receiptlab.store import Store
from receiptlab.values import MAX_INTEGER, sha256

NAME = {"tenant": "acme", "namespace": "mail", "key": "message-1"}
DELIVERY = NAME | {"digest": sha256("A"), "processor": "index", "processor_revision": "1"}
DELIVERY |= {"retain_until": 100_000, "tombstone_until": 200_000, "now": 0}
NEXT = {"namespace": "mail", "processor": "index", "worker": "worker-a", "limit": 1}
NEXT |= {"hold_for": 1_000, "max_attempts": 3}
LOST = ["claim_lost_fence", "claim_lost_state", "claim_lost_expiry"]
FAIL = {"error": "Timeout", "detail": "", "max_attempts": 3, "base": 100, "cap": 1_000}


@pytest.fixture
def work(tmp_path):
    with Store.create(tmp_path / "receipts.db", Work.SCHEMA) as store:
        yield Work(store)


def stage(work, count, **other):
    """Deliver `count` items."""
    for number in range(1, count + 1):
        work.deliver(**DELIVERY | {"key": f"message-{number}"} | other)


def rows(work, what="id, state, fence, attempts, entries, due"):
    return work.store.read(f"SELECT {what} FROM work ORDER BY id")


def check(work):
    """What must hold for the file after any call."""
    assert work.store.read(
        "SELECT count(*) FROM work WHERE (due IS NULL) <> (state IN ('done', 'dead', 'discarded'))"
    ) == [(0,)]
    for identity, unsettled in work.store.read("SELECT identity, unsettled FROM receipt"):
        states = work.store.read("SELECT state FROM work WHERE identity = ?", (identity,))
        assert unsettled == sum(state not in ("done", "discarded") for (state,) in states)
    for each, state, attempts, entries in rows(work, "id, state, attempts, entries"):
        history = work.store.read(
            "SELECT number, result, ended_at FROM attempt WHERE work = ? ORDER BY number", (each,)
        )
        assert [number for number, _, _ in history] == list(range(1, entries + 1))
        results = [result for _, result, _ in history]
        assert attempts == sum(result != "requeued" for result in results)
        assert ("open" in results) == (state == "claimed")
        assert "open" not in results[:-1]
        assert results.count("done") == (state == "done")
        assert all((ended is None) == (result == "open") for _, result, ended in history)
    effects = Counter(work.store.read("SELECT identity, revision, processor, processor_revision FROM effect"))
    assert set(effects.values()) <= {1}


def test_the_order_of_the_checks():
    assert {call: [guard.__name__ for guard in guards] for call, guards in GUARDS.items() if guards} == {
        "acquire": ["busy"],
        "acquire_sweep": ["busy"],
        "reserve": ["lease_lost"],
        "renew": ["not_found", *LOST],
        "complete": [
            "not_found",
            "claim_lost_fence",
            "already_done",
            "claim_lost_state",
            "claim_lost_expiry",
        ],
        "fail": ["not_found", *LOST],
        "requeue": ["not_found", "not_dead"],
        "discard": ["not_found", "not_dead"],
        "sweep": ["lease_lost"],
    }


def test_a_lease_lasts_ten_seconds():
    assert LEASE_MS == 10_000


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", -1),
        ("max_attempts", True),
        ("hold_for", 0),
        ("hold_for", 1.5),
        ("hold_for", LONGEST + 1),
        ("limit", 0),
        ("limit", 10_001),
        ("now", LATEST + 1),
        ("now", -1),
        ("worker", ""),
        ("worker", "a\nb"),
        ("namespace", ""),
        ("processor", "x" * 129),
    ],
)
def test_a_reservation_that_makes_no_sense_is_refused_before_anything(work, argument, value):
    stage(work, 1)
    before = work.store.db.total_changes
    with pytest.raises(WrongArgument) as wrong:
        work.next(**NEXT | {"now": 1} | {argument: value})
    assert wrong.value.argument == argument
    assert work.store.db.total_changes == before


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("max_attempts", 0),
        ("base", -1),
        ("cap", -1),
        ("cap", LONGEST + 1),
        ("error", "x" * 129),
        ("error", 7),
        ("detail", "ü" * 1_025),
        ("detail", "\ud800"),
        ("work", 0),
        ("fence", 0),
        ("fence", "1"),
    ],
)
def test_a_failure_that_makes_no_sense_is_refused_before_anything(work, argument, value):
    stage(work, 1)
    work.next(**NEXT, now=1)
    before = work.store.db.total_changes
    with pytest.raises(WrongArgument) as wrong:
        work.fail(**{"work": 1, "fence": 1, **FAIL, "now": 2, argument: value})
    assert wrong.value.argument == argument
    assert work.store.db.total_changes == before


def test_the_largest_times_still_fit_the_file(work):
    stage(work, 1, now=LATEST, retain_until=LATEST, tombstone_until=LATEST)
    [claim] = work.next(**NEXT | {"hold_for": LONGEST}, now=LATEST).claims
    assert claim.until == LATEST + LONGEST
    assert work.fail(1, 1, **FAIL | {"base": LONGEST, "cap": LONGEST}, now=LATEST).due > LATEST


@given(st.integers(1, 10**6), st.integers(0, LONGEST), st.integers(0, LONGEST), st.integers(0, 10**9))
def test_a_backoff_lies_in_the_upper_half_of_its_wait(attempt, base, cap, number):
    identity = sha256(str(number))
    wait = min(cap, base << min(attempt - 1, 62))
    assert wait - wait // 2 <= backoff(identity, attempt, base, cap) <= wait
    assert backoff(identity, attempt, base, cap) == backoff(identity, attempt, base, cap)


def test_a_backoff_doubles_to_its_cap_and_items_are_spread():
    longest = [
        max(backoff(sha256(str(n)), attempt, 100, 1_000) for n in range(500)) for attempt in range(1, 7)
    ]
    shortest = [
        min(backoff(sha256(str(n)), attempt, 100, 1_000) for n in range(500)) for attempt in range(1, 7)
    ]
    assert longest == pytest.approx([100, 200, 400, 800, 1_000, 1_000], rel=0.02)
    assert shortest == pytest.approx([50, 100, 200, 400, 500, 500], rel=0.02)
    assert len({backoff(sha256(str(n)), 5, 100, 1_000) for n in range(500)}) > 250
    identity = identity_of("explicit", **NAME)
    assert [backoff(identity, attempt, 100, 1_000) for attempt in range(1, 7)] == [
        50,
        192,
        290,
        587,
        943,
        795,
    ]


def test_dead_letters_come_in_pages_without_duplicates(work):
    stage(work, 25)
    work.next(**NEXT | {"limit": 25}, now=1)
    for number in range(1, 26):
        work.fail(number, 1, **FAIL | {"max_attempts": 1}, now=2)
    seen, after, more = [], 0, True
    for _ in range(10):
        page = work.dead(after, 7)
        seen += [each.work for each in page.dead]
        more = page.more
        if not more:
            break
        after = seen[-1]
    assert not more
    assert seen == list(range(1, 26))
    assert {each.history for each in work.dead(0, 25).dead} == {("failed",)}


def test_eight_connections_at_once_take_each_item_once(work):
    stage(work, 60)
    taken, refused = [], set()
    barrier = threading.Barrier(8, timeout=15)

    def worker(name):
        with work.store.again() as store:
            mine = Work(store)
            barrier.wait()
            for _ in range(2_000):
                try:
                    claims = mine.next(**NEXT | {"worker": name, "limit": 3}, now=10).claims
                except Refused as busy:
                    refused.add(busy.reason)
                    continue
                if not claims:
                    return
                for claim in claims:
                    mine.complete(claim.work, claim.fence, name, 20)
                    taken.append(claim.work)

    threads = [threading.Thread(target=worker, args=(f"worker-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, 61))
    assert refused <= {"busy"}
    check(work)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
@pytest.mark.slow
def test_clocks_that_jump_make_work_late_or_double_and_never_commit_it_twice(seed):
    drawn = random.Random(seed)
    with Store.temporary(Work.SCHEMA) as store:
        work = Work(store)
        stage(work, 4)
        clocks, hands = [0, 0, 0], [[], [], []]
        for _ in range(120):
            who = drawn.randrange(3)
            clocks[who] = max(0, clocks[who] + drawn.choice([10, 100, 400, 12_000, -400, -12_000]))
            try:
                _act(work, drawn, f"worker-{who}", clocks[who], hands[who])
            except Refused as refused:
                assert refused.reason in KNOWN
            check(work)


KNOWN = {"busy", "claim-lost", "lease-lost", "not-dead", "not-found", "already-done"}


def _act(work, drawn, who, now, hand):
    """One call of one worker, by the worker's own clock. It keeps its claim, however stale."""
    calls = ["next", "next", "complete", "fail", "renew", "sweep", "requeue", "reset", "discard"]
    what = drawn.choice(calls)
    if what == "next":
        hand.extend(work.next(**NEXT | {"worker": who, "limit": 2}, now=now).claims)
    elif what == "sweep":
        token = work.acquire_sweep(who, now).token
        work.sweep(who, token, 2, 3, now)
    elif what == "requeue":
        work.requeue(drawn.randint(1, 4), now)
    elif what == "reset":
        work.reset_ahead(drawn.choice([500, 20_000]), 2, now)
    elif what == "discard":
        work.discard_dead(20_000, 1, now)
    elif hand:
        claim = drawn.choice(hand)
        if what == "complete":
            work.complete(claim.work, claim.fence, who, now)
        elif what == "fail":
            work.fail(claim.work, claim.fence, **FAIL, now=now)
        else:
            work.renew(claim.work, claim.fence, 500, now)


def test_a_claim_made_by_hand_is_only_worth_its_fence(work):
    stage(work, 1)
    [claim] = work.next(**NEXT, now=1).claims
    forged = WorkClaim(1, claim.identity, 1, "index", "1", 1, 2, 9_999, work.store.path)
    with pytest.raises(Refused, match="claim-lost"), work.store.write() as db:
        work.stage_complete(db, forged, "", 2)
    with pytest.raises(WrongArgument, match="claim must be a claim"), work.store.write() as db:
        work.guard(db, ("work", 1), 2)


def test_the_claim_of_another_store_is_refused_even_where_row_and_fence_are_the_same(work, tmp_path):
    with Store.create(tmp_path / "other.db", Work.SCHEMA) as other:
        stage(work, 1)
        stage(Work(other), 1)
        [mine], [theirs] = work.next(**NEXT, now=1).claims, Work(other).next(**NEXT, now=1).claims
        assert mine == theirs
        with pytest.raises(Refused, match="other-store"), work.store.write() as db:
            work.guard(db, theirs, 2)
        with pytest.raises(Refused, match="other-store"), work.store.write() as db:
            work.stage_complete(db, theirs, "", 2)
    assert rows(work, "state") == [("claimed",)]


def test_staging_needs_a_transaction_and_an_accepted_live_revision(work):
    stage(work, 1)
    identity = identity_of("explicit", **NAME)
    with pytest.raises(Refused, match="no-transaction"):
        work.stage_work(work.store.db, identity, 1, "index", "2", 0)
    with work.store.write() as db:
        assert work.stage_work(db, identity, 1, "index", "2", 0) == 1
        assert work.stage_work(db, identity, 1, "index", "2", 0) == 0
        assert work.stage_work(db, identity, 2, "index", "1", 0) == 0
        assert work.stage_work(db, sha256("unknown"), 1, "index", "1", 0) == 0
    work.deliver(**DELIVERY | {"digest": sha256("B")})
    found = work.intake.classify("explicit", **NAME, digest=sha256("C"))
    with work.store.write() as db:
        work.intake.stage_collision(db, found.handle, "", 1)
        assert work.stage_work(db, identity, 3, "index", "1", 1) == 0
    work.intake.erase_identity("explicit", **NAME, now=2)
    with work.store.write() as db:
        assert work.stage_work(db, identity, 1, "index", "3", 3) == 0
    assert work.counted()[:5] == (0, 0, 0, 0, 0)


def test_a_tombstone_takes_everything_of_its_work_along(work):
    stage(work, 3)
    for claim in work.next(**NEXT | {"limit": 3}, now=1).claims:
        work.complete(claim.work, claim.fence, "", 2)
    for now in (100_000, 200_000):
        token = work.acquire_sweep("sweeper", now).token
        assert not work.sweep("sweeper", token, 10, 3, now).more
    counts = [
        work.store.read(f"SELECT count(*) FROM {table}")[0][0] for table in ("receipt", "work", "attempt")
    ]
    assert counts == [0, 0, 0]
    assert work.store.read("SELECT count(*) FROM effect") == [(3,)]


def test_due_items_are_found_by_an_index(work):
    values = {"namespace": "mail", "processor": "index", "now": 1, "limit": 1, "max_attempts": 1}
    for sql, index in ((_DUE, "work_by_due"), (_OVERDUE, "work_by_state"), (_OVERDUE, "work_by_attempts")):
        plan = [detail for *_, detail in work.store.read(f"EXPLAIN QUERY PLAN {sql}", values)]
        assert any(f"INDEX {index}" in detail for detail in plan), plan
        assert not any(detail.startswith("SCAN work") for detail in plan), plan


CALLS = {
    "next": lambda work: work.next(**NEXT, now=10_000),
    "deliver": lambda work: work.deliver(**DELIVERY | {"key": "another"}),
    "renew": lambda work: work.renew(1, 1, 50_000, 20),
    "complete": lambda work: work.complete(1, 1, "", 20),
    "fail": lambda work: work.fail(1, 1, **FAIL | {"max_attempts": 1}, now=20),
    "requeue": lambda work: work.requeue(2, 20),
    "discard": lambda work: work.discard(2, 20),
    "dead": lambda work: work.dead(0, 5),
    "get": lambda work: work.get(2),
    "history": lambda work: work.history(2),
    "ahead": lambda work: work.ahead(10**9, 20),
    "reset_ahead": lambda work: work.reset_ahead(10**9, 5, 20),
    "discard_dead none": lambda work: work.discard_dead(10**6, 5, 20),
    "discard_dead": lambda work: work.discard_dead(0, 5, 20),
    "sweep, nothing to do": lambda work: work.sweep("s", 1, 5, 9, 20),
    "sweep of ended claims": lambda work: work.sweep("s", 1, 5, 9, 9_000),
    "sweep of the spent": lambda work: work.sweep("s", 1, 5, 1, 20),
}


def mixed(work, count):
    """Of every six items one is claimed, one is a dead letter, one has failed, and the others are pending."""
    stage(work, count)
    for first in range(0, count, 6):
        for what, claim in enumerate(work.next(**NEXT | {"limit": 3, "hold_for": 5_000}, now=0).claims):
            assert claim.work == first // 2 + what + 1
            if what:
                attempts = 1 if what == 1 else 9
                work.fail(
                    claim.work, 1, **FAIL | {"max_attempts": attempts, "base": 99_000, "cap": 99_000}, now=1
                )
    work.acquire_sweep("s", 10)


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_a_call_costs_the_same_however_many_rows_there_are(call):
    """Counted in steps of SQLite's virtual machine, which are the same in every run."""
    cost = []
    for count in (60, 1_200):
        with Store.temporary(Work.SCHEMA) as store:
            mixed(Work(store), count)
            steps = []
            store.db.set_progress_handler(lambda steps=steps: steps.append(1), 1)
            CALLS[call](Work(store))
            store.db.set_progress_handler(None, 1)
            cost.append(len(steps))
    assert cost[1] <= cost[0] * 1.2, cost


def test_every_record_of_a_contract_is_frozen():
    found = 0
    for module in pkgutil.walk_packages(contracts.__path__, "receiptlab.contracts."):
        for record in vars(importlib.import_module(module.name)).values():
            if isinstance(record, type) and is_dataclass(record) and record.__module__ == module.name:
                found += 1
                assert record.__dataclass_params__.frozen, record
    assert found >= 30


@pytest.mark.slow
def test_no_statement_reads_a_clock_or_draws_a_number(monkeypatch):
    """Over all SQL of all cases, as SQLite's authorizer reports the functions that it calls."""
    called, connect = set(), database_file.connect

    def watched(*args):
        db = connect(*args)
        db.set_authorizer(
            lambda *facts: called.add(facts[2]) or 0 if facts[0] == sqlite3.SQLITE_FUNCTION else 0
        )
        return db

    monkeypatch.setattr(database_file, "connect", watched)
    for case in own_cases():
        play(case)
    beside = {"quote", "json_set"}  # VACUUM calls the first, a step that changes a file by hand the second
    assert called <= {"count", "coalesce", "group_concat", "max", "min", "sum"} | beside


def test_the_watch_over_sql_would_see_a_clock(work):
    called = set()
    work.store.db.set_authorizer(
        lambda *facts: called.add(facts[2]) or 0 if facts[0] == sqlite3.SQLITE_FUNCTION else 0
    )
    for sql in ("SELECT random()", "SELECT datetime('now')", "SELECT CURRENT_TIMESTAMP"):
        work.store.read(sql)
    assert called == {"random", "datetime", "current_timestamp"}


def test_a_worker_that_reopens_its_file_can_finish(work):
    stage(work, 2)
    claim, other = work.next(**NEXT | {"limit": 2}, now=1).claims
    with Store.open(work.store.path) as again:
        with again.write() as db:
            Work(again).guard(db, claim, 2)
            assert Work(again).stage_complete(db, pickle.loads(pickle.dumps(claim)), "", 2).state == "done"
        with pytest.raises(Refused, match="already-done"), again.write() as db:
            Work(again).stage_complete(db, claim, "", 3)
        with again.write() as db:
            Work(again).stage_complete(db, other, "", 3)
    assert rows(work, "state") == [("done",), ("done",)]


def test_a_fence_at_its_end_blocks_no_queue_and_leaves_the_row_to_an_operator(work):
    stage(work, 3)
    with work.store.write() as db:
        db.execute("UPDATE work SET fence = ? WHERE id = 1", (MAX_INTEGER,))
        db.execute("UPDATE work SET fence = ? WHERE id IN (2, 3)", (MAX_INTEGER - 1,))
    reserved = work.next(**NEXT | {"limit": 3}, now=1)
    assert reserved.dead_letters == (1,)
    assert [claim.fence for claim in reserved.claims] == [MAX_INTEGER] * 2
    assert work.complete(2, MAX_INTEGER, "", 2).state == "done"
    assert work.fail(3, MAX_INTEGER, **FAIL, now=2).state == "dead"
    for number in (1, 3):
        with pytest.raises(Refused, match="fence-at-end"):
            work.requeue(number, 3)
        assert work.history(number).work == number
        assert work.discard(number, 4).state == "discarded"
    topics = work.store.read("SELECT topic, count(*) FROM outbox GROUP BY topic ORDER BY topic")
    assert topics == [("dead-letter", 2), ("delivery", 3), ("done", 1)]


def test_a_claim_with_its_fence_at_the_end_is_reset_and_swept_like_any_other(work):
    stage(work, 2)
    with work.store.write() as db:
        db.execute("UPDATE work SET fence = ?", (MAX_INTEGER - 1,))
    work.next(**NEXT | {"limit": 2}, now=5_000)
    assert work.reset_ahead(0, 1, 10).works == (1,)
    assert rows(work, "state, fence") == [("failed", MAX_INTEGER), ("claimed", MAX_INTEGER)]
    assert work.next(**NEXT, now=10).dead_letters == (1,)
    assert work.sweep("s", work.acquire_sweep("s", 9_000).token, 9, 9, 9_000).dead_letters == 1
    check(work)


def test_a_claim_changed_by_hand_is_turned_away(work):
    stage(work, 2)
    [claim] = work.next(**NEXT, now=1).claims
    for changed in (
        {"identity": sha256("other")},
        {"revision": 2},
        {"processor": "x"},
        {"processor_revision": "9"},
    ):
        with pytest.raises(WrongArgument, match="claim must be as"), work.store.write() as db:
            work.stage_complete(db, replace(claim, **changed), "", 2)
    assert rows(work, "state") == [("claimed",), ("pending",)]


def test_a_claim_on_an_erased_item_does_not_fit_the_next_one(work):
    """Erasure deletes the row. The next row must not get its id."""
    stage(work, 1)
    [claim] = work.next(**NEXT | {"hold_for": 10_000}, now=1).claims
    work.intake.erase_identity("explicit", **NAME, now=2)
    work.deliver(**DELIVERY | {"key": "message-2"})
    work.next(**NEXT, now=3)
    for stale in (work.guard, lambda *args: work.stage_complete(args[0], args[1], "", args[2])):
        with pytest.raises(Refused, match="not-found"), work.store.write() as db:
            stale(db, claim, 4)
