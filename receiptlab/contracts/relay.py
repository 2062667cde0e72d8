"""Relay: what an owner owes to a receiver, sent at least once, and what an operator has to decide.

It works on the owner's file, with three more tables. A trigger gives each message of the outbox a row of
`relay`, in the transaction that stages it. The state of that row says what is known:

pending          not sent yet, or an operator asked to send it again
sending       an attempt at a receiver without keys was begun, and nobody knows how it ended
unanswered    an attempt failed and may have reached the receiver; the next one is at `due`
waiting       nothing reached the receiver; the next attempt is at `due`
parked        it failed too often; an operator decides
unclear       the answer was lost and the receiver keeps no keys; an operator decides
refused       the receiver said no; an operator decides
acknowledged  the receiver has committed
closed        an operator has decided

The first six are open. Messages of one subject (the scope and the work) are sent in order: an open message
holds back the later ones of its subject, which have no `due`, and no others.

A message that cannot be delivered is tried again after a growing time, and parked after `max_attempts`. Where
nothing reached the receiver, the message is not to blame: it is put off for a short time, and nothing is
counted. An attempt during which this process itself dies is not counted either.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from receiptlab.contracts.base import Contract
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver, Writer
from receiptlab.contracts.work.claims import LONGEST, backoff
from receiptlab.errors import Definite, Refused, WrongType
from receiptlab.values import MAX_INTEGER, Rule, bounded, check, integer, one_of, text

_OPEN = "state NOT IN ('acknowledged', 'refused', 'closed')"
_LISTED = "state NOT IN ('pending', 'acknowledged', 'closed')"

# `writer` has one row at most: by which identity this file writes. A backup has a copy of it.
# `due` is NULL where a message is not sent by itself. Each index has only the rows that a call looks for, so
# that no call reads the many that are acknowledged. `attempt` has the attempts that failed.
SCHEMA = (
    *Owner.SCHEMA,
    """CREATE TABLE writer (
        one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
        owner TEXT NOT NULL, generation INTEGER NOT NULL, instance TEXT NOT NULL) STRICT""",
    """CREATE TABLE relay (
        outbox INTEGER NOT NULL PRIMARY KEY REFERENCES outbox (id), subject TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('pending', 'sending', 'unanswered', 'waiting', 'parked', 'unclear',
        'refused', 'acknowledged', 'closed')), due INTEGER NULL, attempts INTEGER NOT NULL,
        told TEXT NOT NULL, changed_at INTEGER NOT NULL,
        CHECK (state = 'pending' OR (due IS NULL) <> (state IN ('sending', 'unanswered', 'waiting')))) STRICT""",
    """CREATE TABLE attempt (
        outbox INTEGER NOT NULL REFERENCES relay (outbox), number INTEGER NOT NULL,
        error TEXT NOT NULL, ended_at INTEGER NOT NULL,
        PRIMARY KEY (outbox, number)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX relay_by_due ON relay (due, outbox) WHERE due IS NOT NULL",
    f"CREATE INDEX relay_by_subject ON relay (subject, outbox) WHERE {_OPEN}",
    f"CREATE INDEX relay_by_state ON relay (state, outbox) WHERE {_LISTED}",
    f"""CREATE TRIGGER relay_owed AFTER INSERT ON outbox WHEN NEW.topic = 'result-recorded'
        BEGIN INSERT INTO relay SELECT NEW.id, r.scope || '/' || r.work, 'pending', iif(EXISTS (SELECT 1
        FROM relay WHERE subject = r.scope || '/' || r.work AND {_OPEN}), NULL, 0), 0, '', NEW.staged_at
        FROM receipt r WHERE r.id = CAST(NEW.subject AS INTEGER); END""",
)

VERDICTS = ("happened", "send-again", "given-up")
"""How an operator can close an entry of a list."""

MAX_ATTEMPTS, BASE, CAP = 8, 1_000, 900_000
"""How often a message is tried, and the first and the longest time between two attempts, for a `now` in
milliseconds."""

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
    """One row that is pending: its id in the outbox, and the effect that it asks for. `key` is the operation
    key: the scope and the key under which the owner accepted the result."""

    outbox: int
    key: str
    subject: str
    revision: int
    fence: int
    digest: str


