"""The nine crash points of intake and work (C-1 to C-9): a real process dies there, and the file is
reopened. The steps after that are the recovery."""

from __future__ import annotations

from collections.abc import Iterable

from receiptlab.contracts.work.work import Work
from receiptlab.experiment.experiment import Experiment
from receiptlab.experiment.run import Run, Step
from receiptlab.faults.failpoints import failpoints_of
from receiptlab.faults.processes.children import Child
from receiptlab.outcomes import Outcome
from receiptlab.values import sha256

ITEM = {"tenant": "acme", "namespace": "mail", "key": "message-1", "digest": sha256("content A")}
WHO = {"processor": "index", "processor_revision": "1"}
DELIVERY = ITEM | WHO | {"retain_until": 100_000, "tombstone_until": 200_000}
QUEUE = {"namespace": "mail", "processor": "index"}
NEXT = QUEUE | {"limit": 1, "hold_for": 1_000, "max_attempts": 3}
CLAIM = {"work": 1, "fence": 1}


def _lab(name: str, title: str, clauses: str) -> Experiment:
    return Experiment(Work, title, name=name, clauses=clauses)


def deliver(lab: Experiment, now: int, found: str, counts: list[int], key: str = "message-1") -> Step:
    """The consumer delivers the item."""
    expect = {"outcome": "accepted", "answer": {"found": found}, "counts": counts}
    call = DELIVERY | {"key": key, "now": now}
    return lab.step("consumer", "deliver", now, lab.observer.deliver, **call, expect=expect)


def take(lab: Experiment, worker: str, now: int, answer: dict, **other: object) -> Step:
    """A worker reserves the oldest item that is due."""
    call = NEXT | {"worker": worker, "now": now} | other
    return lab.step(
        worker, "next", now, lab.observer.next, **call, expect={"outcome": "accepted", "answer": answer}
    )


def complete(lab: Experiment, worker: str, now: int, fence: int, expect: dict, work: int = 1) -> Step:
    """A worker completes the item, with one effect and one message."""
    call = {"work": work, "fence": fence, "reference": f"result of {worker}", "now": now}
    return lab.step(worker, "complete", now, lab.observer.complete, **call, expect=expect)


def look(lab: Experiment, work: int = 1, **answer: object) -> Step:
    """The auditor reads the row."""
    expect = {"outcome": "read", "answer": answer}
    return lab.step("auditor", "get", None, lab.observer.get, work, expect=expect)


DONE = {"outcome": "accepted", "answer": {"state": "done"}}
LOST = {"outcome": "refused", "reason": "claim-lost"}
AGAIN = {"outcome": "refused", "reason": "already-done"}


def before_the_intake_batch() -> Run:
    """A consumer dies after classifying an item and before its batch (C-1)."""
    lab = _lab("before-the-intake-batch", "after classify, before the intake batch", "C-1")
    lab.die("consumer", "deliver", DELIVERY | {"now": 100}, "after_guards", [0, 0, 0, 0, 0, 0])
    deliver(lab, 110, "first-seen", [1, 0, 0, 0, 0, 1])
    return lab.run


def source_not_acknowledged() -> Run:
    """A consumer dies after its batch and before it acknowledges the source (C-2)."""
    lab = _lab("source-not-acknowledged", "intake batch committed, source not acknowledged", "C-2")
    lab.die("consumer", "deliver", DELIVERY | {"now": 100}, "after_commit", [1, 0, 0, 0, 0, 1])
    deliver(lab, 110, "redelivered", [1, 0, 0, 0, 0, 1])
    return lab.run


def during_the_intake_batch() -> Run:
    """A consumer dies at each point inside its batch (C-3)."""
    lab = _lab("during-the-intake-batch", "during the intake batch", "C-3")
    for number, point in enumerate(failpoints_of(Work, "deliver")[1:-1]):
        lab.die("consumer", "deliver", DELIVERY | {"now": 100 + number}, point, [0, 0, 0, 0, 0, 0])
    deliver(lab, 110, "first-seen", [1, 0, 0, 0, 0, 1])
    return lab.run


