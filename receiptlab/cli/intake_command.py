"""The command `intake`: takes a file of letters or of webhook deliveries into a database file, and stages the work
of the processors that are named.

Exit status: 0 everything was clear, 1 something was skipped or is doubtful, 2 the file could not be used.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from receiptlab.cli import options, terminal
from receiptlab.cli.options import Unusable, now_in
from receiptlab.contracts.intake.intake import ARGUMENTS, Intake
from receiptlab.contracts.work.work import Work
from receiptlab.errors import WrongArgument
from receiptlab.examples import mailbox, webhooks, worker
from receiptlab.examples.batches import Broken, Delivery, Report, take_in
from receiptlab.store import Store

SCHEMA = (*Work.SCHEMA, *mailbox.SCHEMA, *webhooks.SCHEMA, *worker.SCHEMA)
"""The tables of a database file that the command makes."""

FORMATS = ("jsonl", "mbox")
"""What FILE can be."""

RETAIN = 7 * 86_400
"""How long a receipt keeps its key and reference, in seconds: a week."""

TOMBSTONE = 30 * 86_400
"""How long a redelivery is recognised at all, in seconds: thirty days."""

_HEAD = 4_096


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser("intake", help="take letters or webhook deliveries into a database file")
    parser.add_argument("file", metavar="FILE", help="an mbox, or webhook deliveries in JSON Lines")
    parser.add_argument("--db", required=True, metavar="FIXTURE", help="made when it is not there")
    parser.add_argument("--tenant", default="local", metavar="NAME", help="whose items (default: local)")
    parser.add_argument(
        "--namespace", metavar="NAME", help="the mailbox's name (default: the name of FILE); mbox only"
    )
    parser.add_argument("--format", choices=FORMATS, help="left out: guessed from the first bytes")
    parser.add_argument(
        "--volatile", action="append", default=[], metavar="NAME",
        help="leave this field of a webhook's body (attempt, meta.sent_at) out of its content; repeatable",
    )  # fmt: skip
    _add_work(parser)
    options.add_now(parser)
    parser.set_defaults(command=run)


def _add_work(parser: argparse.ArgumentParser) -> None:
    processor, revision = (options.name(each, each) for each in ("processor", "processor_revision"))
    parser.add_argument(
        "--processor", action="append", default=[], type=processor, metavar="NAME",
        help="stage the work of this processor on every accepted item; may be said again",
    )  # fmt: skip
    parser.add_argument(
        "--processor-revision", default="1", type=revision, metavar="R",
        help="the revision of these processors (default 1); another one works on everything anew",
    )  # fmt: skip
    parser.add_argument(
        "--retain", type=options.seconds(), default=RETAIN * 1_000, metavar="SECONDS",
        help="how long a receipt keeps its key and reference, and its work (default: a week); while work is "
        "dead or unfinished it is kept longer",
    )  # fmt: skip
    parser.add_argument(
        "--keep-tombstone", type=options.seconds(), default=TOMBSTONE * 1_000, metavar="SECONDS",
        help="how long a redelivery is recognised at all (default: 30 days)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Take the file in and print what its items were; returns the exit status.

    Batches are taken in whole or not at all, also when it is stopped. Raises Unusable, what
    `Store.open` and `Store.create` raise, and OSError when FILE cannot be read.
    """
    _check("tenant", options.tenant)
    if options.keep_tombstone < options.retain:
        raise Unusable("--keep-tombstone is shorter than --retain; a tombstone is what is left after that")
    if os.path.exists(options.db) and os.path.samefile(options.file, options.db):
        raise Unusable(f"{options.db} is FILE and FIXTURE in one; give two files")
    processors = [(each, options.processor_revision) for each in dict.fromkeys(options.processor)]
    with open(options.file, "rb") as file:
        kind = options.format or _guess(options.file, file)
        source = _source(kind, file, options)
        with _store(options.db) as store, _bar(file) as progress:
            report = take_in(
                store,
                Intake(store),
                source,
                now=now_in(store, options),
                progress=progress,
                processors=processors,
                retain=options.retain,
                tombstone=options.keep_tombstone,
            )
    _tell(report, bool(processors))
    return 1 if report.broken or report.doubtful else 0


def _source(kind: str, file: BinaryIO, options: argparse.Namespace) -> Iterator[Delivery | Broken]:
    if kind == "mbox":
        if options.volatile:
            raise Unusable("a letter has no fields to leave out; --volatile is for JSON Lines")
        name = Path(options.file).name if options.namespace is None else options.namespace
        return mailbox.letters(file, options.tenant, _check("namespace", name))
    if options.namespace is not None:
        raise Unusable("each line of JSON Lines names its source; leave --namespace out")
    try:
        return webhooks.webhooks(file, options.tenant, options.volatile)
    except WrongArgument as error:
        raise Unusable(f"{error}; give another --volatile") from None


def _check(name: str, value: str) -> str:
    try:
        return ARGUMENTS[name](name, value)
    except WrongArgument as error:
        raise Unusable(f"{error}; give another --{name}") from None


def _guess(path: str, file: BinaryIO) -> str:
    """The format that the first bytes show. Before JSON, white space and a byte order mark may stand."""
    head = file.peek(_HEAD)[:_HEAD]
    if head.startswith(b"From "):
        return "mbox"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return "jsonl"
    raise Unusable(f"{path} begins neither as an mbox (From) nor as JSON Lines ({{); say --format")


def _store(path: str) -> Store:
    if not os.path.lexists(path):
        return Store.create(path, SCHEMA)
    store = Store.open(path)
    try:
        store.require(SCHEMA)
    except BaseException:
        store.close()
        raise
    return store


@contextlib.contextmanager
def _bar(file: BinaryIO) -> Iterator[Callable[[Report], object] | None]:
    """A progress bar by the bytes that were read."""
    with terminal.bar("taking in", os.fstat(file.fileno()).st_size) as show:
        yield (lambda report: show(file.tell())) if show and file.seekable() else None


def _tell(report: Report, worked: bool) -> None:
    """Print the counts, also that of the work staged, and on standard error what was broken or doubtful."""
    for each in report.named:
        skipped = "; it was skipped" if isinstance(each, Broken) else ""
        print(terminal.printable(f"{each.place}: {each.why}{skipped}"), file=sys.stderr)
    if more := report.broken + report.doubtful - len(report.named):
        print(f"{more} more were skipped or are doubtful", file=sys.stderr)
    rows = [(name.replace("_", " "), value) for name, value in report.counts().items()]
    rows += [("work staged", report.work)] if worked else []
    terminal.console().print(terminal.grid("", ("what", "how many"), rows))
