"""Work with a second connection that acts in between, and a consumer's own rows (W-2, W-4, W-10)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from receiptlab.contracts import outbox
from receiptlab.contracts.work.claims import WorkClaim
from receiptlab.contracts.work.work import Work
from receiptlab.experiment.experiment import Experiment
from receiptlab.experiment.run import Run
from receiptlab.faults.processes.children import Child
from receiptlab.outcomes import Outcome
from receiptlab.scenarios.crash_points import DONE, LOST, NEXT, complete, deliver, look, sweep_lease, take

_LETTER = "CREATE TABLE filed (identity TEXT NOT NULL, worker TEXT NOT NULL) STRICT"


def _delivered(name: str, title: str, clauses: str) -> Experiment:
    lab = Experiment(Work, title, name=name, clauses=clauses)
    deliver(lab, 0, "first-seen", [1, 0, 0, 0, 0, 1])
    return lab


def lease_superseded_in_between() -> Run:
    """Between a worker's lease and its reservation another connection acquires the lease (W-2, W-3)."""
    title = "a second connection between lease and reservation"
    lab = _delivered("lease-superseded-in-between", title, "W-2 W-3")

    def other(point: str) -> None:
        if point == "after_acquire":
            take(lab, "worker-b", 10_100, {"works": [1], "fences": [1]})

    lab.store.failpoint = other
    expect = {"outcome": "refused", "reason": "lease-lost", "counts": [1, 0, 0, 1, 0, 1]}
    call = NEXT | {"worker": "worker-a", "now": 100}
    lab.step("worker-a", "next", 100, Work(lab.store).next, **call, expect=expect)
    look(lab, holder="worker-b", fence=1, attempts=1)
    return lab.run


def _claim(lab: Experiment, worker: str, now: int) -> WorkClaim:
    """Reserve on this process's connection and keep the claim."""
    call = NEXT | {"worker": worker, "now": now}
    kept: list[WorkClaim] = []

    def reserve() -> object:
        reserved = Work(lab.store).next(**call)
        kept.extend(reserved.claims)
        return reserved

    lab.step(worker, "next", now, reserve, expect={"outcome": "accepted", "answer": {"works": [1]}})
    return kept[0]


def _batch(
    lab: Experiment, claim: WorkClaim, worker: str, now: int, between: Callable = lambda: None
) -> Callable:
    """A consumer's completing batch: its own row, the completion and a message in one transaction."""

    def batch() -> None:
        work = Work(lab.store)
        with lab.store.write() as db:
            db.execute("INSERT INTO filed VALUES (?, ?)", (claim.identity, worker))
            work.guard(db, claim, now)
            between()
            work.stage_complete(db, claim, f"result of {worker}", now)
            outbox.stage(db, "filed", claim.identity, now)

    return batch


def _filed(lab: Experiment, *expected: str) -> None:
    rows = lab.store.read("SELECT worker FROM filed ORDER BY rowid")
    answer = Outcome("read", answer={"filed by": [worker for (worker,) in rows]})
    expect = {"outcome": "read", "answer": {"filed by": list(expected)}}
    lab.note("auditor", "read the domain rows", None, answer, expect=expect)


def nobody_between_check_and_commit() -> Run:
    """Inside a completing batch, after the guard, another connection tries to take the item (W-4, W-6)."""
    title = "a second connection between check and commit"
    lab = _delivered("nobody-between-check-and-commit", title, "W-4 W-6")
    lab.store.db.execute(_LETTER)
    lab.observer.store.db.execute("PRAGMA busy_timeout = 50")
    claim = _claim(lab, "worker-a", 100)

    def other() -> None:
        call = NEXT | {"worker": "worker-b", "now": 5_000}
        locked = {"outcome": "failed", "reason": "SQLITE_BUSY"}
        lab.step("worker-b", "next", 5_000, lab.observer.next, **call, expect=locked)

    batch = _batch(lab, claim, "worker-a", 200, other)
    lab.step("worker-a", "batch", 200, batch, expect={"outcome": "accepted", "counts": [0, 1, 0, 1, 0, 2]})
    take(lab, "worker-b", 5_010, {"works": []})
    _filed(lab, "worker-a")
    return lab.run


def batch_of_a_zombie() -> Run:
    """A worker's batch arrives after its claim was lost: its own rows are rolled back too (W-4, C-8)."""
    lab = _delivered("batch-of-a-zombie", "a batch under a claim that was lost", "W-4 C-8")
    lab.store.db.execute(_LETTER)
    claim = _claim(lab, "worker-a", 100)
    take(lab, "worker-b", 1_100, {"works": [1], "fences": [2]})
    lost = LOST | {"fields": ["fence"], "counts": [1, 0, 0, 2, 0, 1]}
    lab.step("worker-a", "batch", 1_200, _batch(lab, claim, "worker-a", 1_200), expect=lost)
    _filed(lab)
    complete(lab, "worker-b", 1_300, 2, DONE)
    return lab.run


