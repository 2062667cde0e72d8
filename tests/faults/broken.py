"""Contracts that are broken on purpose, each in one way; and a writer program that uses some of them:
python tests/faults/broken.py NAME. The tests must find every one.
"""

import json
import os
import signal
import sys

from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver
from receiptlab.contracts.retention import _EFFECT, _RECEIPT, Executed, ExecuteOperation, Retention, _read_key
from receiptlab.contracts.work.work import Work
from receiptlab.faults.processes import killed_program as killed
from receiptlab.values import canonical, check


class TwoTransactions(Retention):
    """The effect is committed before its receipt."""

    def execute(self, namespace, epoch, operation, payload, now):
        command = ExecuteOperation(namespace, epoch, operation, payload, now)
        check(self.ARGUMENTS, vars(command))
        key = (namespace, epoch, operation, command.digest)
        with self.store.write() as db:
            current = _read_key(db, command)
            for guard in self.guards["execute"]:
                if saved := guard(command, current):
                    return saved
            effect = db.execute(_EFFECT, (*key, now)).lastrowid
        result = canonical({"effect": effect, "executed_at": now})
        with self.store.write() as db:
            db.execute(_RECEIPT, (*key, result, now))
        return Executed(effect, now)


class NoOutbox(Work):
    """A completion that owes no message."""

    def _complete(self, db, call, seen):
        done = super()._complete(db, call, seen)
        db.execute("DELETE FROM outbox WHERE id = (SELECT max(id) FROM outbox)")
        return done


class SecondEffect(Work):
    """It completes what was completed, once more."""

    def _complete(self, db, call, seen):
        done = super()._complete(db, call, seen)
        db.execute(
            "INSERT INTO effect SELECT NULL, identity, revision, processor, processor_revision, reference, 0 FROM effect WHERE id = 1"
        )
        return done


class LaxStaging(Intake):
    """It counts every redelivery at once."""

    def classify(self, **named):
        found = super().classify(**named)
        with self.store.write() as db:
            db.execute("UPDATE receipt SET seen = seen + 1 WHERE identity = ?", (found.item.identity,))
        return found


class LateFence(Receiver):
    """The older writer stays in while the new one registers."""

    def register(self, owner, instance, now):
        told = super().register(owner, instance, now)
        with self.store.write() as db:
            db.execute("UPDATE writer SET fenced_at = NULL WHERE generation = 1")
        return told


class Stale(Owner):
    """It answers a look from the first time it looked."""

    kept = None

    def get(self, scope, work):
        self.kept = self.kept or super().get(scope, work)
        return self.kept


class Early(Retention):
    """It tells its answer before the commit."""

    def _execute(self, db, call, seen):
        done = super()._execute(db, call, seen)
        killed.say(json.dumps([int(call.operation), "accepted", done.effect]))
        for _ in range(50_000):  # it has more to do; the shorter this is, the more kills it takes to be found
            pass
        return done


class Forgetful(Retention):
    """It keeps no receipt of what it did before."""

    def execute(self, namespace, epoch, operation, payload, now):
        with self.store.write() as db:
            db.execute("DELETE FROM receipt WHERE namespace = ? AND operation = ?", (namespace, operation))
        return super().execute(namespace, epoch, operation, payload, now)


class Unsynced(Retention):
    """It does not wait for the disk."""

    def __init__(self, store, guards=None):
        super().__init__(store, guards)
        store.db.execute("PRAGMA synchronous = OFF")


def replays(line):
    """Of an answer that was told early only the replays are told again."""
    if json.loads(line)[1] == "replayed":
        killed.say(line)


if __name__ == "__main__":
    # As a service does that ends in good order when it is asked to. SIGKILL does not ask.
    signal.signal(signal.SIGTERM, lambda *received: os._exit(0))
    kind = {each.__name__: each for each in (TwoTransactions, Early, Forgetful, Unsynced)}[sys.argv[1]]
    killed.main({"retention": kind}, replays if kind is Early else killed.say)
