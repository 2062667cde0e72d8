"""The owner: claims, fencing tokens, and the checks by which a worker's result is accepted once.

Workers claim work under a lease and send back a result. Answers get lost, leases expire, workers are
replaced, scopes are revoked. The owner checks all of this in the transaction that commits. So it accepts a
result once, and a retry gets the first receipt.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from sqlite3 import Connection
from typing import Any, ClassVar, NamedTuple

from receiptlab.contracts import outbox
from receiptlab.contracts.base import Command, Contract, Guards, numbered, writes
from receiptlab.errors import Refused
from receiptlab.values import (
    MAX_INTEGER,
    Rule,
    canonical,
    check,
    countable,
    hex_digest,
    integer,
    sha256,
    text,
)

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
    *outbox.SCHEMA,
)

ARGUMENTS: dict[str, Rule] = {
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

FORM = 1
"""The version of the saved form of a command. `AcceptResult.ADDED` explains how to add a field."""


class WorkRow(NamedTuple):
    """A row of `work`. Where there is no such work, every field is None."""

    scope: str
    work: str
    revision: int
    epoch: int
    policy: str
    revoked: int
    fence: int
    holder: str | None
    expires_at: int | None
    state: str | None
    human_state: str
    results: int
    changed_at: int

    @property
    def outcome(self) -> str:
        """The word for an answer that was only read."""
        return "read"


class SavedReceipt(NamedTuple):
    """A row of `receipt`. `command` is the canonical text of the command that was accepted, and `digest` its
    SHA-256."""

    id: int
    scope: str
    key: str
    work: str
    revision: int
    result_digest: str
    accepted_at: int
    command: str
    digest: str

    def receipt(self, outcome: str) -> Receipt:
        """The receipt in this row, as an answer."""
        return Receipt(*self[:-2], outcome=outcome)


class CurrentWork(NamedTuple):
    """What a call's transaction has read: the row of the work, and the receipt under the key, if any."""

    work: WorkRow
    saved: SavedReceipt | None = None


@dataclass(frozen=True)
class WorkLease:
    """A lease on a piece of work. `fence`, the fencing token, is higher than any before it. The lease ends at
    `until`."""

    scope: str
    work: str
    holder: str
    fence: int
    until: int
    outcome: ClassVar[str] = "accepted"


@dataclass(frozen=True)
class Receipt:
    """The owner's lasting answer to a result.

    `outcome` says whether this call made the receipt (accepted) or found it (replayed). It is not part of the
    receipt, so the first answer and a replay compare equal.
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
        """The receipt as it is sent: the same bytes every time."""
        fields = asdict(self)
        del fields["outcome"]
        return canonical(fields).encode("ascii")


# The commands: the arguments of each call that has guards.


@dataclass(frozen=True)
class OnWork(Command):
    """What every call on one piece of work has. Fields are in the order of the call, which is the order in
    which they are checked."""

    scope: str
    work: str


@dataclass(frozen=True)
class AddWork(OnWork):
    revision: int
    epoch: int
    policy: str
    now: int


@dataclass(frozen=True)
class CancelWork(OnWork):
    now: int


@dataclass(frozen=True)
class SetAuthority(OnWork):
    epoch: int
    policy: str
    now: int


@dataclass(frozen=True)
class ClaimWork(OnWork):
    actor: str
    now: int
    until: int


@dataclass(frozen=True)
class UnderLease(OnWork):
    """What every call under a lease has: the actor, and the fence of its claim."""

    actor: str
    fence: int


@dataclass(frozen=True)
class RenewLease(UnderLease):
    now: int
    until: int


@dataclass(frozen=True)
class ReleaseLease(UnderLease):
    now: int


@dataclass(frozen=True)
class AcceptResult(Command):
    scope: str
    work: str
    actor: str
    key: str
    revision: int
    epoch: int
    policy: str
    fence: int
    result_digest: str
    now: int

    ADDED: ClassVar[tuple[str, ...]] = ()
    """Fields that a later version of the lab added, each with a default. A command that leaves such a field
    at its default is saved without it, so it is the same command as before the field existed."""

    @cached_property
    def command(self) -> str:
        """The canonical text of the command: calls with the same text are the same command. `now` is left
        out, because a retry comes later."""
        saved = dict(vars(self), form=FORM)
        del saved["now"]
        for name in self.ADDED:
            if saved[name] == getattr(type(self), name):
                del saved[name]
        return canonical(saved)

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical text."""
        return sha256(self.command)


