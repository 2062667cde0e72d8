"""Dispatch: what an owner owes to a receiver, sent at least once, and what is left unclear.

It works on the owner's file, with two tables more. A row of the outbox is owed until the receiver has
committed; only then is it acknowledged. Whoever stops in between sends it again, and a receiver that
keeps operation keys has the effect once. For a receiver that keeps none, a lost answer is never answered
by sending again: the row is *unclear*, and an operator decides.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver, Writer
from receiptlab.contracts.shape import Contract, arguments
from receiptlab.errors import Definite, Indefinite, Refused, WrongType
from receiptlab.values import bounded, checked, integer, one_of, text

# `writer` has one row at most: by which identity this file writes. A backup has a copy of it.
SCHEMA = (
    *Owner.SCHEMA,
    """CREATE TABLE writer (
        one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
        owner TEXT NOT NULL, generation INTEGER NOT NULL, instance TEXT NOT NULL) STRICT""",
    """CREATE TABLE dispatch (
        outbox INTEGER NOT NULL PRIMARY KEY REFERENCES outbox (id),
        state TEXT NOT NULL CHECK (state IN ('sending', 'unclear', 'acknowledged', 'refused', 'closed')),
        told TEXT NOT NULL, changed_at INTEGER NOT NULL) STRICT""",
)

VERDICTS = ("happened", "send-again", "given-up")
"""How an operator can close what is unclear or was refused."""

ARGUMENTS = {
    "outbox": bounded(1, 2**62),
    "verdict": one_of(VERDICTS),
    "note": text,
    "limit": bounded(1, 10_000),
    "now": integer,
}


class Message(NamedTuple):
    """One row that is owed: its id in the outbox, and the effect that it asks for. `key` is the operation
    key: the scope and the key under which the owner accepted the result."""

    outbox: int
    key: str
    subject: str
    revision: int
    fence: int
    digest: str


class Dispatched(NamedTuple):
    """How many messages one run of `send` saw acknowledged, refused, and left unclear. `stopped` says why it
    stopped early, if it did: that message and those behind it are still owed."""

    acknowledged: int
    refused: int
    unclear: int
    stopped: str


class Entry(NamedTuple):
    """A row of the reconciliation list."""

    outbox: int
    key: str
    state: str
    told: str


_OWED = """SELECT o.id, r.command, r.revision, r.result_digest, d.told FROM outbox o
    JOIN receipt r ON r.id = CAST(o.subject AS INTEGER) LEFT JOIN dispatch d ON d.outbox = o.id
    WHERE o.topic = 'result-recorded' AND (d.state IS NULL OR d.state = 'sending')
    ORDER BY o.id LIMIT :limit"""
# What is acknowledged or closed stays so, whatever another dispatcher learns later.
_MARK = """INSERT INTO dispatch VALUES (?, ?, ?, ?) ON CONFLICT (outbox)
    DO UPDATE SET state = excluded.state, told = excluded.told, changed_at = excluded.changed_at
    WHERE dispatch.state IN ('sending', 'unclear')
    OR dispatch.state = 'refused' AND excluded.state = 'acknowledged'"""
_BEGIN = "INSERT INTO dispatch VALUES (?, 'sending', ?, ?) ON CONFLICT (outbox) DO NOTHING"
_AGAIN = "UPDATE dispatch SET told = ?, changed_at = ? WHERE outbox = ? AND state = 'sending' AND told = ?"
_UNSENT = "DELETE FROM dispatch WHERE outbox = ? AND state = 'sending' AND told = ?"
_UNMARK = "DELETE FROM dispatch WHERE outbox = ?"
_CLOSE = "UPDATE dispatch SET state = 'closed', told = ?, changed_at = ? WHERE outbox = ?"
_STATE = "SELECT state FROM dispatch WHERE outbox = ?"
_LIST = """SELECT d.outbox, r.scope || '/' || r.key, d.state, d.told FROM dispatch d
    JOIN outbox o ON o.id = d.outbox JOIN receipt r ON r.id = CAST(o.subject AS INTEGER)
    WHERE d.state IN ('unclear', 'refused') ORDER BY d.outbox"""
_BE = """INSERT INTO writer VALUES (1, ?, ?, ?) ON CONFLICT (one) DO UPDATE SET owner = excluded.owner,
    generation = excluded.generation, instance = excluded.instance"""
_WHO = "SELECT owner, generation, instance FROM writer"
_SUBJECTS = "SELECT scope, work FROM work ORDER BY scope, work"
_JUMP = """UPDATE work SET fence = max(fence, :fence) + 1, revision = max(revision, :revision), holder = NULL,
    expires_at = NULL, changed_at = :now, state = CASE WHEN revision < :revision THEN 'result-recorded'
    WHEN state = 'leased' THEN 'ready' ELSE state END WHERE scope = :scope AND work = :work"""

Receive = Callable[[Message], object]


def to_file(dispatch: Dispatch, receiver: Receiver, now: int) -> Receive:
    """A `receive` for a receiver whose file this process has open, by the identity of this dispatch."""
    who = dispatch.writer()

    def receive(message: Message) -> object:
        return receiver.apply(who.owner, who.generation, who.instance, *message[1:], now)

    return receive


class Dispatch(Contract):
    """The sending side of an owner's file, opened with the tables above."""

    NAME = "dispatch"
    SCHEMA = SCHEMA
    TABLES = ("dispatch", "writer")
    ARGUMENTS = ARGUMENTS
    GUARDS: ClassVar = {}
    POINTS: ClassVar = {"send": ("after_sending", "after_receiver", "after_mark")}
    COUNTS: ClassVar = Owner.COUNTS | {
        "acknowledged": "SELECT count(*) FROM dispatch WHERE state = 'acknowledged'",
    }

    def write_as(self, writer: Writer) -> None:
        """From now on this file writes by this identity."""
        if type(writer) is not Writer:
            raise WrongType("writer", f"must be an identity from register, not {type(writer).__name__}")
        named = {"owner": writer.owner, "generation": writer.generation, "instance": writer.instance}
        checked(Receiver.ARGUMENTS, named)
        with self.store.write() as db:
            db.execute(_BE, (writer.owner, writer.generation, writer.instance))

    def writer(self) -> Writer:
        """By which identity this file writes. Refused: no-writer."""
        rows = self.store.read(_WHO)
        if not rows:
            raise Refused("no-writer", "this file has no writer identity; ask the receiver for one")
        return Writer(*rows[0])

    def owed(self, limit: int) -> list[Message]:
        """What is owed, oldest first."""
        checked(ARGUMENTS, {"limit": limit})
        return [message for message, _ in self._owed(limit)]

    def send(
        self, receive: Receive, limit: int, now: int, *, keyed: bool = True, look_up: Receive | None = None
    ) -> Dispatched:
        """Send what is owed, oldest first, at most `limit` messages.

        `receive` gives a message to the receiver, and returns once the receiver has committed. It raises
        Refused where the receiver said no, another Definite where nothing reached it, and Indefinite where
        nobody knows. `keyed` says that the receiver keeps operation keys; `look_up` asks it whether a
        message has arrived, and raises Refused (not-found) where not. Without either, a lost answer leaves
        the message unclear. What is unclear or was refused is not sent again; it is on the list of
        `reconciliation`.

        Several may send at once: each attempt at a receiver without keys is begun by one of them. A look-up
        says nothing of a request that is still under way; ask only once none can be.
        """
        checked(ARGUMENTS, {"limit": limit, "now": now})
        told = {"acknowledged": 0, "refused": 0, "unclear": 0}
        for message, attempt in self._owed(limit):
            ended, why = self._one(message, attempt, receive, keyed, look_up, now)
            if not ended:
                return Dispatched(*told.values(), why)
            if ended != "begun by another":
                told[ended] += 1
        return Dispatched(*told.values(), "")

    def reconciliation(self) -> list[Entry]:
        """What an operator has to decide: messages that are unclear, and messages that were refused."""
        return [Entry(*row) for row in self.store.read(_LIST)]

    def close_entry(self, outbox: int, verdict: str, note: str, now: int) -> None:
        """Take an entry off the list: it happened, it is to be sent again, or it is given up.
        Refused: not-found (no such entry on the list)."""
        call = checked(ARGUMENTS, arguments(locals()))
        with self.store.write() as db:
            (state,) = db.execute(_STATE, (outbox,)).fetchone() or (None,)
            if state not in ("unclear", "refused"):
                raise Refused("not-found", "this message is not on the reconciliation list")
            if call.verdict == "send-again":
                db.execute(_UNMARK, (outbox,))
            else:
                db.execute(_CLOSE, (f"{verdict}: {note}", now, outbox))

    def jump(self, receiver: Receiver, now: int) -> None:
        """After a restore: let every fence and revision go past what the receiver has seen of this owner.
        No lease survives, and work whose effect the receiver has is not done again. Of the receiver only
        `known` is asked."""
        integer("now", now)
        owner, subjects = self.writer().owner, self.store.read(_SUBJECTS)
        seen = [receiver.known(owner, f"{scope}/{work}") for scope, work in subjects]
        with self.store.write() as db:
            for (scope, work), known in zip(subjects, seen, strict=True):
                jumped = {"scope": scope, "work": work, "fence": known.fence, "revision": known.revision}
                db.execute(_JUMP, jumped | {"now": now})

    def _owed(self, limit: int) -> list[tuple[Message, str | None]]:
        found = []
        for outbox, command, revision, digest, attempt in self.store.read(_OWED, {"limit": limit}):
            sent = json.loads(command)
            key, subject = f"{sent['scope']}/{sent['key']}", f"{sent['scope']}/{sent['work']}"
            found.append((Message(outbox, key, subject, revision, sent["fence"], digest), attempt))
        return found

    def _one(
        self,
        message: Message,
        attempt: str | None,
        receive: Receive,
        keyed: bool,
        look_up: Receive | None,
        now: int,
    ) -> tuple[str, str]:
        """Send one message. Returns what became of it; or nothing, and why: then it is still owed. To a
        receiver without keys it is sent only after it was written down which attempt this is."""
        if not keyed:
            ended, why = self._arrived(message, look_up, now) if attempt else ("", "")
            if ended or why:
                return ended, why
            before, attempt = attempt, f"attempt {int(attempt.split()[1]) + 1 if attempt else 1}"
            if not self._begin(message, before, attempt, now):
                return "begun by another", ""
        try:
            receive(message)
        except Refused as refused:
            return self._mark(message, "refused", str(refused.reason), now), ""
        except Definite as error:
            with self.store.write() as db:
                db.execute(_UNSENT, (message.outbox, attempt))
            return "", error.reason
        except Indefinite as error:
            return "" if keyed else self._arrived(message, look_up, now)[0], error.reason
        self.store.reach("after_receiver")
        return self._mark(message, "acknowledged", "", now), ""

    def _begin(self, message: Message, before: str | None, attempt: str, now: int) -> bool:
        """Write down that it is being sent. False where another dispatcher has begun this attempt."""
        with self.store.write() as db:
            if before is None:
                begun = db.execute(_BEGIN, (message.outbox, attempt, now)).rowcount
            else:
                begun = db.execute(_AGAIN, (attempt, now, message.outbox, before)).rowcount
        self.store.reach("after_sending")
        return begun == 1

    def _arrived(self, message: Message, look_up: Receive | None, now: int) -> tuple[str, str]:
        """What became of a message whose answer was lost, or why that cannot be told now. Both are empty
        where the receiver says that it never came: then it may be sent."""
        if look_up is None:
            return self._mark(message, "unclear", "the answer was lost", now), ""
        try:
            look_up(message)
        except (Definite, Indefinite) as error:
            never_came = isinstance(error, Refused) and error.reason == "not-found"
            return "", "" if never_came else error.reason
        return self._mark(message, "acknowledged", "found by a look-up", now), ""

    def _mark(self, message: Message, state: str, told: str, now: int) -> str:
        with self.store.write() as db:
            db.execute(_MARK, (message.outbox, state, told, now))
            self.store.reach("after_mark")
        return state
