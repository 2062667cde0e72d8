"""The workspace owner: one place decides which result of a piece of work counts.

Workers claim work under a lease and send back a result. Answers get lost, leases expire, workers
are replaced, scopes are revoked. The owner checks all of it in the transaction that commits, so
that a result is accepted once, and a retry gets the receipt of the first time.
"""

from __future__ import annotations

import json
import sqlite3
from collections import namedtuple
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import ClassVar

from receiptlab.errors import Refused
from receiptlab.store import Store
from receiptlab.values import MAX_INTEGER, canonical, checked, hex_digest, integer, sha256, text

SCHEMA = (
    """CREATE TABLE work (
        scope TEXT NOT NULL, work TEXT NOT NULL,
        revision INTEGER NOT NULL, epoch INTEGER NOT NULL, policy TEXT NOT NULL,
        revoked INTEGER NOT NULL CHECK (revoked IN (0, 1)),
        fence INTEGER NOT NULL, holder TEXT NULL, expires_at INTEGER NULL,
        state TEXT NOT NULL CHECK (state IN ('ready', 'leased', 'result-recorded', 'cancelled')),
        human_state TEXT NOT NULL CHECK (human_state IN ('open', 'closed')),
        results INTEGER NOT NULL, changed_at INTEGER NOT NULL,
        PRIMARY KEY (scope, work)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE receipt (
        id INTEGER NOT NULL PRIMARY KEY,
        scope TEXT NOT NULL, key TEXT NOT NULL, work TEXT NOT NULL,
        command TEXT NOT NULL, digest TEXT NOT NULL,
        revision INTEGER NOT NULL, result_digest TEXT NOT NULL, accepted_at INTEGER NOT NULL,
        UNIQUE (scope, key), FOREIGN KEY (scope, work) REFERENCES work (scope, work)) STRICT""",
    """CREATE TABLE outbox (
        id INTEGER NOT NULL PRIMARY KEY,
        receipt INTEGER NOT NULL UNIQUE REFERENCES receipt (id),
        staged_at INTEGER NOT NULL) STRICT""",
)


def countable(name: str, value: object) -> int:
    """An integer that can still be raised by one."""
    return integer(name, value, high=MAX_INTEGER - 1)


ARGUMENTS = {
    "scope": text,
    "work": text,
    "actor": text,
    "key": text,
    "revision": countable,
    "epoch": integer,
    "policy": text,
    "fence": integer,
    "result_digest": hex_digest,
    "now": integer,
    "until": integer,
}

Work = namedtuple(
    "Work",
    "scope work revision epoch policy revoked fence holder expires_at state human_state results changed_at",
    defaults=(None,) * 13,
)
Work.__doc__ = "A row of `work`. A row that is not there has None in every field."
Work.outcome = "read"


@dataclass(frozen=True)
class Claim:
    """A lease on a piece of work. `fence` is higher than any before it; the lease ends at `until`."""

    scope: str
    work: str
    holder: str
    fence: int
    until: int
    outcome: ClassVar[str] = "accepted"


@dataclass(frozen=True)
class Receipt:
    """The owner's lasting answer to a result.

    `outcome` says whether this call made the receipt (accepted) or found it (replayed). It is not
    part of the receipt: the first answer and a replay compare equal.
    """

    id: int
    scope: str
    key: str
    work: str
    revision: int
    result_digest: str
    accepted_at: int
    outcome: str = field(default="accepted", compare=False)

    def to_bytes(self) -> bytes:
        """The receipt as it goes over a wire: the same bytes each time it is given."""
        fields = asdict(self)
        del fields["outcome"]
        return canonical(fields).encode("ascii")


# The guards. Each looks at one thing, inside the transaction that commits.
# `call` holds the checked arguments, `work` is the row as it stands.


