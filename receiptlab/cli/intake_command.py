"""The command `intake`: takes letters or webhook deliveries from a file into a database file, and stages work
for the named processors.

Exit status: 0 when everything was clear, 1 when something was skipped or is doubtful, 2 when the file
could not be used.
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
"""The tables of a database file that the command creates."""

FORMATS = ("jsonl", "mbox")
"""The formats that FILE can have."""

RETAIN = 7 * 86_400
"""How long a receipt keeps its key and reference, in seconds: a week."""

TOMBSTONE = 30 * 86_400
"""How long a redelivery is recognised at all, in seconds: thirty days."""

_HEAD = 4_096


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser("intake", help="take letters or webhook deliveries into a database file")
    parser.add_argument("file", metavar="FILE", help="an mbox, or webhook deliveries in JSON Lines")
    parser.add_argument("--db", required=True, metavar="FIXTURE", help="created if it doesn't exist")
    parser.add_argument(
        "--tenant", default="local", metavar="NAME", help="the tenant of the items (default: local)"
    )
    parser.add_argument(
        "--namespace", metavar="NAME", help="the mailbox's name (default: the name of FILE); mbox only"
    )
    parser.add_argument("--format", choices=FORMATS, help="default: guessed from the first bytes")
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
        help="stage work for this processor on every accepted item; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--processor-revision", default="1", type=revision, metavar="R",
        help="the revision of these processors (default 1); a new revision works on everything again",
    )  # fmt: skip
    parser.add_argument(
        "--retain", type=options.seconds(), default=RETAIN * 1_000, metavar="SECONDS",
        help="how long a receipt keeps its key, reference and work (default: a week); longer while work is "
        "dead or unfinished",
    )  # fmt: skip
    parser.add_argument(
        "--keep-tombstone", type=options.seconds(), default=TOMBSTONE * 1_000, metavar="SECONDS",
        help="how long a redelivery is recognised at all (default: 30 days)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Take the file in, print what its items were, and return the exit status.

    Each batch is taken in completely or not at all, even when the command is stopped. Raises Unusable, what
    `Store.open` and `Store.create` raise, and OSError when FILE cannot be read.
    """
    _check("tenant", options.tenant)
    if options.keep_tombstone < options.retain:
        raise Unusable("--keep-tombstone is shorter than --retain; a tombstone is what remains after that")
    if os.path.exists(options.db) and os.path.samefile(options.file, options.db):
        raise Unusable(f"{options.db} is both FILE and the database file; give two files")
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
            raise Unusable("letters have no volatile fields; --volatile is for JSON Lines")
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
    """The format, guessed from the first bytes. White space and a byte order mark may precede JSON."""
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
    """Print the counts, including staged work; and on standard error, what was broken or doubtful."""
    for each in report.named:
        skipped = "; it was skipped" if isinstance(each, Broken) else ""
        print(terminal.printable(f"{each.place}: {each.why}{skipped}"), file=sys.stderr)
    if more := report.broken + report.doubtful - len(report.named):
        print(f"{more} more were skipped or are doubtful", file=sys.stderr)
    rows = [(name.replace("_", " "), value) for name, value in report.counts().items()]
    rows += [("work staged", report.work)] if worked else []
    terminal.console().print(terminal.grid("", ("what", "how many"), rows))
