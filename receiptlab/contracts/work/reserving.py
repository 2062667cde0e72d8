"""Reserving and sweeping: what is done under a lease.

The half of the work contract that decides who may work on what. `work` is the whole.
"""

from __future__ import annotations

from collections import Counter
from sqlite3 import Connection
from types import SimpleNamespace

from receiptlab.contracts import outbox
from receiptlab.contracts.base import Contract
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.untyped import arguments, checked
from receiptlab.contracts.work import lease
from receiptlab.contracts.work.claims import ARGUMENTS, GUARDS, Claim, Reserved, Row, Swept, spent
from receiptlab.store import Store

ROW = """SELECT id, identity, revision, processor, processor_revision, state, due, fence, attempts, entries
    FROM work WHERE """
_ONE = ROW + "id = :work"
_DUE = ROW + "namespace = :namespace AND processor = :processor AND due <= :now ORDER BY due, id LIMIT :limit"
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

OPEN = "INSERT INTO attempt VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL)"
MOVE = "UPDATE work SET state = ?, due = ?, holder = NULL, reference = ?, changed_at = ? WHERE id = ?"
CLOSE = "UPDATE attempt SET result = ?, ended_at = ?, error = ?, detail = ? WHERE work = ? AND number = ?"
UNSETTLED = "UPDATE receipt SET unsettled = unsettled + ? WHERE identity = ?"


def see_row(db: Connection, call: SimpleNamespace) -> Row:
    return Row(*(db.execute(_ONE, vars(call)).fetchone() or ()))


def _see_lease(db: Connection, call: SimpleNamespace) -> lease.Held:
    return lease.see(db, (call.namespace, call.processor))


class Reserving(Contract):
    """Leases, reservations and sweeps. Each condition that was read before a transaction is looked at again
    inside it; who was superseded between the two commits nothing."""

    ARGUMENTS = ARGUMENTS
    GUARDS = GUARDS

    def __init__(self, store: Store, guards: dict | None = None) -> None:
        super().__init__(store, guards)
        self.intake = Intake(store)

    def acquire(self, namespace: str, processor: str, worker: str, now: int) -> lease.Lease:
        """The lease under which items of this namespace are reserved for this processor. It lasts ten
        seconds and cannot be renewed. Refused: busy."""
        return self._acquire("acquire", (namespace, processor), arguments(locals()))

    def acquire_sweep(self, worker: str, now: int) -> lease.Lease:
        """The lease under which one sweeper works. Refused: busy."""
        return self._acquire("acquire_sweep", lease.SWEEP, arguments(locals()))

    def _acquire(self, name: str, on: tuple[str, str], named: dict) -> lease.Lease:
        return self._run(
            name,
            checked(ARGUMENTS, named),
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
        return self._run("reserve", checked(ARGUMENTS, arguments(locals())), _see_lease, self._reserve)

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
        for row in map(Row._make, db.execute(_DUE, vars(call)).fetchall()):
            if row.state == "claimed":
                db.execute(CLOSE, ("expired", call.now, None, None, row.work, row.entries))
            if spent(row, call.max_attempts):
                self._to_dead_letters(db, row, call.now)
                dead_letters.append(row.work)
            else:
                claims.append(self._claim(db, call, row))
        lease.give_back(db, (call.namespace, call.processor))
        self.store.failpoint("after_lease")
        return Reserved(tuple(claims), tuple(dead_letters))

    def _claim(self, db: Connection, call: SimpleNamespace, row: Row) -> Claim:
        until, fence = call.now + call.hold_for, row.fence + 1
        db.execute(_CLAIM, (until, call.worker, call.now, row.work))
        self.store.failpoint("after_claim")
        db.execute(OPEN, (row.work, row.entries + 1, fence, call.worker, call.now, None, "open"))
        self.store.failpoint("after_attempt")
        return Claim(*row[:5], row.attempts + 1, fence, until, self.store.path)

    def sweep(self, worker: str, token: int, limit: int, max_attempts: int, now: int) -> Swept:
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

    def _sweep(self, db: Connection, call: SimpleNamespace, seen: lease.Held) -> Swept:
        self.store.failpoint("after_guards")
        expired, dead_letters = 0, 0
        for work in call.found:
            call.work = work
            row = see_row(db, call)
            ended = row.state == "claimed" and row.due <= call.now
            if ended:
                db.execute(CLOSE, ("expired", call.now, None, None, row.work, row.entries))
                self.store.failpoint("after_attempt")
            if spent(row, call.max_attempts) and (ended or row.state == "failed"):
                self._to_dead_letters(db, row, call.now)
                dead_letters += 1
            elif ended:
                db.execute(MOVE, ("failed", row.due, None, call.now, row.work))
            expired += ended
            self.store.failpoint("after_work")
        receipts = self.intake.stage_sweep(db, call.limit, call.now)
        self.store.failpoint("after_receipts")
        more = call.full or call.limit in (receipts.compacted, receipts.removed)
        if not more:
            lease.give_back(db, lease.SWEEP)
        return Swept(expired, dead_letters, receipts.compacted, receipts.removed, more)

    def _to_dead_letters(self, db: Connection, row: Row, now: int) -> None:
        db.execute(MOVE, ("dead", None, None, now, row.work))
        outbox.stage(db, DEAD_LETTER, row.identity, now)