def after_a_reservation() -> Run:
    """A worker dies at each failpoint of a reservation, the last time while it holds the item (C-4)."""
    lab = _lab("after-a-reservation", "after reserve, before the work ends", "C-4")
    deliver(lab, 0, "first-seen", [1, 0, 0, 0, 0, 1])
    for number, point in enumerate(failpoints_of(Work, "reserve"), 1):
        now = 10_000 * number
        worker = {"worker": "worker-a", "now": now}
        given = {"outcome": "accepted", "answer": {"token": number}}
        lab.step("worker-a", "acquire", now, lab.observer.acquire, **QUEUE, **worker, expect=given)
        call = NEXT | worker | {"token": number, "now": now + 10}
        lab.die("worker-a", "reserve", call, point, [1, 0, 0, int(point == "after_commit"), 0, 1])
    take(lab, "worker-b", 80_000, {"works": [1], "fences": [2], "attempts": [2]})
    complete(lab, "worker-b", 80_100, 2, DONE)
    look(lab, state="done", attempts=2, history=["expired", "done"])
    return lab.run


def work_done_and_not_sent() -> Run:
    """A worker has done the work and is killed before it sends the completing batch (C-5)."""
    lab = _lab("work-done-and-not-sent", "work done, completing batch not sent", "C-5")
    deliver(lab, 0, "first-seen", [1, 0, 0, 0, 0, 1])
    take(lab, "worker-a", 100, {"works": [1], "fences": [1]})
    lab.disconnect()
    call = CLAIM | {"reference": "result of worker-a", "now": 200}
    with Child(Work, lab.path, "complete", call) as child:
        child.expect("READY").kill()
    facts = {"fault": "killed", "note": "killed before the call", "expect": {"outcome": "unknown"}}
    lab.note("worker-a", "complete", 200, Outcome("unknown", "killed"), **facts)
    take(lab, "worker-b", 1_100, {"works": [1], "fences": [2], "attempts": [2]})
    complete(lab, "worker-b", 1_200, 2, DONE | {"counts": [0, 1, 0, 2, 1, 2]})
    look(lab, state="done", history=["expired", "done"])
    return lab.run


def during_the_completing_batch() -> Run:
    """A worker dies at each failpoint of its completing batch. The row shows whether it committed (C-6)."""
    lab = _lab("during-the-completing-batch", "during the completing batch", "C-6")
    deliver(lab, 0, "first-seen", [1, 0, 0, 0, 0, 1])
    take(lab, "worker-a", 100, {"works": [1], "fences": [1]}, hold_for=10_000)
    for number, point in enumerate(failpoints_of(Work, "complete")):
        done = point == "after_commit"
        call = CLAIM | {"reference": "result of worker-a", "now": 200 + number}
        lab.die("worker-a", "complete", call, point, [0, 1, 0, 1, 1, 2] if done else [1, 0, 0, 1, 0, 1])
        look(lab, state="done" if done else "claimed", history=["done" if done else "open"])
    complete(lab, "worker-a", 300, 1, AGAIN | {"counts": [0, 1, 0, 1, 1, 2]})
    return lab.run


def completed_and_not_drained() -> Run:
    """A worker dies after its completing batch. The message is pending, and nobody takes the item again
    (C-7)."""
    lab = _lab("completed-and-not-drained", "completing batch committed, outbox not drained", "C-7")
    deliver(lab, 0, "first-seen", [1, 0, 0, 0, 0, 1])
    take(lab, "worker-a", 100, {"works": [1], "fences": [1]})
    call = CLAIM | {"reference": "result of worker-a", "now": 200}
    lab.die("worker-a", "complete", call, "after_commit", [0, 1, 0, 1, 1, 2])
    pending = lab.store.read("SELECT id, topic FROM outbox ORDER BY id")
    facts = {"pending": [f"{number} {topic}" for number, topic in pending]}
    expect = {"outcome": "read", "answer": {"pending": ["1 delivery", "2 done"]}}
    lab.note("relay", "read the outbox", None, Outcome("read", answer=facts), expect=expect)
    deliver(lab, 300, "redelivered", [0, 1, 0, 1, 1, 2])
    take(lab, "worker-b", 5_000, {"works": []})
    complete(lab, "worker-a", 5_100, 1, AGAIN | {"counts": [0, 1, 0, 1, 1, 2]})
    look(lab, state="done", reference="result of worker-a")
    return lab.run


