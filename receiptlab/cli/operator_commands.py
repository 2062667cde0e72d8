"""The operator's commands: `status`, `results`, `dead`, `requeue`, `discard`, `reset-ahead` and `sweep`.

They don't use the workers' fair lock, so a suspended worker can't block them.

Exit status: 0 when everything was done, 1 when a row could not be requeued or discarded, 2 when the database
file could not be used.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable

from receiptlab.cli import options, terminal
from receiptlab.cli.options import ATTEMPTS, DAY, now_in, opened, ruled, seconds
from receiptlab.contracts.work.claims import LATEST, WorkView
from receiptlab.contracts.work.work import Work
from receiptlab.errors import Refused
from receiptlab.examples import clock, worker
from receiptlab.examples.metrics import STATES, metrics

CHUNK = 1_000
"""Maximum number of rows of each kind in one chunk of a sweep."""

PAGE = 50
"""Number of dead letters shown at once."""

HORIZON = DAY
"""A row that is due later than this from now was written by a clock that ran ahead."""

KEEP_DEAD = 30 * DAY
"""How long a sweep keeps a dead letter that nobody has handled, from when it became dead."""

_RESULTS = """SELECT id, processor, identity, revision, substr(output, 1, ?) FROM result
    ORDER BY id DESC LIMIT ?"""
_SHOWN = 200


def add_parsers(commands: argparse._SubParsersAction) -> None:
    """Add the commands to the parser's subcommands."""
    status = commands.add_parser("status", help="count the work by processor and state")
    status.add_argument("--metrics", action="store_true", help="print the counts for Prometheus")
    _add_horizon(status, "report rows that are due later than this from now")
    status.set_defaults(command=_status)
    results = commands.add_parser("results", help="show the results, the latest last")
    _add_limit(results, PAGE, "maximum number of rows")
    results.set_defaults(command=_results)
    dead = commands.add_parser("dead", help="show the dead letters with their history")
    rule = ruled("after", 0, LATEST)
    dead.add_argument("--after", type=rule, default=0, metavar="ID", help="only rows with a higher id")
    _add_limit(dead, PAGE, "maximum number of rows")
    dead.set_defaults(command=_dead)
    requeue = commands.add_parser("requeue", help="give a dead letter one more attempt")
    requeue.set_defaults(command=_requeue)
    discard = commands.add_parser(
        "discard", help="give a dead letter up, so that its receipt can be compacted"
    )
    discard.set_defaults(command=_discard)
    for parser in (requeue, discard):
        shown = {"nargs": "+", "metavar": "ID", "help": "the id that dead shows"}
        parser.add_argument("ids", type=ruled("id", 1, LATEST), **shown)
    reset = commands.add_parser("reset-ahead", help="make work due that a clock running ahead has delayed")
    _add_horizon(reset, "only work that is due, or claimed, later than this from now")
    _add_limit(reset, CHUNK, "maximum number of rows per transaction")
    reset.set_defaults(command=_reset_ahead)
    sweep = commands.add_parser(
        "sweep", help="end overdue claims, make dead letters of items without attempts left, compact receipts"
    )
    sweep.add_argument(
        "--keep-dead", type=seconds(), default=KEEP_DEAD, metavar="SECONDS",
        help="discard dead letters that nobody has handled for this long (default: 30 days)",
    )  # fmt: skip
    _add_limit(sweep, CHUNK, "maximum number of rows of each kind per transaction")
    sweep.add_argument(
        "--attempts", type=ruled("attempts", 1, 1_000_000), default=ATTEMPTS, metavar="N",
        help=f"attempts after which an item is dead, as for work (default {ATTEMPTS})",
    )  # fmt: skip
    sweep.set_defaults(command=_sweep)
    for parser in (status, results, dead, requeue, discard, reset, sweep):
        options.add_db(parser)
    for parser in (status, requeue, discard, reset, sweep):
        options.add_now(parser)


def _add_limit(parser: argparse.ArgumentParser, default: int, text: str) -> None:
    rule = ruled("limit", 1, 10_000)
    parser.add_argument(
        "--limit", type=rule, default=default, metavar="N", help=f"{text} (default {default})"
    )


