"""Intake receipts: an inbound item is new, redelivered, changed or erased, and none is dropped.

A service takes in items from outside: mail, webhooks, files. The source identifies each item, and the
consumer computes a digest of its content over a canonical form. `classify` reports what is known of the
item: this is the deduplication of an idempotent consumer. The staging calls record what the consumer
decides, inside the consumer's own transaction, beside its domain rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from sqlite3 import Connection
from typing import Any, ClassVar, NamedTuple

from receiptlab.contracts import outbox
from receiptlab.contracts.base import Command, Contract, Guards
from receiptlab.contracts.intake.items import (
    KEY_KINDS,
    MINT,
    Changed,
    CollisionRedelivered,
    Delivered,
    Erased,
    Erasure,
    Erasures,
    Finding,
    FirstSeen,
    Handle,
    Item,
    Redelivered,
    Scrub,
    Staged,
    Swept,
    identity_of,
)
from receiptlab.errors import Refused, WrongType, WrongValue
from receiptlab.values import MAX_INTEGER, Rule, check, hex_digest, integer, one_of, sized, text

# A receipt has one row for its identity and one for each revision, collisions included. A compacted receipt
# has lost its key and outcomes. An erased one keeps only the identity and the time. `unsettled` counts the
# items of work on it that are neither done nor discarded.
# The two partial indexes hold what a sweep takes, in its order, so a sweep reads no other rows.
SCHEMA = (
    """CREATE TABLE receipt (
        identity TEXT NOT NULL PRIMARY KEY,
        state TEXT NOT NULL CHECK (state IN ('live', 'compacted', 'erased')),
        key_kind TEXT NULL, tenant TEXT NULL, namespace TEXT NULL, key TEXT NULL,
        head INTEGER NULL, revisions INTEGER NOT NULL, collisions INTEGER NOT NULL, seen INTEGER NOT NULL,
        unsettled INTEGER NOT NULL, retain_until INTEGER NULL, tombstone_until INTEGER NULL,
        changed_at INTEGER NOT NULL) STRICT, WITHOUT ROWID""",
    """CREATE TABLE revision (
        identity TEXT NOT NULL REFERENCES receipt (identity), number INTEGER NOT NULL,
        disposition TEXT NOT NULL CHECK (disposition IN ('accepted', 'collision')),
        digest TEXT NOT NULL, outcome TEXT NULL, staged_at INTEGER NULL,
        PRIMARY KEY (identity, number)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX receipt_by_tenant ON receipt (tenant, namespace) WHERE tenant IS NOT NULL",
    "CREATE INDEX receipt_due ON receipt (retain_until) WHERE state = 'live' AND unsettled = 0",
    "CREATE INDEX receipt_over ON receipt (tombstone_until) WHERE state = 'compacted'",
    *outbox.SCHEMA,
    "CREATE INDEX outbox_by_subject ON outbox (subject)",
    "CREATE INDEX outbox_erased ON outbox (topic) WHERE topic = 'erased'",
)
DECISIONS = ("first", "revision", "collision", "seen")
"""What a consumer can decide about a delivery."""

ARGUMENTS: Mapping[str, Rule] = {
    "key_kind": one_of(KEY_KINDS),
    "tenant": text,
    "namespace": sized(1, 256),
    "key": sized(1, 1024),
    **dict.fromkeys(("digest", "identity"), hex_digest),
    "reference": sized(0, 4096),
    "decision": one_of(DECISIONS),
    "changed_as": one_of(DECISIONS[1:3]),
    **dict.fromkeys(("retain_until", "tombstone_until", "after", "limit", "now"), integer),
}


@dataclass(frozen=True)
class DeliverItem(Command):
    key_kind: str
    tenant: str
    namespace: str
    key: str
    digest: str
    changed_as: str
    reference: str
    retain_until: int
    tombstone_until: int
    now: int