def sweeper_meets_a_new_claim() -> Run:
    """A sweeper has read an expired claim. Before its transaction a worker takes the item (W-10)."""
    title = "a second connection between a sweep's lookup and its transaction"
    lab = _delivered("sweeper-meets-a-new-claim", title, "W-10")
    take(lab, "worker-a", 100, {"works": [1], "fences": [1]})
    sweep_lease(lab, "sweeper", 2_000, 1)
    call = {"worker": "sweeper", "token": 1, "limit": 10, "max_attempts": 1, "now": 2_000}
    with Child(Work, lab.path, "sweep", call, hold_at="after_look") as child:
        child.expect("READY").go().expect("CALLING").expect("AT after_look")
        take(lab, "worker-b", 2_010, {"works": [1], "fences": [2]})
        reply = child.go().outcome()
    expect = {
        "outcome": "accepted",
        "answer": {"expired": 0, "dead_letters": 0},
        "counts": [1, 0, 0, 2, 0, 1],
    }
    lab.note("sweeper", "sweep", 2_000, _outcome(reply), expect=expect)
    complete(lab, "worker-b", 2_100, 2, DONE)
    return lab.run


def sweeper_superseded_in_between() -> Run:
    """A sweeper is held before its transaction until another sweeper has its lease (W-10)."""
    title = "a second sweeper between a sweep's lookup and its transaction"
    lab = _delivered("sweeper-superseded-in-between", title, "W-10")
    take(lab, "worker-a", 100, {"works": [1], "fences": [1]})
    sweep_lease(lab, "sweeper-1", 2_000, 1)
    call = {"worker": "sweeper-1", "token": 1, "limit": 10, "max_attempts": 3, "now": 2_000}
    with Child(Work, lab.path, "sweep", call, hold_at="after_look") as child:
        child.expect("READY").go().expect("CALLING").expect("AT after_look")
        sweep_lease(lab, "sweeper-2", 12_000, 2)
        reply = child.go().outcome()
    lost = {"outcome": "refused", "reason": "lease-lost", "counts": [1, 0, 0, 1, 0, 1]}
    lab.note("sweeper-1", "sweep", 2_000, _outcome(reply), expect=lost)
    look(lab, state="claimed", history=["open"])
    return lab.run


def _outcome(reply: dict) -> Outcome:
    return Outcome(reply["word"], reply["reason"], tuple(reply["fields"]), answer=reply["answer"])


def claims_out_of_place() -> Run:
    """A claim from another store, and a claim used outside a transaction (W-4)."""
    lab, other = (
        _delivered("claims-out-of-place", "a claim where it has no place", "W-4"),
        Experiment(Work, "", name="", clauses=""),
    )
    deliver(other, 0, "first-seen", [1, 0, 0, 0, 0, 1])
    mine, foreign = _claim(lab, "worker-a", 100), _claim(other, "worker-a", 100)
    counts = [1, 0, 0, 1, 0, 1]
    expect = {"outcome": "refused", "reason": "no-transaction", "counts": counts}
    outside = (Work(lab.store).stage_complete, lab.store.db, mine, "", 200)
    lab.step("worker-a", "stage_complete outside a transaction", 200, *outside, expect=expect)

    def inside() -> None:
        with lab.store.write() as db:
            Work(lab.store).stage_complete(db, foreign, "", 200)

    expect = {"outcome": "refused", "reason": "other-store", "counts": counts}
    lab.step("worker-a", "stage_complete with a foreign claim", 200, inside, expect=expect)
    return lab.run


def erasure_takes_work_along() -> Run:
    """An item is erased while a worker has it: no row of work, attempt or effect stays (I-11, W-4)."""
    lab = _delivered("erasure-takes-work-along", "an item is erased while it is worked on", "I-11 W-4")
    deliver(lab, 10, "first-seen", [2, 0, 0, 0, 0, 2], "message-2")
    take(lab, "worker-a", 100, {"works": [1, 2]}, limit=2)
    complete(lab, "worker-a", 200, 1, DONE, 2)
    erase = lab.observer.intake.erase_tenant
    gone = {"outcome": "accepted", "answer": {"erased": 2}, "counts": [0, 0, 0, 0, 0, 2]}
    lab.step("operator", "erase_tenant", 300, erase, "acme", 300, expect=gone)
    gone = {"outcome": "refused", "reason": "not-found", "counts": [0, 0, 0, 0, 0, 2]}
    complete(lab, "worker-a", 400, 1, gone)
    return lab.run


def functions_in_sql() -> Run:
    """Every function that the statements of one item's life call, as SQLite reports them (W-12)."""
    lab = Experiment(
        Work, "which SQL functions the life of an item calls", name="functions-in-sql", clauses="W-12"
    )
    called: set[str] = set()
    work = lab.observer
    work.store.db.set_authorizer(
        lambda *facts: called.add(facts[2]) or 0 if facts[0] == sqlite3.SQLITE_FUNCTION else 0
    )
    deliver(lab, 0, "first-seen", [1, 0, 0, 0, 0, 1])
    take(lab, "worker-a", 100, {"works": [1]})
    complete(lab, "worker-a", 200, 1, DONE)
    work.acquire_sweep("sweeper", 300)
    work.sweep("sweeper", 1, 10, 3, 300)
    called.discard("count")  # the lab's own, after each step
    expect = {"outcome": "read", "answer": {"functions": []}}
    lab.note("auditor", "list", None, Outcome("read", answer={"functions": sorted(called)}), expect=expect)
    return lab.run


SCENARIOS = (
    lease_superseded_in_between,
    nobody_between_check_and_commit,
    batch_of_a_zombie,
    sweeper_meets_a_new_claim,
    sweeper_superseded_in_between,
    claims_out_of_place,
    erasure_takes_work_along,
    functions_in_sql,
)