def exists(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> None:
    if work.state is not None:
        raise Refused("exists", "this work is there already; take another name")


def not_found(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> None:
    if work.state is None:
        raise Refused("not-found", "there is no such work in this scope; check both names")


def revoked(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> None:
    if work.revoked:
        raise Refused("revoked", "this scope was revoked; nothing is accepted or disclosed")


def epoch(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> None:
    if call.epoch != work.epoch:
        raise Refused("epoch", "the owner is in another epoch; read it again before you go on")


def policy(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> None:
    if call.policy != work.policy:
        raise Refused("policy", "another policy is in force; decide again under that one")


def receipt(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> Receipt | None:
    """A key that was used is answered from its receipt, unless it now names another command."""
    saved = db.execute(_SAVED, vars(call)).fetchone()
    if saved is None:
        return None
    if saved[-1] != call.digest:
        raise Refused("key-reused", "this key named another command; take a new key", _differing(db, call))
    return Receipt(*saved[:-1], outcome="replayed")


def claim_state(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> None:
    if work.state not in ("ready", "leased"):
        raise Refused("state", "this work is finished or cancelled; there is nothing to claim")


def busy(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> None:
    if work.state == "leased" and work.expires_at > call.now:
        raise Refused("busy", "somebody holds this work; ask again when the lease has expired")


def accept_state(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> None:
    if work.state != "leased":
        raise Refused("state", "this work is not leased; a result needs a claim first")


def fence(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> None:
    if call.fence != work.fence:
        raise Refused("fence", "this is not the fence handed out last; somebody else claimed the work")


def holder(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> None:
    if call.actor != work.holder:
        raise Refused("holder", "another actor holds the lease; only the holder may send a result")


def expired(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> None:
    if work.expires_at <= call.now:
        raise Refused("expired", "the lease has expired; claim the work again")


def revision(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> None:
    if call.revision != work.revision:
        raise Refused("revision", "the work has another revision; read it again before you go on")


def cancel_state(db: sqlite3.Connection, call: SimpleNamespace, work: Work) -> None:
    if work.state == "result-recorded":
        raise Refused("state", "a result is recorded; it is too late to cancel")


GUARDS = {
    "add": (exists,),
    "claim": (not_found, revoked, claim_state, busy),
    "accept": (
        not_found,
        revoked,
        epoch,
        policy,
        receipt,  # after authority: a replay without it learns nothing
        accept_state,
        fence,
        holder,
        expired,
        revision,
    ),
    "cancel": (not_found, cancel_state),
    "set_authority": (not_found,),
    "revoke": (not_found,),
}

_WORK = "SELECT * FROM work WHERE scope = :scope AND work = :work"
_ANY_WORK = "SELECT * FROM work WHERE scope = :scope ORDER BY work LIMIT 1"
_SAVED = """SELECT id, scope, key, work, revision, result_digest, accepted_at, digest
    FROM receipt WHERE scope = :scope AND key = :key"""
_ADD = """INSERT INTO work VALUES (:scope, :work, :revision, :epoch, :policy,
    (SELECT coalesce(max(revoked), 0) FROM work WHERE scope = :scope),
    0, NULL, NULL, 'ready', 'open', 0, :now)"""
_CLAIM = """UPDATE work SET fence = fence + 1, holder = :actor, expires_at = :until, state = 'leased',
    changed_at = :now WHERE scope = :scope AND work = :work RETURNING fence"""
_RESULT = """UPDATE work SET revision = revision + 1, results = results + 1, state = 'result-recorded',
    holder = NULL, expires_at = NULL, changed_at = :now WHERE scope = :scope AND work = :work"""
_RECEIPT = """INSERT INTO receipt (scope, key, work, command, digest, revision, result_digest, accepted_at)
    VALUES (:scope, :key, :work, :command, :digest, :revision + 1, :result_digest, :now)"""
_OUTBOX = "INSERT INTO outbox (receipt, staged_at) VALUES (?, ?)"
_CANCEL = "UPDATE work SET state = 'cancelled', changed_at = :now WHERE scope = :scope AND work = :work"
_AUTHORITY = """UPDATE work SET epoch = :epoch, policy = :policy, changed_at = :now
    WHERE scope = :scope AND work = :work"""
_REVOKE = "UPDATE work SET revoked = 1, changed_at = :now WHERE scope = :scope"
_COUNTS = """SELECT (SELECT coalesce(sum(results), 0) FROM work), (SELECT count(*) FROM receipt),
    (SELECT count(*) FROM outbox)"""
_LEASES = """SELECT scope || '/' || work, holder, fence, expires_at FROM work
    WHERE state = 'leased' ORDER BY scope, work"""


def _differing(db: sqlite3.Connection, call: SimpleNamespace) -> tuple[str, ...]:
    (saved,) = db.execute(
        "SELECT command FROM receipt WHERE scope = :scope AND key = :key", vars(call)
    ).fetchone()
    before, now = json.loads(saved), json.loads(call.command)
    return tuple(name for name in ARGUMENTS if name in now and now[name] != before[name])


class Owner:
    """The owner over an open store.

    Every call raises ValueError or TypeError for a wrong argument and Refused for what the contract
    turns down: nothing was written. Locked, NotWritten and Indefinite are as `Store.write` says.
    `now` and `until` are the caller's time, in any one unit.
    """

    SCHEMA = SCHEMA
    ARGUMENTS = ARGUMENTS
    GUARDS = GUARDS
    TABLES = ("work", "receipt", "outbox")
    CALLS = ("add", "claim", "accept", "cancel", "set_authority", "revoke", "look")
    COUNTS = ("results", "receipts", "outbox")
    POINTS: ClassVar = {"accept": ("after_guards", "after_result", "after_receipt", "after_outbox")}

    def __init__(self, store: Store, guards: dict = GUARDS) -> None:
        store.require(*self.TABLES)
        self.store = store
        self.guards = guards

    def add(self, scope: str, work: str, revision: int, epoch: int, policy: str, now: int) -> None:
        """Put a piece of work there, ready to be claimed. Refused: exists.

        Work added to a scope that was revoked is revoked as well.
        """
        self._write(
            "add", _ADD, scope=scope, work=work, revision=revision, epoch=epoch, policy=policy, now=now
        )

    def claim(self, scope: str, work: str, actor: str, now: int, until: int) -> Claim:
        """Lease the work to `actor` from `now` to `until`. Refused: not-found, revoked, state, busy."""
        integer("until", until, low=integer("now", now) + 1)
        rows = self._write("claim", _CLAIM, scope=scope, work=work, actor=actor, now=now, until=until)
        return Claim(scope, work, actor, rows[0][0], until)

    def accept(
        self,
        scope: str,
        work: str,
        actor: str,
        key: str,
        revision: int,
        epoch: int,
        policy: str,
        fence: int,
        result_digest: str,
        now: int,
    ) -> Receipt:
        """Record the result, its receipt and one outbox row, all or none; or find the receipt of `key`.

        Refused, in this order: not-found, revoked, epoch, policy, key-reused (with the names of the
        fields that differ), state, fence, holder, expired, revision.
        """
        command = locals().copy()  # every argument by its name
        del command["self"]
        call = checked(ARGUMENTS, command)
        del command["now"]  # a retry comes later and is the same command
        call.command = canonical(command)
        call.digest = sha256(call.command)
        with self.store.write() as db:
            saved = self._guard("accept", db, call)
            return saved or self._record(db, call)

    def cancel(self, scope: str, work: str, now: int) -> None:
        """Cancel the work for good, leased or not. Refused: not-found, state (a result is recorded)."""
        self._write("cancel", _CANCEL, scope=scope, work=work, now=now)

    def set_authority(self, scope: str, work: str, epoch: int, policy: str, now: int) -> None:
        """Say which epoch and policy are in force for the work from now on. Refused: not-found."""
        self._write("set_authority", _AUTHORITY, scope=scope, work=work, epoch=epoch, policy=policy, now=now)

    def revoke(self, scope: str, now: int) -> None:
        """Revoke the scope: all its work, for good. Refused: not-found (no work in the scope)."""
        self._write("revoke", _REVOKE, _ANY_WORK, scope=scope, now=now)

    def look(self, scope: str, work: str) -> Work:
        """The row as it stands. Refused: not-found."""
        call = checked(ARGUMENTS, {"scope": scope, "work": work})
        rows = self.store.read(_WORK, vars(call))
        if not rows:
            raise Refused("not-found", "there is no such work in this scope; check both names")
        return Work(*rows[0])

    def counts(self) -> tuple[int, int, int]:
        """How many results, receipts and outbox rows the file holds."""
        return self.store.read(_COUNTS)[0]

    def leases(self) -> list[tuple[str, str, int, int]]:
        """Who holds what: (scope/work, holder, fence, end) of each lease, expired ones included."""
        return self.store.read(_LEASES)

    def _write(self, name: str, sql: str, row: str = _WORK, **arguments: object) -> list[tuple]:
        call = checked(ARGUMENTS, arguments)
        with self.store.write() as db:
            self._guard(name, db, call, row)
            return db.execute(sql, arguments).fetchall()

    def _guard(
        self, name: str, db: sqlite3.Connection, call: SimpleNamespace, row: str = _WORK
    ) -> Receipt | None:
        work = Work(*(db.execute(row, vars(call)).fetchone() or ()))
        for guard in self.guards[name]:
            saved = guard(db, call, work)
            if saved is not None:
                return saved
        return None

    def _record(self, db: sqlite3.Connection, call: SimpleNamespace) -> Receipt:
        reach = self.store.reach
        reach("after_guards")
        db.execute(_RESULT, vars(call))
        reach("after_result")
        receipt_id = db.execute(_RECEIPT, vars(call)).lastrowid
        reach("after_receipt")
        db.execute(_OUTBOX, (receipt_id, call.now))
        reach("after_outbox")
        return Receipt(
            receipt_id, call.scope, call.key, call.work, call.revision + 1, call.result_digest, call.now
        )
