"""Staging: how a consumer writes what it decided about a delivery, inside its own transaction.

The half of the intake contract that writes receipts. `intake` is the whole.
"""

from __future__ import annotations

from sqlite3 import Connection
from types import SimpleNamespace
from typing import NamedTuple

from receiptlab.contracts import outbox
from receiptlab.contracts.base import Contract
from receiptlab.contracts.intake.items import (
    KEY_KINDS,
    CollisionRedelivered,
    FirstSeen,
    Handle,
    Item,
    Redelivered,
    Staged,
    identity_of,
)
from receiptlab.contracts.untyped import arguments, checked
from receiptlab.errors import Refused, WrongType, WrongValue
from receiptlab.values import MAX_INTEGER, hex_digest, integer, one_of, sized, text

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

_SHOWN = {"first": (FirstSeen,), "handle": (Handle,), "again": (Redelivered, CollisionRedelivered)}


class Staging(Contract):
    """The staging calls. They take the connection that `with store.write()` gave, and write into its
    transaction; there is no other way to write a receipt. A refusal that leaves the `with`
    rolls all of it back; do not catch one inside it and go on.
    """

    ARGUMENTS = ARGUMENTS
    GUARDS = GUARDS

    def item(self, key_kind: str, tenant: str, namespace: str, key: str, digest: str) -> Item:
        """The item with its identity. A key made from content must be the content's digest."""
        call = checked(ARGUMENTS, arguments(locals()))
        if key_kind == "content" and key != digest:
            raise WrongValue("key", "made from content must be the digest of the content")
        return Item(*vars(call).values(), identity_of(key_kind, tenant, namespace, key)).sealed()

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
