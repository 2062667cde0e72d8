"""The commands that look after work: `status`, `results`, `dead`, `requeue` and `sweep`.

They do not stand in line with the workers: one that was stopped in its turn must not keep them out.

Exit status: 0 all was done, 1 a row could not be requeued, 2 the fixture could not be used.
"""

from __future__ import annotations

import argparse
import os
import sys

from receiptlab import terminal
from receiptlab.consumers import clock, options, worker
from receiptlab.consumers.metrics import STATES, metrics
from receiptlab.consumers.options import ATTEMPTS, opened, ruled
from receiptlab.contracts.claims import LATEST, Look
from receiptlab.contracts.work import Work
from receiptlab.errors import Refused
from receiptlab.store import Store

CHUNK = 1_000
"""How many of each kind one chunk of a sweep takes."""

PAGE = 50
"""How many dead rows are shown at once."""

_LAST = """SELECT error, detail FROM attempt WHERE work = ? AND result IN ('failed', 'expired')
    ORDER BY number DESC LIMIT 1"""
_RESULTS = """SELECT id, processor, identity, revision, substr(output, 1, ?) FROM result
    ORDER BY id DESC LIMIT ?"""
_SHOWN = 200


def add_parsers(commands: argparse._SubParsersAction) -> None:
    """Add the commands to the parser's subcommands."""
    status = commands.add_parser("status", help="count the work by processor and state")
    status.add_argument("--metrics", action="store_true", help="as text for Prometheus")
    status.set_defaults(command=_status)
    results = commands.add_parser("results", help="show what the commands printed, the latest last")
    _add_limit(results, PAGE, "at most so many rows")
    results.set_defaults(command=_results)
    dead = commands.add_parser("dead", help="show dead work with its history")
    rule = ruled("after", 0, LATEST)
    dead.add_argument("--after", type=rule, default=0, metavar="ID", help="only rows with a greater id")
    _add_limit(dead, PAGE, "at most so many rows")
    dead.set_defaults(command=_dead)
    requeue = commands.add_parser("requeue", help="give dead work one more try")
    requeue.add_argument("ids", nargs="+", type=ruled("id", 1, LATEST), metavar="ID", help="as dead shows it")
    requeue.set_defaults(command=_requeue)
    sweep = commands.add_parser("sweep", help="end overdue claims, bury what is spent, compact receipts")
    _add_limit(sweep, CHUNK, "at most so many of each kind in one transaction")
    sweep.add_argument(
        "--attempts", type=ruled("attempts", 1, 1_000_000), default=ATTEMPTS, metavar="N",
        help=f"what was tried so often is dead; as for work (default {ATTEMPTS})",
    )  # fmt: skip
    sweep.set_defaults(command=_sweep)
    for parser in (status, results, dead, requeue, sweep):
        options.add_db(parser)
    for parser in (requeue, sweep):
        options.add_now(parser)


def _add_limit(parser: argparse.ArgumentParser, default: int, text: str) -> None:
    rule = ruled("limit", 1, 10_000)
    parser.add_argument(
        "--limit", type=rule, default=default, metavar="N", help=f"{text} (default {default})"
    )


def _now(given: argparse.Namespace) -> int:
    return clock.milliseconds() if given.now is None else given.now


def _status(given: argparse.Namespace) -> int:
    with opened(given.db, reading=True) as store:
        work = Work(store)
        if given.metrics:
            sys.stdout.write(metrics(work))
            return 0
        counts = {(processor, state): count for processor, state, count in work.counts().rows}
    rows = [
        (processor, *(counts.get((processor, state), 0) for state in STATES))
        for processor in sorted({processor for processor, _ in counts})
    ]
    terminal.console().print(terminal.grid("", ("processor", *STATES), rows))
    return 0


def _dead(given: argparse.Namespace) -> int:
    with opened(given.db, reading=True) as store:
        page = Work(store).dead(given.after, given.limit)
        rows = [_row(store, look) for look in page.dead]
    columns = ("id", "processor", "its revision", "identity", "revision", "history", "last failure")
    terminal.console().print(terminal.grid("", columns, rows, whole=("id",)))
    if page.more:
        print(f"there are more; go on with --after {page.dead[-1].work}", file=sys.stderr)
    return 0


def _results(given: argparse.Namespace) -> int:
    with opened(given.db, *worker.SCHEMA, reading=True) as store:
        rows = store.read(_RESULTS, (_SHOWN, given.limit))[::-1]
    told = [
        (number, processor, identity[:12], revision, output)
        for number, processor, identity, revision, output in rows
    ]
    columns = ("id", "processor", "identity", "revision", "result")
    terminal.console().print(terminal.grid("", columns, told))
    return 0


def _row(store: Store, look: Look) -> tuple:
    last = store.read(_LAST, (look.work,))
    error, detail = last[0] if last else (None, None)
    why = ": ".join(each for each in (error, (detail or "").strip()[-_SHOWN:]) if each)
    history = ", ".join(look.history)
    about = (look.processor, look.processor_revision, look.identity[:12], look.revision)
    return (look.work, *about, history, why or "its claim ended")


def _requeue(given: argparse.Namespace) -> int:
    refused = 0
    with opened(given.db) as store:
        work = Work(store)
        for each in dict.fromkeys(given.ids):
            try:
                work.requeue(each, _now(given))
            except Refused as error:
                refused += 1
                print(f"{each}: {error}; it stays as it is", file=sys.stderr)
            else:
                print(f"{each} is pending again")
    return 1 if refused else 0


def _sweep(given: argparse.Namespace) -> int:
    total = dict.fromkeys(("expired", "buried", "compacted", "removed"), 0)
    with opened(given.db) as store:
        work, more = Work(store), True
        token = _acquire(work, given)
        while more:
            try:
                swept = work.sweep(_name(), token, given.limit, given.attempts, _now(given))
            except Refused as error:
                if error.reason != "lease-lost":
                    raise
                token = _acquire(work, given)  # a long sweep outlives its lease
                continue
            total = {name: count + getattr(swept, name) for name, count in total.items()}
            more = swept.more
    terminal.console().print(terminal.grid("", ("what", "how many"), list(total.items())))
    return 0


def _acquire(work: Work, given: argparse.Namespace) -> int:
    return work.acquire_sweep(_name(), _now(given)).token


def _name() -> str:
    return f"sweep-{os.getpid()}"
