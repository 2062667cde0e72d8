"""The command `work`: runs a command of yours on each item that is due for a processor.

Exit status: 0 when it ended as asked, 1 when `--drain` gave up waiting, 2 when it could not begin or
continue, 130 when it was asked to stop twice.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator

from receiptlab.cli import options, terminal
from receiptlab.cli.options import ATTEMPTS, Unusable, ruled, seconds
from receiptlab.errors import WrongArgument
from receiptlab.examples import clock, worker
from receiptlab.examples.stopping import Stop
from receiptlab.examples.subprocess_handler import CommandHandler
from receiptlab.examples.worker import Policy, Tally, Worker
from receiptlab.store import Store

TIMEOUT = 60
"""Default time limit of a command, in seconds."""

_STAGED = "SELECT 1 FROM work WHERE processor = ? LIMIT 1"
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM"))


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "work",
        help="run a command on each item that is due",
        usage="%(prog)s --db FILE --processor NAME [options] -- COMMAND...",
        description="The command gets the item as JSON on standard input. Its output is the result. "
        "Exit status 0 means done. Any other status means that it failed and is to be tried again.",
    )
    options.add_db(parser)
    named = options.name("processor", "processor")
    parser.add_argument(
        "--processor", required=True, type=named, metavar="NAME", help="the processor whose items to work on"
    )
    named = options.name("namespace", "namespace")
    parser.add_argument(
        "--namespace", type=named, metavar="N", help="only in this namespace (default: in all)"
    )
    named = options.name("name", "worker")
    parser.add_argument("--name", type=named, metavar="WORKER", help="default: processor and process id")
    _add_policy(parser)
    parser.add_argument("--drain", action="store_true", help="end once everything is done or dead")
    parser.add_argument(
        "--wait", type=seconds(), default=worker.WAIT, metavar="SECONDS",
        help="with --drain: while no item can be claimed, wait at most this long, then end with status 1 "
        f"(default {worker.WAIT // 1_000})",
    )  # fmt: skip
    options.add_now(parser, "; if given, do what is due at that time and end")
    parser.add_argument("argv", nargs="+", metavar="COMMAND", help="the command to run, after --")
    parser.set_defaults(command=run)


def _add_policy(parser: argparse.ArgumentParser) -> None:
    usual = Policy()
    for option, least, default, text in (
        (
            "--hold-for",
            1,
            usual.hold_for,
            "the visibility timeout: how long a claim lasts when the worker dies",
        ),
        ("--backoff", 0, usual.base, "the delay after the first failure, doubled after each further one"),
        ("--cap", 0, usual.cap, "the longest delay"),
        ("--timeout", 1, TIMEOUT * 1_000, "time limit of the command"),
    ):
        parser.add_argument(
            option, type=seconds(least), default=default, metavar="SECONDS",
            help=f"{text} (default {default / 1_000:g})",
        )  # fmt: skip
    attempts = ruled("attempts", 1, 1_000_000)
    parser.add_argument(
        "--attempts", type=attempts, default=ATTEMPTS, metavar="N",
        help=f"attempts after which an item is dead (default {ATTEMPTS})",
    )  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Work until asked to stop, or until the options say so. Returns the exit status.

    Raises Unusable, Gone, what `Store.open` raises and what `Worker.run` raises.
    """
    if os.name != "posix":
        raise Unusable("work needs process groups, which this system doesn't have; call Worker from Python")
    if shutil.which(given.argv[0]) is None:
        what = "is not a command that can be run; check its name, path and permissions"
        raise Unusable(f"{given.argv[0]} {what}; no item was claimed")
    stop = Stop()
    with options.opened(given.db, *worker.SCHEMA) as store, _signals(stop):
        try:
            options.now_in(store, given)
            made = _worker(store, given, stop)
            if not store.read(_STAGED, (given.processor,)):
                _say(f"no work was ever staged for the processor {given.processor}; check the name")
            ends = "idle" if given.now is not None else "drained" if given.drain else "never"
            tally = made.run(ends, given.wait)
        except WrongArgument as error:
            raise Unusable(str(error)) from None
        _tell(tally, made.left(), stop)
    return 130 if stop.asked > 1 else int(made.gave_up)


def _worker(store: Store, given: argparse.Namespace, stop: Stop) -> Worker:
    return Worker(
        store,
        given.processor,
        given.name or f"{given.processor[:100]}-{os.getpid()}",
        Policy(given.hold_for, given.attempts, given.backoff, given.cap),
        CommandHandler(given.argv, given.timeout),
        clock.milliseconds if given.now is None else lambda: given.now,
        clock.wait,
        namespace=given.namespace,
        report=_say,
        stop=stop,
    )


@contextlib.contextmanager
def _signals(stop: Stop) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into requests to stop."""
    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(tally: Tally, left: int, stop: Stop) -> None:
    counted = ", ".join(f"{count} {name}" for name, count in vars(tally).items())
    why = "stopped as asked, claimed nothing more: " if stop.asked else ""
    _say(f"{why}{counted}; {left} not finished")


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads the output any more, which is no reason to stop working
        print(terminal.printable(text), file=sys.stderr, flush=True)
