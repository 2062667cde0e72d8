"""Claims on work: the tables, the records, the guards, and when a failed item is tried again.

The part of the work contract that writes nothing. `work` is the whole.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

from receiptlab.contracts.intake import staging
from receiptlab.contracts.work import lease
from receiptlab.errors import Refused, WrongType, WrongValue
from receiptlab.store import Store
from receiptlab.values import MAX_INTEGER, bounded, sized, text

# A row of `work` is one receipt revision for one processor revision. `due` is when it can be taken: of a
# pending row since when it waits, of a failed one when it is to be tried again, of a claimed one when
# the claim ends. Finished rows have none. `attempt` is the history; its last row is the open one.
# A dead row is a dead letter until an operator requeues or discards it; until then its receipt stays whole.
# An id is never given twice, or a stale claim would fit another item. The effects have no uniqueness, so
# that a second effect can be seen.
# Once an item is erased, or its tombstone is gone, the leases on its namespace are removed too: a lease row
# is the only one that would keep the raw namespace. Where the namespace is still in use, the next worker
# acquires a new one. The token of a removed lease moves to a row without a namespace, so tokens never
# start again.
SCHEMA = (
    *staging.SCHEMA,
    *lease.SCHEMA,
    """CREATE TABLE work (
        id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        identity TEXT NOT NULL REFERENCES receipt (identity), revision INTEGER NOT NULL,
        namespace TEXT NOT NULL, processor TEXT NOT NULL, processor_revision TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('pending', 'claimed', 'failed', 'done', 'dead', 'discarded')),
        due INTEGER NULL, fence INTEGER NOT NULL, attempts INTEGER NOT NULL, entries INTEGER NOT NULL,
        holder TEXT NULL, reference TEXT NULL, changed_at INTEGER NOT NULL,
        UNIQUE (identity, revision, processor, processor_revision),
        CHECK ((due IS NULL) = (state IN ('done', 'dead', 'discarded')))) STRICT""",
    """CREATE TABLE attempt (
        work INTEGER NOT NULL REFERENCES work (id) ON DELETE CASCADE, number INTEGER NOT NULL,
        fence INTEGER NOT NULL, worker TEXT NULL, started_at INTEGER NOT NULL, ended_at INTEGER NULL,
        result TEXT NOT NULL CHECK (result IN ('open', 'done', 'failed', 'expired', 'requeued')),
        error TEXT NULL, detail TEXT NULL, PRIMARY KEY (work, number)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE effect (
        id INTEGER NOT NULL PRIMARY KEY, identity TEXT NOT NULL, revision INTEGER NOT NULL,
        processor TEXT NOT NULL, processor_revision TEXT NOT NULL,
        reference TEXT NOT NULL, effected_at INTEGER NOT NULL) STRICT""",
    "CREATE INDEX work_by_due ON work (namespace, processor, due, id) WHERE due IS NOT NULL",
    "CREATE INDEX work_by_state ON work (state, due, id)",
    "CREATE INDEX work_by_attempts ON work (attempts, id) WHERE state = 'failed'",
    "CREATE INDEX work_by_death ON work (changed_at, id) WHERE state = 'dead'",
    """CREATE TRIGGER work_compacted AFTER UPDATE OF state ON receipt WHEN NEW.state <> 'live'
        BEGIN DELETE FROM work WHERE identity = NEW.identity; END""",
    "CREATE INDEX effect_by_identity ON effect (identity)",
    *(
        f"""CREATE TRIGGER effect_erased_{when.split()[0].lower()} AFTER {when} ON receipt
        WHEN NEW.state = 'erased' BEGIN DELETE FROM effect WHERE identity = NEW.identity; END"""
        for when in ("UPDATE OF state", "INSERT")  # INSERT: the receipt was gone, or there never was one
    ),
    *(
        f"""CREATE TRIGGER lease_{name} AFTER {when} BEGIN
        INSERT INTO lease SELECT '', '', token, NULL, 0 FROM lease WHERE namespace = OLD.namespace
            ON CONFLICT (namespace, processor) DO UPDATE SET token = excluded.token
            WHERE token < excluded.token;
        DELETE FROM lease WHERE namespace = OLD.namespace; END"""
        for name, when in (
            ("erased", "UPDATE OF state ON receipt WHEN NEW.state = 'erased'"),
            ("removed", "DELETE ON receipt"),
        )
    ),
)

LATEST = 2**62
"""The largest `now`, in milliseconds."""

LONGEST = 2**61
"""The longest claim, backoff or other span, in milliseconds."""

ARGUMENTS = staging.ARGUMENTS | {
    "now": bounded(0, LATEST),
    "revision": bounded(1, LATEST),
    "processor": text,
    "processor_revision": text,
    "worker": text,
    "token": bounded(1, LATEST),
    "limit": bounded(1, 10_000),
    "hold_for": bounded(1, LONGEST),
    "max_attempts": bounded(1, 1_000_000),
    "base": bounded(0, LONGEST),
    "cap": bounded(0, LONGEST),
    "keep_for": bounded(0, LONGEST),
    "horizon": bounded(0, LONGEST),
    "work": bounded(1, LATEST),
    "fence": bounded(1, MAX_INTEGER),
    "after": bounded(0, LATEST),
    "error": text,
    "detail": sized(0, 2_048),
}


@dataclass(frozen=True)
class Claim:
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

    claims: tuple[Claim, ...]
    dead_letters: tuple[int, ...]
    outcome: ClassVar[str] = "accepted"

    def facts(self) -> dict[str, object]:
        """The claims as plain lists."""
        named = {"works": "work", "fences": "fence", "attempts": "attempt"}
        told = {name: [getattr(claim, each) for claim in self.claims] for name, each in named.items()}
        return told | {"dead_letters": list(self.dead_letters)}


@dataclass(frozen=True)
class Look:
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
class Changed:
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
class Page:
    """Dead rows in the order of their ids. `more` says whether others come after the last one."""

    dead: tuple[Look, ...]
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
class Swept:
    """What one chunk of a sweep did: how many claims had ended, how many rows are dead now, how many
    receipts were compacted, how many tombstones went; and whether there may be more."""

    expired: int
    dead_letters: int
    compacted: int
    removed: int
    more: bool
    outcome: ClassVar[str] = "accepted"


class Row(NamedTuple):
    """A row of work as the transaction has read it; empty where there is none."""

    work: int | None = None
    identity: str | None = None
    revision: int | None = None
    processor: str | None = None
    processor_revision: str | None = None
    state: str | None = None
    due: int | None = None
    fence: int | None = None
    attempts: int = 0
    entries: int = 0


def not_found(call: SimpleNamespace, seen: Row) -> None:
    if seen.work is None:
        raise Refused("not-found", "there is no such work; it may have been compacted or erased")


def already_done(call: SimpleNamespace, seen: Row) -> None:
    if seen.state == "done":  # and the fence is the caller's, says the guard before this one
        raise Refused("already-done", "this very claim was completed before; look shows with what result")


def claim_lost_fence(call: SimpleNamespace, seen: Row) -> None:
    if seen.fence != call.fence:
        raise Refused("claim-lost", "the item was given to another worker", ("fence",))


def claim_lost_state(call: SimpleNamespace, seen: Row) -> None:
    if seen.state != "claimed":
        raise Refused("claim-lost", f"the item is {seen.state}; nobody has claimed it now", ("state",))


def claim_lost_expiry(call: SimpleNamespace, seen: Row) -> None:
    if seen.due is not None and seen.due <= call.now:
        raise Refused("claim-lost", "this claim has ended; the item goes to whoever asks next", ("expiry",))


def not_dead(call: SimpleNamespace, seen: Row) -> None:
    if seen.work is not None and seen.state != "dead":
        raise Refused("not-dead", f"only a dead row can be requeued or discarded, this one is {seen.state}")


CLAIM = (not_found, claim_lost_fence, claim_lost_state, claim_lost_expiry)
GUARDS = {
    "deliver": (),
    "acquire": (lease.busy,),
    "acquire_sweep": (lease.busy,),
    "reserve": (lease.lease_lost,),
    "next": (),
    "renew": CLAIM,
    "complete": (not_found, claim_lost_fence, already_done, claim_lost_state, claim_lost_expiry),
    "fail": CLAIM,
    "requeue": (not_found, not_dead),
    "discard": (not_found, not_dead),
    "discard_dead": (),
    "reset_ahead": (),
    "sweep": (lease.lease_lost,),
}


def spent(row: Row, max_attempts: int) -> bool:
    """Can it not be tried again? It was tried as often as it may be, or its fence cannot rise any more. One
    that was requeued is pending, and gets one more try."""
    return row.fence == MAX_INTEGER or (row.state != "pending" and row.attempts >= max_attempts)


def backoff(identity: str, attempt: int, base: int, cap: int) -> int:
    """Milliseconds until the next attempt: `base` doubled for each attempt made, at most `cap`, of which
    the upper half is jitter. The jitter hangs on the item and the attempt alone: the same every run."""
    wait = min(cap, base << min(attempt - 1, 62))
    drawn = int(hashlib.sha256(f"{identity} {attempt}".encode()).hexdigest()[:15], 16)
    return wait - wait // 2 + drawn % (wait // 2 + 1)


def own(claim: Claim, store: Store) -> None:
    """Raises WrongType for what is no claim, and Refused (other-store) for a claim on another file. The path
    guards against a mix-up; it cannot notice that a backup took the file's place."""
    if type(claim) is not Claim:
        raise WrongType("claim", f"must be a claim from reserve or next, not {type(claim).__name__}")
    if claim.file != store.path:
        raise Refused("other-store", f"this claim is on another file, {claim.file.name}; finish it there")


def unchanged(claim: Claim, seen: Row) -> None:
    """Raises WrongValue for a claim that was changed by hand: the caller's rows would be of another item."""
    if (claim.work, claim.identity, claim.revision, claim.processor, claim.processor_revision) != seen[:5]:
        raise WrongValue("claim", "must be as reserve or next gave it")
