"""Work claims against bare sqlite3, and eight workers on one file with and without the fair lock.

The workers only reserve and complete, so most of their time is spent waiting for each other.
"""

from __future__ import annotations

import multiprocessing
import shutil
import statistics
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter_ns
from typing import NamedTuple

from receiptlab.contracts.intake.intake import DeliverItem
from receiptlab.contracts.work import lease
from receiptlab.contracts.work.work import _CLAIM, _CLOSE, _DUE, _EFFECT, _MOVE, _ONE, _OPEN, _UNSETTLED, Work
from receiptlab.errors import Refused
from receiptlab.examples.fair_lock import FairLock
from receiptlab.store import Store, Transaction
from receiptlab.values import sha256
from tools.bench_common import BLOCK, WARM_UP, bare, rounds_of, rows, timed, verdict

BY = {"namespace": "inbox", "processor": "mailer"}
ON = tuple(BY.values())
RESERVE = BY | {"hold_for": 60_000, "max_attempts": 5, "now": 10}
MANY, WORKERS, SPAN, REPEATS, STAGED = 100, 8, 3.0, 3, 20_000
START = 60  # seconds within which all workers must have started
CALLS, PER_ITEM, SLOWER, UNEVEN, WAIT_MS = 1.3, 0.1, 1.25, 2, 10
"""The goals: a call over the floor; an item of many over a single one; one worker's throughput over that
of eight; the most items of a worker over the fewest; and the 99th percentile of the waits."""

_OUTBOX = "INSERT INTO outbox (topic, subject, staged_at) VALUES (?, ?, ?)"


def stage(path: Path, items: int) -> Path:
    """A new database file in which this many items wait."""
    delivery = {"key_kind": "explicit", "tenant": "acme", "namespace": "inbox", "digest": sha256("five")}
    delivery |= {"changed_as": "revision", "reference": "", "retain_until": 1_000, "tombstone_until": 2_000}
    with Store.create(path, Work.SCHEMA) as store:
        contract = Work(store)
        with store.write() as db:
            for number in range(items):
                found, _ = contract.intake.stage_delivery(db, DeliverItem(**delivery, key=f"{number}", now=0))
                contract.stage_work(db, found.item.identity, 1, "mailer", "1", now=0)
    return path


class Floor:
    """The floor: the same statements in the same three transactions, without a contract."""

    def __init__(self, path: Path) -> None:
        self.db = bare(path)

    def take(self, name: str) -> None:
        db = self.db
        db.execute("BEGIN IMMEDIATE")
        token = (db.execute(lease._READ, ON).fetchone() or (0,))[0]
        db.execute(lease._ACQUIRE, (*ON, token + 1, "ana", 10 + lease.LEASE_MS))
        db.execute("COMMIT")
        work, entries = self._reserve()
        self._complete(work, entries, name)

    def _reserve(self) -> tuple[int, int]:
        db = self.db
        db.execute("BEGIN IMMEDIATE")
        db.execute(lease._READ, ON).fetchone()
        [(work, *_, fence, _, entries)] = db.execute(_DUE, RESERVE | {"limit": 1}).fetchall()
        db.execute(_CLAIM, (60_010, "ana", 10, work))
        db.execute(_OPEN, (work, entries + 1, fence + 1, "ana", 10, None, "open"))
        db.execute(lease._RELEASE, ON)
        db.execute("COMMIT")
        return work, entries + 1

    def _complete(self, number: int, entries: int, name: str) -> None:
        db = self.db
        db.execute("BEGIN IMMEDIATE")
        seen = db.execute(_ONE, (number,)).fetchone()
        db.execute(_MOVE, ("done", None, name, 10, number))
        db.execute(_CLOSE, ("done", 10, None, None, number, entries))
        db.execute(_UNSETTLED, (-1, seen[1]))
        db.execute(_EFFECT, (*seen[1:5], name, 10))
        db.execute(_OUTBOX, ("done", seen[1], 10))
        db.execute("COMMIT")


def measure(folder: Path, rounds: int) -> list[tuple[str, ...]]:
    """One item reserved and completed, against the floor."""
    source = stage(folder / "source.db", (WARM_UP + rounds) * BLOCK)
    paths = [Path(shutil.copy(source, folder / f"{name}.db")) for name in ("floor", "second", "work")]
    floor, second = Floor(paths[0]), Floor(paths[1])
    contract = Work(Store.open(paths[2]))

    def take(name: str) -> None:
        [claim] = contract.next(worker="ana", limit=1, **RESERVE).claims
        contract.complete(claim.work, claim.fence, name, now=10)

    calls = [("floor", floor.take), ("reserve and complete", take), ("floor again", second.take)]
    times = rounds_of(calls, rounds, lambda names: None, shift=3)
    return rows(times, "floor", {"reserve and complete": CALLS})


MANY_COLUMNS = ("what", "p50 in µs", "over one at a time", "goal")


