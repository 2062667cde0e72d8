"""Work claims: each accepted revision is processed once, by workers that crash, hang and come back.

An item of work is one receipt revision for one processor revision. A worker reserves it: the item's fencing
token (`fence`) rises, and the claim hides the item for a visibility timeout (`hold_for`). Everything that is
written under a claim is written in a transaction that first checks the item's fence, state and expiry again.
An expired claim counts as an attempt, and the next worker that reserves gets the item. An item that has used
up its attempts becomes a dead letter: a message in the outbox announces it, and it is kept until an operator
requeues or discards it. All times are in milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from sqlite3 import Connection
from typing import Any, ClassVar, NamedTuple

from receiptlab.contracts import outbox
from receiptlab.contracts.base import Command, Contract, Guards
from receiptlab.contracts.intake import intake
from receiptlab.contracts.intake.intake import DeliverItem
from receiptlab.contracts.work import lease
from receiptlab.contracts.work.claims import (
    LATEST,
    LONGEST,
    Ahead,
    Attempt,
    Counts,
    DeadLetters,
    Discarded,
    History,
    Reserved,
    Reset,
    StagedWork,
    SweptChunk,
    WorkClaim,
    WorkState,
    WorkView,
    backoff,
)
from receiptlab.contracts.work.lease import LEASE_MS, SWEEP, LeaseRow, QueueLease
from receiptlab.errors import Refused, WrongType, WrongValue
from receiptlab.store import Store
from receiptlab.values import MAX_INTEGER, Rule, bounded, check, sized, text

# A row of `work` is an item: one receipt revision for one processor revision. `due` is the time from which it
# can be reserved: when a pending item was staged, when a failed one is to be tried again, when the claim on a
# claimed one expires. Finished items have none. `attempt` is the history; its last row is the open attempt.
# A dead letter keeps its receipt whole until an operator requeues or discards it.
# AUTOINCREMENT never uses an id again, so a stale claim cannot fit another item. The effects are not unique,
# so that a duplicated effect would show.
# When an item is erased or its tombstone is removed, the leases on its namespace are removed too, because no
# other row would still hold the raw namespace. Where the namespace is still in use, the next worker acquires
# a new lease. The highest token of the removed leases moves to a row without a namespace, so that tokens
# never start again.
SCHEMA = (
    *intake.SCHEMA,
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

ARGUMENTS: Mapping[str, Rule] = {
    **intake.ARGUMENTS,
    **dict.fromkeys(("processor", "processor_revision", "worker", "error"), text),
    **dict.fromkeys(("now", "after"), bounded(0, LATEST)),
    **dict.fromkeys(("revision", "token", "work"), bounded(1, LATEST)),
    **dict.fromkeys(("base", "cap", "keep_for", "horizon"), bounded(0, LONGEST)),
    "hold_for": bounded(1, LONGEST),
    "fence": bounded(1, MAX_INTEGER),
    "limit": bounded(1, 10_000),
    "max_attempts": bounded(1, 1_000_000),
    "detail": sized(0, 2_048),
}

# The commands: the arguments of each call that has guards.


@dataclass(frozen=True)
class AcquireLease(Command):
    namespace: str
    processor: str
    worker: str
    now: int


@dataclass(frozen=True)
class ReserveItems(Command):
    namespace: str
    processor: str
    worker: str
    token: int
    limit: int
    hold_for: int
    max_attempts: int
    now: int


@dataclass(frozen=True)
class SweepItems(Command):
    worker: str
    token: int
    limit: int
    max_attempts: int
    now: int


@dataclass(frozen=True)
class RenewClaim(Command):
    work: int
    fence: int
    hold_for: int
    now: int


@dataclass(frozen=True)
class CompleteItem(Command):
    work: int
    fence: int
    reference: str
    now: int


@dataclass(frozen=True)
class FailItem(Command):
    work: int
    fence: int
    error: str
    detail: str
    max_attempts: int
    base: int
    cap: int
    now: int


@dataclass(frozen=True)
class SettleDeadLetter(Command):
    """The arguments of `requeue` and `discard`."""

    work: int
    now: int


class ItemRow(NamedTuple):
    """The item's current row. Where there is no such item, `work` is 0 and `state` is empty."""

    work: int = 0
    identity: str = ""
    revision: int = 0
    processor: str = ""
    processor_revision: str = ""
    state: str = ""
    due: int | None = None
    fence: int = 0
    attempts: int = 0
    entries: int = 0


