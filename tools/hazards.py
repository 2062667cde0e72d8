"""Run every hazard at full size and write the results: python -m tools.hazards [--small] [--output FILE]

The report is data/hazards.json. It has a row for each hazard, contract and setting: the number of states,
interleavings, failures, kills or sequences tried, the number of violations, and the duration. A hazard that
tried nothing ends the run. The exit status is 1 if a result is not the expected one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import apsw
from rich.console import Console
from rich.progress import Progress

from receiptlab import models
from receiptlab import sqlite_version as engine
from receiptlab.cli import terminal
from receiptlab.errors import LabError
from receiptlab.faults.disk import io_errors as diskfault
from receiptlab.faults.disk import power_cut as powercut
from receiptlab.faults.processes import kills
from receiptlab.scenarios import interleaving_rows as every_interleaving
from receiptlab.scenarios import interleavings
from receiptlab.scenarios import racing_mistakes as racing

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "data/hazards.json"
FULL = {"power cut": "full", "disk fault": "full", "kills": 300, "models": 400}
SMALL = {"power cut": "small", "disk fault": "small", "kills": 20, "models": 10}
COLUMNS = ("hazard", "contract", "setting", "tried", "violations", "meant to break", "seconds", "witness")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run every hazard and write a report.")
    parser.add_argument("--small", action="store_true", help="the sizes of make test")
    parser.add_argument("--output", type=Path, default=REPORT, help=f"default: {REPORT.relative_to(ROOT)}")
    given = parser.parse_args()
    sizes = SMALL if given.small else FULL
    rows: list[dict] = []
    for hazard, run in HAZARDS.items():
        with _bar(hazard) as told:
            rows += list(run(sizes, told))
    report = {name: engine.report()[name] for name in ("python", "sqlite")} | {
        "apsw": apsw.sqlitelibversion()
    }
    report |= {"seeds": {"power cut": powercut.SEED, "kills": 1, "models": 1}, "rows": rows}
    given.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8", newline="\n")
    shown = [tuple(str(row[column]) for column in COLUMNS) for row in rows]
    terminal.console().print(terminal.grid("hazards", COLUMNS, shown))
    bad = [row for row in rows if bool(row["violations"]) != row["meant to break"]]
    for row in bad:
        print(f"not as it should be: {row['hazard']}, {row['contract']}, {row['setting']}", file=sys.stderr)
    return 1 if bad else 0


def _row(hazard: str, contract: str, setting: str, tried: int, violations: int, **more: object) -> dict:
    if not tried:
        raise LabError(f"{hazard}, {contract}, {setting}: nothing was tried, so nothing was shown")
    usual = {"meant to break": False, "seconds": 0.0, "witness": ""}
    told = {"hazard": hazard, "contract": contract, "setting": setting, "tried": tried}
    return told | {"violations": violations} | usual | more


def _interleavings(sizes: dict, told: Callable) -> Iterator[dict]:
    experiments = (*interleavings.PAIRS, *racing.PLANTED)
    for number, experiment in enumerate(experiments):
        told(number, len(experiments))
        start = perf_counter()
        found = every_interleaving.explored(experiment.name)
        if found.vacuous:
            raise LabError(f"{experiment.name}: the callers never met, so nothing was shown")
        bad = len(found.interleavings) - found.classes["serializable"]
        first = next(
            (
                interleaving.interleaving
                for interleaving in found.interleavings
                if interleaving.verdict != "serializable"
            ),
            "",
        )
        more = {"meant to break": experiment in racing.PLANTED, "witness": first}
        more["seconds"] = round(perf_counter() - start, 2)
        yield _row("every interleaving", found.contract, found.name, len(found.interleavings), bad, **more)


def _power_cuts(sizes: dict, told: Callable) -> Iterator[dict]:
    settings = (*powercut.HOLDS, *powercut.BREAKS)
    for number, setting in enumerate(settings):
        told(number, len(settings))
        start = perf_counter()
        found = powercut.run(sizes["power cut"], settings=[setting])
        took = round((perf_counter() - start) / len(found), 2)
        for row in found:
            more = {"meant to break": setting in powercut.BREAKS, "seconds": took, "witness": row["witness"]}
            counts = {name: row[name] for name in powercut.VERDICTS}
            where = (row["contract"], row["setting"], row["states"], row["violations"])
            yield _row("power cut", *where, **more) | counts


def _disk_faults(sizes: dict, told: Callable) -> Iterator[dict]:
    start = perf_counter()
    found = diskfault.run(sizes["disk fault"], told)
    took = round((perf_counter() - start) / len(found), 2)
    for row in found:
        setting = f"{row['setting']}, {row['failure']}"
        more = {"seconds": took, "witness": row["witness"]}
        yield _row("disk fault", row["contract"], setting, row["faults"], row["violations"], **more)


def _kills(sizes: dict, told: Callable) -> Iterator[dict]:
    start = perf_counter()
    found = kills.run(sizes["kills"], 1, lambda contract, done, total: told(done, total))
    took = round((perf_counter() - start) / len(found), 2)
    for row in found:
        bad = row["lost"] + row["duplicated"] + row["unasked"] + len(row["wrong"])
        setting = f"SIGKILL, {row['acknowledged']} calls acknowledged"
        yield _row(
            "kills",
            row["contract"],
            setting,
            row["kills"],
            bad,
            seconds=took,
            witness=str(row["wrong"] or ""),
        )


def _models(sizes: dict, told: Callable) -> Iterator[dict]:
    start = perf_counter()
    found = models.run(sizes["models"], lambda contract, done, total: told(done, total))
    took = round((perf_counter() - start) / len(found), 2)
    for row in found:
        setting = f"{row['sequences']} sequences"
        more = {"seconds": took, "witness": row["witness"]}
        yield _row("models", row["contract"], setting, row["calls"], row["disagreements"], **more)


HAZARDS = {
    "every interleaving": _interleavings,
    "power cut": _power_cuts,
    "disk fault": _disk_faults,
    "kills": _kills,
    "models": _models,
}


@contextmanager
def _bar(name: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error; a line where that is no terminal."""
    err = Console(stderr=True)
    if not err.is_terminal:
        print(name, file=sys.stderr)
        yield lambda done, total: None
        return
    with Progress(console=err, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
