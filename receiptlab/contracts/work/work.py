"""Work claims: each accepted revision is processed once, by workers that die, hang and come back.

A row of work stands for one receipt revision and one processor revision. A worker reserves it: the row's
fence rises, and the claim lasts until a time that the worker said. Whatever is written under a claim is
written in a transaction that looks at fence, state and end of the claim again. A claim that has ended
goes to whoever asks next, and counts as an attempt. After too many attempts the row is dead: a message in
the outbox announces it, and it is kept until an operator requeues or discards it.
All times are in milliseconds.
"""

from __future__ import annotations

from sqlite3 import Connection
from types import SimpleNamespace
from typing import ClassVar

from receiptlab.contracts import outbox
from receiptlab.contracts.untyped import arguments, checked
from receiptlab.contracts.work.claims import (
    ARGUMENTS,
    SCHEMA,
    Ahead,
    Attempt,
    Changed,
    Claim,
    Counts,
    Discarded,
    History,
    Look,
    Page,
    Reset,
    Row,
    StagedWork,
    backoff,
    own,
    spent,
    unchanged,
)
from receiptlab.contracts.work.reserving import (
    CLOSE,
    DEAD_LETTER,
    MOVE,
    OPEN,
    ROW,
    UNSETTLED,
    Reserving,
    see_row,
)
from receiptlab.errors import Refused
from receiptlab.values import MAX_INTEGER

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
_LONG_DEAD = f"""{ROW} id IN (SELECT id FROM work INDEXED BY work_by_death
    WHERE state = 'dead' AND changed_at <= ? ORDER BY changed_at, id LIMIT ?) ORDER BY changed_at, id"""
_BEYOND = "state IN ('claimed', 'failed', 'pending') AND due > ?"
_AHEAD = f"""SELECT processor, state, count(*), max(due) FROM work WHERE {_BEYOND}
    GROUP BY processor, state ORDER BY processor, state"""
_RESET = f"{ROW} {_BEYOND} ORDER BY state, due, id LIMIT ?"
_REFENCE = "UPDATE work SET fence = ? WHERE id = ?"
_COUNTS = "SELECT processor, state, count(*) FROM work GROUP BY processor, state ORDER BY processor, state"
_LEASES = """SELECT 'work ' || id, holder, fence, due FROM work WHERE state = 'claimed' UNION ALL
    SELECT 'queue ' || CASE namespace WHEN '' THEN processor ELSE namespace || ', ' || processor END,
    holder, token, expires_at
    FROM lease WHERE holder IS NOT NULL ORDER BY 1, 3"""


def _long_dead(db: Connection, call: SimpleNamespace) -> list[Row]:
    rows = db.execute(_LONG_DEAD, (call.now - call.keep_for, call.limit)).fetchall()
    return [Row(*row) for row in rows]


def _far_ahead(db: Connection, call: SimpleNamespace) -> list[Row]:
    rows = db.execute(_RESET, (call.now + call.horizon, call.limit)).fetchall()
    return [Row(*row) for row in rows]


