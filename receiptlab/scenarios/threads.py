"""Two connections that call at the same time, from two threads (O-4, O-5).

Which one is first is left to chance. The promise doesn't depend on it, so the steps are listed in the
order of the commits.
"""

from __future__ import annotations

import threading

from receiptlab.contracts.owner import Owner
from receiptlab.experiment.experiment import Experiment
from receiptlab.experiment.run import Run
from receiptlab.outcomes import WORDS, Outcome, attempt
from receiptlab.values import sha256

WORK = {"scope": "shop", "work": "order-17"}
RESULT = WORK | {"actor": "worker-a", "revision": 1, "epoch": 1, "policy": "policy-1", "fence": 1, "now": 120}


def _together(lab: Experiment, calls: list[dict]) -> list[Outcome]:
    """Make the calls at once, each on its own connection. Returns the outcomes, accepted first."""
    barrier = threading.Barrier(len(calls), timeout=15)
    outcomes: list[Outcome] = []

    def one(call: dict) -> None:
        with lab.store.again() as store:
            owner = Owner(store)
            barrier.wait()
            outcomes.append(attempt(owner.accept, **call))

    threads = [threading.Thread(target=one, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(outcomes, key=lambda outcome: WORDS.index(outcome.word))


def _claimed(name: str, title: str, clause: str) -> Experiment:
    lab = Experiment(Owner, title, name=name, clauses=clause)
    owner = Owner(lab.store)
    lab.step("operator", "add", 0, owner.add, **WORK, revision=1, epoch=1, policy="policy-1", now=0)
    lab.step("worker-a", "claim", 100, owner.claim, **WORK, actor="worker-a", now=100, until=160)
    return lab


def one_key_at_once() -> Run:
    """Both get the same receipt, and there is one effect."""
    lab = _claimed("one-key-at-once", "one key over two connections at the same time", "O-4")
    call = RESULT | {"key": "key-1", "result_digest": sha256("result 1")}
    won, other = _together(lab, [call, call])
    answer = {"id": 1, "revision": 2, "accepted_at": 120}
    lab.note(
        "first to commit",
        "accept",
        120,
        won,
        expect={"outcome": "accepted", "counts": [1, 1, 1], "answer": answer},
    )
    lab.note(
        "second", "accept", 120, other, expect={"outcome": "replayed", "counts": [1, 1, 1], "answer": answer}
    )
    return lab.run


def two_keys_at_once() -> Run:
    """One is accepted and the other refused. There is one effect. The results are equal on purpose, so that
    the run doesn't depend on which is first."""
    lab = _claimed("two-keys-at-once", "two keys for one revision at the same time", "O-5")
    calls = [RESULT | {"key": key, "result_digest": sha256("result 1")} for key in ("key-1", "key-2")]
    won, other = _together(lab, calls)
    lab.note(
        "first to commit",
        "accept",
        120,
        Outcome(won.word),
        rows=False,
        expect={"outcome": "accepted", "counts": [1, 1, 1]},
    )
    refused = {"outcome": "refused", "reason": "state", "counts": [1, 1, 1]}
    lab.note("second", "accept", 120, other, rows=False, expect=refused)
    return lab.run


SCENARIOS = (one_key_at_once, two_keys_at_once)