def _add_horizon(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument(
        "--horizon", type=seconds(), default=HORIZON, metavar="SECONDS", help=f"{text} (default: a day)"
    )


def _now(given: argparse.Namespace) -> int:
    return clock.milliseconds() if given.now is None else given.now


def _status(given: argparse.Namespace) -> int:
    with opened(given.db, reading=True) as store:
        work = Work(store)
        if given.metrics:
            sys.stdout.write(metrics(work, given.horizon, _now(given)))
            return 0
        counts = {(processor, state): count for processor, state, count in work.counts().rows}
        ahead = work.ahead(given.horizon, _now(given)).rows
    rows = [
        (processor, *(counts.get((processor, state), 0) for state in STATES))
        for processor in sorted({processor for processor, _ in counts})
    ]
    terminal.console().print(terminal.grid("", ("processor", *STATES), rows))
    for processor, state, count, latest in ahead:
        put_off = f"{processor}: {count} {state}, delayed until {clock.shown(latest)} at the latest"
        how = "if a clock ran ahead, reset-ahead makes them due"
        print(terminal.printable(f"{put_off}; {how}"), file=sys.stderr)
    return 0


def _dead(given: argparse.Namespace) -> int:
    with opened(given.db, reading=True) as store:
        work = Work(store)
        page = work.dead(given.after, given.limit)
        rows = [_row(work, look) for look in page.dead]
    columns = ("id", "processor", "its revision", "identity", "revision", "history", "last failure")
    terminal.console().print(terminal.grid("", columns, rows, whole=("id",)))
    if page.more:
        print(f"there are more; continue with --after {page.dead[-1].work}", file=sys.stderr)
    return 0


def _results(given: argparse.Namespace) -> int:
    with opened(given.db, *worker.SCHEMA, reading=True) as store:
        rows = store.read(_RESULTS, (_SHOWN, given.limit))[::-1]
    rows = [
        (number, processor, identity[:12], revision, output)
        for number, processor, identity, revision, output in rows
    ]
    columns = ("id", "processor", "identity", "revision", "result")
    terminal.console().print(terminal.grid("", columns, rows))
    return 0


def _row(work: Work, look: WorkView) -> tuple:
    error, detail = None, None
    with contextlib.suppress(Refused):  # compacted or erased since
        tried = [each for each in work.history(look.work).attempts if each.result in ("failed", "expired")]
        error, detail = (tried[-1].error, tried[-1].detail) if tried else (None, None)
    why = ": ".join(each for each in (error, (detail or "").strip()[-_SHOWN:]) if each)
    history = ", ".join(look.history)
    about = (look.processor, look.processor_revision, look.identity[:12], look.revision)
    return (look.work, *about, history, why or "its claim ended")


def _requeue(given: argparse.Namespace) -> int:
    return _each(given, Work.requeue, "is pending again")


def _discard(given: argparse.Namespace) -> int:
    return _each(given, Work.discard, "is discarded")


def _each(given: argparse.Namespace, call: Callable, done: str) -> int:
    refused = 0
    with opened(given.db) as store:
        work, now = Work(store), now_in(store, given)
        for each in dict.fromkeys(given.ids):
            try:
                call(work, each, now)
            except Refused as error:
                refused += 1
                print(f"{each}: {error}; nothing was changed", file=sys.stderr)
            else:
                print(f"{each} {done}")
    return 1 if refused else 0


def _reset_ahead(given: argparse.Namespace) -> int:
    with opened(given.db) as store:
        work, now, total, more = Work(store), now_in(store, given), 0, True
        while more:
            reset = work.reset_ahead(given.horizon, given.limit, now)
            total, more = total + len(reset.works), reset.more
    print(f"{total} due now")
    return 0


def _sweep(given: argparse.Namespace) -> int:
    total = dict.fromkeys(("discarded", "expired", "dead_letters", "compacted", "removed"), 0)
    with opened(given.db) as store:
        work, more, now = Work(store), True, now_in(store, given)
        token = _acquire(work, given)
        while more:
            dead = work.discard_dead(given.keep_dead, given.limit, now)
            total["discarded"], more = total["discarded"] + dead.discarded, dead.more
        more = True
        while more:
            try:
                swept = work.sweep(_name(), token, given.limit, given.attempts, _now(given))
            except Refused as error:
                if error.reason != "lease-lost":
                    raise
                token = _acquire(work, given)  # a long sweep can outlive its lease
                continue
            total = {name: count + getattr(swept, name, 0) for name, count in total.items()}
            more = swept.more
    terminal.console().print(terminal.grid("", ("what", "how many"), list(total.items())))
    return 0


def _acquire(work: Work, given: argparse.Namespace) -> int:
    return work.acquire_sweep(_name(), _now(given)).token


def _name() -> str:
    return f"sweep-{os.getpid()}"