@dataclass(frozen=True)
class StageItem(Command):
    """The arguments of a staging call. `handle` is the handle of changed content. `known` is False only for a
    first delivery, which must not have a receipt yet."""

    item: Item
    handle: Handle | None
    known: bool
    reference: str | None = None
    retain_until: int | None = None
    tombstone_until: int | None = None
    now: int = 0


class CurrentReceipt(NamedTuple):
    """The receipt's current row, and the revision with the item's content. `state` is None if there is no
    receipt. `known_as` is the number of that revision, or None if this content is new."""

    state: str | None = None
    head: int = 0
    revisions: int = 0
    changed_at: int = 0
    head_digest: str = ""
    known_as: int | None = None
    disposition: str | None = None
    reference: str | None = None


# The guards. A refusal while staging rolls the caller's whole transaction back.


def handle_used(command: StageItem, current: CurrentReceipt) -> None:
    if command.handle is not None and command.handle.used:
        raise Refused("handle-used", "this handle was already used; classify again")


def erased(command: Command, current: CurrentReceipt) -> None:
    if current.state == "erased":
        raise Refused("erased", "this identity was erased, for good")


def not_found(command: StageItem, current: CurrentReceipt) -> None:
    if command.known and current.state is None:
        raise Refused("not-found", "this identity has no receipt any more; classify again")


def head_moved(command: StageItem, current: CurrentReceipt) -> None:
    if command.handle is not None:
        on = (current.head, current.revisions, current.head_digest)
        moved = current.known_as is not None or command.handle.on != on
    else:
        moved = current.known_as is None if command.known else current.state is not None
    if moved:
        raise Refused("head-moved", "something else was staged since this was classified; classify again")


GUARDS: Guards = {
    "stage": (handle_used, erased, not_found, head_moved),
    "deliver": (erased,),
    "sweep": (),
    "erase_identity": (),
    "erase_namespace": (),
    "erase_tenant": (),
    "erase_digest": (),
}

_CURRENT = """SELECT r.state, r.head, r.revisions, r.changed_at, h.digest, v.number, v.disposition, v.outcome
    FROM receipt r LEFT JOIN revision h ON h.identity = r.identity AND h.number = r.head
    LEFT JOIN revision v ON v.identity = r.identity AND v.digest = ?
    WHERE r.identity = ? ORDER BY v.number LIMIT 1"""
_FIRST = """INSERT INTO receipt VALUES (:identity, 'live', :key_kind, :tenant, :namespace, :key,
    1, 1, 0, 1, 0, :retain_until, :tombstone_until, :now)"""
_ROW = "INSERT INTO revision VALUES (:identity, :number, :disposition, :digest, :reference, :now)"
_MOVE = """UPDATE receipt SET state = 'live', key = :key, head = :number, revisions = :number,
    seen = seen + 1, retain_until = :retain_until, tombstone_until = :tombstone_until, changed_at = :now
    WHERE identity = :identity"""
_COLLIDE = """UPDATE receipt SET revisions = :number, collisions = collisions + 1, seen = seen + 1,
    changed_at = :now WHERE identity = :identity"""
_COUNT_DELIVERY = "UPDATE receipt SET seen = seen + 1 WHERE identity = ?"
_DUE = """SELECT identity FROM receipt
    WHERE state = 'live' AND retain_until <= :now AND unsettled = 0
    ORDER BY retain_until, identity LIMIT :limit"""
_EXPIRED = """SELECT identity FROM receipt
    WHERE state = 'compacted' AND tombstone_until <= :now ORDER BY tombstone_until, identity LIMIT :limit"""