@dataclass(frozen=True)
class FindReceipt(Command):
    scope: str
    key: str
    epoch: int
    policy: str


@dataclass(frozen=True)
class RevokeScope(Command):
    scope: str
    now: int


# The guards. Each checks one thing, inside the transaction that commits.


def exists(command: Command, current: CurrentWork) -> None:
    if current.work.state is not None:
        raise Refused("exists", "this work already exists; choose another name")


def not_found(command: Command, current: CurrentWork) -> None:
    if current.work.state is None:
        raise Refused("not-found", "there is no such work in this scope; check both names")


def revoked(command: Command, current: CurrentWork) -> None:
    if current.work.revoked:
        raise Refused("revoked", "this scope was revoked; nothing is accepted or disclosed")


def epoch(command: AcceptResult, current: CurrentWork) -> None:
    if command.epoch != current.work.epoch:
        raise Refused("epoch", "another epoch is in force; read it again before you continue")


def policy(command: AcceptResult, current: CurrentWork) -> None:
    if command.policy != current.work.policy:
        raise Refused("policy", "another policy is in force; decide again under that one")


def unknown_field(command: AcceptResult, current: CurrentWork) -> None:
    if current.saved and current.saved.command != command.command:
        saved = json.loads(current.saved.command)
        fields = ("form",) if saved.pop("form", FORM) > FORM else ()
        fields += tuple(name for name in saved if name not in vars(command))
        if fields:
            what = "a newer version saved this command with fields that are unknown here; ask that version"
            raise Refused("unknown-field", what, fields)


def key_reused(command: AcceptResult, current: CurrentWork) -> None:
    if current.saved and current.saved.command != command.command:
        before, now = json.loads(current.saved.command), json.loads(command.command)
        fields = tuple(name for name in vars(command) if before.get(name) != now.get(name))
        raise Refused("key-reused", "this key was used for another command; choose a new key", fields)


def replay(command: AcceptResult, current: CurrentWork) -> Receipt | None:
    return current.saved.receipt("replayed") if current.saved else None


def claim_state(command: Command, current: CurrentWork) -> None:
    if current.work.state not in ("ready", "leased"):
        raise Refused("state", "this work is finished or cancelled; there is nothing to claim")


def busy(command: ClaimWork, current: CurrentWork) -> None:
    until = current.work.expires_at
    if current.work.state == "leased" and until is not None and command.now < until:
        raise Refused("busy", "somebody holds this work; ask again when the lease has expired")


def exhausted(command: Command, current: CurrentWork) -> None:
    if current.work.fence == MAX_INTEGER:
        what = "the fence has its largest value; cancel this work and add it under another name"
        raise Refused("exhausted", what, ("fence",))


def find_not_found(command: FindReceipt, current: CurrentWork) -> None:
    in_force = (command.epoch, command.policy) == (current.work.epoch, current.work.policy)
    if not (current.saved and in_force):  # the same refusal for both, so no authority means no information
        what = "no receipt under this key for this epoch and policy; read both again before you rely on it"
        raise Refused("not-found", what)


def accept_state(command: Command, current: CurrentWork) -> None:
    if current.work.state != "leased":
        raise Refused("state", "this work is not leased; a result needs a claim first")


def renew_state(command: Command, current: CurrentWork) -> None:
    if current.work.state != "leased":
        raise Refused("state", "this work is not leased; there is no lease to renew")


def release_state(command: Command, current: CurrentWork) -> None:
    if current.work.state != "leased":
        raise Refused("state", "this work is not leased; there is no lease to release")


