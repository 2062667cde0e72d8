"""Work claims: each accepted revision is processed once, by workers that die, hang and come back.

A row of work stands for one receipt revision and one processor revision. A worker reserves it: the row's
fence rises, and the claim lasts until a time that the worker said. Whatever is written under a claim is
written in a transaction that looks at fence, state and end of the claim again. A claim that has ended
goes to whoever asks next, and counts as an attempt. After too many attempts the row is dead: a message in
the outbox announces it, and it is kept until an operator requeues or discards it.
All times are in milliseconds.
"""

from __future__ import annotations

from collections import Counter
from sqlite3 import Connection
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

from receiptlab.contracts import outbox
from receiptlab.contracts.base import Contract, arguments
from receiptlab.contracts.intake import intake
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
from receiptlab.errors import Refused, WrongType, WrongValue
from receiptlab.store import Store
from receiptlab.values import MAX_INTEGER, bounded, checked, sized, text

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

ARGUMENTS = intake.ARGUMENTS | {
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


class WorkRow(NamedTuple):
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


def not_found(call: SimpleNamespace, seen: WorkRow) -> None:
    if seen.work is None:
        raise Refused("not-found", "there is no such work; it may have been compacted or erased")


def already_done(call: SimpleNamespace, seen: WorkRow) -> None:
    if seen.state == "done":  # and the fence is the caller's, says the guard before this one
        raise Refused("already-done", "this very claim was completed before; look shows with what result")


def claim_lost_fence(call: SimpleNamespace, seen: WorkRow) -> None:
    if seen.fence != call.fence:
        raise Refused("claim-lost", "the item was given to another worker", ("fence",))


def claim_lost_state(call: SimpleNamespace, seen: WorkRow) -> None:
    if seen.state != "claimed":
        raise Refused("claim-lost", f"the item is {seen.state}; nobody has claimed it now", ("state",))


def claim_lost_expiry(call: SimpleNamespace, seen: WorkRow) -> None:
    if seen.due is not None and seen.due <= call.now:
        raise Refused("claim-lost", "this claim has ended; the item goes to whoever asks next", ("expiry",))


def not_dead(call: SimpleNamespace, seen: WorkRow) -> None:
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


_ROW = """SELECT id, identity, revision, processor, processor_revision, state, due, fence, attempts, entries
    FROM work WHERE """
_ONE = _ROW + "id = :work"
_DUE = (
    _ROW + "namespace = :namespace AND processor = :processor AND due <= :now ORDER BY due, id LIMIT :limit"
)
# Each kind in the order of an index, so that a chunk costs the same however many rows there are. One index is
# named: without statistics SQLite would take the one by state, and read every failed row.
_OVERDUE = """SELECT id, 'ended' FROM (SELECT id FROM work
        WHERE state = 'claimed' AND due <= :now ORDER BY due, id LIMIT :limit)
    UNION ALL SELECT id, 'spent' FROM (SELECT id FROM work INDEXED BY work_by_attempts
        WHERE state = 'failed' AND attempts >= :max_attempts ORDER BY attempts, id LIMIT :limit)"""
_CLAIM = """UPDATE work SET state = 'claimed', due = ?, fence = fence + 1, attempts = attempts + 1,
    entries = entries + 1, holder = ?, changed_at = ? WHERE id = ?"""
DEAD_LETTER = "dead-letter"
"""The topic of the message that announces a dead letter."""

_OPEN = "INSERT INTO attempt VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL)"
_MOVE = "UPDATE work SET state = ?, due = ?, holder = NULL, reference = ?, changed_at = ? WHERE id = ?"
_CLOSE = "UPDATE attempt SET result = ?, ended_at = ?, error = ?, detail = ? WHERE work = ? AND number = ?"
_UNSETTLED = "UPDATE receipt SET unsettled = unsettled + ? WHERE identity = ?"


_STAGE = """INSERT INTO work SELECT NULL, r.identity, v.number, r.namespace, :processor, :processor_revision,
    'pending', :now, 0, 0, 0, NULL, NULL, :now FROM receipt r JOIN revision v ON v.identity = r.identity
    WHERE r.identity = :identity AND r.state = 'live' AND v.number = :revision AND v.disposition = 'accepted'
    AND v.staged_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM work w WHERE w.identity = r.identity AND
    w.revision = v.number AND w.processor = :processor AND w.processor_revision = :processor_revision)"""
# staged_at is NULL where the revision was compacted, with its finished work.
_RENEW = "UPDATE work SET due = ?, changed_at = ? WHERE id = ?"
_ENTRY = "UPDATE work SET entries = entries + 1 WHERE id = ?"
_EFFECT = """INSERT INTO effect (identity, revision, processor, processor_revision, reference, effected_at)
    VALUES (?, ?, ?, ?, ?, ?)"""
_LOOK = """SELECT id, identity, revision, processor, processor_revision, state, due, fence, attempts, holder,
    reference, (SELECT group_concat(result, ' ') FROM
        (SELECT result FROM attempt WHERE work = work.id ORDER BY number)) FROM work WHERE """
_HISTORY = """SELECT a.result, a.fence, a.worker, a.started_at, a.ended_at, a.error, a.detail
    FROM work w LEFT JOIN attempt a ON a.work = w.id WHERE w.id = ? ORDER BY a.number"""
_LONG_DEAD = f"""{_ROW} id IN (SELECT id FROM work INDEXED BY work_by_death
    WHERE state = 'dead' AND changed_at <= ? ORDER BY changed_at, id LIMIT ?) ORDER BY changed_at, id"""
_BEYOND = "state IN ('claimed', 'failed', 'pending') AND due > ?"
_AHEAD = f"""SELECT processor, state, count(*), max(due) FROM work WHERE {_BEYOND}
    GROUP BY processor, state ORDER BY processor, state"""
_RESET = f"{_ROW} {_BEYOND} ORDER BY state, due, id LIMIT ?"
_REFENCE = "UPDATE work SET fence = ? WHERE id = ?"
_COUNTS = "SELECT processor, state, count(*) FROM work GROUP BY processor, state ORDER BY processor, state"
_LEASES = """SELECT 'work ' || id, holder, fence, due FROM work WHERE state = 'claimed' UNION ALL
    SELECT 'queue ' || CASE namespace WHEN '' THEN processor ELSE namespace || ', ' || processor END,
    holder, token, expires_at
    FROM lease WHERE holder IS NOT NULL ORDER BY 1, 3"""


def spent(row: WorkRow, max_attempts: int) -> bool:
    """Can it not be tried again? It was tried as often as it may be, or its fence cannot rise any more. One
    that was requeued is pending, and gets one more try."""
    return row.fence == MAX_INTEGER or (row.state != "pending" and row.attempts >= max_attempts)


def _see_row(db: Connection, call: SimpleNamespace) -> WorkRow:
    return WorkRow(*(db.execute(_ONE, vars(call)).fetchone() or ()))


def _see_lease(db: Connection, call: SimpleNamespace) -> lease.Held:
    return lease.see(db, (call.namespace, call.processor))


def _long_dead(db: Connection, call: SimpleNamespace) -> list[WorkRow]:
    rows = db.execute(_LONG_DEAD, (call.now - call.keep_for, call.limit)).fetchall()
    return [WorkRow(*row) for row in rows]


def _far_ahead(db: Connection, call: SimpleNamespace) -> list[WorkRow]:
    rows = db.execute(_RESET, (call.now + call.horizon, call.limit)).fetchall()
    return [WorkRow(*row) for row in rows]


def own(claim: WorkClaim, store: Store) -> None:
    """Raises WrongType for what is no claim, and Refused (other-store) for a claim on another file. The path
    guards against a mix-up; it cannot notice that a backup took the file's place."""
    if type(claim) is not WorkClaim:
        raise WrongType("claim", f"must be a claim from reserve or next, not {type(claim).__name__}")
    if claim.file != store.path:
        raise Refused("other-store", f"this claim is on another file, {claim.file.name}; finish it there")


def unchanged(claim: WorkClaim, seen: WorkRow) -> None:
    """Raises WrongValue for a claim that was changed by hand: the caller's rows would be of another item."""
    if (claim.work, claim.identity, claim.revision, claim.processor, claim.processor_revision) != seen[:5]:
        raise WrongValue("claim", "must be as reserve or next gave it")


class Work(Contract):
    """Work on the receipts of an open store. It stands on the intake contract, in the same file."""

    NAME = "work"
    SCHEMA = SCHEMA
    TABLES = ("receipt", "revision", "work", "attempt", "effect", "lease", "outbox")
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

    ARGUMENTS = ARGUMENTS
    GUARDS = GUARDS

    def __init__(self, store: Store, guards: dict | None = None) -> None:
        super().__init__(store, guards)
        self.intake = intake.Intake(store)

    def leases(self) -> list[tuple[str, str, int, int]]:
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
        """The shortest batch: an item, its work, and one outbox row where it is new or changed, in one
        transaction. Delivered again it changes nothing, but for a processor revision not seen before.
        Refused: erased."""
        call = checked(ARGUMENTS, arguments(locals()))
        named = vars(call) | {"key_kind": "explicit", "changed_as": "revision", "reference": ""}
        by = {name: named.pop(name) for name in ("processor", "processor_revision")}
        with self.store.write() as db:
            found, staged = self.intake.stage_delivery(db, **named)
            revision = staged.revision if staged else found.revision
            new = self.stage_work(db, found.item.identity, revision, **by, now=now)
        return StagedWork(found.found, revision, new)

    def stage_work(
        self, db: Connection, identity: str, revision: int, processor: str, processor_revision: str, now: int
    ) -> int:
        """Stage the work of a processor on an accepted revision, in the caller's transaction. Returns how
        many rows are new: 1, or 0 where it was staged before, or where the revision is compacted, erased or
        unknown. Refused: no-transaction."""
        self._inside(db)
        named = arguments(locals())
        del named["db"]
        call = checked(ARGUMENTS, named)
        new = db.execute(_STAGE, vars(call)).rowcount
        if new:
            db.execute(_UNSETTLED, (1, identity))
        self.store.failpoint("after_work")
        return new

    def acquire(self, namespace: str, processor: str, worker: str, now: int) -> lease.QueueLease:
        """The lease under which items of this namespace are reserved for this processor. It lasts ten
        seconds and cannot be renewed. Refused: busy."""
        return self._acquire("acquire", (namespace, processor), arguments(locals()))

    def acquire_sweep(self, worker: str, now: int) -> lease.QueueLease:
        """The lease under which one sweeper works. Refused: busy."""
        return self._acquire("acquire_sweep", lease.SWEEP, arguments(locals()))

    def _acquire(self, name: str, on: tuple[str, str], named: dict) -> lease.QueueLease:
        return self._transact(
            name,
            named,
            lambda db, call: lease.see(db, on),
            lambda db, call, seen: lease.give(db, on, call, seen),
        )

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
        """Take up to `limit` items that are due, oldest first, under the lease with this token, and give
        the lease back. Each claim lasts `hold_for`. A claim of another that has ended is closed as expired;
        an item that was tried `max_attempts` times becomes a dead letter and is not taken, so that there may
        be fewer claims than items. Refused: lease-lost."""
        return self._transact("reserve", arguments(locals()), _see_lease, self._reserve)

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
        """`acquire` and `reserve`, two transactions. Refused: busy, lease-lost."""
        call = checked(ARGUMENTS, arguments(locals()))
        token = self.acquire(namespace, processor, worker, now).token
        self.store.failpoint("after_acquire")
        return self.reserve(token=token, **vars(call))

    def _reserve(self, db: Connection, call: SimpleNamespace, seen: lease.Held) -> Reserved:
        self.store.failpoint("after_guards")
        claims, dead_letters = [], []
        for row in map(WorkRow._make, db.execute(_DUE, vars(call)).fetchall()):
            if row.state == "claimed":
                db.execute(_CLOSE, ("expired", call.now, None, None, row.work, row.entries))
            if spent(row, call.max_attempts):
                self._to_dead_letters(db, row, call.now)
                dead_letters.append(row.work)
            else:
                claims.append(self._claim(db, call, row))
        lease.give_back(db, (call.namespace, call.processor))
        self.store.failpoint("after_lease")
        return Reserved(tuple(claims), tuple(dead_letters))

    def _claim(self, db: Connection, call: SimpleNamespace, row: WorkRow) -> WorkClaim:
        until, fence = call.now + call.hold_for, row.fence + 1
        db.execute(_CLAIM, (until, call.worker, call.now, row.work))
        self.store.failpoint("after_claim")
        db.execute(_OPEN, (row.work, row.entries + 1, fence, call.worker, call.now, None, "open"))
        self.store.failpoint("after_attempt")
        return WorkClaim(*row[:5], row.attempts + 1, fence, until, self.store.path)

    def sweep(self, worker: str, token: int, limit: int, max_attempts: int, now: int) -> SweptChunk:
        """One chunk of a sweep, at most `limit` of each kind, under the sweeper's lease: claims that have
        ended are failed and due, what is spent is dead, receipts are compacted, tombstones removed. It looks
        for them before it takes the lock, and at each again inside. With the last chunk the lease goes
        back. A receipt with a dead letter is not compacted; see `discard`. Refused: lease-lost."""
        call = checked(ARGUMENTS, arguments(locals()))
        found = self.store.read(_OVERDUE, vars(call))
        call.found = [work for work, _ in found]
        call.full = call.limit in Counter(kind for _, kind in found).values()
        self.store.failpoint("after_look")
        return self._run("sweep", call, lambda db, call: lease.see(db, lease.SWEEP), self._sweep)

    def _sweep(self, db: Connection, call: SimpleNamespace, seen: lease.Held) -> SweptChunk:
        self.store.failpoint("after_guards")
        expired, dead_letters = 0, 0
        for work in call.found:
            call.work = work
            row = _see_row(db, call)
            ended = row.state == "claimed" and row.due <= call.now
            if ended:
                db.execute(_CLOSE, ("expired", call.now, None, None, row.work, row.entries))
                self.store.failpoint("after_attempt")
            if spent(row, call.max_attempts) and (ended or row.state == "failed"):
                self._to_dead_letters(db, row, call.now)
                dead_letters += 1
            elif ended:
                db.execute(_MOVE, ("failed", row.due, None, call.now, row.work))
            expired += ended
            self.store.failpoint("after_work")
        receipts = self.intake.stage_sweep(db, call.limit, call.now)
        self.store.failpoint("after_receipts")
        more = call.full or call.limit in (receipts.compacted, receipts.removed)
        if not more:
            lease.give_back(db, lease.SWEEP)
        return SweptChunk(expired, dead_letters, receipts.compacted, receipts.removed, more)

    def _to_dead_letters(self, db: Connection, row: WorkRow, now: int) -> None:
        db.execute(_MOVE, ("dead", None, None, now, row.work))
        outbox.stage(db, DEAD_LETTER, row.identity, now)

    def renew(self, work: int, fence: int, hold_for: int, now: int) -> WorkState:
        """Let an own live claim last `hold_for` from now; never less than before. The queue's lease plays no
        part: a claim outlives the lease under which it was taken, so a worker renews while another one holds
        the lease. Refused: not-found, claim-lost."""
        return self._transact("renew", arguments(locals()), _see_row, self._renew)

    def _renew(self, db: Connection, call: SimpleNamespace, seen: WorkRow) -> WorkState:
        until = max(seen.due or 0, call.now + call.hold_for)
        db.execute(_RENEW, (until, call.now, call.work))
        return WorkState(call.work, "claimed", until)

    def guard(self, db: Connection, claim: WorkClaim, now: int) -> None:
        """Inside the caller's transaction: go on only under a live claim.
        Refused: no-transaction, other-store, not-found, already-done, claim-lost."""
        self._under(db, claim, now)

    def complete(self, work: int, fence: int, reference: str, now: int) -> WorkState:
        """The shortest completing batch: the item is done, with one effect row and one outbox row.
        Done is done: completed twice it is refused, so that nothing else in the batch is written twice.
        Refused: already-done (by this very claim: fence and state are as this call would leave them),
        not-found (compacted or erased), claim-lost."""
        return self._transact("complete", arguments(locals()), _see_row, self._complete)

    def _complete(self, db: Connection, call: SimpleNamespace, seen: WorkRow) -> WorkState:
        self.store.failpoint("after_guards")
        self._finish(db, call, seen, "done", None)
        db.execute(_EFFECT, (*seen[1:5], call.reference, call.now))
        self.store.failpoint("after_effect")
        outbox.stage(db, "done", seen.identity, call.now)
        self.store.failpoint("after_outbox")
        return WorkState(call.work, "done")

    def stage_complete(self, db: Connection, claim: WorkClaim, reference: str, now: int) -> WorkState:
        """Complete inside the caller's transaction, beside the caller's own domain rows and outbox row. A
        refusal that leaves the `with` rolls all of it back.
        Refused: no-transaction, other-store, not-found, already-done, claim-lost."""
        checked(ARGUMENTS, {"reference": reference})
        call, seen = self._under(db, claim, now)
        call.reference = reference
        self._finish(db, call, seen, "done", None)
        return WorkState(call.work, "done")

    def fail(
        self,
        work: int,
        fence: int,
        error: str,
        detail: str,
        max_attempts: int,
        base: int,
        cap: int,
        now: int,
    ) -> WorkState:
        """Say that an attempt failed: `error` is its class, `detail` at most 2048 bytes. The item is tried
        again after `backoff`, or dead once it was tried `max_attempts` times.
        Refused: not-found, claim-lost."""
        return self._transact("fail", arguments(locals()), _see_row, self._fail)

    def _fail(self, db: Connection, call: SimpleNamespace, seen: WorkRow) -> WorkState:
        self.store.failpoint("after_guards")
        dead = spent(seen, call.max_attempts)
        due = None if dead else call.now + backoff(seen.identity, seen.attempts, call.base, call.cap)
        self._finish(db, call, seen, "dead" if dead else "failed", due)
        return WorkState(call.work, "dead" if dead else "failed", due)

    def requeue(self, work: int, now: int) -> WorkState:
        """Give a dead item one more try; its count of attempts is kept.
        Refused: not-found, not-dead, fence-at-end."""
        return self._transact("requeue", arguments(locals()), _see_row, self._requeue)

    def _requeue(self, db: Connection, call: SimpleNamespace, seen: WorkRow) -> WorkState:
        if seen.fence == MAX_INTEGER:
            what = "its fence cannot rise any more; discard it, and stage a new processor revision"
            raise Refused("fence-at-end", what)
        db.execute(_MOVE, ("pending", call.now, None, call.now, call.work))
        db.execute(_ENTRY, (call.work,))
        entry = (call.work, seen.entries + 1, seen.fence, None, call.now, call.now, "requeued")
        db.execute(_OPEN, entry)
        return WorkState(call.work, "pending", call.now)

    def discard(self, work: int, now: int) -> WorkState:
        """Give a dead item up: its receipt can be compacted, and the row goes with it. Refused: not-found,
        not-dead."""
        return self._transact("discard", arguments(locals()), _see_row, self._discard)

    def _discard(self, db: Connection, call: SimpleNamespace, seen: WorkRow) -> WorkState:
        db.execute(_MOVE, ("discarded", None, None, call.now, seen.work))
        db.execute(_UNSETTLED, (-1, seen.identity))
        return WorkState(seen.work, "discarded")

    def discard_dead(self, keep_for: int, limit: int, now: int) -> Discarded:
        """Give up to `limit` items up that have been dead for `keep_for` or longer, longest first. This is
        the retention of dead letters, counted from when each became dead."""
        return self._transact("discard_dead", arguments(locals()), _long_dead, self._discard_dead)

    def _discard_dead(self, db: Connection, call: SimpleNamespace, seen: list[WorkRow]) -> Discarded:
        for row in seen:
            self._discard(db, call, row)
        return Discarded(len(seen), len(seen) == call.limit)

    def reset_ahead(self, horizon: int, limit: int, now: int) -> Reset:
        """Make up to `limit` rows due now whose due time or claim lies beyond `now` + `horizon`: a clock was
        ahead when they were written. A claim among them ends as expired and its fence rises, so that a holder
        that comes back is fenced, one that really claimed for so long too."""
        return self._transact("reset_ahead", arguments(locals()), _far_ahead, self._reset_ahead)

    def _reset_ahead(self, db: Connection, call: SimpleNamespace, seen: list[WorkRow]) -> Reset:
        for row in seen:
            claimed = row.state == "claimed"
            if claimed:
                db.execute(_CLOSE, ("expired", call.now, None, None, row.work, row.entries))
                db.execute(_REFENCE, (min(row.fence + 1, MAX_INTEGER), row.work))
            db.execute(_MOVE, ("failed" if claimed else row.state, call.now, None, call.now, row.work))
        return Reset(tuple(row.work for row in seen), len(seen) == call.limit)

    def ahead(self, horizon: int, now: int) -> Ahead:
        """How many rows are due, or claimed until, beyond `now` + `horizon`. No call takes these before then;
        `reset_ahead` makes them due."""
        call = checked(ARGUMENTS, arguments(locals()))
        return Ahead(tuple(self.store.read(_AHEAD, (call.now + call.horizon,))))

    def get(self, work: int) -> WorkView:
        """A row of work as it stands. Refused: not-found."""
        call = checked(ARGUMENTS, arguments(locals()))
        rows = self._looked("id = ?", (call.work,))
        if not rows:
            raise Refused("not-found", "there is no such work; it may have been compacted or erased")
        return rows[0]

    def history(self, work: int) -> History:
        """Every attempt at an item, with its error and detail. Refused: not-found."""
        call = checked(ARGUMENTS, arguments(locals()))
        rows = self.store.read(_HISTORY, (call.work,))  # one row of nothing where it was never tried
        if not rows:
            raise Refused("not-found", "there is no such work; it may have been compacted or erased")
        return History(call.work, tuple(Attempt(*row) for row in rows if row[0] is not None))

    def dead(self, after: int, limit: int) -> DeadLetters:
        """At most `limit` dead rows with an id greater than `after`, with how their attempts ended."""
        call = checked(ARGUMENTS, arguments(locals()))
        where = "state = 'dead' AND due IS NULL AND id > ? ORDER BY id LIMIT ?"
        rows = self._looked(where, (call.after, call.limit + 1))
        return DeadLetters(tuple(rows[: call.limit]), len(rows) > call.limit)

    def counts(self) -> Counts:
        """How many rows there are, by processor and state. It reads every row, so it takes longer the more
        there are."""
        return Counts(tuple(self.store.read(_COUNTS)))

    def _looked(self, where: str, values: tuple) -> list[WorkView]:
        rows = self.store.read(_LOOK + where, values)
        return [
            WorkView(*row, tuple((history or "").split())) for *row, history in rows
        ]  # read at one moment

    def _under(self, db: Connection, claim: WorkClaim, now: int) -> tuple[SimpleNamespace, WorkRow]:
        self._inside(db)
        own(claim, self.store)
        call = checked(ARGUMENTS, {"work": claim.work, "fence": claim.fence, "now": now})
        seen = _see_row(db, call)
        for guard in self.guards["complete"]:
            guard(call, seen)
        unchanged(claim, seen)
        return call, seen

    def _finish(
        self, db: Connection, call: SimpleNamespace, seen: WorkRow, state: str, due: int | None
    ) -> None:
        reference = vars(call).get("reference")
        db.execute(_MOVE, (state, due, reference, call.now, seen.work))
        self.store.failpoint("after_work")
        ended = "done" if state == "done" else "failed"
        told = (vars(call).get("error"), vars(call).get("detail"))
        db.execute(_CLOSE, (ended, call.now, *told, seen.work, seen.entries))
        if state == "done":
            db.execute(_UNSETTLED, (-1, seen.identity))
        elif state == "dead":
            outbox.stage(db, DEAD_LETTER, seen.identity, call.now)
        self.store.failpoint("after_attempt")
