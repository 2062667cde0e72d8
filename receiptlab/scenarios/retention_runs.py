"""Retention with real processes, real threads, and what each policy keeps (R-4, R-11, R-12, R-16)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from receiptlab.contracts.retention import Retention
from receiptlab.experiment.experiment import Experiment
from receiptlab.experiment.run import Run
from receiptlab.faults.failpoints import failpoints_of
from receiptlab.faults.processes.children import Child, exit_code
from receiptlab.outcomes import Outcome, attempt
from receiptlab.store import Store
from receiptlab.values import canonical, sha256

KEY = {"namespace": "shop", "epoch": 1, "operation": "op-1"}
PAYLOAD = {"payload": "pay 5"}
CLOSE = {"namespace": "shop", "through": 1}


def execute_dies_at_every_point() -> Run:
    """A process dies at each failpoint of an execution. The retry makes the one effect, or finds it (R-4)."""
    lab = Experiment(
        Retention, "a process dies while it executes", name="execute-dies-at-every-point", clauses="R-4 H-3"
    )
    for number, point in enumerate(failpoints_of(Retention, "execute")):
        done = point == "after_commit"
        args = KEY | PAYLOAD | {"operation": f"op-{number + 1}", "now": 100 + 10 * number}
        lab.die("child", "execute", args, point, [number + done, number + done, 0])
        again = {"outcome": "replayed" if done else "accepted", "counts": [number + 1, number + 1, 0]}
        retry = args | {"now": args["now"] + 5}
        lab.step("parent", "execute", retry["now"], lab.observer.execute, **retry, expect=again)
    return lab.run


def closure_dies_at_every_point() -> Run:
    """A process dies at each failpoint of a closure. Watermark and receipts change together or not at all
    (R-4)."""
    lab = Experiment(
        Retention, "a process dies while it closes a range", name="closure-dies-at-every-point", clauses="R-4"
    )
    lab.step("parent", "execute", 100, lab.observer.execute, **KEY, **PAYLOAD, now=100)
    for number, point in enumerate(failpoints_of(Retention, "close_and_collect")):
        done = point == "after_commit"
        lab.die("child", "close_and_collect", CLOSE | {"now": 110 + number}, point, [1, 0 if done else 1, 0])
    replayed = {"outcome": "replayed", "answer": {"closed_through": 1, "collected": 0}}
    lab.step(
        "parent", "close_and_collect", 120, lab.observer.close_and_collect, **CLOSE, now=120, expect=replayed
    )
    late = {"outcome": "refused", "reason": "closed", "counts": [1, 0, 0]}
    lab.step("parent", "execute", 130, lab.observer.execute, **KEY, **PAYLOAD, now=130, expect=late)
    return lab.run


def killed_inside_the_transaction() -> Run:
    """A process is held inside its transaction and killed. Its lock and its writes are gone (R-4)."""
    lab = Experiment(
        Retention,
        "a process is killed before its commit",
        name="killed-inside-the-transaction",
        clauses="R-4 H-3",
    )
    point, args = "after_receipt", KEY | PAYLOAD | {"now": 100}
    lab.disconnect()
    with Child(Retention, lab.path, "execute", args, hold_at=point) as child:
        child.expect("READY").go().expect("CALLING").expect(f"AT {point}")
        child.kill()
    expect = {"outcome": "unknown", "reason": point, "counts": [0, 0, 0]}
    lab.note("child", "execute", 100, Outcome("unknown", point), fault=point, expect=expect, note="killed")
    again = {"outcome": "accepted", "counts": [1, 1, 0]}
    lab.step("parent", "execute", 110, lab.observer.execute, **args | {"now": 110}, expect=again)
    return lab.run


def _in_order(lab: Experiment, first: tuple[str, dict], second: tuple[str, dict]) -> tuple[Outcome, Outcome]:
    """Two processes: the first holds the write lock while the second calls, then the first goes on."""
    path = lab.path
    with (
        Child(Retention, path, *first, hold_at="before_commit") as holder,
        Child(Retention, path, *second) as waiter,
    ):
        holder.expect("READY").go().expect("CALLING").expect("AT before_commit")
        waiter.expect("READY").go().expect("CALLING")
        holder.go()
        ended = [holder.outcome(), waiter.outcome()]
    return tuple(Outcome(t["word"], t["reason"], tuple(t["fields"]), answer=t["answer"]) for t in ended)


def execute_before_close() -> Run:
    """The execution is inside its transaction when the closure begins: the effect, then closed (R-11)."""
    lab = Experiment(Retention, "execute is first, close waits", name="execute-before-close", clauses="R-11")
    calls = ("execute", KEY | PAYLOAD | {"now": 100}), ("close_and_collect", CLOSE | {"now": 101})
    executed, closed = _in_order(lab, *calls)
    lab.note("process 1", "execute", 100, executed, expect={"outcome": "accepted", "answer": {"effect": 1}})
    collected = {"outcome": "accepted", "answer": {"collected": 1}, "counts": [1, 0, 0]}
    lab.note("process 2", "close_and_collect", 101, closed, expect=collected)
    return lab.run


def close_before_execute() -> Run:
    """The closure is inside its transaction when the execution begins: closed, and no effect (R-11)."""
    lab = Experiment(Retention, "close is first, execute waits", name="close-before-execute", clauses="R-11")
    calls = ("close_and_collect", CLOSE | {"now": 100}), ("execute", KEY | PAYLOAD | {"now": 101})
    closed, executed = _in_order(lab, *calls)
    nothing = {"outcome": "accepted", "answer": {"collected": 0}, "counts": [0, 0, 0]}
    lab.note("process 1", "close_and_collect", 100, closed, expect=nothing)
    late = {"outcome": "refused", "reason": "closed", "counts": [0, 0, 0]}
    lab.note("process 2", "execute", 101, executed, expect=late)
    return lab.run


def sixteen_calls_on_eight_workers() -> Run:
    """One operation, sixteen calls, eight workers with their own connections: one effect (R-12)."""
    lab = Experiment(
        Retention,
        "sixteen calls of one operation at once",
        name="sixteen-calls-on-eight-workers",
        clauses="R-12",
    )

    together = threading.Barrier(8, timeout=15)  # eight at a time, so that they race

    def call(number: int) -> Outcome:
        together.wait()
        with Store.open(lab.path, timeout_ms=15_000) as store:
            return attempt(Retention(store).execute, **KEY, **PAYLOAD, now=100)

    with ThreadPoolExecutor(max_workers=8) as workers:
        outcomes = sorted(workers.map(call, range(16)), key=lambda outcome: outcome.word)
    for number, outcome in enumerate(outcomes, 1):
        word = "accepted" if number == 1 else "replayed"
        expect = {"outcome": word, "answer": {"effect": 1, "executed_at": 100}, "counts": [1, 1, 0]}
        lab.note(f"call {number}", "execute", 100, outcome, expect=expect)
    return lab.run


_KEPT = """SELECT count(*), coalesce(sum(bytes), 0) FROM (
    SELECT length(CAST(namespace AS BLOB)) + length(CAST(operation AS BLOB)) + length(digest)
        + coalesce(length(CAST(result AS BLOB)), 0) AS bytes FROM receipt
    UNION ALL SELECT length(CAST(namespace AS BLOB)) FROM boundary)"""


def what_each_policy_keeps() -> Run:
    """A hundred operations: as live receipts, as tombstones, and as a closed range (R-16)."""
    lab = Experiment(
        Retention, "rows and bytes that each policy keeps", name="what-each-policy-keeps", clauses="R-16"
    )
    keys = [KEY | {"operation": f"op-{number:03}"} for number in range(100)]

    def kept(policy: str, rows: int, size: int) -> None:
        found = lab.store.read(_KEPT)[0]
        answer = {"rows": found[0], "bytes of text": found[1]}
        expect = {"outcome": "read", "answer": {"rows": rows, "bytes of text": size}}
        lab.note("operator", policy, None, Outcome("read", answer=answer), expect=expect)

    for key in keys:
        lab.observer.execute(**key, **PAYLOAD, now=100)
    named = sum(len(key["namespace"] + key["operation"] + sha256("pay 5")) for key in keys)
    results = sum(len(canonical({"effect": number, "executed_at": 100})) for number in range(1, 101))
    kept("live receipts", 100, named + results)
    for key in keys:
        lab.observer.expire_result(**key, now=200)
    kept("tombstones", 100, named)
    lab.observer.close_and_collect("shop", through=1, now=300)
    kept("closed range", 1, len("shop"))
    return lab.run


SCENARIOS = (
    execute_dies_at_every_point,
    closure_dies_at_every_point,
    killed_inside_the_transaction,
    execute_before_close,
    close_before_execute,
    sixteen_calls_on_eight_workers,
    what_each_policy_keeps,
)

EXIT_CODES = {
    (call, point): exit_code(Retention, call, point)
    for call in Retention.FAILPOINTS
    for point in failpoints_of(Retention, call)
}
"""The exit code of each death, for the lessons and the tests."""