def at_once(folder: Path, rounds: int) -> list[tuple[str, ...]]:
    """An item reserved with many others, against one reserved by itself."""
    rounds = min(rounds, 100)
    contract = Work(Store.open(stage(folder / "many.db", rounds * (MANY + BLOCK))))

    def take(limit: int) -> None:
        assert len(contract.next(worker="ana", limit=limit, **RESERVE).claims) == limit

    alone, many = [], []
    for _ in range(rounds):
        alone += [timed(take, 1) for _ in range(BLOCK)]
        many.append(timed(take, MANY) / MANY)
    one, each = statistics.median(alone) / 1_000, statistics.median(many) / 1_000
    goal = verdict(each / one, PER_ITEM)
    return [
        ("next(1)", f"{one:.1f}", "1.000", ""),
        (f"next({MANY}), per item", f"{each:.1f}", f"{each / one:.3f}", goal),
    ]


class Line(NamedTuple):
    """A run of some workers: items per second of each, `busy` answers, and waits in ms."""

    items: list[float]
    busy: int
    waits: list[float]


class _Timed(Transaction):
    """Records how long each BEGIN IMMEDIATE took."""

    __slots__ = ("waits",)

    def __enter__(self):
        start = perf_counter_ns()
        db = super().__enter__()
        self.waits.append(perf_counter_ns() - start)
        return db


def run(source: Path, workers: int, turns: bool) -> Line:
    """Let workers run at once on a copy of the database file, all starting and ending together."""
    path = Path(shutil.copy(source, source.with_name("run.db")))
    context = multiprocessing.get_context("spawn")
    go, lines, asked = context.Barrier(workers), [], []
    for number in range(workers):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_worker, args=(path, f"w{number}", turns, go, there), daemon=True)
        process.start()
        there.close()  # so that a failed worker ends the wait for its result
        asked.append((process, here))
    for process, here in asked:
        lines.append(here.recv())
        process.join()
    for left in path.parent.glob("run.db*"):
        left.unlink()
    return Line(
        [items for line in lines for items in line.items],
        sum(line.busy for line in lines),
        [wait / 1e6 for line in lines for wait in line.waits],
    )


def _worker(path: Path, name: str, turns: bool, go, there) -> None:
    store = Store.open(path, timeout_ms=60_000)
    contract, turn = Work(store), FairLock(path) if turns else nullcontext()
    began, waits, done, busy = _Timed(store), [], 0, 0
    began.waits, store._transaction = [], began
    go.wait(START)
    start = now = perf_counter_ns()
    while now - start < SPAN * 1e9:
        try:
            done += _item(contract, name, turn, waits)
        except (
            Refused
        ):  # busy: without the fair lock, another worker can take the lease between the two transactions
            busy += 1
        now = perf_counter_ns()
    there.send(Line([done * 1e9 / (now - start)], busy, waits if turns else began.waits))
    store.close()


def _item(contract: Work, name: str, turn: AbstractContextManager, waits: list[int]) -> int:
    asked = perf_counter_ns()
    with turn:
        waits.append(perf_counter_ns() - asked)
        [claim] = contract.next(worker=name, limit=1, **RESERVE).claims
    asked = perf_counter_ns()
    with turn:
        waits.append(perf_counter_ns() - asked)
        contract.complete(claim.work, claim.fence, "sent", now=10)
    return 1


SIDE_BY_SIDE_COLUMNS = (
    "workers",
    "items a second",
    "busy",
    "one's over all",
    "most over fewest",
    "wait p99 in ms",
    "longest",
)


def side_by_side(folder: Path) -> list[tuple[str, ...]]:
    """One worker and eight, with and without the fair lock: throughput, fairness and waits.

    A wait is for the fair lock or, without it, for SQLite's write lock. Refused calls waited, too.
    """
    source = stage(folder / "source.db", STAGED)
    kinds = {"1, fair lock": (1, True), "8, fair lock": (WORKERS, True), "8 without": (WORKERS, False)}
    lines: dict[str, list[Line]] = {kind: [] for kind in kinds}
    for _ in range(REPEATS):
        for kind, how in kinds.items():
            lines[kind].append(run(source, *how))
    one = statistics.median(sum(line.items) for line in lines["1, fair lock"])
    return [_told(kind, each, one) for kind, each in lines.items()]


def _told(kind: str, lines: list[Line], one: float) -> tuple[str, ...]:
    total = statistics.median(sum(line.items) for line in lines)
    uneven = statistics.median(max(line.items) / max(min(line.items), 1e-9) for line in lines)
    p99 = statistics.median(statistics.quantiles(line.waits, n=100)[98] for line in lines)
    figures = ((one / total, SLOWER, ".2f"), (uneven, UNEVEN, ".2f"), (p99, WAIT_MS, ".1f"))
    aimed = kind == "8, fair lock"
    told = [
        f"{figure:{form}}" + (f" ({verdict(figure, goal)})" if aimed else "")
        for figure, goal, form in figures
    ]
    longest = max(max(line.waits) for line in lines)
    busy = sum(line.busy for line in lines)
    return (kind, f"{total:.0f}", f"{busy}", *told, f"{longest:.1f}")
