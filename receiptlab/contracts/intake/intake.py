"""Intake receipts: seen, seen again, changed, erased; never dropped.

A service takes in items from outside: mail, webhooks, files. Each item has a name given by its source,
and a digest of its content that the consumer computed over its own canonical form. `classify` says
what is known of it. The staging calls write what the consumer decides, inside the consumer's own
transaction, beside its domain rows.
"""

from __future__ import annotations

from sqlite3 import Connection
from types import SimpleNamespace
from typing import ClassVar

from receiptlab.contracts import outbox
from receiptlab.contracts.intake.items import (
    MINT,
    Changed,
    CollisionRedelivered,
    Delivered,
    Erased,
    Erasure,
    Erasures,
    FirstSeen,
    Found,
    Handle,
    Item,
    Redelivered,
    Scrub,
    Staged,
    Swept,
    identity_of,
)
from receiptlab.contracts.intake.staging import ARGUMENTS, SCHEMA, Staging
from receiptlab.contracts.untyped import arguments, checked
from receiptlab.errors import Refused
from receiptlab.values import MAX_INTEGER

_KNOWN = """SELECT r.state, r.head, r.revisions, r.changed_at, h.digest, v.number, v.disposition, v.outcome
    FROM receipt r LEFT JOIN revision h ON h.identity = r.identity AND h.number = r.head
    LEFT JOIN revision v ON v.identity = r.identity AND v.digest = ?
    WHERE r.identity = ? ORDER BY v.number LIMIT 1"""
_DUE = """SELECT identity FROM receipt
    WHERE state = 'live' AND retain_until <= :now AND unsettled = 0
    ORDER BY retain_until, identity LIMIT :limit"""
_OVER = """SELECT identity FROM receipt
    WHERE state = 'compacted' AND tombstone_until <= :now ORDER BY tombstone_until, identity LIMIT :limit"""
_COMPACT = "UPDATE receipt SET state = 'compacted', key = NULL, seen = 0, changed_at = ? WHERE identity = ?"
_FORGET = "UPDATE revision SET outcome = NULL, staged_at = NULL WHERE identity = ?"
_ERASE = """INSERT INTO receipt VALUES (?, 'erased', NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, NULL, NULL, ?)
    ON CONFLICT (identity) DO UPDATE SET state = 'erased', key_kind = NULL, tenant = NULL, namespace = NULL,
    key = NULL, head = NULL, revisions = 0, collisions = 0, seen = 0, unsettled = 0, retain_until = NULL,
    tombstone_until = NULL, changed_at = excluded.changed_at WHERE state <> 'erased'"""
_UNSAY = "DELETE FROM outbox WHERE subject = ? AND topic <> 'erased'"
_ERASURES = "SELECT id, subject, staged_at FROM outbox WHERE topic = 'erased' AND id > ? ORDER BY id LIMIT ?"
_UNREVISE = "DELETE FROM revision WHERE identity = ?"
_REMOVE = "DELETE FROM receipt WHERE identity = ?"
_OF_TENANT = "SELECT identity FROM receipt WHERE tenant = :tenant ORDER BY identity"
_OF_NAMESPACE = (
    "SELECT identity FROM receipt WHERE tenant = :tenant AND namespace = :namespace ORDER BY identity"
)


