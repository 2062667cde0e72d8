"""Shared by the benches: timing, interleaved rounds, and rows of a report."""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter_ns

BLOCK = 10  # calls of one kind in a row within a round
WARM_UP = 30  # rounds that run and are not counted
COLUMNS = ("what", "p50 in µs", "p99 in µs", "p50 over the floor's", "goal")

_NOTES = {"floor again": "the noise of this run"}

Calls = Sequence[tuple[str, Callable[[str], object]]]


def bare(path: Path) -> sqlite3.Connection:
    """A connection of bare sqlite3 with the settings of a database file."""
    db = sqlite3.connect(path, isolation_level=None)
    for setting in ("synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
        db.execute(f"PRAGMA {setting}")
    return db


def timed(call: Callable[..., object], *arguments: object) -> int:
    """The duration of one call in nanoseconds."""
    start = perf_counter_ns()
    call(*arguments)
    return perf_counter_ns() - start


def rounds_of(
    calls: Calls, rounds: int, prepare: Callable[[list[str]], None], shift: int
) -> dict[str, list[int]]:
    """The nanoseconds of each kind of call. Each round makes every kind of call on the names of the round.
    The first `shift` kinds rotate from one round to the next, so that no kind always follows the same one."""
    times: dict[str, list[int]] = {name: [] for name, _ in calls}
    for number in range(WARM_UP + rounds):
        names = [f"{number:06}-{n}" for n in range(BLOCK)]
        prepare(names)
        head = list(calls[:shift])
        turned = head if number % 2 else head[::-1]
        for what, call in (*turned, *calls[shift:]):
            took = [timed(call, name) for name in names]
            if number >= WARM_UP:
                times[what] += took
    return times


def verdict(ratio: float, goal: float) -> str:
    """The goal, and whether this run reached it."""
    return f"at most {goal}: {'reached' if ratio <= goal else 'MISSED'}"


def rows(times: dict[str, list[int]], floor: str, goals: dict[str, float]) -> list[tuple[str, ...]]:
    """One row per measured call, with its ratio to the floor."""
    p50 = {name: statistics.median(values) for name, values in times.items()}
    return [
        (
            name,
            f"{p50[name] / 1000:.1f}",
            f"{statistics.quantiles(values, n=100)[98] / 1000:.1f}",
            f"{p50[name] / p50[floor]:.3f}",
            verdict(p50[name] / p50[floor], goals[name]) if name in goals else _NOTES.get(name, ""),
        )
        for name, values in times.items()
    ]
