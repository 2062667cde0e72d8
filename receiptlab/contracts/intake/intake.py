"""Intake receipts: seen, seen again, changed, erased; never dropped.

A service takes in items from outside: mail, webhooks, files. Each item has a name given by its source,
and a digest of its content that the consumer computed over its own canonical form. `classify` says
what is known of it. The staging calls write what the consumer decides, inside the consumer's own
transaction, beside its domain rows.
"""

from __future__ import annotations

from sqlite3 import Connection
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

from receiptlab.contracts import outbox
from receiptlab.contracts.base import Contract, arguments
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
from receiptlab.values import MAX_INTEGER, checked, hex_digest, integer, one_of, sized, text

# A receipt has one row for its identity and one for each revision, collisions included. What is
# compacted loses key and outcomes; what is erased keeps nothing but the identity and the time.
# `unsettled` counts the processing rows that are neither done nor discarded.
# The two partial indexes hold what a sweep takes, in its order, so that a sweep reads no other rows.
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

ARGUMENTS = {
    "key_kind": one_of(KEY_KINDS),
    "tenant": text,
    "namespace": sized(1, 256),
    "key": sized(1, 1024),
    "digest": hex_digest,
    "identity": hex_digest,
    "reference": sized(0, 4096),
    "decision": one_of(DECISIONS),
    "changed_as": one_of(DECISIONS[1:3]),
    "retain_until": integer,
    "tombstone_until": integer,
    "after": integer,
    "limit": integer,
    "now": integer,
}


class Seen(NamedTuple):
    """The receipt's row as the transaction has read it; None where there is none. `known_as` is the number of
    the revision that has the call's content."""

    state: str | None = None
    head: int | None = None
    revisions: int | None = None
    head_digest: str | None = None
    known_as: int | None = None


# The guards. Whoever is refused while staging rolls the whole batch back.


def handle_used(call: SimpleNamespace, seen: Seen) -> None:
    if call.handle is not None and call.handle.used:
        raise Refused("handle-used", "this handle was staged before; classify again")


def erased(call: SimpleNamespace, seen: Seen) -> None:
    if seen.state == "erased":
        raise Refused("erased", "this identity was erased, for good")


def not_found(call: SimpleNamespace, seen: Seen) -> None:
    if call.known and seen.state is None:
        raise Refused("not-found", "nothing is known of this identity any more; classify again")


def head_moved(call: SimpleNamespace, seen: Seen) -> None:
    if call.handle is None:
        moved = not seen.known_as if call.known else seen.state is not None
    else:
        moved = seen.known_as or call.handle.on != (seen.head, seen.revisions, seen.head_digest)
    if moved:
        raise Refused("head-moved", "something was staged under this identity since; classify again")


GUARDS = {
    "stage": (handle_used, erased, not_found, head_moved),
    "deliver": (erased,),
    "sweep": (),
    "erase_identity": (),
    "erase_namespace": (),
    "erase_tenant": (),
    "erase_digest": (),
}

_SEEN = """SELECT r.state, r.head, r.revisions, h.digest,
        (SELECT v.number FROM revision v WHERE v.identity = r.identity AND v.digest = ?)
    FROM receipt r LEFT JOIN revision h ON h.identity = r.identity AND h.number = r.head
    WHERE r.identity = ?"""
_FIRST = """INSERT INTO receipt VALUES (:identity, 'live', :key_kind, :tenant, :namespace, :key,
    1, 1, 0, 1, 0, :retain_until, :tombstone_until, :now)"""
_ROW = "INSERT INTO revision VALUES (:identity, :number, :disposition, :digest, :reference, :now)"
_MOVE = """UPDATE receipt SET state = 'live', key = :key, head = :number, revisions = :number,
    seen = seen + 1, retain_until = :retain_until, tombstone_until = :tombstone_until, changed_at = :now
    WHERE identity = :identity"""
_COLLIDE = """UPDATE receipt SET revisions = :number, collisions = collisions + 1, seen = seen + 1,
    changed_at = :now WHERE identity = :identity"""
_SAW = "UPDATE receipt SET seen = seen + 1 WHERE identity = :identity"

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

_SHOWN = {"first": (FirstSeen,), "handle": (Handle,), "again": (Redelivered, CollisionRedelivered)}