Receive = Callable[[Message], object]
"""Gives a message to a receiver, or asks it about one."""


class Job(NamedTuple):
    """A message that can be sent now, its state, and how many attempts there were."""

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
    """How many messages one run of `send` saw acknowledged, refused, and left unclear, and how many attempts
    failed. `stopped` is the reason where the last ones did not reach the receiver; they are still pending."""

    acknowledged: int
    refused: int
    unclear: int
    failed: int
    stopped: str


class Entry(NamedTuple):
    """A message and its state. `told` is what was learned last, `history` the attempts that failed, and
    `behind` how many later messages of its subject it holds back."""

    outbox: int
    key: str
    state: str
    told: str
    due: int | None
    history: tuple[str, ...]
    behind: int


_DUE = """SELECT d.outbox, r.command, r.revision, r.result_digest, d.state, d.attempts FROM relay d
    CROSS JOIN outbox o ON o.id = d.outbox CROSS JOIN receipt r ON r.id = CAST(o.subject AS INTEGER)
    WHERE d.due <= :now ORDER BY d.due, d.outbox LIMIT :limit"""
# What is acknowledged or closed stays so, whatever another relay learns later.
_MARK = f"""UPDATE relay SET state = :state, due = NULL, told = :told, changed_at = :now
    WHERE outbox = :outbox AND ({_OPEN} OR state = 'refused' AND :state = 'acknowledged')"""
_NEXT = f"""UPDATE relay SET due = 0 WHERE state = 'pending' AND outbox = (
    SELECT outbox FROM relay WHERE subject = (SELECT subject FROM relay WHERE outbox = :outbox)
    AND {_OPEN} ORDER BY outbox LIMIT 1)"""
# Of two relays that read the same count of attempts, one changes the row.
_BEGIN = """UPDATE relay SET state = 'sending', attempts = attempts + 1, changed_at = :now
    WHERE outbox = :outbox AND state = :state AND attempts = :attempts"""
_LATER = """UPDATE relay SET state = :state, due = :due, attempts = :number, told = :told,
    changed_at = :now WHERE outbox = :outbox AND attempts = :attempts AND due IS NOT NULL"""
_ATTEMPT = "INSERT INTO attempt VALUES (:outbox, :number, :told, :now)"
_CLOSE = "UPDATE relay SET state = ?, due = NULL, told = ?, changed_at = ? WHERE outbox = ?"
_STATE = "SELECT state FROM relay WHERE outbox = ?"
_ENTRY = f"""SELECT d.outbox, r.scope || '/' || r.key, d.state, d.told, d.due,
    (SELECT group_concat(line, char(10)) FROM (SELECT number || ' at ' || ended_at || ': ' || error AS line
        FROM attempt WHERE outbox = d.outbox ORDER BY number)),
    iif(d.{_OPEN}, (SELECT count(*) FROM relay later WHERE later.subject = d.subject
        AND later.outbox > d.outbox AND later.{_OPEN}), 0)
    FROM relay d CROSS JOIN outbox o ON o.id = d.outbox
    CROSS JOIN receipt r ON r.id = CAST(o.subject AS INTEGER) WHERE """
_DECIDE = f"{_ENTRY} d.state IN ('parked', 'unclear', 'refused') AND d.{_LISTED} ORDER BY d.outbox"
_DELAYED = f"{_ENTRY} d.state IN ('sending', 'unanswered', 'waiting') AND d.{_LISTED} ORDER BY d.outbox"
_BE = """INSERT INTO writer VALUES (1, ?, ?, ?) ON CONFLICT (one) DO UPDATE SET owner = excluded.owner,
    generation = excluded.generation, instance = excluded.instance"""
_WHO = "SELECT owner, generation, instance FROM writer"
_SUBJECTS = "SELECT scope, work FROM work ORDER BY scope, work"
_JUMP = """UPDATE work SET fence = max(fence, :fence) + 1, revision = max(revision, :revision), holder = NULL,
    expires_at = NULL, changed_at = :now, state = CASE WHEN revision < :revision THEN 'result-recorded'
    WHEN state = 'leased' THEN 'ready' ELSE state END WHERE scope = :scope AND work = :work"""


