"""Relay: send an owner's outbox to a receiver at least once, and list what an operator has to decide.

It adds three tables to the owner's file. A trigger gives each message of the outbox a row of `relay`, in the
transaction that stages the message. The row's state says what is known about the message:

pending       not sent yet, or an operator asked to send it again
sending       an attempt at a receiver without keys has begun, and its result is unknown
unanswered    an attempt failed and may have reached the receiver; the next attempt is at `due`
waiting       the receiver was not reached; the next attempt is at `due`
parked        it failed too often; an operator decides
unclear       the answer was lost and the receiver keeps no keys; an operator decides
refused       the receiver said no; an operator decides
acknowledged  the receiver has committed
closed        an operator has decided

The first six states are open. The messages of one subject (a scope and a work) are sent in order: an open
message holds back the later messages of its subject, which have no `due`. It doesn't hold back others.

After a failed attempt the relay waits longer and longer before the next one, and parks the message after
`max_attempts`. If the receiver was not reached, the message isn't to blame: the relay waits a short time and
doesn't count the attempt. An attempt during which the relay's own process dies isn't counted either.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from receiptlab.contracts.base import Contract
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver, Writer
from receiptlab.contracts.work.claims import LONGEST, backoff
from receiptlab.errors import Definite, Refused, WrongType
from receiptlab.values import MAX_INTEGER, Rule, bounded, check, integer, one_of, text

_OPEN = "state NOT IN ('acknowledged', 'refused', 'closed')"
_LISTED = "state NOT IN ('pending', 'acknowledged', 'closed')"

# `writer` has at most one row: the identity this file writes under. A backup has a copy of it.
# `due` is NULL if the message is not sent automatically. Each index has only the rows that some call needs,
# so no call reads the many acknowledged ones. `attempt` has the failed attempts.
SCHEMA = (
    *Owner.SCHEMA,
    """CREATE TABLE writer (
        one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
        owner TEXT NOT NULL, generation INTEGER NOT NULL, instance TEXT NOT NULL) STRICT""",
    """CREATE TABLE relay (
        outbox INTEGER NOT NULL PRIMARY KEY REFERENCES outbox (id), subject TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('pending', 'sending', 'unanswered', 'waiting', 'parked',
        'unclear', 'refused', 'acknowledged', 'closed')),
        due INTEGER NULL, attempts INTEGER NOT NULL, detail TEXT NOT NULL, changed_at INTEGER NOT NULL,
        CHECK (state = 'pending' OR (due IS NULL) <> (state IN ('sending', 'unanswered', 'waiting')))
        ) STRICT""",
    """CREATE TABLE attempt (
        outbox INTEGER NOT NULL REFERENCES relay (outbox), number INTEGER NOT NULL,
        error TEXT NOT NULL, ended_at INTEGER NOT NULL,
        PRIMARY KEY (outbox, number)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX relay_by_due ON relay (due, outbox) WHERE due IS NOT NULL",
    f"CREATE INDEX relay_by_subject ON relay (subject, outbox) WHERE {_OPEN}",
    f"CREATE INDEX relay_by_state ON relay (state, outbox) WHERE {_LISTED}",
    f"""CREATE TRIGGER relay_staged AFTER INSERT ON outbox WHEN NEW.topic = 'result-recorded'
        BEGIN INSERT INTO relay SELECT NEW.id, r.scope || '/' || r.work, 'pending', iif(EXISTS (SELECT 1
        FROM relay WHERE subject = r.scope || '/' || r.work AND {_OPEN}), NULL, 0), 0, '', NEW.staged_at
        FROM receipt r WHERE r.id = CAST(NEW.subject AS INTEGER); END""",
)

VERDICTS = ("happened", "send-again", "given-up")
"""How an operator can close an entry of either list."""

MAX_ATTEMPTS, BASE, CAP = 8, 1_000, 900_000
"""The defaults of `send`: how often a message is tried, and the shortest and the longest wait between two
attempts, in milliseconds."""

ARGUMENTS: dict[str, Rule] = {
    "outbox": bounded(1, 2**62),
    "verdict": one_of(VERDICTS),
    "note": text,
    "limit": bounded(1, 10_000),
    "max_attempts": bounded(1, 1_000_000),
    "base": bounded(0, LONGEST),
    "cap": bounded(0, LONGEST),
    "now": integer,
}


class Message(NamedTuple):
    """A message: its id in the outbox, and the effect that it asks for. `key` is the idempotency key, made of
    the scope and the key under which the owner accepted the result."""

    outbox: int
    key: str
    subject: str
    revision: int
    fence: int
    digest: str


Receive = Callable[[Message], object]
"""Delivers a message to a receiver, or looks one up there."""


class Job(NamedTuple):
    """A message that can be sent now, its state, and the number of attempts so far."""

    message: Message
    state: str
    attempts: int


