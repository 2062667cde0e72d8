"""A worker's claim, the other answers of the work contract, and the backoff of a failed item."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from receiptlab.contracts.base import AcceptedAnswer, ReadAnswer

LATEST = 2**62
"""The largest `now`, in milliseconds."""

LONGEST = 2**61
"""The longest visibility timeout, backoff or other span, in milliseconds."""


@dataclass(frozen=True)
class WorkClaim:
    """A claim on one item: it may be finished under this fencing token, until the claim expires.

    It is plain data, tied to a database file by the file's path. A worker that reopens the file can still
    finish.
    """

    work: int
    identity: str
    revision: int
    processor: str
    processor_revision: str
    attempt: int
    fence: int
    until: int
    file: Path = field(compare=False, repr=False)


@dataclass(frozen=True)
class Reserved(AcceptedAnswer):
    """The claims on what was reserved, oldest first, and the items that became dead letters instead."""

    claims: tuple[WorkClaim, ...]
    dead_letters: tuple[int, ...]

    def facts(self) -> dict[str, object]:
        """One list for each number of the claims."""
        lists = _lists(self.claims, works="work", fences="fence", attempts="attempt")
        return lists | {"dead_letters": list(self.dead_letters)}


@dataclass(frozen=True)
class WorkView(ReadAnswer):
    """An item and how its attempts ended."""

    work: int
    identity: str
    revision: int
    processor: str
    processor_revision: str
    state: str
    due: int | None
    fence: int
    attempts: int
    holder: str | None
    reference: str | None
    history: tuple[str, ...]


@dataclass(frozen=True)
class Attempt:
    """One entry of an item's history. `fence` and `worker` are the claim's. A requeue has no worker."""

    result: str
    fence: int
    worker: str | None
    started_at: int
    ended_at: int | None
    error: str | None
    detail: str | None


@dataclass(frozen=True)
class History(ReadAnswer):
    """Every attempt at one item, oldest first."""

    work: int
    attempts: tuple[Attempt, ...]

    def facts(self) -> dict[str, object]:
        """One list for each field of an attempt."""
        times = {"started": "started_at", "ended": "ended_at"}
        names = {"results": "result", "fences": "fence", "workers": "worker", "errors": "error"}
        return _lists(self.attempts, **names, **times, details="detail")


@dataclass(frozen=True)
class WorkState(AcceptedAnswer):
    """An item's state after a call, and when it is due."""

    work: int
    state: str
    due: int | None = None


@dataclass(frozen=True)
class StagedWork(AcceptedAnswer):
    """What kind of delivery it was, its revision, and how many items of work were staged for it."""

    found: str
    revision: int
    staged: int


@dataclass(frozen=True)
class DeadLetters(ReadAnswer):
    """A page of dead letters in the order of their ids. `more` is True if there are others after it."""

    dead: tuple[WorkView, ...]
    more: bool

    def facts(self) -> dict[str, object]:
        """The ids, and the history of each as one text."""
        histories = [", ".join(each.history) for each in self.dead]
        return _lists(self.dead, works="work") | {"histories": histories, "more": self.more}


@dataclass(frozen=True)
class Counts(ReadAnswer):
    """The number of items by processor and state."""

    rows: tuple[tuple[str, str, int], ...]

    def facts(self) -> dict[str, object]:
        """One entry for each processor and state."""
        return {f"{processor} {state}": count for processor, state, count in self.rows}


@dataclass(frozen=True)
class Ahead(ReadAnswer):
    """The number of items due beyond a horizon, by processor and state, with the latest due time of each
    group."""

    rows: tuple[tuple[str, str, int, int], ...]

    def facts(self) -> dict[str, object]:
        """One entry for each processor and state."""
        return {f"{processor} {state}": [count, latest] for processor, state, count, latest in self.rows}


@dataclass(frozen=True)
class Reset(AcceptedAnswer):
    """The items that were reset. `more` is True if there may be others."""

    works: tuple[int, ...]
    more: bool


@dataclass(frozen=True)
class Discarded(AcceptedAnswer):
    """How many dead letters were discarded. `more` is True if there may be others."""

    discarded: int
    more: bool


@dataclass(frozen=True)
class SweptChunk(AcceptedAnswer):
    """What one chunk of a sweep did: the number of expired claims, new dead letters, compacted receipts and
    removed tombstones. `more` is True if there may be others."""

    expired: int
    dead_letters: int
    compacted: int
    removed: int
    more: bool


def _lists(records: Iterable[object], **names: str) -> dict[str, object]:
    """One list for each field of the records. `names` says how each list is called."""
    return {name: [getattr(each, part) for each in records] for name, part in names.items()}


def backoff(identity: str, attempt: int, base: int, cap: int) -> int:
    """Milliseconds until the next attempt: `base`, doubled for each attempt after the first, at most `cap`.

    The upper half of it is jitter. The jitter depends only on the item and the attempt, so it is the same
    in every run.
    """
    wait = min(cap, base << min(attempt - 1, 62))
    drawn = int(hashlib.sha256(f"{identity} {attempt}".encode()).hexdigest()[:15], 16)
    return wait - wait // 2 + drawn % (wait // 2 + 1)
