"""Measures the contracts against a floor, side by side in one run: python tools/bench.py [--rounds N]

The floor is bare sqlite3 doing the same selects, update and inserts in one transaction, on a file of
its own with the same settings. Rounds are interleaved, so that what slows the machine slows both.
Figures are ratios of medians; the noise line is the floor against a second floor.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns

from receiptlab import engine, terminal
from receiptlab.contracts import owner
from receiptlab.contracts.owner import Owner
from receiptlab.store import Store
from receiptlab.values import sha256

WARM_UP = 30
BLOCK = 10  # calls of one kind in a row within a round
DIGEST = sha256("result")
GOALS = {"first accept": 1.2, "replay": 0.12}

_SELECT_WORK = "SELECT * FROM work WHERE scope = ? AND work = ?"
_SELECT_RECEIPT = "SELECT id, digest FROM receipt WHERE scope = ? AND key = ?"
_UPDATE = """UPDATE work SET revision = revision + 1, results = results + 1, state = 'result-recorded',
    holder = NULL, expires_at = NULL, changed_at = ? WHERE scope = ? AND work = ?"""
_RECEIPT = """INSERT INTO receipt (scope, key, work, command, digest, revision, result_digest, accepted_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_OUTBOX = "INSERT INTO outbox (receipt, staged_at) VALUES (?, ?)"
_LEASED = """INSERT INTO work
    VALUES ('shop', ?, 1, 1, 'policy-1', 0, 1, 'worker-a', 160, 'leased', 'open', 0, 0)"""
_COMMAND = "x" * 290  # about as long as the command that the owner stores


class Floor:
    """What the contract costs at the least: the same statements without a contract."""

    def __init__(self, path: Path) -> None:
        Store.create(path, owner.SCHEMA).close()
        self.db = sqlite3.connect(path, isolation_level=None)
        for setting in ("synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
            self.db.execute(f"PRAGMA {setting}")

    def accept(self, work: str) -> None:
        db = self.db
        db.execute("BEGIN IMMEDIATE")
        db.execute(_SELECT_WORK, ("shop", work)).fetchone()
        db.execute(_SELECT_RECEIPT, ("shop", work)).fetchone()
        db.execute(_UPDATE, (120, "shop", work))
        row = db.execute(_RECEIPT, ("shop", work, work, _COMMAND, DIGEST, 2, DIGEST, 120)).lastrowid
        db.execute(_OUTBOX, (row, 120))
        db.execute("COMMIT")


class Contract:
    """The owner itself."""

    def __init__(self, path: Path) -> None:
        self.owner = Owner(Store.create(path, owner.SCHEMA))
        self.db = self.owner.store.db

    def accept(self, work: str) -> None:
        self.owner.accept("shop", work, "worker-a", work, 1, 1, "policy-1", 1, DIGEST, 120)


def timed(call: Callable[[str], None], work: str) -> int:
    """Nanoseconds that one call took."""
    start = perf_counter_ns()
    call(work)
    return perf_counter_ns() - start


def measure(folder: Path, rounds: int) -> dict[str, list[int]]:
    """The time of each call of each round, in nanoseconds. The warm-up is left out."""
    floor, second, contract = (
        Floor(folder / "floor.db"),
        Floor(folder / "second.db"),
        Contract(folder / "owner.db"),
    )
    times: dict[str, list[int]] = {"floor": [], "floor again": [], "first accept": [], "replay": []}
    calls = [
        ("floor", floor.accept),
        ("first accept", contract.accept),
        ("floor again", second.accept),
        ("replay", contract.accept),
    ]
    for number in range(WARM_UP + rounds):
        works = [f"order-{number}-{n}" for n in range(BLOCK)]
        for one in (floor, second, contract):
            for work in works:
                one.db.execute(_LEASED, (work,))
        for name, call in calls if number % 2 else (calls[2], calls[1], calls[0], calls[3]):
            took = [timed(call, work) for work in works]
            if number >= WARM_UP:
                times[name] += took
    return times


def report(times: dict[str, list[int]]) -> list[tuple[str, str, str, str, str]]:
    """A row for each thing that was measured."""
    p50 = {name: statistics.median(values) for name, values in times.items()}
    rows = []
    for name, values in times.items():
        p99 = statistics.quantiles(values, n=100)[98]
        ratio = f"{p50[name] / p50['floor']:.3f}"
        goal = (
            f"at most {GOALS[name]}"
            if name in GOALS
            else "the noise of this run"
            if name == "floor again"
            else ""
        )
        rows.append((name, f"{p50[name] / 1000:.1f}", f"{p99 / 1000:.1f}", ratio, goal))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the owner against bare sqlite3.")
    parser.add_argument("--rounds", type=int, default=300, help="measured rounds (default 300)")
    rounds = max(2, parser.parse_args().rounds)
    build = Path(__file__).resolve().parent.parent / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build, ignore_cleanup_errors=True) as folder:
        times = measure(Path(folder), rounds)
    out = terminal.console()
    out.print(
        f"SQLite {engine.report()['sqlite']}, Python {engine.report()['python']}, WAL, synchronous=FULL,"
    )
    out.print(
        f"a file on this folder's disk; {rounds} interleaved rounds of {BLOCK} calls, {WARM_UP} to warm up"
    )
    columns = ("what", "p50 in µs", "p99 in µs", "p50 over the floor's", "goal")
    out.print(terminal.grid("", columns, report(times)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
