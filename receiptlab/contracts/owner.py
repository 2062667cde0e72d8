"""The workspace owner: one place decides which result of a piece of work counts.

Workers claim work under a lease and send back a result. Answers get lost, leases expire, workers
are replaced, scopes are revoked. The owner checks all of it in the transaction that commits, so
that a result is accepted once, and a retry gets the receipt of the first time.
"""

from __future__ import annotations

import json
from collections import namedtuple
from dataclasses import asdict, dataclass, field
from sqlite3 import Connection
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

from receiptlab.contracts import outbox
from receiptlab.contracts.shape import Contract, arguments, writes
from receiptlab.errors import Refused
from receiptlab.values import canonical, checked, countable, hex_digest, integer, sha256, text

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


class Seen(NamedTuple):
    """What a call's transaction has read: the work, and what is saved under the key, if anything."""

    work: Work
    saved: tuple | None = None


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


def exists(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.state is not None:
        raise Refused("exists", "this work is there already; take another name")


def not_found(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.state is None:
        raise Refused("not-found", "there is no such work in this scope; check both names")


def revoked(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.revoked:
        raise Refused("revoked", "this scope was revoked; nothing is accepted or disclosed")


def epoch(call: SimpleNamespace, seen: Seen) -> None:
    if call.epoch != seen.work.epoch:
        raise Refused("epoch", "another epoch is in force; read it again before you go on")


def policy(call: SimpleNamespace, seen: Seen) -> None:
    if call.policy != seen.work.policy:
        raise Refused("policy", "another policy is in force; decide again under that one")


def key_reused(call: SimpleNamespace, seen: Seen) -> None:
    if seen.saved and seen.saved[-1] != call.digest:
        fields = _differing(seen.saved[-2], call.command)
        raise Refused("key-reused", "this key named another command; take a new key", fields)


def replay(call: SimpleNamespace, seen: Seen) -> Receipt | None:
    return Receipt(*seen.saved[:-2], outcome="replayed") if seen.saved else None


def claim_state(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.state not in ("ready", "leased"):
        raise Refused("state", "this work is finished or cancelled; there is nothing to claim")


def busy(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.state == "leased" and seen.work.expires_at > call.now:
        raise Refused("busy", "somebody holds this work; ask again when the lease has expired")


def accept_state(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.state != "leased":
        raise Refused("state", "this work is not leased; a result needs a claim first")


def fence(call: SimpleNamespace, seen: Seen) -> None:
    if call.fence != seen.work.fence:
        raise Refused("fence", "this is not the fence handed out last; this claim no longer counts")


def holder(call: SimpleNamespace, seen: Seen) -> None:
    if call.actor != seen.work.holder:
        raise Refused("holder", "another actor holds the lease; only the holder may send a result")


def expired(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.expires_at <= call.now:
        raise Refused("expired", "the lease has expired; claim the work again")


def revision(call: SimpleNamespace, seen: Seen) -> None:
    if call.revision != seen.work.revision:
        raise Refused("revision", "the work has another revision; read it again before you go on")


def cancel_state(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.state == "result-recorded":
        raise Refused("state", "a result is recorded; it is too late to cancel")


GUARDS = {
    "add": (exists,),
    "claim": (not_found, revoked, claim_state, busy),
    "accept": (
        not_found,
        revoked,
        epoch,
        policy,
        key_reused,  # after authority: whoever has none learns nothing of a receipt
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
}

_WORK = "SELECT * FROM work WHERE scope = ? AND work = ?"
_ANY_WORK = "SELECT * FROM work WHERE scope = :scope ORDER BY work LIMIT 1"
_SAVED = """SELECT id, scope, key, work, revision, result_digest, accepted_at, command, digest
    FROM receipt WHERE scope = ? AND key = ?"""
_ADD = """INSERT INTO work VALUES (:scope, :work, :revision, :epoch, :policy,
    (SELECT coalesce(max(revoked), 0) FROM work WHERE scope = :scope),
    0, NULL, NULL, 'ready', 'open', 0, :now)"""
_CLAIM = """UPDATE work SET fence = fence + 1, holder = :actor, expires_at = :until, state = 'leased',
    changed_at = :now WHERE scope = :scope AND work = :work"""
_RESULT = """UPDATE work SET revision = revision + 1, results = results + 1, state = 'result-recorded',
    holder = NULL, expires_at = NULL, changed_at = ? WHERE scope = ? AND work = ?"""
_RECEIPT = """INSERT INTO receipt (scope, key, work, command, digest, revision, result_digest, accepted_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_CANCEL = "UPDATE work SET state = 'cancelled', changed_at = :now WHERE scope = :scope AND work = :work"
_AUTHORITY = """UPDATE work SET epoch = :epoch, policy = :policy, changed_at = :now
    WHERE scope = :scope AND work = :work"""
_REVOKE = "UPDATE work SET revoked = 1, changed_at = :now WHERE scope = :scope"
_LEASES = """SELECT scope || '/' || work, holder, fence, expires_at FROM work
    WHERE state = 'leased' ORDER BY scope, work"""


def _see_work(db: Connection, call: SimpleNamespace) -> Seen:
    return Seen(Work(*(db.execute(_WORK, (call.scope, call.work)).fetchone() or ())))


def _see_scope(db: Connection, call: SimpleNamespace) -> Seen:
    return Seen(Work(*(db.execute(_ANY_WORK, vars(call)).fetchone() or ())))


def _see_work_and_receipt(db: Connection, call: SimpleNamespace) -> Seen:
    work = Work(*(db.execute(_WORK, (call.scope, call.work)).fetchone() or ()))
    return Seen(work, db.execute(_SAVED, (call.scope, call.key)).fetchone())


def _differing(saved: str, sent: str) -> tuple[str, ...]:
    before, now = json.loads(saved), json.loads(sent)
    return tuple(name for name in ARGUMENTS if name in now and now[name] != before[name])


class Owner(Contract):
    """The owner. `now` and `until` are the caller's time, in any one unit."""

    NAME = "owner"
    SCHEMA = SCHEMA
    TABLES = ("work", "receipt", "outbox")
    ARGUMENTS = ARGUMENTS
    GUARDS = GUARDS
    READS = ("look",)
    POINTS: ClassVar = {"accept": ("after_guards", "after_result", "after_receipt", "after_outbox")}
    COUNTS: ClassVar = {
        "results": "SELECT coalesce(sum(results), 0) FROM work",
        "receipts": "SELECT count(*) FROM receipt",
        "outbox": outbox.COUNT,
    }

    def add(self, scope: str, work: str, revision: int, epoch: int, policy: str, now: int) -> None:
        """Put a piece of work there, ready to be claimed. Refused: exists.

        Work added to a scope that was revoked is revoked as well.
        """
        self._transact("add", arguments(locals()), _see_work, writes(_ADD))

    def claim(self, scope: str, work: str, actor: str, now: int, until: int) -> Claim:
        """Lease the work to `actor` from `now` to `until`. Refused: not-found, revoked, state, busy.

        The claim has no key of its own: who loses the answer waits for the lease to end.
        """
        integer("until", until, low=countable("now", now) + 1)
        return self._transact("claim", arguments(locals()), _see_work, self._claim)

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
        command = arguments(locals())
        call = checked(ARGUMENTS, command)
        del command["now"]  # a retry comes later and is the same command
        call.command = canonical(command)
        call.digest = sha256(call.command)
        return self._run("accept", call, _see_work_and_receipt, self._record)

    def cancel(self, scope: str, work: str, now: int) -> None:
        """Cancel the work for good, leased or not. Refused: not-found, state (a result is recorded)."""
        self._transact("cancel", arguments(locals()), _see_work, writes(_CANCEL))

    def set_authority(self, scope: str, work: str, epoch: int, policy: str, now: int) -> None:
        """Say which epoch and policy are in force for the work from now on. Refused: not-found."""
        self._transact("set_authority", arguments(locals()), _see_work, writes(_AUTHORITY))

    def revoke(self, scope: str, now: int) -> None:
        """Revoke the scope for good: its work takes no claim and no result. Refused: not-found."""
        self._transact("revoke", arguments(locals()), _see_scope, writes(_REVOKE))

    def look(self, scope: str, work: str) -> Work:
        """The row as it stands, for an operator: it asks for no authority. Refused: not-found."""
        call = checked(ARGUMENTS, arguments(locals()))
        seen = Seen(Work(*next(iter(self.store.read(_WORK, (scope, work))), ())))
        not_found(call, seen)
        return seen.work

    def leases(self) -> list[tuple[str, str, int, int]]:
        """(scope/work, holder, fence, end) of each lease, expired ones included."""
        return self.store.read(_LEASES)

    def _claim(self, db: Connection, call: SimpleNamespace, seen: Seen) -> Claim:
        db.execute(_CLAIM, vars(call))
        return Claim(call.scope, call.work, call.actor, seen.work.fence + 1, call.until)

    def _record(self, db: Connection, call: SimpleNamespace, seen: Seen) -> Receipt:
        reach = self.store.reach
        reach("after_guards")
        db.execute(_RESULT, (call.now, call.scope, call.work))
        reach("after_result")
        done = (call.revision + 1, call.result_digest, call.now)
        saved = (call.scope, call.key, call.work, call.command, call.digest, *done)
        number = db.execute(_RECEIPT, saved).lastrowid
        reach("after_receipt")
        outbox.stage(db, "result-recorded", str(number), call.now)
        reach("after_outbox")
        return Receipt(number, call.scope, call.key, call.work, *done)