def fence(command: UnderLease | AcceptResult, current: CurrentWork) -> None:
    if command.fence != current.work.fence:
        raise Refused("fence", "this is not the latest fence; the claim is stale, so claim the work again")


def holder(command: UnderLease | AcceptResult, current: CurrentWork) -> None:
    if command.actor != current.work.holder:
        raise Refused("holder", "another actor holds the lease; only the holder may use it")


def expired(command: RenewLease | AcceptResult, current: CurrentWork) -> None:
    if current.work.expires_at is None or current.work.expires_at <= command.now:
        raise Refused("expired", "the lease has expired; claim the work again")


def revision(command: AcceptResult, current: CurrentWork) -> None:
    if command.revision != current.work.revision:
        raise Refused("revision", "the work has another revision; read it again before you continue")


def cancel_state(command: Command, current: CurrentWork) -> None:
    if current.work.state == "result-recorded":
        raise Refused("state", "a result is recorded; it is too late to cancel")


GUARDS: Guards = {
    "add": (exists,),
    "claim": (not_found, revoked, claim_state, busy, exhausted),
    "accept": (
        not_found,
        revoked,
        epoch,
        policy,
        unknown_field,  # after the authority guards, so no authority means no information
        key_reused,
        replay,
        accept_state,
        fence,
        holder,
        expired,
        revision,
    ),
    "cancel": (not_found, cancel_state),
    "set_authority": (not_found,),
    "revoke": (not_found,),
    "renew": (not_found, revoked, renew_state, fence, holder, expired),
    "release": (not_found, revoked, release_state, fence, holder),
    "find": (revoked, find_not_found),
}

_WORK = "SELECT * FROM work WHERE scope = ? AND work = ?"
_ANY_WORK = "SELECT * FROM work WHERE scope = :scope ORDER BY work LIMIT 1"
_SAVED = """SELECT id, scope, key, work, revision, result_digest, accepted_at, command, digest
    FROM receipt WHERE scope = ? AND key = ?"""
# The work that the receipt names. Without a receipt, any work of the scope, since each row says whether the
# scope was revoked. It is one statement, so that all of it is read at the same moment.
_FOUND = """SELECT work.*, r.id, r.scope, r.key, r.work, r.revision, r.result_digest,
        r.accepted_at, r.command, r.digest
    FROM (SELECT 1) LEFT JOIN receipt r ON r.scope = :scope AND r.key = :key
    LEFT JOIN work ON work.scope = :scope
        AND work.work = coalesce(r.work, (SELECT min(work) FROM work WHERE scope = :scope))"""
# A scope is revoked in all its rows or in none, so any row will do.
_ADD = """INSERT INTO work VALUES (:scope, :work, :revision, :epoch, :policy,
    coalesce((SELECT revoked FROM work WHERE scope = :scope LIMIT 1), 0),
    0, NULL, NULL, 'ready', 'open', 0, :now)"""
_CLAIM = """UPDATE work SET fence = fence + 1, holder = :actor, expires_at = :until, state = 'leased',
    changed_at = :now WHERE scope = :scope AND work = :work"""
_RESULT = """UPDATE work SET revision = revision + 1, results = results + 1, state = 'result-recorded',
    holder = NULL, expires_at = NULL, changed_at = ? WHERE scope = ? AND work = ?"""
