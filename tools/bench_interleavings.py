"""Measures how many interleavings of racing calls are run in a second: python -m tools.bench_interleavings"""

from __future__ import annotations

from time import perf_counter

from receiptlab import sqlite_version as engine
from receiptlab.cli import terminal
from receiptlab.scenarios.interleavings import PAIRS
from receiptlab.scenarios.racing_mistakes import LARGE, PLANTED

COLUMNS = ("experiment", "contract", "interleavings", "statements", "interleavings a second")


def measure(experiment) -> tuple[object, ...]:
    """Return a row: the interleavings, the statements run in them, and interleavings per second."""
    with experiment.explorer() as explorer:
        start = perf_counter()
        found = explorer.explore()
        seconds = perf_counter() - start
    statements = sum(len(each.interleaving) for each in found.interleavings)
    speed = f"{len(found.interleavings) / seconds:,.0f}"
    return (found.name, found.contract, f"{len(found.interleavings):,}", f"{statements:,}", speed)


def main() -> int:
    told, out = engine.report(), terminal.console()
    out.print(f"SQLite {told['sqlite']}, Python {told['python']}, each interleaving from the original rows")
    rows = [measure(each) for each in terminal.progress("exploring", (*PAIRS, *PLANTED, LARGE))]
    out.print(terminal.grid("every interleaving", COLUMNS, rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