def to_file(relay: Relay, receiver: Receiver, now: int) -> Receive:
    """A `receive` for a receiver whose file this process has open, by the identity of this relay."""
    who = relay.writer()

    def receive(message: Message) -> object:
        return receiver.apply(who.owner, who.generation, who.instance, *message[1:], now)

    return receive


class Relay(Contract):
    """The sending side of an owner's file, opened with the tables above."""

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
        """From now on this file writes by this identity."""
        if type(writer) is not Writer:
            raise WrongType("writer", f"must be an identity from register, not {type(writer).__name__}")
        named = {"owner": writer.owner, "generation": writer.generation, "instance": writer.instance}
        check(Receiver.ARGUMENTS, named)
        with self.store.write() as db:
            db.execute(_BE, (writer.owner, writer.generation, writer.instance))

    def writer(self) -> Writer:
        """By which identity this file writes. Refused: no-writer."""
        rows = self.store.read(_WHO)
        if not rows:
            raise Refused("no-writer", "this file has no writer identity; ask the receiver for one")
        return Writer(*rows[0])

    def pending(self, limit: int) -> list[Message]:
        """The next messages to be sent, in the order in which they can be. Messages that another one of their
        subject holds back are not among them."""
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
        """Send what is due, at most `limit` messages and at most one of each subject.

        `receive` gives a message to the receiver, and returns once the receiver has committed. It raises
        Refused where the receiver said no, and another Definite where nothing reached it: at the second such
        message in a row the run stops. Anything else that it raises leaves open what happened; the attempt
        has failed. `keyed` says that the receiver keeps operation keys; `look_up` asks it whether a message
        has arrived, and raises Refused (not-found) where not. Without either, a lost answer leaves the
        message unclear. What is parked, unclear or refused is on the list of `reconciliation`.

        Several may send at once: each attempt at a receiver without keys is begun by one of them. A look-up
        says nothing of a request that is still under way; ask only once none can be.
        """
        named = {"limit": limit, "now": now, "max_attempts": max_attempts, "base": base, "cap": cap}
        check(ARGUMENTS, named)
        for name, given in (("receive", receive), ("look_up", receive if look_up is None else look_up)):
            if not callable(given):
                raise WrongType(name, f"must be a function of a message, not {type(given).__name__}")
        run = SendRun(receive, keyed, look_up, max_attempts, base, cap, now)
        told, away = dict.fromkeys(("acknowledged", "refused", "unclear", "failed"), 0), ""
        for job in self._due(limit, now):
            ended, why = self._one(job, run)
            if ended == "not sent" and away:
                return Relayed(*told.values(), why)
            away = why if ended == "not sent" else ""
            if ended in told:
                told[ended] += 1
        return Relayed(*told.values(), away)

    def reconciliation(self) -> list[Entry]:
        """What an operator has to decide: messages that are parked, unclear or refused."""
        return [_entry(row) for row in self.store.read(_DECIDE)]

    def delayed(self) -> list[Entry]:
        """Messages that were tried and are tried again, and those that are being sent just now."""
        return [_entry(row) for row in self.store.read(_DELAYED)]

    def get(self, outbox: int) -> Entry:
        """One message, whatever its state. Refused: not-found."""
        check(ARGUMENTS, {"outbox": outbox})
        rows = self.store.read(_ENTRY + "d.outbox = ?", (outbox,))
        if not rows:
            raise Refused("not-found", "the outbox has no message with this id")
        return _entry(rows[0])

    def close_entry(self, outbox: int, verdict: str, note: str, now: int) -> None:
        """Decide about a message of either list: it happened, it is given up, or it is to be sent again.
        `send-again` gives a parked message one more attempt. Refused: not-found (not on a list, or being
        sent just now)."""
        check(ARGUMENTS, {"outbox": outbox, "verdict": verdict, "note": note, "now": now})
        with self.store.write() as db:
            (state,) = db.execute(_STATE, (outbox,)).fetchone() or (None,)
            if state not in ("parked", "unclear", "refused", "unanswered", "waiting"):
                raise Refused("not-found", "this message is on no list; look it up by its id")
            state = "pending" if verdict == "send-again" else "closed"
            db.execute(_CLOSE, (state, f"{verdict}: {note}", now, outbox))
            db.execute(_NEXT, {"outbox": outbox})

    def jump(self, receiver: Receiver, now: int) -> None:
        """After a restore: let every fence and revision go past what the receiver has seen of this owner.
        No lease survives, and work whose effect the receiver has is not done again. Of the receiver only
        `known` is asked, once for each work."""
        integer("now", now)
        owner, subjects = self.writer().owner, self.store.read(_SUBJECTS)
        seen = [receiver.known(owner, f"{scope}/{work}") for scope, work in subjects]
        with self.store.write() as db:
            for (scope, work), known in zip(subjects, seen, strict=True):
                jumped = {"scope": scope, "work": work, "fence": known.fence, "revision": known.revision}
                db.execute(_JUMP, jumped | {"now": now})

    def _due(self, limit: int, now: int) -> list[Job]:
        found = []
        for outbox, command, revision, digest, *how in self.store.read(_DUE, {"limit": limit, "now": now}):
            sent = json.loads(command)
            key, subject = f"{sent['scope']}/{sent['key']}", f"{sent['scope']}/{sent['work']}"
            found.append(Job(Message(outbox, key, subject, revision, sent["fence"], digest), *how))
        return found

    def _one(self, job: Job, run: SendRun) -> tuple[str, str]:
        """Send one message. Returns how that ended, and why. To a receiver without keys it is sent only after
        it was written down that it is being sent."""
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
        """Write down that it is being sent. False where another relay has begun this attempt."""
        named = {"outbox": job.message.outbox, "state": job.state, "attempts": job.attempts, "now": now}
        with self.store.write() as db:
            changed = db.execute(_BEGIN, named).rowcount
        self.store.failpoint("after_sending")
        return changed == 1

    def _arrived(self, job: Job, begun: Job, run: SendRun) -> tuple[str, str] | None:
        """What became of a message whose answer was lost. None where the receiver says that it never came:
        then it may be sent."""
        if run.look_up is None:
            return self._mark(job, "unclear", "the answer was lost", run.now)
        try:
            run.look_up(job.message)
        except Exception as error:
            never_came = isinstance(error, Refused) and error.reason == "not-found"
            return None if never_came else self._later(job, begun, run, error)
        return self._mark(job, "acknowledged", "found by a look-up", run.now)

    def _later(
        self, job: Job, begun: Job, run: SendRun, error: Exception, failed: bool = True
    ) -> tuple[str, str]:
        """Put a message off. A failed attempt is counted, and the last one parks the message. `job` is the
        message as it was read, `begun` has the count of attempts that the file has now."""
        number, wait = job.attempts + failed, backoff(job.message.key, job.attempts + 1, run.base, run.cap)
        state = "unanswered" if failed or job.state in ("sending", "unanswered") else "waiting"
        if failed and number >= run.max_attempts:
            state = "parked"
        due = None if state == "parked" else min(run.now + wait, MAX_INTEGER)
        named = {"outbox": job.message.outbox, "attempts": begun.attempts, "number": number, "now": run.now}
        named |= {"state": state, "due": due, "told": _reason(error)}
        with self.store.write() as db:
            if db.execute(_LATER, named).rowcount and failed:
                db.execute(_ATTEMPT, named)
            self.store.failpoint("after_attempt")
        return "failed" if failed else "not sent", named["told"]

    def _mark(self, job: Job, state: str, told: str, now: int) -> tuple[str, str]:
        named = {"outbox": job.message.outbox, "state": state, "told": told, "now": now}
        with self.store.write() as db:
            db.execute(_MARK, named)
            db.execute(_NEXT, named)
            self.store.failpoint("after_mark")
        return state, told


def _entry(row: tuple) -> Entry:
    *plain, history, behind = row
    return Entry(*plain, tuple((history or "").splitlines()), behind)


def _reason(error: Exception) -> str:
    """The reason of an error of the lab, or the class of another error: plain text that fits into a row."""
    told = str(getattr(error, "reason", None) or type(error).__name__)
    return told.encode("unicode_escape").decode("ascii")[:200]