# The guards: first those of calls on a lease, then those of calls on an item.


def busy(command: AcquireLease, current: LeaseRow) -> None:
    # A lease that ends later than a lease lasts was acquired by a clock that ran ahead. It does not keep
    # others waiting, and its holder is fenced off by the token.
    if current.holder is not None and command.now < current.expires_at <= command.now + LEASE_MS:
        raise Refused("busy", "another worker holds this lease; try again once it is released or expired")


def lease_lost(command: ReserveItems | SweepItems, current: LeaseRow) -> None:
    if current.token != command.token or current.holder is None or current.expires_at <= command.now:
        raise Refused("lease-lost", "this lease has expired or was acquired by another; acquire it again")


def not_found(command: Command, current: ItemRow) -> None:
    if not current.work:
        raise Refused("not-found", "there is no such item; it may have been compacted or erased")


def already_done(command: Command, current: ItemRow) -> None:
    if current.state == "done":  # under this claim: the guard before this one has compared the fences
        raise Refused("already-done", "this claim has already completed the item; `get` shows the result")


def claim_lost_fence(command: RenewClaim | CompleteItem | FailItem, current: ItemRow) -> None:
    if current.fence != command.fence:
        raise Refused("claim-lost", "this is not the item's current fence; reserve again", ("fence",))


def claim_lost_state(command: Command, current: ItemRow) -> None:
    if current.state != "claimed":
        raise Refused("claim-lost", f"the item is {current.state}, not claimed; reserve again", ("state",))


def claim_lost_expiry(command: RenewClaim | CompleteItem | FailItem, current: ItemRow) -> None:
    if current.due is not None and current.due <= command.now:
        raise Refused("claim-lost", "this claim has expired; reserve again", ("expiry",))


def not_dead(command: Command, current: ItemRow) -> None:
    if current.work and current.state != "dead":
        what = f"the item is {current.state}; only a dead letter can be requeued or discarded"
        raise Refused("not-dead", what)


CLAIM = (not_found, claim_lost_fence, claim_lost_state, claim_lost_expiry)
GUARDS: Guards = {
    "deliver": (),
    "acquire": (busy,),
    "acquire_sweep": (busy,),
    "reserve": (lease_lost,),
    "next": (),
    "renew": CLAIM,
    "complete": (not_found, claim_lost_fence, already_done, claim_lost_state, claim_lost_expiry),
    "fail": CLAIM,
    "requeue": (not_found, not_dead),
    "discard": (not_found, not_dead),
    "discard_dead": (),
    "reset_ahead": (),
    "sweep": (lease_lost,),
}

DEAD_LETTER = "dead-letter"
"""The topic of the message that announces a dead letter."""

_COLUMNS = "id, identity, revision, processor, processor_revision, state, due, fence, attempts"
_ROW = f"SELECT {_COLUMNS}, entries FROM work WHERE "
_ONE = f"{_ROW}id = ?"
_DUE = f"""{_ROW}namespace = :namespace AND processor = :processor AND due <= :now
    ORDER BY due, id LIMIT :limit"""
_LONG_DEAD = f"""{_ROW}id IN (SELECT id FROM work INDEXED BY work_by_death
    WHERE state = 'dead' AND changed_at <= ? ORDER BY changed_at, id LIMIT ?) ORDER BY changed_at, id"""
_BEYOND = "state IN ('claimed', 'failed', 'pending') AND due > ?"
_AHEAD = f"""SELECT processor, state, count(*), max(due) FROM work WHERE {_BEYOND}
    GROUP BY processor, state ORDER BY processor, state"""