class Work(Reserving):
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
            db.execute(UNSETTLED, (1, identity))
        self.store.failpoint("after_work")
        return new

    def renew(self, work: int, fence: int, hold_for: int, now: int) -> Changed:
        """Let an own live claim last `hold_for` from now; never less than before. The queue's lease plays no
        part: a claim outlives the lease under which it was taken, so a worker renews while another one holds
        the lease. Refused: not-found, claim-lost."""
        return self._run("renew", checked(ARGUMENTS, arguments(locals())), see_row, self._renew)

    def _renew(self, db: Connection, call: SimpleNamespace, seen: Row) -> Changed:
        until = max(seen.due or 0, call.now + call.hold_for)
        db.execute(_RENEW, (until, call.now, call.work))
        return Changed(call.work, "claimed", until)

    def guard(self, db: Connection, claim: Claim, now: int) -> None:
        """Inside the caller's transaction: go on only under a live claim.
        Refused: no-transaction, other-store, not-found, already-done, claim-lost."""
        self._under(db, claim, now)

    def complete(self, work: int, fence: int, reference: str, now: int) -> Changed:
        """The shortest completing batch: the item is done, with one effect row and one outbox row.
        Done is done: completed twice it is refused, so that nothing else in the batch is written twice.
        Refused: already-done (by this very claim: fence and state are as this call would leave them),
        not-found (compacted or erased), claim-lost."""
        return self._run("complete", checked(ARGUMENTS, arguments(locals())), see_row, self._complete)

    def _complete(self, db: Connection, call: SimpleNamespace, seen: Row) -> Changed:
        self.store.failpoint("after_guards")
        self._finish(db, call, seen, "done", None)
        db.execute(_EFFECT, (*seen[1:5], call.reference, call.now))
        self.store.failpoint("after_effect")
        outbox.stage(db, "done", seen.identity, call.now)
        self.store.failpoint("after_outbox")
        return Changed(call.work, "done")

    def stage_complete(self, db: Connection, claim: Claim, reference: str, now: int) -> Changed:
        """Complete inside the caller's transaction, beside the caller's own domain rows and outbox row. A
        refusal that leaves the `with` rolls all of it back.
        Refused: no-transaction, other-store, not-found, already-done, claim-lost."""
        checked(ARGUMENTS, {"reference": reference})
        call, seen = self._under(db, claim, now)
        call.reference = reference
        self._finish(db, call, seen, "done", None)
        return Changed(call.work, "done")

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
    ) -> Changed:
        """Say that an attempt failed: `error` is its class, `detail` at most 2048 bytes. The item is tried
        again after `backoff`, or dead once it was tried `max_attempts` times.
        Refused: not-found, claim-lost."""
        return self._run("fail", checked(ARGUMENTS, arguments(locals())), see_row, self._fail)

    def _fail(self, db: Connection, call: SimpleNamespace, seen: Row) -> Changed:
        self.store.failpoint("after_guards")
        dead = spent(seen, call.max_attempts)
        due = None if dead else call.now + backoff(seen.identity, seen.attempts, call.base, call.cap)
        self._finish(db, call, seen, "dead" if dead else "failed", due)
        return Changed(call.work, "dead" if dead else "failed", due)

    def requeue(self, work: int, now: int) -> Changed:
        """Give a dead item one more try; its count of attempts is kept.
        Refused: not-found, not-dead, fence-at-end."""
        return self._run("requeue", checked(ARGUMENTS, arguments(locals())), see_row, self._requeue)

    def _requeue(self, db: Connection, call: SimpleNamespace, seen: Row) -> Changed:
        if seen.fence == MAX_INTEGER:
            what = "its fence cannot rise any more; discard it, and stage a new processor revision"
            raise Refused("fence-at-end", what)
        db.execute(MOVE, ("pending", call.now, None, call.now, call.work))
        db.execute(_ENTRY, (call.work,))
        entry = (call.work, seen.entries + 1, seen.fence, None, call.now, call.now, "requeued")
        db.execute(OPEN, entry)
        return Changed(call.work, "pending", call.now)

    def discard(self, work: int, now: int) -> Changed:
        """Give a dead item up: its receipt can be compacted, and the row goes with it. Refused: not-found,
        not-dead."""
        return self._run("discard", checked(ARGUMENTS, arguments(locals())), see_row, self._discard)

    def _discard(self, db: Connection, call: SimpleNamespace, seen: Row) -> Changed:
        db.execute(MOVE, ("discarded", None, None, call.now, seen.work))
        db.execute(UNSETTLED, (-1, seen.identity))
        return Changed(seen.work, "discarded")

    def discard_dead(self, keep_for: int, limit: int, now: int) -> Discarded:
        """Give up to `limit` items up that have been dead for `keep_for` or longer, longest first. This is
        the retention of dead letters, counted from when each became dead."""
        return self._run(
            "discard_dead", checked(ARGUMENTS, arguments(locals())), _long_dead, self._discard_dead
        )

    def _discard_dead(self, db: Connection, call: SimpleNamespace, seen: list[Row]) -> Discarded:
        for row in seen:
            self._discard(db, call, row)
        return Discarded(len(seen), len(seen) == call.limit)

    def reset_ahead(self, horizon: int, limit: int, now: int) -> Reset:
        """Make up to `limit` rows due now whose due time or claim lies beyond `now` + `horizon`: a clock was
        ahead when they were written. A claim among them ends as expired and its fence rises, so that a holder
        that comes back is fenced, one that really claimed for so long too."""
        return self._run(
            "reset_ahead", checked(ARGUMENTS, arguments(locals())), _far_ahead, self._reset_ahead
        )

    def _reset_ahead(self, db: Connection, call: SimpleNamespace, seen: list[Row]) -> Reset:
        for row in seen:
            claimed = row.state == "claimed"
            if claimed:
                db.execute(CLOSE, ("expired", call.now, None, None, row.work, row.entries))
                db.execute(_REFENCE, (min(row.fence + 1, MAX_INTEGER), row.work))
            db.execute(MOVE, ("failed" if claimed else row.state, call.now, None, call.now, row.work))
        return Reset(tuple(row.work for row in seen), len(seen) == call.limit)

    def ahead(self, horizon: int, now: int) -> Ahead:
        """How many rows are due, or claimed until, beyond `now` + `horizon`. No call takes these before then;
        `reset_ahead` makes them due."""
        call = checked(ARGUMENTS, arguments(locals()))
        return Ahead(tuple(self.store.read(_AHEAD, (call.now + call.horizon,))))

    def get(self, work: int) -> Look:
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

    def dead(self, after: int, limit: int) -> Page:
        """At most `limit` dead rows with an id greater than `after`, with how their attempts ended."""
        call = checked(ARGUMENTS, arguments(locals()))
        where = "state = 'dead' AND due IS NULL AND id > ? ORDER BY id LIMIT ?"
        rows = self._looked(where, (call.after, call.limit + 1))
        return Page(tuple(rows[: call.limit]), len(rows) > call.limit)

    def counts(self) -> Counts:
        """How many rows there are, by processor and state. It reads every row, so it takes longer the more
        there are."""
        return Counts(tuple(self.store.read(_COUNTS)))

    def _looked(self, where: str, values: tuple) -> list[Look]:
        rows = self.store.read(_LOOK + where, values)
        return [Look(*row, tuple((history or "").split())) for *row, history in rows]  # read at one moment

    def _under(self, db: Connection, claim: Claim, now: int) -> tuple[SimpleNamespace, Row]:
        self._inside(db)
        own(claim, self.store)
        call = checked(ARGUMENTS, {"work": claim.work, "fence": claim.fence, "now": now})
        seen = see_row(db, call)
        for guard in self.guards["complete"]:
            guard(call, seen)
        unchanged(claim, seen)
        return call, seen

    def _finish(self, db: Connection, call: SimpleNamespace, seen: Row, state: str, due: int | None) -> None:
        reference = vars(call).get("reference")
        db.execute(MOVE, (state, due, reference, call.now, seen.work))
        self.store.failpoint("after_work")
        ended = "done" if state == "done" else "failed"
        told = (vars(call).get("error"), vars(call).get("detail"))
        db.execute(CLOSE, (ended, call.now, *told, seen.work, seen.entries))
        if state == "done":
            db.execute(UNSETTLED, (-1, seen.identity))
        elif state == "dead":
            outbox.stage(db, DEAD_LETTER, seen.identity, call.now)
        self.store.failpoint("after_attempt")