class SendRun(NamedTuple):
    """The arguments of one run of `send`."""

    receive: Receive
    keyed: bool
    look_up: Receive | None
    max_attempts: int
    base: int
    cap: int
    now: int


class Relayed(NamedTuple):
    """What one run of `send` did: the number of messages that were acknowledged, were refused, or ended
    unclear, and the number of failed attempts. `stopped` is why the receiver was not reached at the end."""

    acknowledged: int
    refused: int
    unclear: int
    failed: int
    stopped: str


class Entry(NamedTuple):
    """A message and its state. `detail` is the latest reason or note, `history` has the failed attempts, and
    `behind` is the number of later messages of its subject that it holds back."""

    outbox: int
    key: str
    state: str
    detail: str
    due: int | None
    history: tuple[str, ...]
    behind: int


_DUE = """SELECT d.outbox, r.command, r.revision, r.result_digest, d.state, d.attempts FROM relay d
    CROSS JOIN outbox o ON o.id = d.outbox CROSS JOIN receipt r ON r.id = CAST(o.subject AS INTEGER)
    WHERE d.due <= :now ORDER BY d.due, d.outbox LIMIT :limit"""
# An acknowledged or closed message stays that way, even if another relay gets another answer later.
_MARK = f"""UPDATE relay SET state = :state, due = NULL, detail = :detail, changed_at = :now
    WHERE outbox = :outbox AND ({_OPEN} OR state = 'refused' AND :state = 'acknowledged')"""
_NEXT = f"""UPDATE relay SET due = 0 WHERE state = 'pending' AND outbox = (
    SELECT outbox FROM relay WHERE subject = (SELECT subject FROM relay WHERE outbox = :outbox)
    AND {_OPEN} ORDER BY outbox LIMIT 1)"""
# When two relays have read the same number of attempts, only one of them changes the row.
_BEGIN = """UPDATE relay SET state = 'sending', attempts = attempts + 1, changed_at = :now
    WHERE outbox = :outbox AND state = :state AND attempts = :attempts"""
_LATER = """UPDATE relay SET state = :state, due = :due, attempts = :number, detail = :detail,
    changed_at = :now WHERE outbox = :outbox AND attempts = :attempts AND due IS NOT NULL"""
_ATTEMPT = "INSERT INTO attempt VALUES (:outbox, :number, :detail, :now)"
_CLOSE = "UPDATE relay SET state = ?, due = NULL, detail = ?, changed_at = ? WHERE outbox = ?"
_STATE = "SELECT state FROM relay WHERE outbox = ?"
_ENTRY = f"""SELECT d.outbox, r.scope || '/' || r.key, d.state, d.detail, d.due,
    (SELECT group_concat(line, char(10)) FROM (SELECT number || ' at ' || ended_at || ': ' || error AS line
        FROM attempt WHERE outbox = d.outbox ORDER BY number)),
    iif(d.{_OPEN}, (SELECT count(*) FROM relay later WHERE later.subject = d.subject
        AND later.outbox > d.outbox AND later.{_OPEN}), 0)
    FROM relay d CROSS JOIN outbox o ON o.id = d.outbox
    CROSS JOIN receipt r ON r.id = CAST(o.subject AS INTEGER) WHERE """
_DECIDE = f"{_ENTRY} d.state IN ('parked', 'unclear', 'refused') AND d.{_LISTED} ORDER BY d.outbox"
_DELAYED = f"{_ENTRY} d.state IN ('sending', 'unanswered', 'waiting') AND d.{_LISTED} ORDER BY d.outbox"
_WRITE_AS = """INSERT INTO writer VALUES (1, :owner, :generation, :instance)
    ON CONFLICT (one) DO UPDATE SET owner = excluded.owner,
    generation = excluded.generation, instance = excluded.instance"""
_WRITER = "SELECT owner, generation, instance FROM writer"
_SUBJECTS = "SELECT scope, work FROM work ORDER BY scope, work"
_JUMP = """UPDATE work SET fence = max(fence, :fence) + 1, revision = max(revision, :revision), holder = NULL,
    expires_at = NULL, changed_at = :now, state = CASE WHEN revision < :revision THEN 'result-recorded'
    WHEN state = 'leased' THEN 'ready' ELSE state END WHERE scope = :scope AND work = :work"""


def to_file(relay: Relay, receiver: Receiver, now: int) -> Receive:
    """A `receive` for a receiver whose file this process has open. It writes under this relay's identity."""
    writer = relay.writer()

    def receive(message: Message) -> object:
        return receiver.apply(writer.owner, writer.generation, writer.instance, *message[1:], now)

    return receive