_RESET = f"{_ROW}{_BEYOND} ORDER BY state, due, id LIMIT ?"
# Each kind is read in the order of an index, so a chunk costs the same however many items there are. One
# index is named: without statistics SQLite would use the index on the state, and read every failed item.
_OVERDUE = """SELECT id, 'expired' FROM (SELECT id FROM work
        WHERE state = 'claimed' AND due <= :now ORDER BY due, id LIMIT :limit)
    UNION ALL SELECT id, 'spent' FROM (SELECT id FROM work INDEXED BY work_by_attempts
        WHERE state = 'failed' AND attempts >= :max_attempts ORDER BY attempts, id LIMIT :limit)"""
_VIEW = f"""SELECT {_COLUMNS}, holder, reference, (SELECT group_concat(result, ' ') FROM
        (SELECT result FROM attempt WHERE work = work.id ORDER BY number)) FROM work WHERE """
_HISTORY = """SELECT a.result, a.fence, a.worker, a.started_at, a.ended_at, a.error, a.detail
    FROM work w LEFT JOIN attempt a ON a.work = w.id WHERE w.id = ? ORDER BY a.number"""
_COUNTS = "SELECT processor, state, count(*) FROM work GROUP BY processor, state ORDER BY processor, state"
_LEASES = """SELECT 'work ' || id, holder, fence, due FROM work WHERE state = 'claimed' UNION ALL
    SELECT 'queue ' || CASE namespace WHEN '' THEN processor ELSE namespace || ', ' || processor END,
    holder, token, expires_at
    FROM lease WHERE holder IS NOT NULL ORDER BY 1, 3"""
# staged_at is NULL where the revision was compacted, together with its finished items.
_STAGE = """INSERT INTO work SELECT NULL, r.identity, v.number, r.namespace, :processor, :processor_revision,
    'pending', :now, 0, 0, 0, NULL, NULL, :now FROM receipt r JOIN revision v ON v.identity = r.identity
    WHERE r.identity = :identity AND r.state = 'live' AND v.number = :revision AND v.disposition = 'accepted'
    AND v.staged_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM work w WHERE w.identity = r.identity AND
    w.revision = v.number AND w.processor = :processor AND w.processor_revision = :processor_revision)"""
_CLAIM = """UPDATE work SET state = 'claimed', due = ?, fence = fence + 1, attempts = attempts + 1,
    entries = entries + 1, holder = ?, changed_at = ? WHERE id = ?"""
_MOVE = "UPDATE work SET state = ?, due = ?, holder = NULL, reference = ?, changed_at = ? WHERE id = ?"
_RENEW = "UPDATE work SET due = ?, changed_at = ? WHERE id = ?"
_REFENCE = "UPDATE work SET fence = ? WHERE id = ?"
_ENTRY = "UPDATE work SET entries = entries + 1 WHERE id = ?"
_OPEN = "INSERT INTO attempt VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL)"
_CLOSE = "UPDATE attempt SET result = ?, ended_at = ?, error = ?, detail = ? WHERE work = ? AND number = ?"
_EFFECT = """INSERT INTO effect (identity, revision, processor, processor_revision, reference, effected_at)
    VALUES (?, ?, ?, ?, ?, ?)"""
_UNSETTLED = "UPDATE receipt SET unsettled = unsettled + ? WHERE identity = ?"


def spent(item: ItemRow, max_attempts: int) -> bool:
    """Whether the item cannot be tried again: it has used up its attempts, or its fence cannot rise any more.
    A requeued item is pending and gets one more try."""
    return item.fence == MAX_INTEGER or (item.state != "pending" and item.attempts >= max_attempts)


def _read_lease(db: Connection, command: AcquireLease | ReserveItems) -> LeaseRow:
    return lease.read(db, (command.namespace, command.processor))


