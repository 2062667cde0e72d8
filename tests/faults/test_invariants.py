"""The rules that the power cut and the failing disk check files by: each finds the fault planted for it."""

import contextlib
import sqlite3

import pytest

from receiptlab.faults.disk import reopening
from receiptlab.faults.disk.invariants import RULES
from receiptlab.faults.disk.workloads import lives
from receiptlab.outcomes import attempt
from receiptlab.store import Store

LIVES = {workload.name: workload for workload in lives()}

# How many steps of each workload are made before the fault is planted: there is a row for every rule by then.
STEPS = {"owner": 7, "retention": 11, "intake": 14, "work": 13, "receiver": 8, "relay": 19}
EVEN = "fenced_at = iif(generation = 1, NULL, 5)"
SAME_WORK = "identity, revision, processor, processor_revision, reference, 0"

# By contract and rule: changes behind the contract's back, one for each thing that the rule compares.
PLANTED = {
    "owner": {
        "results without a receipt each": (
            "UPDATE work SET results = 2 WHERE work = 'order-1'",
            "UPDATE receipt SET work = 'order-2'",
        ),
        "a receipt without exactly one message": (
            "DELETE FROM outbox",
            "UPDATE outbox SET topic = 'other'",
            "INSERT INTO outbox SELECT NULL, topic, subject, staged_at FROM outbox",
        ),
        "a message without a receipt": ("INSERT INTO outbox VALUES (NULL, 'result-recorded', '9', 0)",),
        "a lease of nobody": ("UPDATE work SET holder = NULL", "UPDATE work SET expires_at = NULL"),
        "a scope half revoked": ("UPDATE work SET revoked = 1 WHERE work = 'order-1'",),
    },
    "retention": {
        "an effect of an open epoch without exactly one receipt": (
            "DELETE FROM receipt WHERE operation = 'f'",
            "DELETE FROM boundary",
        ),
        "a receipt without exactly one effect": (
            "DELETE FROM effect WHERE operation = 'f'",
            "INSERT INTO effect SELECT NULL, namespace, epoch, operation, digest, 0 FROM effect",
            "UPDATE effect SET digest = 'x' WHERE operation = 'f'",
        ),
        "a receipt of a closed epoch": ("UPDATE boundary SET closed_through = 3",),
    },
    "intake": {
        "a receipt that counts other revisions": (
            "UPDATE receipt SET revisions = 9 WHERE state = 'live'",
            "UPDATE receipt SET collisions = 9 WHERE state = 'live'",
            "UPDATE revision SET disposition = 'accepted'",
        ),
        "a head that is not there": ("UPDATE receipt SET head = 9 WHERE state = 'live'",),
        "half compacted": (
            "UPDATE revision SET outcome = NULL",
            "UPDATE receipt SET key = NULL WHERE state = 'live'",
        ),
        "something left of what is erased": tuple(
            f"UPDATE receipt SET {column} = {value} WHERE state = 'erased'"
            for columns, value in (
                ("key_kind tenant namespace key", "'x'"),
                ("head retain_until tombstone_until revisions collisions seen unsettled", "1"),
            )
            for column in columns.split()
        ),
        "erased without exactly one message": (
            "DELETE FROM outbox WHERE id = (SELECT max(id) FROM outbox WHERE topic = 'erased')",
            "INSERT INTO outbox SELECT NULL, topic, subject, 0 FROM outbox WHERE topic = 'erased'",
            "INSERT INTO outbox SELECT NULL, 'erased', identity, 0 FROM receipt WHERE state = 'live'",
        ),
        "a revision without a message": (
            "DELETE FROM outbox WHERE id <= 2",
            "UPDATE outbox SET topic = 'other' WHERE id <= 2",
        ),
    },
    "work": {
        "a receipt that counts other work": (
            "UPDATE receipt SET unsettled = unsettled + 1",
            "UPDATE work SET state = 'discarded', due = NULL WHERE state = 'claimed'",
            "UPDATE work SET state = 'pending', due = 0 WHERE state = 'done'",
        ),
        "work of a receipt that does not live": (
            "DROP TRIGGER work_compacted; UPDATE receipt SET state = 'compacted'",
        ),
        "done without exactly one effect": (
            "DELETE FROM effect",
            f"INSERT INTO effect SELECT NULL, {SAME_WORK} FROM effect",
            f"INSERT INTO effect SELECT NULL, {SAME_WORK.replace('reference', 'holder')} FROM work"
            " WHERE state = 'claimed'",
            "UPDATE effect SET identity = 'x'",
            "UPDATE effect SET revision = 9",
            "UPDATE effect SET processor = 'x'",
            "UPDATE effect SET processor_revision = 'x'",
        ),
        "done without exactly one message": (
            "DELETE FROM outbox WHERE topic = 'done'",
            "INSERT INTO outbox SELECT NULL, topic, subject, 0 FROM outbox WHERE topic = 'done'",
            "INSERT INTO outbox SELECT NULL, 'done', identity, 0 FROM work WHERE state = 'claimed'",
        ),
        "a dead letter without a message": ("UPDATE work SET state = 'dead', due = NULL WHERE due > 0",),
        "done without exactly one such attempt": (
            "UPDATE attempt SET result = 'failed' WHERE result = 'done'",
            "UPDATE attempt SET result = 'done' WHERE result = 'open'",
        ),
        "claimed without exactly one open attempt": (
            "UPDATE attempt SET result = 'failed' WHERE result = 'open'",
            "UPDATE attempt SET result = 'open' WHERE result = 'done'",
        ),
        "a hole in the history": (
            "DELETE FROM attempt WHERE work = 2 AND number = 1",
            "UPDATE attempt SET number = 9 WHERE work = 2 AND number = 1",
        ),
        "attempts that are not counted": (
            "UPDATE work SET attempts = attempts + 1",
            "UPDATE attempt SET result = 'failed' WHERE result = 'requeued'",
        ),
    },
    "receiver": {
        "generations with a hole": (
            "UPDATE writer SET generation = 3 WHERE generation = 2;"
            "UPDATE effect SET generation = 3 WHERE generation = 2",
        ),
        "another than the last writer unfenced": (
            "UPDATE writer SET fenced_at = NULL",
            "UPDATE writer SET fenced_at = 5",
            f"UPDATE writer SET {EVEN}",
        ),
        "a restore receipt of nobody": (
            "UPDATE restoration SET generation = 9",
            "UPDATE restoration SET owner = 'x'",
        ),
    },
    "relay": {
        "a state of what is no message": ("UPDATE outbox SET topic = 'other' WHERE id = 1",),
        "a message without a state": ("DELETE FROM attempt; DELETE FROM relay WHERE outbox = 1",),
        "a subject of which nothing is due and nobody decides": (
            "UPDATE relay SET state = 'pending', due = NULL",
        ),
        "attempts that are not counted": ("INSERT INTO attempt SELECT outbox, 99, 'x', 0 FROM relay",),
    },
}
CASES = [
    (*each, sql)
    for each in ((c, r) for c in PLANTED for r in PLANTED[c])
    for sql in PLANTED[each[0]][each[1]]
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """By contract, the file after its steps."""
    made = {}
    for name, workload in LIVES.items():
        path = tmp_path_factory.mktemp(name) / reopening.NAME
        with Store.create(path, workload.schema) as store:
            at = workload.on(store)
            for step in workload.steps[: STEPS[name]]:
                attempt(step.call, at)
        made[name] = path.read_bytes()
    return made


def test_every_rule_has_a_planted_fault():
    assert {name for rules in RULES.values() for name in rules} == {
        name for rules in PLANTED.values() for name in rules
    }
    for name, workload in LIVES.items():
        assert set(workload.rules) >= set(PLANTED[name]), name
    assert set(LIVES["work"].rules) >= set(PLANTED["intake"])
    assert set(LIVES["relay"].rules) >= set(PLANTED["owner"])


@pytest.mark.parametrize("name", LIVES)
def test_no_rule_is_broken_before(files, tmp_path, name):
    found = reopening.look(reopening.lay({reopening.NAME: files[name]}, tmp_path), LIVES[name].rules)
    assert found[:3] == ("", "", ())


@pytest.mark.parametrize(("name", "rule", "sql"), CASES)
def test_a_planted_fault_breaks_its_rule(files, tmp_path, name, rule, sql):
    path = reopening.lay({reopening.NAME: files[name]}, tmp_path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(sql)
    found = reopening.look(path, LIVES[name].rules)
    assert (found.refused, found.damage) == ("", "")
    assert rule in found.broken