class Relay(Contract):
    """The sending side of an owner's file."""

    NAME = "relay"
    SCHEMA = SCHEMA
    TABLES = ("relay", "attempt", "writer")
    ARGUMENTS = ARGUMENTS
    GUARDS: ClassVar = {}
    FAILPOINTS: ClassVar = {"send": ("after_sending", "after_receiver", "after_attempt", "after_mark")}
    COUNTS: ClassVar = Owner.COUNTS | {
        "acknowledged": "SELECT count(*) FROM relay WHERE state = 'acknowledged'",
    }

    def write_as(self, writer: Writer) -> None:
        """Set the identity that this file writes under from now on."""
        if type(writer) is not Writer:
            raise WrongType("writer", f"must be a Writer from register, not {type(writer).__name__}")
        named = {"owner": writer.owner, "generation": writer.generation, "instance": writer.instance}
        check(Receiver.ARGUMENTS, named)
        with self.store.write() as db:
            db.execute(_WRITE_AS, named)

    def writer(self) -> Writer:
        """The identity that this file writes under. Refused: no-writer."""
        rows = self.store.read(_WRITER)
        if not rows:
            raise Refused("no-writer", "this file has no writer identity; register one with the receiver")
        return Writer(*rows[0])

    def pending(self, limit: int) -> list[Message]:
        """The next messages to send, in order, without those that another message of their subject holds
        back."""
        check(ARGUMENTS, {"limit": limit})
        return [job.message for job in self._due(limit, MAX_INTEGER)]

    def send(
        self,
        receive: Receive,
        limit: int,
        now: int,
        *,
        keyed: bool = True,
        look_up: Receive | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        base: int = BASE,
        cap: int = CAP,
    ) -> Relayed:
        """Send the messages that are due, at most `limit`, and at most one of each subject.

        `receive` delivers a message and returns once the receiver has committed. It raises Refused if the
        receiver said no, and another Definite if the receiver was not reached; after two such messages in a
        row the run stops. After any other exception the outcome is unknown, and the attempt has failed.
        `keyed` says that the receiver keeps idempotency keys. `look_up` checks whether the receiver has a
        message, and raises Refused (not-found) if not. Without keys and without `look_up`, a lost answer
        makes the message unclear. Parked, unclear and refused messages are listed by `reconciliation`.

        Several relays may send at the same time: only one of them begins each attempt at a receiver without
        keys. A lookup can't see a request that is still on its way, so send again only when none can be.
        """
        named = {"limit": limit, "now": now, "max_attempts": max_attempts, "base": base, "cap": cap}
        check(ARGUMENTS, named)
        for name, given in (("receive", receive), ("look_up", receive if look_up is None else look_up)):
            if not callable(given):
                raise WrongType(name, f"must be a function of a message, not {type(given).__name__}")
        run = SendRun(receive, keyed, look_up, max_attempts, base, cap, now)
        count, stopped = Counter[str](), ""
        for job in self._due(limit, now):
            ended, why = self._one(job, run)
            count[ended] += 1
            before, stopped = stopped, why if ended == "not sent" else ""
            if before and stopped:
                break
        return Relayed(count["acknowledged"], count["refused"], count["unclear"], count["failed"], stopped)

    def reconciliation(self) -> list[Entry]:
        """The messages that an operator has to decide: parked, unclear or refused."""
        return [_entry(row) for row in self.store.read(_DECIDE)]

    def delayed(self) -> list[Entry]:
        """The messages that were tried and will be tried again, and those that are being sent right now."""
        return [_entry(row) for row in self.store.read(_DELAYED)]

    def get(self, outbox: int) -> Entry:
        """One message in any state. Refused: not-found."""
        check(ARGUMENTS, {"outbox": outbox})
        rows = self.store.read(_ENTRY + "d.outbox = ?", (outbox,))
        if not rows:
            raise _no_message()
        return _entry(rows[0])

    def close_entry(self, outbox: int, verdict: str, note: str, now: int) -> None:
        """Decide about a message of either list: it happened, it is given up, or it is sent again. With
        `send-again` a parked message gets one more attempt. Refused: not-found (there is no such message, or
        it is on neither list, or it is being sent right now)."""
        check(ARGUMENTS, {"outbox": outbox, "verdict": verdict, "note": note, "now": now})
        with self.store.write() as db:
            row = db.execute(_STATE, (outbox,)).fetchone()
            if row is None:
                raise _no_message()
            if row[0] not in ("parked", "unclear", "refused", "unanswered", "waiting"):
                what = f"there is nothing to decide about a message in the state {row[0]}; `get` shows it"
                raise Refused("not-found", what)
            state = "pending" if verdict == "send-again" else "closed"
            db.execute(_CLOSE, (state, f"{verdict}: {note}", now, outbox))
            db.execute(_NEXT, {"outbox": outbox})

    def jump(self, receiver: Receiver, now: int) -> None:
        """After a restore, raise every fence and revision above what the receiver has from this owner. Every
        lease ends, and work whose effect the receiver has gets its result recorded. It calls only
        `receiver.known`, once for each work."""
        integer("now", now)
        owner, subjects = self.writer().owner, self.store.read(_SUBJECTS)
        known = [receiver.known(owner, f"{scope}/{work}") for scope, work in subjects]
        with self.store.write() as db:
            for (scope, work), most in zip(subjects, known, strict=True):
                highest = {"fence": most.fence, "revision": most.revision}
                db.execute(_JUMP, highest | {"scope": scope, "work": work, "now": now})

    def _due(self, limit: int, now: int) -> list[Job]:
        jobs = []
        for row in self.store.read(_DUE, {"limit": limit, "now": now}):
            outbox, command, revision, digest, state, attempts = row
            sent = json.loads(command)
            key, subject = f"{sent['scope']}/{sent['key']}", f"{sent['scope']}/{sent['work']}"
            message = Message(outbox, key, subject, revision, sent["fence"], digest)
            jobs.append(Job(message, state, attempts))
        return jobs

    def _one(self, job: Job, run: SendRun) -> tuple[str, str]:
        """Send one message and return how that ended, and why. For a receiver without keys the file first
        records that the message is being sent."""
        begun = job
        if not run.keyed:
            if job.state in ("sending", "unanswered") and (ended := self._arrived(job, job, run)):
                return ended
            if not self._begin(job, run.now):
                return "begun by another", ""
            begun = job._replace(attempts=job.attempts + 1)
        try:
            run.receive(job.message)
        except Refused as refused:
            return self._mark(job, "refused", _reason(refused), run.now)
        except Definite as error:
            return self._later(job, begun, run, error, failed=False)
        except Exception as error:
            ended = None if run.keyed else self._arrived(job, begun, run)
            return ended or self._later(job, begun, run, error)
        self.store.failpoint("after_receiver")
        return self._mark(job, "acknowledged", "", run.now)

    def _begin(self, job: Job, now: int) -> bool:
        """Record that the message is being sent. False if another relay has begun this attempt."""
        named = {"outbox": job.message.outbox, "state": job.state, "attempts": job.attempts, "now": now}
        with self.store.write() as db:
            changed = db.execute(_BEGIN, named).rowcount
        self.store.failpoint("after_sending")
        return changed == 1

    def _arrived(self, job: Job, begun: Job, run: SendRun) -> tuple[str, str] | None:
        """What happened to a message whose answer was lost. None if the receiver never got it, so that it may
        be sent."""
        if run.look_up is None:
            return self._mark(job, "unclear", "the answer was lost", run.now)
        try:
            run.look_up(job.message)
        except Exception as error:
            never_came = isinstance(error, Refused) and error.reason == "not-found"
            return None if never_came else self._later(job, begun, run, error)
        return self._mark(job, "acknowledged", "found by a lookup", run.now)

    def _later(
        self, job: Job, begun: Job, run: SendRun, error: Exception, failed: bool = True
    ) -> tuple[str, str]:
        """Postpone a message. A failed attempt is counted, and the last one parks the message. `job` has the
        number of attempts that was read, and `begun` the number that the file has now."""
        number, wait = job.attempts + failed, backoff(job.message.key, job.attempts + 1, run.base, run.cap)
        state = "unanswered" if failed or job.state in ("sending", "unanswered") else "waiting"
        if failed and number >= run.max_attempts:
            state = "parked"
        due, detail = None if state == "parked" else min(run.now + wait, MAX_INTEGER), _reason(error)
        named = {"outbox": job.message.outbox, "attempts": begun.attempts, "number": number, "now": run.now}
        with self.store.write() as db:
            if (
                db.execute(_LATER, {**named, "state": state, "due": due, "detail": detail}).rowcount
                and failed
            ):
                db.execute(_ATTEMPT, {**named, "detail": detail})
            self.store.failpoint("after_attempt")
        return "failed" if failed else "not sent", detail

    def _mark(self, job: Job, state: str, detail: str, now: int) -> tuple[str, str]:
        named = {"outbox": job.message.outbox, "state": state, "detail": detail, "now": now}
        with self.store.write() as db:
            db.execute(_MARK, named)
            db.execute(_NEXT, named)
            self.store.failpoint("after_mark")
        return state, detail


def _no_message() -> Refused:
    return Refused("not-found", "the outbox has no message with this id; check the id")


def _entry(row: tuple[Any, ...]) -> Entry:
    *plain, history, behind = row
    return Entry._make((*plain, tuple((history or "").splitlines()), behind))


def _reason(error: Exception) -> str:
    """The reason of a lab error, or the class name of any other error, as plain text that fits in a row."""
    reason = str(getattr(error, "reason", None) or type(error).__name__)
    return reason.encode("unicode_escape").decode("ascii")[:200]
