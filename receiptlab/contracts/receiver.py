"""The receiver: the party outside that has the effects, and decides which writer may cause them.

It has its own database and doesn't know the owner's tables. It issues writer identities: an owner's name, a
generation that rises by one, and the name of the instance that asked. A new identity fences the earlier
ones. It keeps each effect under its idempotency key, and counts the refusals of each key. It knows what an
owner that was restored from a backup cannot know, so only the receiver can write the restore receipt.

An identity distinguishes writers. It is not a secret: any caller that knows it can use it.

Refusals take one row for each owner, key, generation and reason, however often they are repeated. Any caller
can invent a generation and an instance, so all writers that were never registered share generation 0. A
caller that invents a new key for each request still adds a row each time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from sqlite3 import Connection
from typing import ClassVar, NamedTuple

from receiptlab.contracts.base import Command, Contract, Guards
from receiptlab.errors import Refused
from receiptlab.values import Rule, check, hex_digest, integer, one_of, sha256, sized, text

SCHEMA = (
    """CREATE TABLE writer (
        owner TEXT NOT NULL, generation INTEGER NOT NULL, instance TEXT NOT NULL,
        registered_at INTEGER NOT NULL, fenced_at INTEGER NULL,
        PRIMARY KEY (owner, generation), UNIQUE (owner, instance)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE effect (
        id INTEGER NOT NULL PRIMARY KEY, owner TEXT NOT NULL, key TEXT NOT NULL, generation INTEGER NOT NULL,
        subject TEXT NOT NULL, revision INTEGER NOT NULL, fence INTEGER NOT NULL, digest TEXT NOT NULL,
        accepted_at INTEGER NOT NULL, UNIQUE (owner, key),
        FOREIGN KEY (owner, generation) REFERENCES writer (owner, generation)) STRICT""",
    """CREATE TABLE refusal (
        id INTEGER NOT NULL PRIMARY KEY, owner TEXT NOT NULL, key TEXT NOT NULL, generation INTEGER NOT NULL,
        reason TEXT NOT NULL, times INTEGER NOT NULL, first_at INTEGER NOT NULL, last_at INTEGER NOT NULL,
        UNIQUE (owner, key, generation, reason)) STRICT""",
    """CREATE TABLE restoration (
        id INTEGER NOT NULL PRIMARY KEY, owner TEXT NOT NULL, generation INTEGER NOT NULL,
        document TEXT NOT NULL, issued_at INTEGER NOT NULL, UNIQUE (owner, generation)) STRICT""",
    # The highest fence and the highest revision of a subject are the last entries of these indexes.
    "CREATE INDEX effect_by_fence ON effect (owner, subject, fence)",
    "CREATE INDEX effect_by_revision ON effect (owner, subject, revision)",
)

NOBODY = 0
"""The generation that counts the refusals of writers that were never registered."""

NAMED = ("subject", "revision", "fence", "digest")
"""The fields of the effect that a key names."""

ENFORCED = ("fence", "isolation")
"""What keeps the old instance from writing: the receiver's fence, or that it can't reach the receiver."""

MAX_NAME = 1_100
"""The longest key and subject, in bytes. An owner builds each from two texts of 128 characters."""

ARGUMENTS: dict[str, Rule] = {
    "owner": text,
    "generation": integer,
    "instance": text,
    "key": sized(1, MAX_NAME),
    "subject": sized(1, MAX_NAME),
    "revision": integer,
    "fence": integer,
    "digest": hex_digest,
    "enforced": one_of(ENFORCED),
    "now": integer,
}


@dataclass(frozen=True)
class Writer:
    """A writer identity. `outcome` says whether this call made it (accepted) or found it (replayed)."""

    owner: str
    generation: int
    instance: str
    outcome: str = field(default="accepted", compare=False)


@dataclass(frozen=True)
class Effect:
    """The receiver's lasting answer to an effect."""

    id: int
    generation: int
    accepted_at: int
    outcome: str = field(default="accepted", compare=False)


@dataclass(frozen=True)
class RestoreReceipt:
    """What the receiver knows about a restored owner: every writer instance, its accepted and refused keys,
    and what was enforced. `document` is the lab's canonical JSON of it, and `digest` its SHA-256."""

    id: int
    document: str
    outcome: str = field(default="accepted", compare=False)

    @property
    def digest(self) -> str:
        return sha256(self.document)

    def facts(self) -> dict[str, object]:
        """The document's fields, and its digest."""
        return {"id": self.id, "digest": self.digest, **json.loads(self.document)}


@dataclass(frozen=True)
class Known:
    """The highest fence and the highest revision of the effects on the subject. 0 if there are none."""

    fence: int
    revision: int
    outcome: ClassVar[str] = "read"


class SavedEffect(NamedTuple):
    """A row of `effect`: the answer, and the fields that its key names."""

    id: int
    generation: int
    accepted_at: int
    subject: str
    revision: int
    fence: int
    digest: str

    def effect(self, outcome: str) -> Effect:
        """The effect in this row, as an answer."""
        return Effect(self.id, self.generation, self.accepted_at, outcome)


class CurrentWriter(NamedTuple):
    """What a call's transaction has read: the writer's row and, if the call needs them, the highest fence of
    the subject, the effect saved under the key, and the writer's restore receipt."""

    generation: int | None = None
    instance: str | None = None
    fenced_at: int | None = None
    highest: int | None = None
    saved: SavedEffect | None = None
    issued: RestoreReceipt | None = None


# The commands: the arguments of each call that has guards.


@dataclass(frozen=True)
class RegisterWriter(Command):
    owner: str
    instance: str
    now: int


@dataclass(frozen=True)
class ApplyEffect(Command):
    owner: str
    generation: int
    instance: str
    key: str
    subject: str
    revision: int
    fence: int
    digest: str
    now: int


@dataclass(frozen=True)
class IssueRestoreReceipt(Command):
    owner: str
    generation: int
    instance: str
    enforced: str
    now: int


# The guards. Each checks one thing, inside the transaction that commits.


def writer_unknown(command: ApplyEffect | IssueRestoreReceipt, current: CurrentWriter) -> None:
    if current.instance != command.instance:
        raise Refused("writer-unknown", "no such writer is registered; register it first")


def writer_fenced(command: Command, current: CurrentWriter) -> None:
    if current.fenced_at is not None:
        raise Refused("writer-fenced", "this owner has a later writer, so this one can never write again")


def key_reused(command: ApplyEffect, current: CurrentWriter) -> None:
    if current.saved:
        fields = tuple(name for name in NAMED if getattr(command, name) != getattr(current.saved, name))
        if fields:
            raise Refused("key-reused", "this key was used for another effect; choose a new key", fields)


def replay(command: Command, current: CurrentWriter) -> Effect | None:
    return current.saved.effect("replayed") if current.saved else None


def fence(command: ApplyEffect, current: CurrentWriter) -> None:
    if current.highest is not None and command.fence < current.highest:
        raise Refused("fence", "an earlier effect on this subject has a higher fence; claim the work again")


def register_replay(command: RegisterWriter, current: CurrentWriter) -> Writer | None:
    if current.generation is None:
        return None
    return Writer(command.owner, current.generation, command.instance, "replayed")


def issue_replay(command: Command, current: CurrentWriter) -> RestoreReceipt | None:
    return current.issued


GUARDS: Guards = {
    "register": (writer_fenced, register_replay),
    "apply": (writer_unknown, writer_fenced, key_reused, replay, fence),
    "issue": (writer_unknown, writer_fenced, issue_replay),
}

_INSTANCE = "SELECT generation, instance, fenced_at FROM writer WHERE owner = :owner AND instance = :instance"
_LAST = "SELECT coalesce(max(generation), 0) FROM writer WHERE owner = ?"
_FENCE = "UPDATE writer SET fenced_at = ? WHERE owner = ? AND generation = ?"
_REGISTER = "INSERT INTO writer VALUES (?, ?, ?, ?, NULL)"
_WRITER = """SELECT generation, instance, fenced_at FROM writer
    WHERE owner = :owner AND generation = :generation"""
_SAVED = """SELECT id, generation, accepted_at, subject, revision, fence, digest FROM effect
    WHERE owner = :owner AND key = :key"""
_HIGHEST = "SELECT max(fence) FROM effect WHERE owner = :owner AND subject = :subject"
_EFFECT = """INSERT INTO effect (owner, key, generation, subject, revision, fence, digest, accepted_at)
    VALUES (:owner, :key, :generation, :subject, :revision, :fence, :digest, :now)"""
_REFUSAL = """INSERT INTO refusal (owner, key, generation, reason, times, first_at, last_at)
    VALUES (?, ?, ?, ?, 1, ?, ?)
    ON CONFLICT (owner, key, generation, reason)
    DO UPDATE SET times = times + 1, last_at = excluded.last_at"""
_ISSUED = "SELECT id, document FROM restoration WHERE owner = :owner AND generation = :generation"
_WRITERS = "SELECT generation, instance, fenced_at FROM writer WHERE owner = :owner ORDER BY generation"
_ACCEPTED = "SELECT generation, key FROM effect WHERE owner = :owner ORDER BY id"
_REFUSED = "SELECT generation, key, reason, times FROM refusal WHERE owner = :owner ORDER BY id"
_ISSUE = """INSERT INTO restoration (owner, generation, document, issued_at)
    VALUES (?, ?, ?, ?)"""
_KNOWN = """SELECT coalesce((SELECT max(fence) FROM effect WHERE owner = :owner AND subject = :subject), 0),
    coalesce((SELECT max(revision) FROM effect WHERE owner = :owner AND subject = :subject), 0)"""


def _read_instance(db: Connection, command: RegisterWriter) -> CurrentWriter:
    return CurrentWriter(*(db.execute(_INSTANCE, vars(command)).fetchone() or ()))


def _read_writer(db: Connection, command: ApplyEffect | IssueRestoreReceipt) -> CurrentWriter:
    return CurrentWriter(*(db.execute(_WRITER, vars(command)).fetchone() or ()))


def _read_effect(db: Connection, command: ApplyEffect) -> CurrentWriter:
    writer = _read_writer(db, command)
    saved = db.execute(_SAVED, vars(command)).fetchone()
    (highest,) = db.execute(_HIGHEST, vars(command)).fetchone()
    return writer._replace(saved=SavedEffect(*saved) if saved else None, highest=highest)


def _read_issued(db: Connection, command: IssueRestoreReceipt) -> CurrentWriter:
    writer, row = _read_writer(db, command), db.execute(_ISSUED, vars(command)).fetchone()
    return writer._replace(issued=RestoreReceipt(row[0], row[1], "replayed") if row else None)


class Receiver(Contract):
    """The receiver of effects. `now` is its caller's time, in any one unit."""

    NAME = "receiver"
    SCHEMA = SCHEMA
    TABLES = ("writer", "effect", "refusal", "restoration")
    ARGUMENTS = ARGUMENTS
    GUARDS = GUARDS
    READS = ("look_up", "known")
    FAILPOINTS: ClassVar = {
        "register": ("after_guards", "after_fence", "after_writer"),
        "apply": ("after_guards", "after_effect", "after_refusal"),
        "issue": ("after_guards", "after_receipt"),
    }
    COUNTS: ClassVar = {
        "writers": "SELECT count(*) FROM writer WHERE fenced_at IS NULL",
        "effects": "SELECT count(*) FROM effect",
        "refusals": "SELECT count(*) FROM refusal",
        "restore receipts": "SELECT count(*) FROM restoration",
    }

    def register(self, owner: str, instance: str, now: int) -> Writer:
        """Issue a writer identity. Its generation is one higher than any before it, and the owner's earlier
        writers are fenced in the same transaction. The same instance gets the same identity again.
        Refused: writer-fenced (this instance was fenced, and gets no second identity)."""
        command = RegisterWriter(owner, instance, now)
        return self._transact("register", command, _read_instance, self._register)

    def apply(
        self,
        owner: str,
        generation: int,
        instance: str,
        key: str,
        subject: str,
        revision: int,
        fence: int,
        digest: str,
        now: int,
    ) -> Effect:
        """Have the effect once for each idempotency key of an owner, or find the first answer.

        Refused, in this order: writer-unknown, writer-fenced, key-reused (with the names of the fields that
        differ), fence (lower than the fence of an earlier effect on this subject). A refusal has no effect.
        It is recorded, or counted if the same refusal was recorded before.
        """
        command = ApplyEffect(owner, generation, instance, key, subject, revision, fence, digest, now)
        check(ARGUMENTS, vars(command))
        with self.store.write() as db:
            try:
                return self._decide("apply", db, command, _read_effect, self._apply)
            except Refused as refusal:
                refused = refusal
            known = NOBODY if refused.reason == "writer-unknown" else generation
            db.execute(_REFUSAL, (owner, key, known, refused.reason, now, now))
            self.store.failpoint("after_refusal")
        raise refused

    def issue(self, owner: str, generation: int, instance: str, enforced: str, now: int) -> RestoreReceipt:
        """Write the restore receipt for the writer that continues. Once written it never changes. It lists
        every effect and refusal of the owner, so the first call takes longer the more there are.
        Refused: writer-unknown, writer-fenced."""
        command = IssueRestoreReceipt(owner, generation, instance, enforced, now)
        return self._transact("issue", command, _read_issued, self._issue)

    def look_up(self, owner: str, key: str) -> Effect:
        """The answer that is kept under an idempotency key. Refused: not-found."""
        named = {"owner": owner, "key": key}
        check(ARGUMENTS, named)
        rows = self.store.read(_SAVED, named)
        if not rows:
            raise Refused("not-found", "there is no effect under this key; check the owner and the key")
        return SavedEffect(*rows[0]).effect("read")

    def known(self, owner: str, subject: str) -> Known:
        """The highest fence and revision of this owner's effects on the subject."""
        named = {"owner": owner, "subject": subject}
        check(ARGUMENTS, named)
        return Known(*self.store.read(_KNOWN, named)[0])

    def _register(self, db: Connection, command: RegisterWriter, current: CurrentWriter) -> Writer:
        owner, instance, now = command.owner, command.instance, command.now
        self.store.failpoint("after_guards")
        (last,) = db.execute(_LAST, (owner,)).fetchone()
        db.execute(_FENCE, (now, owner, last))
        self.store.failpoint("after_fence")
        db.execute(_REGISTER, (owner, last + 1, instance, now))
        self.store.failpoint("after_writer")
        return Writer(owner, last + 1, instance)

    def _apply(self, db: Connection, command: ApplyEffect, current: CurrentWriter) -> Effect:
        self.store.failpoint("after_guards")
        number = db.execute(_EFFECT, vars(command)).lastrowid or 0
        self.store.failpoint("after_effect")
        return Effect(number, command.generation, command.now)

    def _issue(self, db: Connection, command: IssueRestoreReceipt, current: CurrentWriter) -> RestoreReceipt:
        self.store.failpoint("after_guards")
        document = _document(db, command)
        row = (command.owner, command.generation, document, command.now)
        number = db.execute(_ISSUE, row).lastrowid or 0
        self.store.failpoint("after_receipt")
        return RestoreReceipt(number, document)


def _document(db: Connection, command: IssueRestoreReceipt) -> str:
    """Every writer of the owner with its effects and refusals, and the refusals of unregistered writers."""
    accepted, refused = defaultdict(list), defaultdict(list)
    for generation, key in db.execute(_ACCEPTED, vars(command)):
        accepted[generation].append(key)
    for generation, key, reason, times in db.execute(_REFUSED, vars(command)):
        refused[generation].append(f"{key}: {reason}" + (f", {times} times" if times > 1 else ""))
    writers = []
    for generation, instance, fenced_at in db.execute(_WRITERS, vars(command)):
        lists = {"accepted": accepted[generation], "refused": refused[generation]}
        writers.append({"generation": generation, "instance": instance, "fenced_at": fenced_at, **lists})
    document = {"owner": command.owner, "enforced": command.enforced, "issued_at": command.now}
    document |= {"writers": writers, "refused of strangers": refused[NOBODY]}
    return json.dumps(document, sort_keys=True, separators=(",", ":"))