_RECEIPT = """INSERT INTO receipt (scope, key, work, command, digest, revision, result_digest, accepted_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_RENEW = """UPDATE work SET expires_at = max(expires_at, :until), changed_at = :now
    WHERE scope = :scope AND work = :work"""
_RELEASE = """UPDATE work SET holder = NULL, expires_at = NULL, state = 'ready', changed_at = :now
    WHERE scope = :scope AND work = :work"""
_CANCEL = "UPDATE work SET state = 'cancelled', changed_at = :now WHERE scope = :scope AND work = :work"
_AUTHORITY = """UPDATE work SET epoch = :epoch, policy = :policy, changed_at = :now
    WHERE scope = :scope AND work = :work"""
_REVOKE = "UPDATE work SET revoked = 1, changed_at = :now WHERE scope = :scope"
_LEASES = """SELECT scope || '/' || work, holder, fence, expires_at FROM work
    WHERE state = 'leased' ORDER BY scope, work"""


def _work_row(row: tuple[Any, ...] | None) -> WorkRow:
    return WorkRow._make(row or [None] * len(WorkRow._fields))


def _read_work(db: Connection, command: OnWork) -> CurrentWork:
    return CurrentWork(_work_row(db.execute(_WORK, (command.scope, command.work)).fetchone()))


def _read_scope(db: Connection, command: RevokeScope) -> CurrentWork:
    return CurrentWork(_work_row(db.execute(_ANY_WORK, vars(command)).fetchone()))


def _read_work_and_receipt(db: Connection, command: AcceptResult) -> CurrentWork:
    work = _work_row(db.execute(_WORK, (command.scope, command.work)).fetchone())
    row = db.execute(_SAVED, (command.scope, command.key)).fetchone()
    if row is None:
        return CurrentWork(work)
    saved = SavedReceipt(*row)
    return CurrentWork(work, saved if saved.command == command.command else _in_this_form(saved))


def _in_this_form(saved: SavedReceipt) -> SavedReceipt:
    """The saved row with its command in today's form: the first commands had no version."""
    command = json.loads(saved.command)
    if "form" in command:
        return saved
    text = canonical(command | {"form": FORM})
    return saved._replace(command=text, digest=sha256(text))


def _read_found(db: Connection, command: FindReceipt) -> CurrentWork:
    row = db.execute(_FOUND, vars(command)).fetchone()
    size = len(WorkRow._fields)
    return CurrentWork(WorkRow(*row[:size]), SavedReceipt(*row[size:]) if row[size] is not None else None)


def _found(db: Connection, command: FindReceipt, current: CurrentWork) -> Receipt | None:
    return current.saved.receipt("read") if current.saved else None