_COMPACT = "UPDATE receipt SET state = 'compacted', key = NULL, seen = 0, changed_at = ? WHERE identity = ?"
_CLEAR_OUTCOMES = "UPDATE revision SET outcome = NULL, staged_at = NULL WHERE identity = ?"
_ERASE = """INSERT INTO receipt VALUES (?, 'erased', NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, NULL, NULL, ?)
    ON CONFLICT (identity) DO UPDATE SET state = 'erased', key_kind = NULL, tenant = NULL, namespace = NULL,
    key = NULL, head = NULL, revisions = 0, collisions = 0, seen = 0, unsettled = 0, retain_until = NULL,
    tombstone_until = NULL, changed_at = excluded.changed_at WHERE state <> 'erased'"""
_DELETE_MESSAGES = "DELETE FROM outbox WHERE subject = ? AND topic <> 'erased'"
_ERASURES = "SELECT id, subject, staged_at FROM outbox WHERE topic = 'erased' AND id > ? ORDER BY id LIMIT ?"
_DELETE_REVISIONS = "DELETE FROM revision WHERE identity = ?"
_DELETE_RECEIPT = "DELETE FROM receipt WHERE identity = ?"
_OF_TENANT = "SELECT identity FROM receipt WHERE tenant = ? ORDER BY identity"
_OF_NAMESPACE = "SELECT identity FROM receipt WHERE tenant = ? AND namespace = ? ORDER BY identity"

_CLASSIFIED = {"first": (FirstSeen,), "handle": (Handle,), "again": (Redelivered, CollisionRedelivered)}
"""For each argument of a staging call what it must be."""