def zombie() -> Run:
    """A worker hangs before its completing batch, is presumed dead, and then continues (C-8)."""
    lab = _lab("zombie", "a zombie commits after its claim was reclaimed", "C-8")
    deliver(lab, 0, "first-seen", [1, 0, 0, 0, 0, 1])
    take(lab, "worker-a", 100, {"works": [1], "fences": [1]})
    call = CLAIM | {"reference": "result of worker-a", "now": 200}
    with Child(Work, lab.path, "complete", call) as child:
        child.expect("READY")
        take(lab, "worker-b", 1_100, {"works": [1], "fences": [2], "attempts": [2]})
        facts = child.go().expect("CALLING").outcome()
    outcome = Outcome(facts["word"], facts["reason"], tuple(facts["fields"]))
    lost = LOST | {"fields": ["fence"], "counts": [1, 0, 0, 2, 0, 1]}
    note = "its clock still says 200"
    lab.note("worker-a", "complete", 200, outcome, expect=lost, note=note)
    complete(lab, "worker-b", 1_200, 2, DONE)
    look(lab, state="done", reference="result of worker-b", history=["expired", "done"])
    return lab.run


def during_a_sweep() -> Run:
    """A sweeper dies at each failpoint of its second chunk. The first chunk stays, and the next sweep
    continues (C-9)."""
    lab = _lab("during-a-sweep", "during a sweep", "C-9")
    for number in range(1, 5):
        deliver(lab, number, "first-seen", [number, 0, 0, 0, 0, number], f"message-{number}")
    take(lab, "worker-a", 100, {"works": [1, 2, 3, 4]}, limit=4)
    sweep = {"worker": "sweeper", "token": 1, "limit": 2, "max_attempts": 1}
    sweep_lease(lab, "sweeper", 2_000, 1)
    _chunk(lab, "sweeper", sweep | {"now": 2_000}, {"dead_letters": 2, "more": True}, [2, 0, 2, 4, 0, 6])
    for number, point in enumerate(failpoints_of(Work, "sweep")[:-1]):
        lab.die("sweeper", "sweep", sweep | {"now": 2_010 + number}, point, [2, 0, 2, 4, 0, 6])
    sweep_lease(lab, "sweeper-2", 12_000, 2)
    sweep |= {"worker": "sweeper-2", "token": 2, "now": 12_010}
    lab.die("sweeper-2", "sweep", sweep, "after_commit", [0, 0, 4, 4, 0, 8])
    _chunk(lab, "sweeper-2", sweep | {"now": 12_020}, {"dead_letters": 0, "more": False}, [0, 0, 4, 4, 0, 8])
    return lab.run


def sweep_lease(lab: Experiment, who: str, now: int, token: int) -> None:
    """A sweeper acquires its lease, with this token."""
    given = {"outcome": "accepted", "answer": {"token": token}}
    lab.step(who, "acquire_sweep", now, lab.observer.acquire_sweep, who, now, expect=given)


def _chunk(lab: Experiment, who: str, call: dict, answer: dict, counts: list[int]) -> None:
    expect = {"outcome": "accepted", "answer": answer, "counts": counts}
    lab.step(who, "sweep", call["now"], lab.observer.sweep, **call, expect=expect)


SCENARIOS = (
    before_the_intake_batch,
    source_not_acknowledged,
    during_the_intake_batch,
    after_a_reservation,
    work_done_and_not_sent,
    during_the_completing_batch,
    completed_and_not_drained,
    zombie,
    during_a_sweep,
)


def recovery(runs: Iterable[Run]) -> list[dict[str, object]]:
    """One row per run: where the process died, what was durable then, and what the recovery reached."""
    return [_row(run) for run in runs]


def _row(run: Run) -> dict[str, object]:
    ended = [step for step in run.steps if step.fault]
    then = ended or [step for step in run.steps if step.reason == "claim-lost"]
    durable = dict.fromkeys(counted(run, step) for step in then)
    return {
        "clause": run.clauses[0],
        "crash point": run.title,
        "processes killed": len(ended),
        "durable then": " or ".join(durable),
        "after recovery": counted(run, run.last),
        "as expected": "yes" if run.held else "NO",
    }


def counted(run: Run, step: Step) -> str:
    """What the file holds after a step, in words. Zero counts are left out."""
    facts = [f"{count} {name}" for name, count in zip(run.count_names, step.counts, strict=True) if count]
    return ", ".join(facts) or "nothing"
