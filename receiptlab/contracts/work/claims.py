"""Claims on work: what the work contract answers, and when a failed item is tried again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

LATEST = 2**62
"""The largest `now`, in milliseconds."""

LONGEST = 2**61
"""The longest claim, backoff or other span, in milliseconds."""


@dataclass(frozen=True)
class WorkClaim:
    """The right to finish one item: the row and its fence, until the claim ends. It is plain data and belongs
    to a database file, by the file's path: a worker that reopens its file can still finish."""

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
class Reserved:
    """What was taken, oldest first, and the rows that were found spent and are dead now."""

    claims: tuple[WorkClaim, ...]
    dead_letters: tuple[int, ...]
    outcome: ClassVar[str] = "accepted"

    def facts(self) -> dict[str, object]:
        """The claims as plain lists."""
        named = {"works": "work", "fences": "fence", "attempts": "attempt"}
        told = {name: [getattr(claim, each) for claim in self.claims] for name, each in named.items()}
        return told | {"dead_letters": list(self.dead_letters)}


@dataclass(frozen=True)
class WorkView:
    """A row of work as it stands, and how its attempts ended."""

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
    outcome: ClassVar[str] = "read"


@dataclass(frozen=True)
class Attempt:
    """One row of an item's history. `fence` and `worker` are those of the claim; a requeue has no worker."""

    result: str
    fence: int
    worker: str | None
    started_at: int
    ended_at: int | None
    error: str | None
    detail: str | None


@dataclass(frozen=True)
class History:
    """Every attempt at one item, oldest first."""

    work: int
    attempts: tuple[Attempt, ...]
    outcome: ClassVar[str] = "read"

    def facts(self) -> dict[str, object]:
        """One list for each field of an attempt."""
        named = {"results": "result", "fences": "fence", "workers": "worker", "errors": "error"}
        named |= {"started": "started_at", "ended": "ended_at", "details": "detail"}
        return {name: [getattr(each, part) for each in self.attempts] for name, part in named.items()}


@dataclass(frozen=True)
class WorkState:
    """The state of a row after a call, and when it is due, if it is."""

    work: int
    state: str
    due: int | None = None
    outcome: ClassVar[str] = "accepted"


@dataclass(frozen=True)
class StagedWork:
    """What a delivery was found to be, its revision, and how many rows of work were staged for it."""

    found: str
    revision: int
    staged: int
    outcome: ClassVar[str] = "accepted"


@dataclass(frozen=True)
class DeadLetters:
    """Dead rows in the order of their ids. `more` says whether others come after the last one."""

    dead: tuple[WorkView, ...]
    more: bool
    outcome: ClassVar[str] = "read"

    def facts(self) -> dict[str, object]:
        """The ids, and the history of each in one text."""
        histories = [", ".join(each.history) for each in self.dead]
        return {"works": [each.work for each in self.dead], "histories": histories, "more": self.more}


@dataclass(frozen=True)
class Counts:
    """How many rows there are, by processor and state."""

    rows: tuple[tuple[str, str, int], ...]
    outcome: ClassVar[str] = "read"

    def facts(self) -> dict[str, object]:
        """One entry for each processor and state."""
        return {f"{processor} {state}": count for processor, state, count in self.rows}


@dataclass(frozen=True)
class Ahead:
    """How many rows are due beyond a horizon, by processor and state, with the latest time among them."""

    rows: tuple[tuple[str, str, int, int], ...]
    outcome: ClassVar[str] = "read"

    def facts(self) -> dict[str, object]:
        """One entry for each processor and state."""
        return {f"{processor} {state}": [count, latest] for processor, state, count, latest in self.rows}


@dataclass(frozen=True)
class Reset:
    """The rows that were reset. `more` says whether there may be others."""

    works: tuple[int, ...]
    more: bool
    outcome: ClassVar[str] = "accepted"


@dataclass(frozen=True)
class Discarded:
    """How many dead letters were discarded, and whether there may be more."""

    discarded: int
    more: bool
    outcome: ClassVar[str] = "accepted"


@dataclass(frozen=True)
class SweptChunk:
    """What one chunk of a sweep did: how many claims had ended, how many rows are dead now, how many
    receipts were compacted, how many tombstones went; and whether there may be more."""

    expired: int
    dead_letters: int
    compacted: int
    removed: int
    more: bool
    outcome: ClassVar[str] = "accepted"


def backoff(identity: str, attempt: int, base: int, cap: int) -> int:
    """Milliseconds until the next attempt: `base` doubled for each attempt made, at most `cap`, of which
    the upper half is jitter. The jitter hangs on the item and the attempt alone: the same every run."""
    wait = min(cap, base << min(attempt - 1, 62))
    drawn = int(hashlib.sha256(f"{identity} {attempt}".encode()).hexdigest()[:15], 16)
    return wait - wait // 2 + drawn % (wait // 2 + 1)
