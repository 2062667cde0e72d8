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


def two_transactions() -> Run:
    """The process dies between the result and its receipt. The retry finds no receipt."""
    lab = Experiment(
        Naive,
        "result and receipt in two transactions",
        name="two-transactions",
        clauses="O-1 O-3",
        kind="breaks",
    )
    service, call = Naive(lab.store), naive.accept_in_two_transactions
    lab.step(
        "worker-a",
        "accept",
        120,
        call,
        service,
        "key-1",
        ONE,
        fault="after_commit",
        expect=_is("unknown", 1, 0, 0),
    )
    lab.step(
        "worker-a",
        "accept",
        130,
        call,
        service,
        "key-1",
        ONE,
        expect=_is("accepted", 2, 1, 1),
        anomaly="duplicated",
    )
    return lab.run


def send_after_commit() -> Run:
    """The process dies between the commit and the message. The retry is answered from the receipt."""
    lab = Experiment(
        Naive,
        "the message is written after the commit",
        name="send-after-commit",
        clauses="O-3 O-16",
        kind="breaks",
    )
    service, call = Naive(lab.store), naive.accept_then_send
    lab.step(
        "worker-a",
        "accept",
        120,
        call,
        service,
        "key-1",
        ONE,
        fault="after_commit",
        expect=_is("unknown", 1, 1, 0),
    )
    lab.step(
        "worker-a",
        "accept",
        130,
        call,
        service,
        "key-1",
        ONE,
        expect=_is("replayed", 1, 1, 0),
        anomaly="lost",
    )
    return lab.run


def no_key() -> Run:
    """The answer is lost after the commit. Without a key the retry is a second result."""
    lab = Experiment(Naive, "a retry without an idempotency key", name="no-key", clauses="O-2", kind="breaks")
    service, call = Naive(lab.store), naive.accept_without_key
    lab.step(
        "worker-a", "accept", 120, call, service, ONE, fault="after_commit", expect=_is("unknown", 1, 0, 1)
    )
    lab.step(
        "worker-a", "accept", 130, call, service, ONE, expect=_is("accepted", 2, 0, 2), anomaly="duplicated"
    )
    return lab.run


def look_then_write() -> Run:
    """Two attempts of one call check for the receipt before either has written it."""
    lab = Experiment(
        Naive,
        "the check for a receipt is outside the transaction",
        name="look-then-write",
        clauses="O-4",
        kind="breaks",
    )
    a, b = Naive(lab.store), Naive(lab.store.again())
    lab.step("first try", "get", 120, naive.look, a, "key-1", expect=_is("read", 0, 0, 0))
    lab.step("second try", "get", 121, naive.look, b, "key-1", expect=_is("read", 0, 0, 0))
    lab.step("first try", "write", 122, naive.write_all, a, "key-1", ONE, expect=_is("accepted", 1, 1, 1))
    lab.step(
        "second try",
        "write",
        123,
        naive.write_all,
        b,
        "key-1",
        ONE,
        expect=_is("accepted", 2, 2, 2),
        anomaly="duplicated",
    )
    b.store.close()
    return lab.run


def key_alone() -> Run:
    """The key is reused with another result, and the call is answered from the first one's receipt."""
    lab = Experiment(
        Naive, "the receipt is found by its key only", name="key-alone", clauses="O-13", kind="breaks"
    )
    service, call = Naive(lab.store), naive.accept_by_key_alone
    lab.step("worker-a", "accept", 120, call, service, "key-1", ONE, expect=_is("accepted", 1, 1, 1))
    lab.step(
        "worker-a",
        "accept",
        130,
        call,
        service,
        "key-1",
        TWO,
        expect=_is("replayed", 1, 1, 1, answer={"result_digest": ONE}),
        anomaly="lost",
    )
    return lab.run


def lease_checked_by_the_worker() -> Run:
    """A worker checks its lease, is delayed, and writes after another worker has taken over and finished."""
    lab = Experiment(
        Naive,
        "the worker checks its own lease, then writes",
        name="lease-checked-by-the-worker",
        clauses="O-6 O-7 O-8",
        kind="breaks",
    )
    a, b = Naive(lab.store), Naive(lab.store.again())
    lab.step("worker-a", "claim", 100, naive.lease, a, "worker-a", 160, expect=_is("accepted", 0, 0, 0))
    lab.step("worker-b", "claim", 170, naive.lease, b, "worker-b", 230, expect=_is("accepted", 0, 0, 0))
    lab.step("worker-b", "finish", 180, naive.finish_by_id, b, TWO, expect=_is("accepted", 1, 0, 1))
    lab.step(
        "worker-a",
        "finish",
        190,
        naive.finish_by_id,
        a,
        ONE,
        expect=_is("accepted", 2, 0, 2),
        anomaly="overwritten",
    )
    b.store.close()
    return lab.run


def receipt_before_authority() -> Run:
    """The owner's own guards, with the check for a receipt moved to the front."""
    lab = Experiment(
        Owner,
        "the saved receipt is returned before authority is checked",
        name="receipt-before-authority",
        clauses="O-9",
        kind="breaks",
    )
    owner = Owner(lab.store, first(Owner, "accept", "replay"))
    work = {"scope": "shop", "work": "order-17"}
    result = work | {"actor": "worker-a", "key": "key-1", "revision": 1, "epoch": 1, "policy": "policy-1"}
    result |= {"fence": 1, "result_digest": ONE}
    lab.step(
        "operator",
        "add",
        0,
        owner.add,
        **work,
        revision=1,
        epoch=1,
        policy="policy-1",
        now=0,
        expect=_is("accepted", 0, 0, 0),
    )
    lab.step(
        "worker-a",
        "claim",
        100,
        owner.claim,
        **work,
        actor="worker-a",
        now=100,
        until=160,
        expect=_is("accepted", 0, 0, 0),
    )
    lab.step("worker-a", "accept", 120, owner.accept, **result, now=120, expect=_is("accepted", 1, 1, 1))
    lab.step("operator", "revoke", 130, owner.revoke, "shop", now=130, expect=_is("accepted", 1, 1, 1))
    lab.step(
        "worker-a",
        "accept",
        140,
        owner.accept,
        **result,
        now=140,
        expect=_is("replayed", 1, 1, 1),
        anomaly="disclosed",
    )
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
