"""play --orders and play --order: the last calls of a case in every order, or in one."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from receiptlab.cli import terminal
from receiptlab.experiment.case_file import Case, CaseError
from receiptlab.experiment.run import Run
from receiptlab.interleaving import last_calls as orders
from receiptlab.interleaving.explorer import LETTERS, Explorer
from receiptlab.interleaving.findings import Explored

JSON_FORMAT = 1


Drawing = Callable[[Run, str, bool], None]
"""Draws a run to a path, and says whether a file there may be replaced."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `play` that are about orders."""
    parser.add_argument(
        "--orders",
        nargs="?",
        type=int,
        const=2,
        metavar="N",
        help="make the last N calls (default 2) at once, in every order of their statements (one FILE only)",
    )
    parser.add_argument("--order", metavar="ABBA", help="run this one order again and show its steps")


def check(options: argparse.Namespace) -> None:
    """Settle how many calls are made at once. Raises CaseError for options that do not go together."""
    if options.orders is None:
        options.orders = 2 if options.order is not None else 0
    elif options.orders < 2:
        raise CaseError(f"--orders takes 2 to {len(LETTERS)} calls, not {options.orders}")
    if options.orders and len(options.files) > 1:
        raise CaseError("--orders explores one case; give one FILE")
    if options.orders and options.timeline and options.order is None:
        raise CaseError("--timeline draws one order; say which with --order")


def explore(options: argparse.Namespace, case: Case, show: Callable, draw: Drawing) -> int:
    """Explore every order, or run one again, and print what came. The exit status: 1 when an order was not
    safe, when the calls never met, or when a call before them did not come out as expected."""
    before, explorer = orders.begin(case, options.orders)
    wrong = terminal.complaints(before)
    with explorer:
        if options.order is None:
            wrong += _all(options, explorer, show)
        else:
            run = explorer.rerun(options.order)
            _one(options, run, show, draw)
            wrong += [
                f"{step.harm}: the calls do not end as they do one after another"
                for step in run.steps
                if step.harm
            ]
    for line in wrong:
        print(terminal.printable(line), file=sys.stderr)
    return 1 if wrong else 0


def _all(options: argparse.Namespace, explorer: Explorer, show: Callable) -> list[str]:
    found = explorer.explore()
    wrong = orders.findings(found, options.files[0], options.orders)
    if options.json:
        told = {"format": JSON_FORMAT, "clean": found.clean, "classes": found.classes} | asdict(found)
        show(lambda: print(json.dumps(told, indent=1, allow_nan=False)))
    else:
        show(lambda: terminal.console().print(_table(found)))
    told = f"{len(found.orders)} orders; {found.classes['safe']} are safe"
    print(f"{told}: they end as the calls do one after another", file=sys.stderr)
    return wrong


def _table(found: Explored):
    callers = [f"{letter}, {caller}" for letter, caller in zip(LETTERS, found.callers, strict=False)]
    columns = ("verdict", *callers, ", ".join(found.count_names), "orders", "the first")
    return terminal.grid(
        f"every order of {found.name}", columns, orders.endings(found), whole=("verdict", "orders")
    )


def _one(options: argparse.Namespace, run: Run, show: Callable, draw: Drawing) -> None:
    if options.timeline:
        draw(run, options.timeline, options.overwrite)
    if options.json:
        told = {"format": JSON_FORMAT, "held": run.held, "runs": [run.to_dict()]}
        show(lambda: print(json.dumps(told, indent=1, allow_nan=False)))
    else:
        show(lambda: terminal.console().print(terminal.steps(run)))
