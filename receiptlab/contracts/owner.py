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
from receiptlab.contracts.base import Contract, arguments, numbered, writes
from receiptlab.errors import Refused
from receiptlab.values import MAX_INTEGER, canonical, checked, countable, hex_digest, integer, sha256, text

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

FORM = 1
"""The version of the form in which a command is saved; see `Owner.ADDED` for adding a field to it."""

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


def unknown_field(call: SimpleNamespace, seen: Seen) -> None:
    if seen.saved and seen.saved[-1] != call.digest:
        saved = json.loads(seen.saved[-2])
        fields = ("form",) if saved.pop("form", FORM) > FORM else ()
        fields += tuple(name for name in saved if name not in vars(call))
        if fields:
            what = "a newer version saved this command with fields that are unknown here; ask that version"
            raise Refused("unknown-field", what, fields)


def key_reused(call: SimpleNamespace, seen: Seen) -> None:
    if seen.saved and seen.saved[-1] != call.digest:
        before, now = json.loads(seen.saved[-2]), json.loads(call.command)
        fields = tuple(name for name in vars(call) if before.get(name) != now.get(name))
        raise Refused("key-reused", "this key named another command; take a new key", fields)


def replay(call: SimpleNamespace, seen: Seen) -> Receipt | None:
    return Receipt(*seen.saved[:-2], outcome="replayed") if seen.saved else None


