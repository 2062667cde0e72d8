"""The command `receiver`: serves a receiver's database file over HTTP, on localhost only, until interrupted.

Exit status: 0 when it was stopped by Ctrl-C or SIGTERM, 2 when it could not start.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

from receiptlab.cli.options import Unusable, ruled
from receiptlab.contracts.receiver import ARGUMENTS, SCHEMA
from receiptlab.errors import FileRefused, Refused, WrongArgument
from receiptlab.examples import clock
from receiptlab.examples.http_requests import OWNER
from receiptlab.examples.stopping import Stop
from receiptlab.store import Store

if TYPE_CHECKING:
    from receiptlab.examples.http_receiver import Service

_PAUSE_MS = 100
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM"))


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "receiver",
        help="serve a receiver over HTTP, on this computer only",
        description="POST any path with Idempotency-Key: the effect once, and the same answer for a repeat.",
    )
    parser.add_argument("--db", required=True, metavar="FILE", help="created if it does not exist")
    parser.add_argument(
        "--port", default=0, type=ruled("port", 0, 65_535), metavar="N", help="default: a free one"
    )
    parser.add_argument(
        "--owner", default=OWNER, type=_owner, metavar="NAME",
        help=f"the owner for clients that name no writer (default: {OWNER})",
    )  # fmt: skip
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Serve until asked to stop, then return the exit status. Requests received in full before that are
    answered.

    Raises Unusable, ModuleNotFoundError without the extra `http`, and what `Store.open` and `Store.create`
    raise.
    """
    import uvicorn  # noqa: F401  before a file is created

    with _signals() as stop, _store(given.db) as store, _service(store, given).running() as service:
        print(f"listening on {service.url}, Ctrl-C to stop", flush=True)
        while not stop.asked:
            clock.wait(_PAUSE_MS)
    return 0


def _owner(value: str) -> str:
    try:
        return ARGUMENTS["owner"]("owner", value)
    except WrongArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _store(path: str) -> Store:
    if not os.path.lexists(path):
        return Store.create(path, SCHEMA)
    store = Store.open(path)
    try:
        store.require(SCHEMA)
    except FileRefused as error:
        store.close()
        raise Unusable(f"{path} is not a receiver's file ({error.reason}); give another --db") from None
    except BaseException:
        store.close()
        raise
    return store


def _service(store: Store, given: argparse.Namespace) -> Service:
    from receiptlab.examples.http_receiver import Service

    try:
        return Service(store, given.owner, given.port)
    except Refused as refused:
        what = f"another writer was registered for {given.owner!r}; give another --owner"
        raise Unusable(f"{refused.reason}: {what}") from None
    except OSError as error:
        raise Unusable(f"port {given.port}: {error.strerror}; give another --port, or none") from None


@contextlib.contextmanager
def _signals() -> Iterator[Stop]:
    """Count Ctrl-C and SIGTERM instead of interrupting whatever is running.

    The system may deliver a signal to any thread, and Python runs the handler in the main thread once that
    thread runs again. So the main thread must not block without a timeout, or it would sleep through a signal
    that another thread received.
    """
    stop = Stop()
    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
