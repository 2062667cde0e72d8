"""Measures the contracts against a floor, in one run: python -m tools.bench

The floor is bare sqlite3 with the same statements in one transaction, on its own file with the same settings.
Rounds are interleaved, so that anything that slows the machine slows both. Figures are ratios of medians. The
noise is the ratio of the floor to a second floor.

--store writes the prices of retention to data/prices.json, which lesson 08 draws.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from receiptlab import sqlite_version as engine
from receiptlab.cli import terminal
from tools import bench_growth, bench_http, bench_intake, bench_owner, bench_retention, bench_work
from tools.bench_common import BLOCK, COLUMNS, WARM_UP, verdict

ROOT = Path(__file__).resolve().parent.parent
PRICES = ROOT / "data/prices.json"
BENCHES = {"owner": bench_owner, "retention": bench_retention, "intake": bench_intake, "work": bench_work}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the contracts against bare sqlite3.")
    parser.add_argument("--rounds", type=int, default=300, help="measured rounds (default 300)")
    parser.add_argument("--store", action="store_true", help=f"write the prices to {PRICES.name}")
    options = parser.parse_args()
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    out, rounds, told = terminal.console(), max(2, options.rounds), engine.report()
    out.print(
        f"SQLite {told['sqlite']}, Python {told['python']}, WAL, synchronous=FULL, on this folder's disk;"
    )
    out.print(f"{rounds} interleaved rounds of {BLOCK} calls each, after {WARM_UP} for warming up")
    for name, bench in BENCHES.items():
        with tempfile.TemporaryDirectory(dir=build, ignore_cleanup_errors=True) as folder:
            out.print(terminal.grid(name, COLUMNS, bench.measure(Path(folder), rounds)))
    with tempfile.TemporaryDirectory(dir=build, ignore_cleanup_errors=True) as folder:
        rows = bench_intake.batching(Path(folder))
        out.print(terminal.grid("many messages in one transaction", bench_intake.BATCHING_COLUMNS, rows))
    with tempfile.TemporaryDirectory(dir=build, ignore_cleanup_errors=True) as folder:
        _workers(Path(folder), out, rounds)
    with tempfile.TemporaryDirectory(dir=build, ignore_cleanup_errors=True) as folder:
        _prices(Path(folder), out, options.store)
    with tempfile.TemporaryDirectory(dir=build, ignore_cleanup_errors=True) as folder:
        rows = bench_http.measure(Path(folder), rounds)
        out.print(terminal.grid("the receiver over HTTP", bench_http.COLUMNS, rows))
    grown = []
    for growth in bench_growth.GROWTHS:
        with tempfile.TemporaryDirectory(dir=build, ignore_cleanup_errors=True) as folder:
            grown += bench_growth.measure(Path(folder), growth)
    out.print(terminal.grid("does a call cost more in a larger file?", bench_growth.COLUMNS, grown))
    return 0


def _workers(folder: Path, out, rounds: int) -> None:
    rows = bench_work.at_once(folder, rounds)
    out.print(terminal.grid("many items in one reservation", bench_work.MANY_COLUMNS, rows))
    rows = bench_work.side_by_side(folder)
    title = f"workers on one file, {bench_work.SPAN:g} s each, the median of {bench_work.REPEATS}"
    out.print(terminal.grid(title, bench_work.SIDE_BY_SIDE_COLUMNS, rows))


def _prices(folder: Path, out, store: bool) -> None:
    sizes = bench_retention.size_of(folder)
    out.print(terminal.grid("bytes on disk per item", ("what", "bytes"), sizes))
    closing = bench_retention.closing(folder)
    columns = tuple(closing[0])
    goal = verdict(closing[-1]["ratio"], 1.1)
    title = f"closing a range, against a bare DELETE of the same range (the largest {goal})"
    out.print(terminal.grid(title, columns, [tuple(row.values()) for row in closing]))
    if store:
        made = {name: engine.report()[name] for name in ("python", "sqlite")}
        prices = {"made by": made, "bytes": dict(sizes), "closing": closing}
        PRICES.write_text(json.dumps(prices, indent=1) + "\n", encoding="utf-8", newline="\n")
        out.print(f"stored in {PRICES.relative_to(ROOT)}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