class Intake(Contract):
    """Receipts of inbound items over an open store.

    What it reads and decides, keeps and erases. The staging calls are in `staging`.
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

    inhand: Finding | None = None
    """What this object classified last; `stage` stages it."""

    def item(self, key_kind: str, tenant: str, namespace: str, key: str, digest: str) -> Item:
        """The item with its identity. A key made from content must be the content's digest."""
        call = checked(ARGUMENTS, arguments(locals()))
        if key_kind == "content" and key != digest:
            raise WrongValue("key", "made from content must be the digest of the content")
        return Item(*vars(call).values(), identity_of(key_kind, tenant, namespace, key)).sealed()

    def classify(self, key_kind: str, tenant: str, namespace: str, key: str, digest: str) -> Finding:
        """What is known of the item: FirstSeen, Redelivered, Changed, CollisionRedelivered or Erased.

        It only reads. Between it and the staging call another delivery may come; the staging call
        then refuses (head-moved).
        """
        self.inhand = self._find(self.item(key_kind, tenant, namespace, key, digest))
        return self.inhand

    def _find(self, item: Item) -> Finding:
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
        call = self._call(db, arguments(locals()), "first")
        self._guard("stage", db, call)
        db.execute(_FIRST, vars(call))
        return self._revision(db, call, 1, "accepted")

    def stage_revision(
        self,
        db: Connection,
        handle: Handle,
        reference: str,
        retain_until: int,
        tombstone_until: int,
        now: int,
    ) -> Staged:
        """Accept changed content: the head moves to it, and a compacted receipt lives again.

        Refused: no-transaction, other-store, handle-used, erased, not-found, head-moved.
        """
        call = self._call(db, arguments(locals()), "handle")
        return self._changed(db, call, _MOVE, "accepted")

    def stage_collision(self, db: Connection, handle: Handle, reference: str, now: int) -> Staged:
        """Record changed content as a collision: it is counted, and the head stays.

        Refused: no-transaction, other-store, handle-used, erased, not-found, head-moved.
        """
        call = self._call(db, arguments(locals()), "handle")
        return self._changed(db, call, _COLLIDE, "collision")

    def stage_seen(self, db: Connection, again: Redelivered | CollisionRedelivered, now: int) -> Staged:
        """Count a redelivery. Refused: no-transaction, erased, not-found, head-moved (the tombstone went, and
        something else came)."""
        call = self._call(db, arguments(locals()), "again")
        seen = self._guard("stage", db, call)
        db.execute(_SAW, vars(call))
        return Staged(call.identity, seen.known_as)

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

    def stage_delivery(self, db: Connection, **delivery: object) -> tuple[Finding, Staged | None]:
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
        found: Finding | None,
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

    def _call(self, db: Connection, named: dict, what: str) -> SimpleNamespace:
        """The checked arguments of a staging call, with the item's fields and what is known of it."""
        self._inside(db)
        shown = named.pop(what)
        if type(shown) not in _SHOWN[what] or type(shown.item) is not Item:
            raise WrongType(what, f"must be what classify gave, not {type(shown).__name__}")
        item = shown.item
        if what == "handle" and shown.store is not self.store:
            raise Refused("other-store", "this handle is of another store; classify there")
        del named["db"]
        call = checked(ARGUMENTS, named)
        if named.get("tombstone_until", MAX_INTEGER) < named.get("retain_until", 0):
            raise WrongValue("tombstone_until", "must not be before retain_until")
        if item.mint != item.seal():  # made by hand: it is checked, and gets the identity of its name
            item = self.item(item.key_kind, item.tenant, item.namespace, item.key, item.digest)
        vars(call).update(vars(item))
        call.handle, call.known = (shown if what == "handle" else None), what != "first"
        return call

    def _guard(self, name: str, db: Connection, call: SimpleNamespace) -> Seen:
        seen = Seen(*(db.execute(_SEEN, (call.digest, call.identity)).fetchone() or ()))
        for guard in self.guards[name]:
            guard(call, seen)
        self.store.failpoint("after_guards")
        return seen

    def _changed(self, db: Connection, call: SimpleNamespace, move: str, disposition: str) -> Staged:
        seen = self._guard("stage", db, call)
        call.handle.use_up()
        call.number = seen.revisions + 1
        if seen.state == "compacted" and disposition == "collision":
            call.reference = None  # it is not made to live again, so nothing is recorded of it
        db.execute(move, vars(call))
        return self._revision(db, call, call.number, disposition)

    def _revision(self, db: Connection, call: SimpleNamespace, number: int, disposition: str) -> Staged:
        self.store.failpoint("after_receipt")
        call.number, call.disposition = number, disposition
        db.execute(_ROW, vars(call))
        self.store.failpoint("after_revision")
        return Staged(call.identity, number)

    def _erase(self, identities: list[str], of: str | None, values: dict, now: int) -> Erasure:
        with self.store.write() as db:
            if of is not None:
                identities = [identity for (identity,) in db.execute(of, values).fetchall()]
            return Erasure(sum(self.stage_erasure(db, identity, now) for identity in identities))