class Owner(Contract):
    """The owner. `now` and `until` are the caller's time, in any one unit."""

    NAME = "owner"
    SCHEMA = SCHEMA
    TABLES = ("work", "receipt", "outbox")
    ARGUMENTS = ARGUMENTS
    GUARDS = GUARDS
    READS = ("get", "find")
    FAILPOINTS: ClassVar = {"accept": ("after_guards", "after_result", "after_receipt", "after_outbox")}
    COUNTS: ClassVar = {
        "results": "SELECT coalesce(sum(results), 0) FROM work",
        "receipts": "SELECT count(*) FROM receipt",
        "outbox": outbox.COUNT,
    }

    def add(self, scope: str, work: str, revision: int, epoch: int, policy: str, now: int) -> None:
        """Add a piece of work that is ready to be claimed. Refused: exists.

        Work that is added to a revoked scope is revoked as well.
        """
        self._transact("add", AddWork(scope, work, revision, epoch, policy, now), _read_work, writes(_ADD))

    def claim(self, scope: str, work: str, actor: str, now: int, until: int) -> WorkLease:
        """Lease the work to `actor` from `now` to `until`.

        Refused, in this order: not-found, revoked, state, busy, exhausted (the fence has its largest value).
        A claim has no idempotency key: a worker that loses the answer finds its fence with `get`, and can
        release it.
        """
        integer("until", until, low=countable("now", now) + 1)
        return self._transact("claim", ClaimWork(scope, work, actor, now, until), _read_work, self._claim)

    def renew(self, scope: str, work: str, actor: str, fence: int, now: int, until: int) -> WorkLease:
        """Extend the actor's own live lease to `until`, never shorten it. Returns the current claim.

        Refused, in this order: not-found, revoked, state, fence, holder, expired.
        """
        integer("until", until, low=countable("now", now) + 1)
        return self._transact(
            "renew", RenewLease(scope, work, actor, fence, now, until), _read_work, self._renew
        )

    def release(self, scope: str, work: str, actor: str, fence: int, now: int) -> None:
        """Release the actor's own lease, so that the work can be claimed at once. The fence stays the same.

        Refused, in this order: not-found, revoked, state, fence, holder.
        """
        self._transact("release", ReleaseLease(scope, work, actor, fence, now), _read_work, writes(_RELEASE))

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
        """Record the result, its receipt and one outbox row, all or none, or find the receipt of `key`.

        Refused, in this order: not-found, revoked, epoch, policy, unknown-field (a newer version saved the
        command), key-reused (with the names of the fields that differ), state, fence, holder, expired,
        revision, and exhausted when no id is left.
        """
        command = AcceptResult(scope, work, actor, key, revision, epoch, policy, fence, result_digest, now)
        return self._accept(command)

    def find(self, scope: str, key: str, epoch: int, policy: str) -> Receipt:
        """The receipt of `key`, for a caller that knows the current epoch and policy of its work.

        Refused, in this order: revoked, not-found. Under another epoch or policy the answer is not-found as
        well, so a caller without authority cannot find out which keys have a receipt.
        """
        command = FindReceipt(scope, key, epoch, policy)
        check(self.ARGUMENTS, vars(command))
        found: Receipt | None = self._decide("find", self.store.db, command, _read_found, _found)
        return found  # type: ignore[return-value]  # None only where the guards were replaced

    def cancel(self, scope: str, work: str, now: int) -> None:
        """Cancel the work for good, leased or not. Refused: not-found, state (a result is recorded)."""
        self._transact("cancel", CancelWork(scope, work, now), _read_work, writes(_CANCEL))

    def set_authority(self, scope: str, work: str, epoch: int, policy: str, now: int) -> None:
        """Set the epoch and policy that are in force for the work from now on. Refused: not-found."""
        self._transact(
            "set_authority", SetAuthority(scope, work, epoch, policy, now), _read_work, writes(_AUTHORITY)
        )

    def revoke(self, scope: str, now: int) -> None:
        """Revoke the scope for good: its work accepts no claim and no result. Refused: not-found.

        It marks every row of the scope, so it takes longer the more work the scope has.
        """
        self._transact("revoke", RevokeScope(scope, now), _read_scope, writes(_REVOKE))

    def get(self, scope: str, work: str) -> WorkRow:
        """The current row, for an operator, without any check of authority. Refused: not-found."""
        check(ARGUMENTS, {"scope": scope, "work": work})
        current = CurrentWork(_work_row(next(iter(self.store.read(_WORK, (scope, work))), None)))
        not_found(Command(), current)
        return current.work

    def leases(self) -> list[tuple[str, str, int, int]]:
        """(scope/work, holder, fence, end) of each lease, expired ones included."""
        return self.store.read(_LEASES)

    def _claim(self, db: Connection, command: ClaimWork, current: CurrentWork) -> WorkLease:
        db.execute(_CLAIM, vars(command))
        return WorkLease(command.scope, command.work, command.actor, current.work.fence + 1, command.until)

    def _renew(self, db: Connection, command: RenewLease, current: CurrentWork) -> WorkLease:
        db.execute(_RENEW, vars(command))
        until = max(current.work.expires_at or 0, command.until)
        return WorkLease(command.scope, command.work, command.actor, command.fence, until)

    def _accept(self, command: AcceptResult) -> Receipt:
        return self._transact("accept", command, _read_work_and_receipt, self._record)

    def _record(self, db: Connection, command: AcceptResult, current: CurrentWork) -> Receipt:
        failpoint = self.store.failpoint
        failpoint("after_guards")
        db.execute(_RESULT, (command.now, command.scope, command.work))
        failpoint("after_result")
        done = (command.revision + 1, command.result_digest, command.now)
        saved = (command.scope, command.key, command.work, command.command, command.digest, *done)
        number = numbered("receipt", db.execute(_RECEIPT, saved).lastrowid)
        failpoint("after_receipt")
        outbox.stage(db, "result-recorded", str(number), command.now)
        failpoint("after_outbox")
        return Receipt(number, command.scope, command.key, command.work, *done)