def claim_state(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.state not in ("ready", "leased"):
        raise Refused("state", "this work is finished or cancelled; there is nothing to claim")


def busy(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.state == "leased" and seen.work.expires_at > call.now:
        raise Refused("busy", "somebody holds this work; ask again when the lease has expired")


def exhausted(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.fence == MAX_INTEGER:
        what = "the fence is the largest there is; cancel this work and add it under another name"
        raise Refused("exhausted", what, ("fence",))


def find_not_found(call: SimpleNamespace, seen: Seen) -> None:
    current = (call.epoch, call.policy) == (seen.work.epoch, seen.work.policy)
    if not (seen.saved and current):  # one answer for both: whoever has no authority learns nothing
        what = "no receipt under this key for this epoch and policy; read both again before you rely on it"
        raise Refused("not-found", what)


def accept_state(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.state != "leased":
        raise Refused("state", "this work is not leased; a result needs a claim first")


def renew_state(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.state != "leased":
        raise Refused("state", "this work is not leased; there is no lease to renew")


def release_state(call: SimpleNamespace, seen: Seen) -> None:
    if seen.work.state != "leased":
        raise Refused("state", "this work is not leased; there is no lease to give back")


def fence(call: SimpleNamespace, seen: Seen) -> None:
    if call.fence != seen.work.fence:
        raise Refused("fence", "this is not the fence handed out last; this claim no longer counts")


def holder(call: SimpleNamespace, seen: Seen) -> None:
    if call.actor != seen.work.holder:
        raise Refused("holder", "another actor holds the lease; only the holder may use it")


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
    "claim": (not_found, revoked, claim_state, busy, exhausted),
    "accept": (
        not_found,
        revoked,
        epoch,
        policy,
        unknown_field,  # after authority: whoever has none learns nothing of a receipt
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
# The work that a receipt names; for a key without one any work of the scope, which knows whether the scope
# was revoked. One statement, so that it is read at one moment.
_FOUND = """SELECT work.*, r.id, r.scope, r.key, r.work, r.revision, r.result_digest, r.accepted_at
    FROM (SELECT 1) LEFT JOIN receipt r ON r.scope = :scope AND r.key = :key
    LEFT JOIN work ON work.scope = :scope
        AND work.work = coalesce(r.work, (SELECT min(work) FROM work WHERE scope = :scope))"""
# A scope is revoked in all its rows or in none, so any one of them will do.
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


def _see_work(db: Connection, call: SimpleNamespace) -> Seen:
    return Seen(Work(*(db.execute(_WORK, (call.scope, call.work)).fetchone() or ())))


def _see_scope(db: Connection, call: SimpleNamespace) -> Seen:
    return Seen(Work(*(db.execute(_ANY_WORK, vars(call)).fetchone() or ())))


def _see_work_and_receipt(db: Connection, call: SimpleNamespace) -> Seen:
    work = Work(*(db.execute(_WORK, (call.scope, call.work)).fetchone() or ()))
    saved = db.execute(_SAVED, (call.scope, call.key)).fetchone()
    return Seen(work, _in_this_form(saved) if saved and saved[-1] != call.digest else saved)


def _in_this_form(saved: tuple) -> tuple:
    """What is saved, with its command in the form of today: the first ones had no version."""
    command = json.loads(saved[-2])
    if "form" in command:
        return saved
    now = canonical(command | {"form": FORM})
    return (*saved[:-2], now, sha256(now))


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
    ADDED: ClassVar[dict[str, object]] = {}
    """Fields that a later version added to the command, with their defaults. A command that leaves such a
    field at its default is saved without it. So it is the same command as before the field was there."""

    def add(self, scope: str, work: str, revision: int, epoch: int, policy: str, now: int) -> None:
        """Put a piece of work there, ready to be claimed. Refused: exists.

        Work added to a scope that was revoked is revoked as well.
        """
        self._transact("add", arguments(locals()), _see_work, writes(_ADD))

    def claim(self, scope: str, work: str, actor: str, now: int, until: int) -> Claim:
        """Lease the work to `actor` from `now` to `until`.

        Refused, in this order: not-found, revoked, state, busy, exhausted (the fence is at its end). A claim
        has no key of its own: a worker that loses the answer finds its fence with `look`, and can release it.
        """
        integer("until", until, low=countable("now", now) + 1)
        return self._transact("claim", arguments(locals()), _see_work, self._claim)

    def renew(self, scope: str, work: str, actor: str, fence: int, now: int, until: int) -> Claim:
        """Extend one's own live lease to `until`; it never gets shorter. Returns the claim as it is now.

        Refused, in this order: not-found, revoked, state, fence, holder, expired.
        """
        integer("until", until, low=countable("now", now) + 1)
        return self._transact("renew", arguments(locals()), _see_work, self._renew)

    def release(self, scope: str, work: str, actor: str, fence: int, now: int) -> None:
        """Give one's own lease back, so that the work can be claimed at once. The fence keeps its number.

        Refused, in this order: not-found, revoked, state, fence, holder.
        """
        self._transact("release", arguments(locals()), _see_work, writes(_RELEASE))

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

        Refused, in this order: not-found, revoked, epoch, policy, unknown-field (a newer version saved the
        command), key-reused (with the names of the fields that differ), state, fence, holder, expired,
        revision; and exhausted when no id is left.
        """
        return self._accept(arguments(locals()))

    def find(self, scope: str, key: str, epoch: int, policy: str) -> Receipt:
        """The receipt of `key`, under the epoch and policy that are current now for its work.

        Refused, in this order: revoked, not-found. Under another epoch or policy the answer is not-found as
        well, so a caller without authority cannot find out which keys have a receipt.
        """
        call = checked(self.ARGUMENTS, arguments(locals()))
        return self._decide("find", self.store.db, call, self._see_found, self._found)

    def cancel(self, scope: str, work: str, now: int) -> None:
        """Cancel the work for good, leased or not. Refused: not-found, state (a result is recorded)."""
        self._transact("cancel", arguments(locals()), _see_work, writes(_CANCEL))

    def set_authority(self, scope: str, work: str, epoch: int, policy: str, now: int) -> None:
        """Say which epoch and policy are in force for the work from now on. Refused: not-found."""
        self._transact("set_authority", arguments(locals()), _see_work, writes(_AUTHORITY))

    def revoke(self, scope: str, now: int) -> None:
        """Revoke the scope for good: its work takes no claim and no result. Refused: not-found.

        It marks every row of the scope, so it takes longer the more work the scope has.
        """
        self._transact("revoke", arguments(locals()), _see_scope, writes(_REVOKE))

    def get(self, scope: str, work: str) -> Work:
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

    def _renew(self, db: Connection, call: SimpleNamespace, seen: Seen) -> Claim:
        db.execute(_RENEW, vars(call))
        return Claim(call.scope, call.work, call.actor, call.fence, max(seen.work.expires_at, call.until))

    def _see_found(self, db: Connection, call: SimpleNamespace) -> Seen:
        row = self.store.read(_FOUND, vars(call))[0]
        size = len(Work._fields)
        return Seen(Work(*row[:size]), row[size:] if row[size] is not None else None)

    def _found(self, db: Connection, call: SimpleNamespace, seen: Seen) -> Receipt | None:
        return seen.saved and Receipt(*seen.saved, outcome="read")

    def _accept(self, command: dict) -> Receipt:
        call = checked(self.ARGUMENTS, command)
        del command["now"]  # a retry comes later and is the same command
        for name, default in self.ADDED.items():
            if command[name] == default:
                del command[name]
        call.command = canonical(command | {"form": FORM})
        call.digest = sha256(call.command)
        return self._run("accept", call, _see_work_and_receipt, self._record)

    def _record(self, db: Connection, call: SimpleNamespace, seen: Seen) -> Receipt:
        failpoint = self.store.failpoint
        failpoint("after_guards")
        db.execute(_RESULT, (call.now, call.scope, call.work))
        failpoint("after_result")
        done = (call.revision + 1, call.result_digest, call.now)
        saved = (call.scope, call.key, call.work, call.command, call.digest, *done)
        number = numbered("receipt", db.execute(_RECEIPT, saved).lastrowid)
        failpoint("after_receipt")
        outbox.stage(db, "result-recorded", str(number), call.now)
        failpoint("after_outbox")
        return Receipt(number, call.scope, call.key, call.work, *done)