class Intake(Staging):
    """Receipts of inbound items over an open store.

    What it reads and decides, keeps and erases. The staging calls are in `staging`.
    `now`, `retain_until` and `tombstone_until` are the caller's time, in any one unit.
    """

    NAME = "intake"
    SCHEMA = SCHEMA
    TABLES = ("receipt", "revision", "outbox")
    READS = ("classify", "erasures", "scrub")
    FAILPOINTS: ClassVar = {"deliver": ("after_guards", "after_receipt", "after_revision", "after_outbox")}
    COUNTS: ClassVar = {
        "receipts": "SELECT count(*) FROM receipt WHERE state <> 'erased'",
        "revisions": "SELECT count(*) FROM revision",
        "outbox": outbox.COUNT,
    }

    inhand: Found | None = None
    """What this object classified last; `stage` stages it."""

    def classify(self, key_kind: str, tenant: str, namespace: str, key: str, digest: str) -> Found:
        """What is known of the item: FirstSeen, Redelivered, Changed, CollisionRedelivered or Erased.

        It only reads. Between it and the staging call another delivery may come; the staging call
        then refuses (head-moved).
        """
        self.inhand = self._find(self.item(key_kind, tenant, namespace, key, digest))
        return self.inhand

    def _find(self, item: Item) -> Found:
        rows = self.store.read(_KNOWN, (item.digest, item.identity))  # one statement: one moment
        if not rows:
            return FirstSeen(item)
        [(state, head, revisions, changed_at, head_digest, number, disposition, reference)] = rows
        if state == "erased":
            return Erased(item, changed_at)
        if disposition == "collision":
            return CollisionRedelivered(item, number)
        if number is not None:
            return Redelivered(item, number, number == head, reference)
        return Changed(
            item, head, head_digest, Handle(MINT, self.store, item, (head, revisions, head_digest))
        )

    def stage(
        self, decision: str, reference: str, retain_until: int, tombstone_until: int, now: int
    ) -> Staged:
        """The shortest batch: what this object classified last, and one outbox row, in one transaction.

        Refused: not-classified (nothing in hand that the decision fits), and as the staging call says.
        """
        checked(ARGUMENTS, arguments(locals()))
        with self.store.write() as db:
            staged = self._stage(db, self.inhand, decision, reference, (retain_until, tombstone_until), now)
            outbox.stage(db, "delivery", staged.identity, now)
            self.store.failpoint("after_outbox")
        return staged

    def deliver(
        self,
        key_kind: str,
        tenant: str,
        namespace: str,
        key: str,
        digest: str,
        changed_as: str,
        reference: str,
        retain_until: int,
        tombstone_until: int,
        now: int,
    ) -> Delivered:
        """Classify and stage in one transaction: what is new or changed, with one outbox row; what was
        delivered before changes nothing. Refused: erased."""
        call = checked(ARGUMENTS, arguments(locals()))
        with self.store.write() as db:
            found, staged = self.stage_delivery(db, **vars(call))
        return Delivered(found.found, staged.revision if staged else getattr(found, "revision", 0))

    def stage_delivery(self, db: Connection, **delivery: object) -> tuple[Found, Staged | None]:
        """What `deliver` does, with its arguments, inside the caller's transaction. Gives what was found,
        and what was staged, if anything was. Refused: no-transaction, erased."""
        self._inside(db)
        call = checked(ARGUMENTS, delivery)
        found = self._find(self.item(call.key_kind, call.tenant, call.namespace, call.key, call.digest))
        self._guard("deliver", db, SimpleNamespace(identity=found.item.identity, digest=call.digest))
        if not isinstance(found, (FirstSeen, Changed)):
            return found, None
        decision = "first" if isinstance(found, FirstSeen) else call.changed_as
        horizons = (call.retain_until, call.tombstone_until)
        staged = self._stage(db, found, decision, call.reference, horizons, call.now)
        outbox.stage(db, "delivery", staged.identity, call.now)
        self.store.failpoint("after_outbox")
        return found, staged

    def _stage(
        self,
        db: Connection,
        found: Found | None,
        decision: str,
        reference: str,
        horizons: tuple[int, int],
        now: int,
    ) -> Staged:
        if isinstance(found, FirstSeen) and decision == "first":
            return self.stage_first(db, found, reference, *horizons, now)
        if isinstance(found, Changed) and decision == "revision":
            return self.stage_revision(db, found.handle, reference, *horizons, now)
        if isinstance(found, Changed) and decision == "collision":
            return self.stage_collision(db, found.handle, reference, now)
        if isinstance(found, (Redelivered, CollisionRedelivered)) and decision == "seen":
            return self.stage_seen(db, found, now)
        raise Refused("not-classified", f"{decision} does not fit what was classified last; classify first")

    def sweep(self, limit: int, now: int) -> Swept:
        """Compact what is past its `retain_until` and settled, then remove tombstones past their time,
        at most `limit` of each, the longest overdue first, in one transaction. What is erased is never
        removed."""
        call = checked(ARGUMENTS, arguments(locals()))
        with self.store.write() as db:
            return self.stage_sweep(db, **vars(call))

    def stage_sweep(self, db: Connection, limit: int, now: int) -> Swept:
        """What `sweep` does, inside the caller's transaction. Refused: no-transaction."""
        self._inside(db)
        call = checked(ARGUMENTS, {"limit": limit, "now": now})
        over = [identity for (identity,) in db.execute(_OVER, vars(call)).fetchall()]
        due = [identity for (identity,) in db.execute(_DUE, vars(call)).fetchall()]
        for identity in over:
            db.execute(_UNREVISE, (identity,))
            db.execute(_REMOVE, (identity,))
        for identity in due:
            db.execute(_COMPACT, (now, identity))
            db.execute(_FORGET, (identity,))
        return Swept(len(due), len(over))

    def erase_identity(self, key_kind: str, tenant: str, namespace: str, key: str, now: int) -> Erasure:
        """Erase one identity for good, delivered or not. Twice is as once."""
        checked(ARGUMENTS, arguments(locals()))
        return self._erase([identity_of(key_kind, tenant, namespace, key)], None, {}, now)

    def erase_namespace(self, tenant: str, namespace: str, now: int) -> Erasure:
        """Erase every identity of a namespace within a tenant, for good."""
        call = checked(ARGUMENTS, arguments(locals()))
        return self._erase([], _OF_NAMESPACE, vars(call), now)

    def erase_tenant(self, tenant: str, now: int) -> Erasure:
        """Erase every identity of a tenant, for good."""
        call = checked(ARGUMENTS, arguments(locals()))
        return self._erase([], _OF_TENANT, vars(call), now)

    def erase_digest(self, identity: str, now: int) -> Erasure:
        """Erase an identity that is known only by its digest, as `erasures` gives it. Idempotent.

        After a backup was restored, apply every exported erasure with its own time before anything is
        delivered: the backup does not know of erasures that came after it.
        """
        checked(ARGUMENTS, arguments(locals()))
        return self._erase([identity], None, {}, now)

    def erasures(self, after: int, limit: int) -> Erasures:
        """At most `limit` erasures that were announced after the announcement with the id `after`.

        Export them to a place that a restore does not set back. After a restore ids can be given a second
        time, so read that file from 0 again.
        """
        call = checked(ARGUMENTS, {"after": after, "limit": limit})
        rows = self.store.read(_ERASURES, (call.after, min(call.limit, MAX_INTEGER - 1) + 1))
        return Erasures(tuple(rows[: call.limit]), len(rows) > call.limit)

    def stage_erasure(self, db: Connection, identity: str, now: int) -> bool:
        """Erase one identity inside the caller's transaction, beside the caller's own rows of it.

        Every outbox row about it is deleted, sent or not, since each holds the time of a delivery. One row
        announces the erasure. False when it was erased before. Refused: no-transaction.
        """
        self._inside(db)
        checked(ARGUMENTS, {"identity": identity, "now": now})
        db.execute(_UNREVISE, (identity,))
        if not db.execute(_ERASE, (identity, now)).rowcount:
            return False
        # The announcement goes first, so that it gets a new id and not one of a row that is deleted.
        outbox.stage(db, "erased", identity, now)
        db.execute(_UNSAY, (identity,))
        return True

    def scrub(self) -> Scrub:
        """Build the file anew without what was deleted, and empty the WAL.

        `secure_delete` overwrites a deleted row where it lies, but not the copies that SQLite leaves in
        the free space of a page when it moves rows; so the file is packed (VACUUM). That takes the time
        and the space of a copy. A consumer's own rows are the consumer's to erase before. An open reader
        can keep the WAL from being emptied; then `done` is False. Raises Locked and NotWritten.
        """
        return Scrub(self.store.pack())

    def _erase(self, identities: list[str], of: str | None, values: dict, now: int) -> Erasure:
        with self.store.write() as db:
            if of is not None:
                identities = [identity for (identity,) in db.execute(of, values).fetchall()]
            return Erasure(sum(self.stage_erasure(db, identity, now) for identity in identities))
