"""Measures how many orders of racing calls are run in a second: python -m tools.bench_orders"""

from __future__ import annotations

from time import perf_counter

from receiptlab import sqlite_version as engine
from receiptlab.cli import terminal
from receiptlab.scenarios.interleavings import PAIRS
from receiptlab.scenarios.racing_mistakes import LARGE, PLANTED

COLUMNS = ("experiment", "contract", "orders", "statements", "orders a second")


def measure(experiment) -> tuple[object, ...]:
    """A row: how many orders there are, how many statements ran in them, and how many orders a second."""
    with experiment.explorer() as explorer:
        start = perf_counter()
        found = explorer.explore()
        seconds = perf_counter() - start
    statements = sum(len(each.order) for each in found.orders)
    speed = f"{len(found.orders) / seconds:,.0f}"
    return (found.name, found.contract, f"{len(found.orders):,}", f"{statements:,}", speed)


def main() -> int:
    told, out = engine.report(), terminal.console()
    out.print(f"SQLite {told['sqlite']}, Python {told['python']}, each order from a fresh file")
    rows = [measure(each) for each in terminal.progress("exploring", (*PAIRS, *PLANTED, LARGE))]
    out.print(terminal.grid("every order", COLUMNS, rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
