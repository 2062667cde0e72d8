"""play --interleavings and play --interleaving: the last calls of a case in every
interleaving, or in one."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from receiptlab.cli import terminal
from receiptlab.experiment.case_file import Case, CaseError
from receiptlab.experiment.run import Run
from receiptlab.interleaving import last_calls as interleavings
from receiptlab.interleaving.explorer import LETTERS, Explorer
from receiptlab.interleaving.findings import Explored

JSON_FORMAT = 1


Drawing = Callable[[Run, str, bool], None]
"""Draws a run to a path. The flag says whether to replace an existing file."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `play` that are about interleavings."""
    parser.add_argument(
        "--interleavings",
        nargs="?",
        type=int,
        const=2,
        metavar="N",
        help="make the last N calls (default 2) at once, in every interleaving (one FILE only)",
    )
    parser.add_argument(
        "--interleaving", metavar="ABBA", help="run only this interleaving and show its steps"
    )


def check(options: argparse.Namespace) -> None:
    """Check the options and set how many calls are made at once. Raises CaseError when they contradict."""
    if options.interleavings is None:
        options.interleavings = 2 if options.interleaving is not None else 0
    elif options.interleavings < 2:
        raise CaseError(f"--interleavings takes 2 to {len(LETTERS)} calls, not {options.interleavings}")
    if options.interleavings and len(options.files) > 1:
        raise CaseError("--interleavings explores one case; give one FILE")
    if options.interleavings and options.timeline and options.interleaving is None:
        raise CaseError("--timeline draws one interleaving; choose it with --interleaving")


def explore(options: argparse.Namespace, case: Case, show: Callable, draw: Drawing) -> int:
    """Explore every interleaving, or run one again, and print the result. Exit status 1 when one is not
    serializable, when the calls never met, or when an earlier call was not as expected."""
    before, explorer = interleavings.begin(case, options.interleavings)
    wrong = terminal.complaints(before)
    with explorer:
        if options.interleaving is None:
            wrong += _all(options, explorer, show)
        else:
            run = explorer.rerun(options.interleaving)
            _one(options, run, show, draw)
            wrong += [
                f"{step.anomaly}: no serial order of the calls ends like this"
                for step in run.steps
                if step.anomaly
            ]
    for line in wrong:
        print(terminal.printable(line), file=sys.stderr)
    return 1 if wrong else 0


def _all(options: argparse.Namespace, explorer: Explorer, show: Callable) -> list[str]:
    found = explorer.explore()
    wrong = interleavings.findings(found, options.files[0], options.interleavings)
    if options.json:
        result = {"format": JSON_FORMAT, "clean": found.clean, "classes": found.classes} | asdict(found)
        show(lambda: print(json.dumps(result, indent=1, allow_nan=False)))
    else:
        show(lambda: terminal.console().print(_table(found)))
    counted = f"{len(found.interleavings)} interleavings; {found.classes['serializable']} are serializable"
    print(f"{counted}: each ends as some serial order of the calls does", file=sys.stderr)
    return wrong


def _table(found: Explored):
    callers = [f"{letter}, {caller}" for letter, caller in zip(LETTERS, found.callers, strict=False)]
    columns = ("verdict", *callers, ", ".join(found.count_names), "interleavings", "the first")
    return terminal.grid(
        f"every interleaving of {found.name}",
        columns,
        interleavings.endings(found),
        whole=("verdict", "interleavings"),
    )


def _one(options: argparse.Namespace, run: Run, show: Callable, draw: Drawing) -> None:
    if options.timeline:
        draw(run, options.timeline, options.overwrite)
    if options.json:
        result = {"format": JSON_FORMAT, "held": run.held, "runs": [run.to_dict()]}
        show(lambda: print(json.dumps(result, indent=1, allow_nan=False)))
    else:
        show(lambda: terminal.console().print(terminal.steps(run)))
