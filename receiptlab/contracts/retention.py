"""Retention and range closure: how long a service remembers that it has done something.

A receipt that is kept forever answers every retry, and takes space forever. There are two ways to keep less:
drop the result and keep a tombstone, or close a whole range of epochs and keep one number, the watermark
(`boundary`). Deleting a receipt without either is unsafe; `faults.tampering` does it to show why.

Epochs are business periods that the caller counts and is trusted with. They are neither lease epochs nor
times.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from sqlite3 import Connection
from typing import ClassVar, NamedTuple

from receiptlab.contracts.base import Command, Contract, Guards, numbered
from receiptlab.errors import Refused
from receiptlab.values import Rule, canonical, check, integer, sha256, text, utf8

# `effect` has no unique constraint, so that a second effect would be visible. Its index is for
# reconciliation, which looks effects up by key. The receipts are stored in key order, so that the receipts of
# a range are deleted in one place.
SCHEMA = (
    """CREATE TABLE effect (
        id INTEGER NOT NULL PRIMARY KEY,
        namespace TEXT NOT NULL, epoch INTEGER NOT NULL, operation TEXT NOT NULL,
        digest TEXT NOT NULL, executed_at INTEGER NOT NULL) STRICT""",
    "CREATE INDEX effect_of_key ON effect (namespace, epoch, operation)",
    """CREATE TABLE receipt (
        namespace TEXT NOT NULL, epoch INTEGER NOT NULL, operation TEXT NOT NULL,
        digest TEXT NOT NULL, result TEXT NULL, changed_at INTEGER NOT NULL,
        PRIMARY KEY (namespace, epoch, operation)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE boundary (
        namespace TEXT NOT NULL PRIMARY KEY,
        closed_through INTEGER NOT NULL, changed_at INTEGER NOT NULL) STRICT, WITHOUT ROWID""",
)

ARGUMENTS: dict[str, Rule] = {
    "namespace": text,
    "epoch": integer,
    "operation": text,
    "payload": utf8,
    "through": integer,
    "now": integer,
}


@dataclass(frozen=True)
class Executed:
    """The saved result of an operation: the id of its effect, and when it was executed.

    A version that adds a field gives it a default, which older results then have. `outcome` says whether this
    call had the effect (accepted) or found the result (replayed). Both compare equal.
    """

    effect: int
    executed_at: int
    outcome: str = field(default="accepted", compare=False)


@dataclass(frozen=True)
class Tombstone:
    """What remains of a receipt whose result expired: the digest of the payload."""

    digest: str
    outcome: str = field(default="accepted", compare=False)


@dataclass(frozen=True)
class Closure:
    """A boundary, and the number of receipts and tombstones that were deleted when it was set."""

    closed_through: int
    collected: int
    outcome: str = "accepted"


@dataclass(frozen=True)
class Effects:
    """What really happened under a key: the digest of each effect, in order. Used for reconciliation."""

    digests: tuple[str, ...]
    outcome: ClassVar[str] = "read"


class CurrentKey(NamedTuple):
    """What a call's transaction has read: the namespace's boundary and the key's receipt, if there are any.
    A receipt without a result is a tombstone."""

    closed_through: int | None
    digest: str | None = None
    result: str | None = None


# The commands: the arguments of each call that has guards.


@dataclass(frozen=True)
class ExecuteOperation(Command):
    namespace: str
    epoch: int
    operation: str
    payload: str
    now: int

    @cached_property
    def digest(self) -> str:
        """The digest by which two payloads are compared."""
        return sha256(self.payload)


@dataclass(frozen=True)
class ExpireResult(Command):
    namespace: str
    epoch: int
    operation: str
    now: int


@dataclass(frozen=True)
class CloseRange(Command):
    namespace: str
    through: int
    now: int


# The guards. Each checks one thing, inside the transaction that commits.


def closed(command: ExecuteOperation | ExpireResult, current: CurrentKey) -> None:
    if current.closed_through is not None and command.epoch <= current.closed_through:
        raise Refused("closed", "this epoch is closed, for old and new operations; read its effects")


def conflict(command: ExecuteOperation, current: CurrentKey) -> None:
    if current.digest is not None and current.digest != command.digest:
        raise Refused("conflict", "this operation was sent with another payload; choose a new operation id")


def unknown_field(command: Command, current: CurrentKey) -> None:
    fields = (
        json.loads(current.result).keys() - {"effect", "executed_at"} if current.result is not None else ()
    )
    if fields:
        what = "a newer version saved this result with fields that are unknown here; ask that version"
        raise Refused("unknown-field", what, tuple(sorted(fields)))


def replay(command: Command, current: CurrentKey) -> Executed | None:
    if current.result is None:
        return None
    saved = json.loads(current.result)
    return Executed(saved["effect"], saved["executed_at"], outcome="replayed")


def result_expired(command: Command, current: CurrentKey) -> None:
    if current.digest is not None and current.result is None:
        raise Refused(
            "result-expired", "this was executed, and its result is no longer kept; read its effects"
        )


def not_found(command: Command, current: CurrentKey) -> None:
    if current.digest is None:
        raise Refused("not-found", "there is no receipt under this key; check its three parts")


def expire_result_replay(command: Command, current: CurrentKey) -> Tombstone | None:
    if current.digest is None or current.result is not None:
        return None
    return Tombstone(current.digest, outcome="replayed")


def boundary(command: CloseRange, current: CurrentKey) -> None:
    if current.closed_through is not None and command.through < current.closed_through:
        raise Refused("boundary", "this namespace is closed further already, and a boundary never goes back")


def close_and_collect_replay(command: CloseRange, current: CurrentKey) -> Closure | None:
    return (
        Closure(command.through, 0, outcome="replayed") if command.through == current.closed_through else None
    )


GUARDS: Guards = {
    "execute": (closed, conflict, unknown_field, replay, result_expired),
    "expire_result": (closed, not_found, expire_result_replay),
    "close_and_collect": (boundary, close_and_collect_replay),
}

_BOUNDARY = "SELECT closed_through FROM boundary WHERE namespace = ?"
_SAVED = "SELECT digest, result FROM receipt WHERE namespace = ? AND epoch = ? AND operation = ?"
_EFFECT = """INSERT INTO effect (namespace, epoch, operation, digest, executed_at)
    VALUES (?, ?, ?, ?, ?)"""
_RECEIPT = "INSERT INTO receipt VALUES (?, ?, ?, ?, ?, ?)"
_EXPIRE = """UPDATE receipt SET result = NULL, changed_at = :now
    WHERE namespace = :namespace AND epoch = :epoch AND operation = :operation"""
_CLOSE = """INSERT INTO boundary VALUES (:namespace, :through, :now)
    ON CONFLICT (namespace) DO UPDATE SET closed_through = :through, changed_at = :now"""
_COLLECT = "DELETE FROM receipt WHERE namespace = :namespace AND epoch <= :through"
_EFFECTS = """SELECT digest FROM effect
    WHERE namespace = :namespace AND epoch = :epoch AND operation = :operation ORDER BY id"""


def _read_key(db: Connection, command: ExecuteOperation | ExpireResult) -> CurrentKey:
    (closed_through,) = db.execute(_BOUNDARY, (command.namespace,)).fetchone() or (None,)
    saved = db.execute(_SAVED, (command.namespace, command.epoch, command.operation)).fetchone()
    return CurrentKey(closed_through, *(saved or ()))


def _read_boundary(db: Connection, command: CloseRange) -> CurrentKey:
    return CurrentKey(*(db.execute(_BOUNDARY, (command.namespace,)).fetchone() or (None,)))


def _expire(db: Connection, command: ExpireResult, current: CurrentKey) -> Tombstone:
    db.execute(_EXPIRE, vars(command))
    return Tombstone(current.digest or "")  # never empty after the guard not_found


class Retention(Contract):
    """Operations, each with the idempotency key (namespace, epoch, operation), and what is kept of them."""

    NAME = "retention"
    SCHEMA = SCHEMA
    TABLES = ("effect", "receipt", "boundary")
    ARGUMENTS = ARGUMENTS
    GUARDS = GUARDS
    READS = ("effects",)
    FAILPOINTS: ClassVar = {
        "execute": ("after_guards", "after_effect", "after_receipt"),
        "close_and_collect": ("after_guards", "after_boundary", "after_collection"),
    }
    COUNTS: ClassVar = {
        "effects": "SELECT count(*) FROM effect",
        "receipts": "SELECT count(*) FROM receipt WHERE result IS NOT NULL",
        "tombstones": "SELECT count(*) FROM receipt WHERE result IS NULL",
    }

    def execute(self, namespace: str, epoch: int, operation: str, payload: str, now: int) -> Executed:
        """Have the effect and keep a receipt, both or none, or find the first result.

        Payloads of at most 1 MiB are compared by the SHA-256 of their UTF-8 bytes, and not kept. Refused, in
        this order: closed, conflict (another payload), unknown-field (a newer version saved the result),
        result-expired, and exhausted when no id is left.
        """
        command = ExecuteOperation(namespace, epoch, operation, payload, now)
        return self._transact("execute", command, _read_key, self._execute)

    def expire_result(self, namespace: str, epoch: int, operation: str, now: int) -> Tombstone:
        """Drop the result of an operation and keep the digest of its payload. Idempotent.

        Refused, in this order: closed, not-found.
        """
        command = ExpireResult(namespace, epoch, operation, now)
        return self._transact("expire_result", command, _read_key, _expire)

    def close_and_collect(self, namespace: str, through: int, now: int) -> Closure:
        """Close every epoch up to and including `through` and delete the range's receipts, in one
        transaction.

        Effects stay, and other namespaces don't change. Setting the same boundary again changes nothing.
        Refused: boundary (the namespace is already closed beyond `through`).
        """
        command = CloseRange(namespace, through, now)
        return self._transact("close_and_collect", command, _read_boundary, self._close)

    def effects(self, namespace: str, epoch: int, operation: str) -> Effects:
        """The effects under a key, whatever the receipts still say. None at all is an empty list."""
        key = {"namespace": namespace, "epoch": epoch, "operation": operation}
        check(ARGUMENTS, key)
        return Effects(tuple(digest for (digest,) in self.store.read(_EFFECTS, key)))

    def _execute(self, db: Connection, command: ExecuteOperation, current: CurrentKey) -> Executed:
        failpoint = self.store.failpoint
        failpoint("after_guards")
        key = (command.namespace, command.epoch, command.operation, command.digest)
        done = Executed(numbered("effect", db.execute(_EFFECT, (*key, command.now)).lastrowid), command.now)
        failpoint("after_effect")
        result = canonical({"effect": done.effect, "executed_at": done.executed_at})
        db.execute(_RECEIPT, (*key, result, command.now))
        failpoint("after_receipt")
        return done

    def _close(self, db: Connection, command: CloseRange, current: CurrentKey) -> Closure:
        failpoint = self.store.failpoint
        failpoint("after_guards")
        db.execute(_CLOSE, vars(command))
        failpoint("after_boundary")
        collected = db.execute(_COLLECT, vars(command)).rowcount
        failpoint("after_collection")
        return Closure(command.through, collected)
