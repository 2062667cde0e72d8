"""Workers that die: many processes over one database file, SIGKILL for one of them again and again.

They are forked, so that a start is cheap; whoever calls this has no store open meanwhile. Their clock runs
fifty times as fast as ours, so that a lease and a claim left behind end soon.
"""

import contextlib
import os
import random
import signal
import time
import traceback

from receiptlab.cli import intake_command as command
from receiptlab.contracts.intake.intake import DeliverItem
from receiptlab.contracts.work.work import Work
from receiptlab.examples.handler import Failure
from receiptlab.examples.worker import Policy, Worker
from receiptlab.store import Store
from receiptlab.values import sha256

FAST = 50
POLICY = Policy(hold_for=20_000, max_attempts=6, base=500, cap=4_000)
PROCESSOR = "count"
HANG = 0.6
"""Seconds; a claim lasts 0.4."""


def fast():
    """Milliseconds of a clock that runs fifty times as fast, the same one in every process."""
    return time.monotonic_ns() * FAST // 1_000_000


def fill(path, items, namespaces=5):
    """A database file with so many items, each with its work."""
    with Store.create(path, command.SCHEMA) as store:
        work = Work(store)
        with store.write() as db:
            for number in range(items):
                name = {"tenant": "acme", "namespace": f"n-{number % namespaces}", "key": str(number)}
                rest = {"key_kind": "explicit", "changed_as": "revision", "reference": "", "now": 0}
                horizons = {"retain_until": 2**61, "tombstone_until": 2**61}
                delivery = DeliverItem(**name, **rest, **horizons, digest=sha256(str(number)))
                found, _ = work.intake.stage_delivery(db, delivery)
                work.stage_work(db, found.item.identity, 1, PROCESSOR, "1", 0)


def handle(item, beat):
    """It takes 20 ms. Of a hundred items nine fail once, one fails always, and two hang once for longer than
    their claim lasts, and then go on as if nothing had been."""
    beat()
    number, first = int(item["key"]), item["attempt"] == 1
    time.sleep(HANG if number % 50 == 7 and first else 0.02)
    if number % 100 == 0 or (number % 10 == 0 and first):
        raise Failure("odd", f"attempt {item['attempt']}")
    return item["key"]


def nap(milliseconds):
    """A pause of the worker, ten times as fast."""
    time.sleep(milliseconds / 10_000)


def drain(path, name):
    """What one process does."""
    with Store.open(path) as store:
        Worker(store, PROCESSOR, name, POLICY, handle, fast, nap).run("drained")


def start(job, *arguments):
    """Run it in a process of its own; returns the id. It exits with 0 when all went well."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        job(*arguments)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def end(running):
    """Kill what still runs of these, by their ids."""
    for pid in running:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def reaped(running):
    """Take those out that have ended; whether one of them ended well. One that failed is an error."""
    well = False
    for pid in list(running):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            del running[pid]
            assert status == 0, f"a worker ended with {status}; its traceback is above"
            well = True
    return well


def finish(running, deadline):
    """Wait until all of these have ended well."""
    while running:
        assert time.monotonic() < deadline, "the others did not get done"
        reaped(running)
        time.sleep(0.01)


def work_alone(path, limit=60):
    """Let one worker do what is left."""
    running = {start(drain, path, "alone"): 0}
    try:
        finish(running, time.monotonic() + limit)
    finally:
        end(running)


def kill_while_working(path, seed, workers=10, every=0.1, limit=100, until=None):
    """Start workers, kill a random one every 100 ms and start it anew, until one finds that nothing is left.
    With `until`, kill all at once after so many kills. Returns how many were killed."""
    draw, kills, deadline = random.Random(seed), 0, time.monotonic() + limit
    running = {start(drain, path, f"worker-{number}"): number for number in range(workers)}
    try:
        while not reaped(running):
            assert time.monotonic() < deadline, "the workers did not get done"
            if kills == until:
                return kills
            time.sleep(every)
            victim = draw.choice(sorted(running, key=running.get))
            os.kill(victim, signal.SIGKILL)
            _, status = os.waitpid(victim, 0)
            number = running.pop(victim)
            if status == 0:
                break  # it had ended by itself before
            kills += 1
            running[start(drain, path, f"worker-{number}")] = number
        finish(running, deadline)
        return kills
    finally:
        end(running)


def sweep(path, now):
    """One sweep, in as many chunks as it takes."""
    with Store.open(path) as store:
        work = Work(store)
        token = work.acquire_sweep("sweeper", now).token
        for _ in range(1_000):
            if not work.sweep("sweeper", token, 10_000, POLICY.max_attempts, now).more:
                return
        raise AssertionError("the sweep has no end")


WRONG = {
    "a claim that nobody holds": "SELECT id FROM work WHERE state = 'claimed'",
    "an attempt left open": "SELECT work FROM attempt WHERE result = 'open' OR ended_at IS NULL",
    "done without exactly one result": """SELECT id FROM work w WHERE state = 'done' AND 1 <> (
        SELECT count(*) FROM result r WHERE r.identity = w.identity AND r.revision = w.revision
        AND r.processor = w.processor AND r.processor_revision = w.processor_revision)""",
    "a result of what is not done": """SELECT id FROM result r WHERE NOT EXISTS (
        SELECT 1 FROM work w WHERE r.identity = w.identity AND r.revision = w.revision
        AND r.processor = w.processor AND r.processor_revision = w.processor_revision
        AND w.state = 'done' AND w.reference = 'result ' || r.id)""",
    "done without exactly one message": """SELECT id FROM work w WHERE state = 'done' AND 1 <> (
        SELECT count(*) FROM outbox o WHERE o.topic = 'done' AND o.subject = w.identity)""",
    "done without exactly one such attempt": """SELECT id FROM work w WHERE (state = 'done') <> (
        SELECT count(*) FROM attempt a WHERE a.work = w.id AND a.result = 'done')""",
    "a hole in the history": """SELECT id FROM work w WHERE entries <> (
        SELECT count(*) FROM attempt a WHERE a.work = w.id) OR entries <> (
        SELECT coalesce(max(number), 0) FROM attempt a WHERE a.work = w.id)""",
    "attempts that are not counted": """SELECT id FROM work w WHERE attempts <> (
        SELECT count(*) FROM attempt a WHERE a.work = w.id AND a.result <> 'requeued')""",
    "a receipt that counts other work": """SELECT identity FROM receipt r WHERE unsettled <> (
        SELECT count(*) FROM work w WHERE w.identity = r.identity AND w.state NOT IN ('done', 'discarded'))""",
    "a dead letter without a message": """SELECT id FROM work w WHERE state = 'dead' AND NOT EXISTS (
        SELECT 1 FROM outbox o WHERE o.topic = 'dead-letter' AND o.subject = w.identity)""",
}
UNFINISHED = {"not done and not dead": "SELECT id FROM work WHERE state NOT IN ('done', 'dead')"}


def wrong(path, rules):
    """What is wrong in the file: the name of each rule that does not hold, and where."""
    with Store.open(path) as store:
        found = {name: store.read(sql) for name, sql in rules.items()}
    return {name: rows for name, rows in found.items() if rows}
