"""Shared by the commands for a database file: durations, `--now`, names, and opening the file.

Durations are given in seconds, and `--now` in milliseconds. The contracts get milliseconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from decimal import Decimal

from receiptlab.contracts.work.claims import LATEST, LONGEST
from receiptlab.contracts.work.work import ARGUMENTS, Work
from receiptlab.errors import FileRefused, LabError, WrongArgument
from receiptlab.examples import clock
from receiptlab.store import Store
from receiptlab.values import integer

ATTEMPTS = 5
"""Default number of attempts."""


DAY, YEAR = 86_400_000, 365 * 86_400_000
"""In milliseconds."""

_NEWEST = "SELECT staged_at FROM outbox ORDER BY id DESC LIMIT 1"


class Unusable(LabError):
    """A file or an option can't be used. Nothing was changed."""


def moment(text: str) -> int:
    """A time in milliseconds, as the contracts take it."""
    return whole(text, 0, LATEST)


def whole(text: str, low: int, high: int) -> int:
    """An integer within bounds; for argparse."""
    try:
        return integer("it", int(text), low, high)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer from {low} to {high}") from None


def ruled(name: str, low: int, high: int) -> Callable[[str], int]:
    """An argparse type: an integer within bounds."""

    def rule(text: str) -> int:
        return whole(text, low, high)

    rule.__name__ = name
    return rule


def seconds(low: int = 0) -> Callable[[str], int]:
    """An argparse type: seconds, with fractions, of at least `low` milliseconds. Returns milliseconds."""

    def rule(text: str) -> int:
        try:
            given = Decimal(text) * 1_000
            if given.is_finite() and low <= given <= LONGEST:
                return int(given)
        except ArithmeticError:  # not a number, or one with a huge exponent
            pass
        shown = f"at least {Decimal(low) / 1_000}, and at most {LONGEST // 1_000}"
        raise argparse.ArgumentTypeError(f"must be a number of seconds, {shown}")

    return rule


def name(option: str, rule: str) -> Callable[[str], str]:
    """An argparse type: a name that passes the contract's rule for it."""

    def check(text: str) -> str:
        try:
            return ARGUMENTS[rule](option, text)
        except WrongArgument as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return check


def opened(path: str, *more: str, reading: bool = False) -> Store:
    """Open the database file, which must have the tables of work and those of `more`. `reading` is as in
    `Store.open`. Raises Unusable when tables are missing, and what `Store.open` raises."""
    store = Store.open(path, reading=reading)
    try:
        store.require((*Work.SCHEMA, *more))
    except FileRefused as error:
        store.close()
        if error.reason != "tables":
            raise
        how = "take items into a new database file with: intake FILE --db NEW.db --processor NAME"
        raise Unusable(f"{path} lacks the tables of work, or has those of another version; {how}") from None
    except BaseException:
        store.close()
        raise
    return store


def add_db(parser: argparse.ArgumentParser) -> None:
    """Add --db, for an existing database file."""
    parser.add_argument("--db", required=True, metavar="FIXTURE", help="a database file created by intake")


def add_now(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add --now."""
    text = f"the time in milliseconds (default: the clock){more}"
    parser.add_argument("--now", type=moment, metavar="N", help=text)
    text = "accept a time that is far from the newest message in the database file"
    parser.add_argument("--force", action="store_true", help=text)


def now_in(store: Store, given: argparse.Namespace) -> int:
    """The time of a command: --now, or the clock.

    Raises Unusable for a time a day or more before the newest message in the file, or a year or more after
    it, unless --force is given. Seconds in place of milliseconds, or a clock that was reset, would end claims
    and compact receipts. Smaller errors are not noticed, nor any error in a file without messages.
    """
    now = clock.milliseconds() if given.now is None else given.now
    for (newest,) in () if given.force else store.read(_NEWEST):
        if not newest - DAY < now < newest + YEAR:
            far = f"{now} ({clock.shown(now)}), and the newest message in {store.path.name} is from"
            what = f"the time would be {far} {newest} ({clock.shown(newest)})"
            raise Unusable(f"{what}; times are in milliseconds; correct --now or the clock, or add --force")
    return now
