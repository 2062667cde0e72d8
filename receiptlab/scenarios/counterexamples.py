"""Counterexamples: naive versions of accept, and the owner with its checks in the wrong order.

Each one breaks with an exact outcome. A test fails when one stops breaking or breaks in another way.
"""

from __future__ import annotations

from receiptlab.contracts.owner import Owner
from receiptlab.experiment.experiment import Experiment
from receiptlab.experiment.run import Run
from receiptlab.faults.ablation import first
from receiptlab.scenarios import naive
from receiptlab.scenarios.naive import Naive
from receiptlab.values import sha256

ONE, TWO = sha256("result 1"), sha256("result 2")


def _is(outcome: str, *counts: int, **more: object) -> dict:
    return {"outcome": outcome, "counts": list(counts), **more}


def _naive(name: str, title: str, clauses: str) -> Experiment:
    return Experiment(Naive, title, name=name, clauses=clauses, kind="breaks")


def two_transactions() -> Run:
    """The process dies between the result and its receipt. The retry finds no receipt."""
    lab = _naive("two-transactions", "result and receipt in two transactions", "O-1 O-3")
    [a] = lab.actors("worker-a")
    call = {"call": "accept", "key": "key-1", "digest": ONE}
    with lab.answer_lost():
        a.runs(naive.accept_in_two_transactions, **call, now=120, expect=_is("unknown", 1, 0, 0))
    again = {"expect": _is("accepted", 2, 1, 1), "anomaly": "duplicated"}
    a.runs(naive.accept_in_two_transactions, **call, now=130, **again)
    return lab.run


def send_after_commit() -> Run:
    """The process dies between the commit and the message. The retry is answered from the receipt."""
    lab = _naive("send-after-commit", "the message is written after the commit", "O-3 O-16")
    [a] = lab.actors("worker-a")
    call = {"call": "accept", "key": "key-1", "digest": ONE}
    with lab.answer_lost():
        a.runs(naive.accept_then_send, **call, now=120, expect=_is("unknown", 1, 1, 0))
    a.runs(naive.accept_then_send, **call, now=130, expect=_is("replayed", 1, 1, 0), anomaly="lost")
    return lab.run


def no_key() -> Run:
    """The answer is lost after the commit. Without a key the retry is a second result."""
    lab = _naive("no-key", "a retry without an idempotency key", "O-2")
    [a] = lab.actors("worker-a")
    call = {"call": "accept", "digest": ONE}
    with lab.answer_lost():
        a.runs(naive.accept_without_key, **call, now=120, expect=_is("unknown", 1, 0, 1))
    again = {"expect": _is("accepted", 2, 0, 2), "anomaly": "duplicated"}
    a.runs(naive.accept_without_key, **call, now=130, **again)
    return lab.run


def look_then_write() -> Run:
    """Two attempts of one call check for the receipt before either has written it."""
    lab = _naive("look-then-write", "the check for a receipt is outside the transaction", "O-4")
    first, second = lab.actors("first attempt", "second attempt")
    first.runs(naive.look, "key-1", now=120, expect=_is("read", 0, 0, 0))
    second.runs(naive.look, "key-1", now=121, expect=_is("read", 0, 0, 0))
    first.runs(naive.write_all, "key-1", ONE, now=122, expect=_is("accepted", 1, 1, 1))
    again = {"expect": _is("accepted", 2, 2, 2), "anomaly": "duplicated"}
    second.runs(naive.write_all, "key-1", ONE, now=123, **again)
    return lab.run


def key_alone() -> Run:
    """The key is reused with another result, and the call is answered from the first one's receipt."""
    lab = _naive("key-alone", "the receipt is found by its key only", "O-13")
    [a] = lab.actors("worker-a")
    call = {"call": "accept", "key": "key-1"}
    a.runs(naive.accept_by_key_alone, **call, digest=ONE, now=120, expect=_is("accepted", 1, 1, 1))
    expect = _is("replayed", 1, 1, 1, answer={"result_digest": ONE})
    a.runs(naive.accept_by_key_alone, **call, digest=TWO, now=130, expect=expect, anomaly="lost")
    return lab.run


def lease_checked_by_the_worker() -> Run:
    """A worker checks its lease, is delayed, and writes after another worker has taken over and finished."""
    title = "the worker checks its own lease, then writes"
    lab = _naive("lease-checked-by-the-worker", title, "O-6 O-7 O-8")
    a, b = lab.actors("worker-a", "worker-b")
    a.runs(naive.lease, "worker-a", 160, call="claim", now=100, expect=_is("accepted", 0, 0, 0))
    b.runs(naive.lease, "worker-b", 230, call="claim", now=170, expect=_is("accepted", 0, 0, 0))
    b.runs(naive.finish_by_id, TWO, call="finish", now=180, expect=_is("accepted", 1, 0, 1))
    late = {"expect": _is("accepted", 2, 0, 2), "anomaly": "overwritten"}
    a.runs(naive.finish_by_id, ONE, call="finish", now=190, **late)
    return lab.run


def receipt_before_authority() -> Run:
    """The owner's own guards, with the check for a receipt moved to the front."""
    lab = Experiment(
        Owner,
        "the saved receipt is returned before authority is checked",
        name="receipt-before-authority",
        clauses="O-9",
        kind="breaks",
        guards=first(Owner, "accept", "replay"),
        **{"scope": "shop", "work": "order-17", "revision": 1, "epoch": 1, "policy": "policy-1"},
    )
    operator, a = lab.actors("operator", "worker-a")
    operator.add(now=0, expect=_is("accepted", 0, 0, 0))
    claim = a.claim(now=100, until=160, expect=_is("accepted", 0, 0, 0))
    result = {"key": "key-1", "result_digest": ONE}
    a.accept(claim, result, now=120, expect=_is("accepted", 1, 1, 1))
    operator.revoke(now=130, expect=_is("accepted", 1, 1, 1))
    a.accept(claim, result, now=140, expect=_is("replayed", 1, 1, 1), anomaly="disclosed")
    return lab.run


SCENARIOS = (
    two_transactions,
    send_after_commit,
    no_key,
    look_then_write,
    key_alone,
    lease_checked_by_the_worker,
    receipt_before_authority,
)