class Intake(Contract):
    """Receipts of inbound items over an open store.

    A receipt is only written inside a transaction of the caller (the calls that begin with `stage_` take the
    connection from `with store.write()`), or by `stage` and `deliver`, which open one. A refusal that leaves
    the `with` rolls all of it back; do not catch it inside and go on.
    `now`, `retain_until` and `tombstone_until` are the caller's time, in any one unit.
    """

    NAME = "intake"
    SCHEMA = SCHEMA
    TABLES = ("receipt", "revision", "outbox")
    ARGUMENTS = ARGUMENTS
    GUARDS = GUARDS
    READS = ("classify", "erasures", "scrub")
    FAILPOINTS: ClassVar = {"deliver": ("after_guards", "after_receipt", "after_revision", "after_outbox")}
    COUNTS: ClassVar = {
        "receipts": "SELECT count(*) FROM receipt WHERE state <> 'erased'",
        "revisions": "SELECT count(*) FROM revision",
        "outbox": outbox.COUNT,
    }

    classified: Finding | None = None
    """What this object classified last; `stage` stages it."""

    def item(self, key_kind: str, tenant: str, namespace: str, key: str, digest: str) -> Item:
        """The item with its identity. A key made from content must be the content's digest."""
        name = {"key_kind": key_kind, "tenant": tenant, "namespace": namespace, "key": key}
        check(ARGUMENTS, {**name, "digest": digest})
        if key_kind == "content" and key != digest:
            raise WrongValue("key", "made from content must be the digest of the content")
        return Item(**name, digest=digest, identity=identity_of(**name)).sealed()

    def classify(self, key_kind: str, tenant: str, namespace: str, key: str, digest: str) -> Finding:
        """What is known of the item: FirstSeen, Redelivered, Changed, CollisionRedelivered or Erased.

        It only reads. Another delivery may come before the staging call, which then refuses (head-moved).
        """
        self.classified = self._find(self.item(key_kind, tenant, namespace, key, digest))
        return self.classified

    def _find(self, item: Item) -> Finding:
        current = self._current(item)
        number = current.known_as
        if current.state is None:
            return FirstSeen(item)
        if current.state == "erased":
            return Erased(item, current.changed_at)
        if number is None:
            handle = Handle(MINT, self.store, item, (current.head, current.revisions, current.head_digest))
            return Changed(item, current.head, current.head_digest, handle)
        if current.disposition == "collision":
            return CollisionRedelivered(item, number)
        return Redelivered(item, number, number == current.head, current.reference)

    def _current(self, item: Item) -> CurrentReceipt:
        rows = self.store.read(_CURRENT, (item.digest, item.identity))  # one statement, one moment
        return CurrentReceipt(*rows[0]) if rows else CurrentReceipt()

    def stage_first(
        self,
        db: Connection,
        first: FirstSeen,
        reference: str,
        retain_until: int,
        tombstone_until: int,
        now: int,
    ) -> Staged:
        """Stage a first delivery. Refused: no-transaction, erased, head-moved."""
        horizons = {"retain_until": retain_until, "tombstone_until": tombstone_until}
        command = self._checked(db, "first", first, reference=reference, **horizons, now=now)
        self._guard("stage", command.item, command)
        return self._write(db, command, _FIRST, 1, "accepted")

    def stage_revision(
        self,
        db: Connection,
        handle: Handle,
        reference: str,
        retain_until: int,
        tombstone_until: int,
        now: int,
    ) -> Staged:
        """Accept changed content: the head moves to it, and a compacted receipt becomes live again.

        Refused: no-transaction, other-store, handle-used, erased, not-found, head-moved.
        """
        horizons = {"retain_until": retain_until, "tombstone_until": tombstone_until}
        command = self._checked(db, "handle", handle, reference=reference, **horizons, now=now)
        current = self._guard("stage", command.item, command)
        return self._write(db, command, _MOVE, current.revisions + 1, "accepted")

    def stage_collision(self, db: Connection, handle: Handle, reference: str, now: int) -> Staged:
        """Record changed content as a collision: it is counted, and the head stays.

        Refused: no-transaction, other-store, handle-used, erased, not-found, head-moved.
        """
        command = self._checked(db, "handle", handle, reference=reference, now=now)
        current = self._guard("stage", command.item, command)
        if current.state == "compacted":  # it stays compacted, so no outcome is recorded
            command = replace(command, reference=None)
        return self._write(db, command, _COLLIDE, current.revisions + 1, "collision")

    def stage_seen(self, db: Connection, again: Redelivered | CollisionRedelivered, now: int) -> Staged:
        """Count a redelivery.

        Refused: no-transaction, erased, not-found, head-moved (the tombstone was removed, and other content
        came).
        """
        command = self._checked(db, "again", again, now=now)
        current = self._guard("stage", command.item, command)
        db.execute(_COUNT_DELIVERY, (command.item.identity,))
        return Staged(command.item.identity, current.known_as or 0)

    def _checked(self, db: Connection, name: str, classified: Any, **values: Any) -> StageItem:
        """The command of a staging call, from what was classified and the call's other arguments."""
        self._inside(db)
        if type(classified) not in _CLASSIFIED[name] or type(classified.item) is not Item:
            raise WrongType(name, f"must be what classify returned, not {type(classified).__name__}")
        handle, item = classified if name == "handle" else None, classified.item
        if handle is not None and handle.store is not self.store:
            raise Refused("other-store", "this handle belongs to another store; classify there")
        check(ARGUMENTS, values)
        if values.get("tombstone_until", MAX_INTEGER) < values.get("retain_until", 0):
            raise WrongValue("tombstone_until", "must not be before retain_until")
        if item.mint != item.seal():  # made by hand: check it, and compute the identity again
            item = self.item(item.key_kind, item.tenant, item.namespace, item.key, item.digest)
        return StageItem(item, handle, name != "first", **values)

    def _guard(self, name: str, item: Item, command: Command) -> CurrentReceipt:
        current = self._current(item)
        for guard in self.guards[name]:
            guard(command, current)
        self.store.failpoint("after_guards")
        return current

    def _write(self, db: Connection, command: StageItem, sql: str, number: int, disposition: str) -> Staged:
        if command.handle is not None:
            command.handle.use_up()
        values = vars(command.item) | vars(command) | {"number": number, "disposition": disposition}
        db.execute(sql, values)
        self.store.failpoint("after_receipt")
        db.execute(_ROW, values)
        self.store.failpoint("after_revision")
        return Staged(command.item.identity, number)

    def stage(
        self, decision: str, reference: str, retain_until: int, tombstone_until: int, now: int
    ) -> Staged:
        """Stage what this object classified last, and one outbox row, in one transaction.

        Refused: not-classified (the decision does not fit what was classified), and as the staging call says.
        """
        horizons = {"retain_until": retain_until, "tombstone_until": tombstone_until}
        check(ARGUMENTS, {"decision": decision, "reference": reference, **horizons, "now": now})
        with self.store.write() as db:
            return self._stage(db, self.classified, decision, reference, retain_until, tombstone_until, now)

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
        """Classify and stage in one transaction: what is new or changed, with one outbox row.

        A redelivery changes nothing. Refused: erased.
        """
        item = (key_kind, tenant, namespace, key, digest)
        command = DeliverItem(*item, changed_as, reference, retain_until, tombstone_until, now)
        check(ARGUMENTS, vars(command))
        with self.store.write() as db:
            found, revision = self.stage_delivery(db, command)
        return Delivered(found.found, revision)

    def stage_delivery(self, db: Connection, delivery: DeliverItem) -> tuple[Finding, int]:
        """Do what `deliver` does, inside the caller's transaction. Returns what was found, and the number of
        the revision. Refused: no-transaction, erased."""
        self._inside(db)
        if type(delivery) is not DeliverItem:
            raise WrongType("delivery", f"must be a DeliverItem, not {type(delivery).__name__}")
        check(ARGUMENTS, vars(delivery))
        name = (delivery.key_kind, delivery.tenant, delivery.namespace, delivery.key)
        found = self._find(self.item(*name, delivery.digest))
        self._guard("deliver", found.item, delivery)
        if not isinstance(found, (FirstSeen, Changed)):
            return found, getattr(found, "revision", 0)
        decision = "first" if isinstance(found, FirstSeen) else delivery.changed_as
        horizons = (delivery.retain_until, delivery.tombstone_until)
        return found, self._stage(db, found, decision, delivery.reference, *horizons, delivery.now).revision

    def _stage(
        self,
        db: Connection,
        found: Finding | None,
        decision: str,
        reference: str,
        retain_until: int,
        tombstone_until: int,
        now: int,
    ) -> Staged:
        """Stage as decided, with one outbox row."""
        horizons = (retain_until, tombstone_until)
        if isinstance(found, FirstSeen) and decision == "first":
            staged = self.stage_first(db, found, reference, *horizons, now)
        elif isinstance(found, Changed) and decision == "revision":
            staged = self.stage_revision(db, found.handle, reference, *horizons, now)
        elif isinstance(found, Changed) and decision == "collision":
            staged = self.stage_collision(db, found.handle, reference, now)
        elif isinstance(found, (Redelivered, CollisionRedelivered)) and decision == "seen":
            staged = self.stage_seen(db, found, now)
        else:
            what = f"{decision} does not fit what was classified last; classify first"
            raise Refused("not-classified", what)
        outbox.stage(db, "delivery", staged.identity, now)
        self.store.failpoint("after_outbox")
        return staged

    def sweep(self, limit: int, now: int) -> Swept:
        """Compact receipts that are settled and past their `retain_until`, and remove tombstones past their
        time, in one transaction.

        At most `limit` of each are taken, the longest overdue first. An erased receipt is never removed.
        """
        check(ARGUMENTS, {"limit": limit, "now": now})
        with self.store.write() as db:
            return self.stage_sweep(db, limit, now)

    def stage_sweep(self, db: Connection, limit: int, now: int) -> Swept:
        """Do what `sweep` does, inside the caller's transaction. Refused: no-transaction."""
        self._inside(db)
        values = {"limit": limit, "now": now}
        check(ARGUMENTS, values)
        expired = db.execute(_EXPIRED, values).fetchall()
        due = db.execute(_DUE, values).fetchall()
        for row in expired:
            db.execute(_DELETE_REVISIONS, row)
            db.execute(_DELETE_RECEIPT, row)
        for row in due:
            db.execute(_COMPACT, (now, *row))
            db.execute(_CLEAR_OUTCOMES, row)
        return Swept(len(due), len(expired))

    def erase_identity(self, key_kind: str, tenant: str, namespace: str, key: str, now: int) -> Erasure:
        """Erase one identity for good, delivered or not. Idempotent."""
        name = {"key_kind": key_kind, "tenant": tenant, "namespace": namespace, "key": key}
        check(ARGUMENTS, {**name, "now": now})
        with self.store.write() as db:
            return self._erase(db, [(identity_of(**name),)], now)

    def erase_namespace(self, tenant: str, namespace: str, now: int) -> Erasure:
        """Erase every identity of a namespace within a tenant, for good."""
        check(ARGUMENTS, {"tenant": tenant, "namespace": namespace, "now": now})
        with self.store.write() as db:
            return self._erase(db, db.execute(_OF_NAMESPACE, (tenant, namespace)).fetchall(), now)

    def erase_tenant(self, tenant: str, now: int) -> Erasure:
        """Erase every identity of a tenant, for good."""
        check(ARGUMENTS, {"tenant": tenant, "now": now})
        with self.store.write() as db:
            return self._erase(db, db.execute(_OF_TENANT, (tenant,)).fetchall(), now)

    def erase_digest(self, identity: str, now: int) -> Erasure:
        """Erase an identity that is only known by its digest, as `erasures` returns it. Idempotent.

        After a backup was restored, apply every exported erasure with its original time before anything is
        delivered: the backup does not contain the erasures that came after it.
        """
        check(ARGUMENTS, {"identity": identity, "now": now})
        with self.store.write() as db:
            return self._erase(db, [(identity,)], now)

    def _erase(self, db: Connection, identities: Iterable[tuple[str]], now: int) -> Erasure:
        return Erasure(sum(self.stage_erasure(db, identity, now) for (identity,) in identities))

    def stage_erasure(self, db: Connection, identity: str, now: int) -> bool:
        """Erase one identity inside the caller's transaction, beside the caller's own rows of it.

        Every outbox row about it is deleted, sent or not, since each holds the time of a delivery. One row
        announces the erasure. Returns False if it was erased before. Refused: no-transaction.
        """
        self._inside(db)
        check(ARGUMENTS, {"identity": identity, "now": now})
        db.execute(_DELETE_REVISIONS, (identity,))
        if not db.execute(_ERASE, (identity, now)).rowcount:
            return False
        # The announcement is staged first, so that it gets a new id, not the id of a deleted row.
        outbox.stage(db, "erased", identity, now)
        db.execute(_DELETE_MESSAGES, (identity,))
        return True

    def erasures(self, after: int, limit: int) -> Erasures:
        """At most `limit` erasures that were announced after the announcement with the id `after`.

        Export them to a place that a restore does not set back. After a restore an id can be used a second
        time, so read that export from 0 again.
        """
        check(ARGUMENTS, {"after": after, "limit": limit})
        rows = self.store.read(_ERASURES, (after, min(limit, MAX_INTEGER - 1) + 1))
        return Erasures(tuple(rows[:limit]), len(rows) > limit)

    def scrub(self) -> Scrub:
        """Rebuild the file without what was deleted, and empty the WAL.

        `secure_delete` overwrites a deleted row in place, but not the copies that SQLite leaves in the free
        space of a page when it moves rows. So the file is rebuilt (VACUUM), which takes the time and the
        space of a copy. Erase the consumer's own rows before. An open reader can keep the WAL from being
        emptied; then `done` is False. Raises Locked and NotWritten.
        """
        return Scrub(self.store.pack())