def _acquire(db: Connection, command: AcquireLease, current: LeaseRow) -> QueueLease:
    on = (command.namespace, command.processor)
    return lease.acquire(db, on, command.worker, current.token + 1, command.now)


def _item(db: Connection, work: int) -> ItemRow:
    return ItemRow(*(db.execute(_ONE, (work,)).fetchone() or ()))


def _read_item(db: Connection, command: RenewClaim | CompleteItem | FailItem | SettleDeadLetter) -> ItemRow:
    return _item(db, command.work)


def _read_items(db: Connection, sql: str, values: tuple[int, ...] | dict[str, Any]) -> list[ItemRow]:
    return [ItemRow(*row) for row in db.execute(sql, values).fetchall()]


def _expire(db: Connection, item: ItemRow, now: int) -> None:
    """End the open attempt as expired."""
    db.execute(_CLOSE, ("expired", now, None, None, item.work, item.entries))


def _to_dead_letters(db: Connection, item: ItemRow, now: int) -> None:
    """Make the item a dead letter, and announce it."""
    db.execute(_MOVE, ("dead", None, None, now, item.work))
    outbox.stage(db, DEAD_LETTER, item.identity, now)


class Work(Contract):
    """Work on the receipts of an open store. It builds on the intake contract, in the same file.

    Conditions that were read before a transaction are checked again inside it. A worker that was
    superseded in between commits nothing.
    """

    NAME = "work"
    SCHEMA = SCHEMA
    TABLES = ("receipt", "revision", "work", "attempt", "effect", "lease", "outbox")
    ARGUMENTS = ARGUMENTS
    GUARDS = GUARDS
    READS = ("get", "history", "dead", "counts", "ahead")
    FAILPOINTS: ClassVar = {
        "deliver": ("after_guards", "after_receipt", "after_revision", "after_outbox", "after_work"),
        "reserve": ("after_guards", "after_claim", "after_attempt", "after_lease"),
        "next": ("after_acquire",),
        "complete": ("after_guards", "after_work", "after_attempt", "after_effect", "after_outbox"),
        "fail": ("after_guards", "after_work", "after_attempt"),
        "sweep": ("after_look", "after_guards", "after_work", "after_attempt", "after_receipts"),
    }
    COUNTS: ClassVar = {
        "open": "SELECT count(*) FROM work WHERE state IN ('pending', 'claimed', 'failed')",
        "done": "SELECT count(*) FROM work WHERE state = 'done'",
        "dead": "SELECT count(*) FROM work WHERE state = 'dead'",
        "attempts": "SELECT count(*) FROM attempt",
        "effects": "SELECT count(*) FROM effect",
        "outbox": outbox.COUNT,
    }

    def __init__(self, store: Store, guards: Guards | None = None) -> None:
        super().__init__(store, guards)
        self.intake = intake.Intake(store)

    def leases(self) -> list[tuple[str, str, int, int]]:
        """(what is leased, holder, fencing token, end) of each claim and lease, expired ones included."""
        return self.store.read(_LEASES)

    def deliver(
        self,
        tenant: str,
        namespace: str,
        key: str,
        digest: str,
        processor: str,
        processor_revision: str,
        retain_until: int,
        tombstone_until: int,
        now: int,
    ) -> StagedWork:
        """Take in an item, its work, and one outbox row if it is new or changed, in one transaction.

        A redelivery changes nothing, except that a new processor revision gets its work. Refused: erased.
        """
        named = ("explicit", tenant, namespace, key, digest)
        delivery = DeliverItem(*named, "revision", "", retain_until, tombstone_until, now)
        by = {"processor": processor, "processor_revision": processor_revision}
        # in the order of the signature, so that the first wrong argument is the one that is named
        item = {"tenant": tenant, "namespace": namespace, "key": key, "digest": digest}
        until = {"retain_until": retain_until, "tombstone_until": tombstone_until, "now": now}
        check(ARGUMENTS, {**item, **by, **until})
        with self.store.write() as db:
            found, revision = self.intake.stage_delivery(db, delivery)
            new = self.stage_work(db, found.item.identity, revision, processor, processor_revision, now)
        return StagedWork(found.found, revision, new)

    def stage_work(
        self, db: Connection, identity: str, revision: int, processor: str, processor_revision: str, now: int
    ) -> int:
        """Stage a processor's work on an accepted revision, in the caller's transaction.

        Returns the number of new items: 1, or 0 if it was staged before, or if the revision is compacted,
        erased or unknown. Refused: no-transaction.
        """
        self._inside(db)
        by = {"processor": processor, "processor_revision": processor_revision}
        values = {"identity": identity, "revision": revision, **by, "now": now}
        check(ARGUMENTS, values)
        new = db.execute(_STAGE, values).rowcount
        if new:
            db.execute(_UNSETTLED, (1, identity))
        self.store.failpoint("after_work")
        return new

    def acquire(self, namespace: str, processor: str, worker: str, now: int) -> QueueLease:
        """Acquire the lease under which items of this namespace are reserved for this processor.

        It lasts ten seconds and cannot be renewed. Refused: busy.
        """
        command = AcquireLease(namespace, processor, worker, now)
        return self._transact("acquire", command, _read_lease, _acquire)

    def acquire_sweep(self, worker: str, now: int) -> QueueLease:
        """Acquire the lease under which one worker sweeps. Refused: busy."""
        check(ARGUMENTS, {"worker": worker, "now": now})
        return self._run("acquire_sweep", AcquireLease(*SWEEP, worker, now), _read_lease, _acquire)

    def reserve(
        self,
        namespace: str,
        processor: str,
        worker: str,
        token: int,
        limit: int,
        hold_for: int,
        max_attempts: int,
        now: int,
    ) -> Reserved:
        """Claim up to `limit` due items, oldest first, under the lease with this token. Releases the lease.

        Each claim has the visibility timeout `hold_for`. The expired claim of another worker is closed. An
        item that has been tried `max_attempts` times becomes a dead letter and is not claimed, so there may
        be fewer claims than due items. Refused: lease-lost.
        """
        command = ReserveItems(namespace, processor, worker, token, limit, hold_for, max_attempts, now)
        return self._transact("reserve", command, _read_lease, self._reserve)

    def next(
        self,
        namespace: str,
        processor: str,
        worker: str,
        limit: int,
        hold_for: int,
        max_attempts: int,
        now: int,
    ) -> Reserved:
        """`acquire` and `reserve`, in two transactions. Refused: busy, lease-lost."""
        queue = {"namespace": namespace, "processor": processor, "worker": worker}
        policy = {"limit": limit, "hold_for": hold_for, "max_attempts": max_attempts}
        check(ARGUMENTS, {**queue, **policy})
        token = self.acquire(namespace, processor, worker, now).token
        self.store.failpoint("after_acquire")
        return self.reserve(namespace, processor, worker, token, **policy, now=now)

    def _reserve(self, db: Connection, command: ReserveItems, current: LeaseRow) -> Reserved:
        self.store.failpoint("after_guards")
        claims, dead_letters = [], []
        for item in _read_items(db, _DUE, vars(command)):
            if item.state == "claimed":
                _expire(db, item, command.now)
            if spent(item, command.max_attempts):
                _to_dead_letters(db, item, command.now)
                dead_letters.append(item.work)
            else:
                claims.append(self._claim(db, command, item))
        lease.release(db, (command.namespace, command.processor))
        self.store.failpoint("after_lease")
        return Reserved(tuple(claims), tuple(dead_letters))

    def _claim(self, db: Connection, command: ReserveItems, item: ItemRow) -> WorkClaim:
        until, fence = command.now + command.hold_for, item.fence + 1
        db.execute(_CLAIM, (until, command.worker, command.now, item.work))
        self.store.failpoint("after_claim")
        db.execute(_OPEN, (item.work, item.entries + 1, fence, command.worker, command.now, None, "open"))
        self.store.failpoint("after_attempt")
        return WorkClaim(*item[:5], item.attempts + 1, fence, until, self.store.path)

    def sweep(self, worker: str, token: int, limit: int, max_attempts: int, now: int) -> SweptChunk:
        """Sweep one chunk, at most `limit` of each kind, under the sweeper's lease.

        Expired claims end and their items are due again, items that have used up their attempts become
        dead letters, receipts are compacted, tombstones removed. The items are found before the write lock
        is taken, and each is checked again inside. The last chunk releases the lease. A receipt with a dead
        letter is not compacted; see `discard`. Refused: lease-lost.
        """
        command = SweepItems(worker, token, limit, max_attempts, now)
        check(ARGUMENTS, vars(command))
        overdue = self.store.read(_OVERDUE, vars(command))
        self.store.failpoint("after_look")
        return self._run("sweep", command, lambda db, _: lease.read(db, SWEEP), partial(self._sweep, overdue))

    def _sweep(
        self, overdue: list[tuple[int, str]], db: Connection, command: SweepItems, current: LeaseRow
    ) -> SweptChunk:
        self.store.failpoint("after_guards")
        expired, dead_letters = 0, 0
        for work, _ in overdue:
            item = _item(db, work)
            ended = item.state == "claimed" and item.due is not None and item.due <= command.now
            if ended:
                _expire(db, item, command.now)
                self.store.failpoint("after_attempt")
            if spent(item, command.max_attempts) and (ended or item.state == "failed"):
                _to_dead_letters(db, item, command.now)
                dead_letters += 1
            elif ended:
                db.execute(_MOVE, ("failed", item.due, None, command.now, item.work))
            expired += ended
            self.store.failpoint("after_work")
        receipts = self.intake.stage_sweep(db, command.limit, command.now)
        self.store.failpoint("after_receipts")
        found = (*Counter(kind for _, kind in overdue).values(), receipts.compacted, receipts.removed)
        if command.limit not in found:
            lease.release(db, SWEEP)
        counts = (expired, dead_letters, receipts.compacted, receipts.removed)
        return SweptChunk(*counts, more=command.limit in found)

    def renew(self, work: int, fence: int, hold_for: int, now: int) -> WorkState:
        """Extend one's own live claim to `hold_for` from now; it never gets shorter. Refused: not-found,
        claim-lost.

        The lease on the queue does not matter here: a claim outlives the lease under which it was taken, so
        a worker can renew while another worker holds the lease.
        """
        return self._transact("renew", RenewClaim(work, fence, hold_for, now), _read_item, self._renew)

    def _renew(self, db: Connection, command: RenewClaim, item: ItemRow) -> WorkState:
        until = max(item.due or 0, command.now + command.hold_for)
        db.execute(_RENEW, (until, command.now, command.work))
        return WorkState(command.work, "claimed", until)

    def guard(self, db: Connection, claim: WorkClaim, now: int) -> None:
        """Check inside the caller's transaction that the claim is live.

        Refused: no-transaction, other-store, not-found, already-done, claim-lost.
        """
        self._under(db, claim, "", now)

    def complete(self, work: int, fence: int, reference: str, now: int) -> WorkState:
        """Complete the item, with one effect row and one outbox row.

        Completed twice under one claim it is refused, so that nothing else in the transaction is duplicated.
        Refused: already-done (by this claim: fence and state are what this call would leave behind),
        not-found (compacted or erased), claim-lost.
        """
        return self._transact(
            "complete", CompleteItem(work, fence, reference, now), _read_item, self._complete
        )

    def _complete(self, db: Connection, command: CompleteItem, item: ItemRow) -> WorkState:
        self.store.failpoint("after_guards")
        state = self._finish(db, item, command.now, "done", reference=command.reference)
        db.execute(_EFFECT, (*item[1:5], command.reference, command.now))
        self.store.failpoint("after_effect")
        outbox.stage(db, "done", item.identity, command.now)
        self.store.failpoint("after_outbox")
        return state

    def stage_complete(self, db: Connection, claim: WorkClaim, reference: str, now: int) -> WorkState:
        """Complete the item inside the caller's transaction, beside the caller's own rows and outbox row.

        A refusal that leaves the `with` rolls all of it back.
        Refused: no-transaction, other-store, not-found, already-done, claim-lost.
        """
        item = self._under(db, claim, reference, now)
        return self._finish(db, item, now, "done", reference=reference)

    def fail(
        self, work: int, fence: int, error: str, detail: str, max_attempts: int, base: int, cap: int, now: int
    ) -> WorkState:
        """Record that an attempt failed: `error` is its class, `detail` at most 2048 bytes.

        The item is due again after `backoff`, or a dead letter once it has been tried `max_attempts` times.
        Refused: not-found, claim-lost.
        """
        command = FailItem(work, fence, error, detail, max_attempts, base, cap, now)
        return self._transact("fail", command, _read_item, self._fail)

    def _fail(self, db: Connection, command: FailItem, item: ItemRow) -> WorkState:
        self.store.failpoint("after_guards")
        failure = (command.error, command.detail)
        if spent(item, command.max_attempts):
            return self._finish(db, item, command.now, "dead", failure=failure)
        due = command.now + backoff(item.identity, item.attempts, command.base, command.cap)
        return self._finish(db, item, command.now, "failed", due, failure=failure)

    def requeue(self, work: int, now: int) -> WorkState:
        """Give a dead letter one more try; its number of attempts is kept.

        Refused: not-found, not-dead, fence-at-end.
        """
        return self._transact("requeue", SettleDeadLetter(work, now), _read_item, self._requeue)

    def _requeue(self, db: Connection, command: SettleDeadLetter, item: ItemRow) -> WorkState:
        if item.fence == MAX_INTEGER:
            what = "its fence cannot rise any more; discard it, and stage a new processor revision"
            raise Refused("fence-at-end", what)
        db.execute(_MOVE, ("pending", command.now, None, command.now, item.work))
        db.execute(_ENTRY, (item.work,))
        times = (command.now, command.now)
        db.execute(_OPEN, (item.work, item.entries + 1, item.fence, None, *times, "requeued"))
        return WorkState(item.work, "pending", command.now)

    def discard(self, work: int, now: int) -> WorkState:
        """Give a dead letter up: its receipt can be compacted, and the item with it.

        Refused: not-found, not-dead.
        """
        return self._transact("discard", SettleDeadLetter(work, now), _read_item, self._discard)

    def _discard(self, db: Connection, command: SettleDeadLetter, item: ItemRow) -> WorkState:
        db.execute(_MOVE, ("discarded", None, None, command.now, item.work))
        db.execute(_UNSETTLED, (-1, item.identity))
        return WorkState(item.work, "discarded")

    def discard_dead(self, keep_for: int, limit: int, now: int) -> Discarded:
        """Discard up to `limit` items that have been dead letters for at least `keep_for`, oldest first."""
        check(ARGUMENTS, {"keep_for": keep_for, "limit": limit, "now": now})
        with self.store.write() as db:
            items = _read_items(db, _LONG_DEAD, (now - keep_for, limit))
            for item in items:
                self._discard(db, SettleDeadLetter(item.work, now), item)
        return Discarded(len(items), len(items) == limit)

    def reset_ahead(self, horizon: int, limit: int, now: int) -> Reset:
        """Make up to `limit` items due now that are due, or claimed until, a time beyond `now` + `horizon`.

        Use it after a clock ran ahead. A claim among them ends as expired and its fence rises, so that a
        holder that comes back is fenced off, even one that really claimed for that long.
        """
        check(ARGUMENTS, {"horizon": horizon, "limit": limit, "now": now})
        with self.store.write() as db:
            items = _read_items(db, _RESET, (now + horizon, limit))
            for item in items:
                claimed = item.state == "claimed"
                if claimed:
                    _expire(db, item, now)
                    db.execute(_REFENCE, (min(item.fence + 1, MAX_INTEGER), item.work))
                db.execute(_MOVE, ("failed" if claimed else item.state, now, None, now, item.work))
        return Reset(tuple(item.work for item in items), len(items) == limit)

    def ahead(self, horizon: int, now: int) -> Ahead:
        """Count the items that are due, or claimed until, a time beyond `now` + `horizon`.

        No call reserves these before then; `reset_ahead` makes them due now.
        """
        check(ARGUMENTS, {"horizon": horizon, "now": now})
        return Ahead(tuple(self.store.read(_AHEAD, (now + horizon,))))

    def get(self, work: int) -> WorkView:
        """The item as it is now. Refused: not-found."""
        check(ARGUMENTS, {"work": work})
        views = self._views("id = ?", (work,))
        if not views:
            not_found(Command(), ItemRow())
        return views[0]

    def history(self, work: int) -> History:
        """Every attempt at an item, with its error and detail. Refused: not-found."""
        check(ARGUMENTS, {"work": work})
        rows = self.store.read(_HISTORY, (work,))  # one row of NULLs if there was no attempt yet
        if not rows:
            not_found(Command(), ItemRow())
        return History(work, tuple(Attempt(*row) for row in rows if row[0] is not None))

    def dead(self, after: int, limit: int) -> DeadLetters:
        """At most `limit` dead letters with an id greater than `after`, with how their attempts ended."""
        check(ARGUMENTS, {"after": after, "limit": limit})
        where = "state = 'dead' AND due IS NULL AND id > ? ORDER BY id LIMIT ?"
        views = self._views(where, (after, limit + 1))
        return DeadLetters(tuple(views[:limit]), len(views) > limit)

    def counts(self) -> Counts:
        """The number of items by processor and state. It reads every item, so it takes longer the more there
        are."""
        return Counts(tuple(self.store.read(_COUNTS)))

    def _views(self, where: str, values: tuple[int, ...]) -> list[WorkView]:
        rows = self.store.read(_VIEW + where, values)  # items and attempts, all read at the same moment
        return [WorkView(*(*row[:-1], tuple((row[-1] or "").split()))) for row in rows]

    def _under(self, db: Connection, claim: WorkClaim, reference: str, now: int) -> ItemRow:
        """Check a claim inside the caller's transaction, and return the current row of its item.

        The file's path guards against a mix-up. It cannot show that a backup took the file's place.
        """
        self._inside(db)
        if type(claim) is not WorkClaim:
            raise WrongType("claim", f"must be a claim from reserve or next, not {type(claim).__name__}")
        if claim.file != self.store.path:
            what = f"this claim belongs to another file, {claim.file.name}; finish it there"
            raise Refused("other-store", what)
        command = CompleteItem(claim.work, claim.fence, reference, now)
        check(ARGUMENTS, vars(command))
        item = self._decide("complete", db, command, _read_item, lambda db, command, item: item)
        of = (claim.work, claim.identity, claim.revision, claim.processor, claim.processor_revision)
        if item[:5] != of:  # changed by hand: the caller's own rows would be about another item
            raise WrongValue("claim", "must be as reserve or next returned it")
        return item

    def _finish(
        self,
        db: Connection,
        item: ItemRow,
        now: int,
        state: str,
        due: int | None = None,
        reference: str | None = None,
        failure: tuple[str | None, str | None] = (None, None),
    ) -> WorkState:
        """End the item's open attempt and move the item to its next state."""
        db.execute(_MOVE, (state, due, reference, now, item.work))
        self.store.failpoint("after_work")
        ended = "done" if state == "done" else "failed"
        db.execute(_CLOSE, (ended, now, *failure, item.work, item.entries))
        if state == "done":
            db.execute(_UNSETTLED, (-1, item.identity))
        elif state == "dead":
            outbox.stage(db, DEAD_LETTER, item.identity, now)
        self.store.failpoint("after_attempt")
        return WorkState(item.work, state, due)
