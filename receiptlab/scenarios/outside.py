"""What a claim is worth outside the database: a print shop that sends letters for the workers (W-4).

The shop has its own file and knows nothing about claims except what the workers show it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from receiptlab.contracts.base import Contract
from receiptlab.errors import Refused
from receiptlab.experiment.experiment import Experiment
from receiptlab.experiment.run import Run


@dataclass(frozen=True)
class Sent:
    """A letter that went out now, or that had gone out before."""

    letter: int
    outcome: str = "accepted"


class Shop(Contract):
    """A print shop. It sends letters, and nothing can take one back."""

    NAME = "print shop"
    SCHEMA = (
        """CREATE TABLE letter (id INTEGER NOT NULL PRIMARY KEY, item TEXT NOT NULL, fence INTEGER NOT NULL,
            worker TEXT NOT NULL) STRICT""",
    )
    GUARDS: ClassVar = {}
    COUNTS: ClassVar = {"letters": "SELECT count(*) FROM letter"}

    def send(self, item: str, fence: int, worker: str) -> Sent:
        """Send every letter that is asked for."""
        with self.store.write() as db:
            row = (item, fence, worker)
            sent = db.execute("INSERT INTO letter (item, fence, worker) VALUES (?, ?, ?)", row)
            return Sent(sent.lastrowid)

    def send_fenced(self, item: str, fence: int, worker: str) -> Sent:
        """Refuse a fence that is lower than an earlier one. (With one connection only, which is enough
        here.)"""
        [(highest,)] = self.store.read("SELECT max(fence) FROM letter WHERE item = ?", (item,))
        if highest is not None and fence < highest:
            raise Refused("fence", f"fence {highest} was here before")
        return self.send(item, fence, worker)

    def send_once(self, item: str, fence: int, worker: str) -> Sent:
        """Send one letter for each item, whoever asks, and return that letter to later callers."""
        known = self.store.read("SELECT id FROM letter WHERE item = ? ORDER BY id", (item,))
        return Sent(known[0][0], "replayed") if known else self.send(item, fence, worker)


def _lab(name: str, title: str, kind: str = "holds") -> tuple[Experiment, Callable]:
    lab = Experiment(Shop, title, name=name, clauses="W-4", kind=kind)

    def step(worker: str, call: str, fence: int, outcome: str, letters: int, **more: object) -> None:
        expect = {"outcome": outcome, "counts": [letters], **more.pop("expect", {})}
        function = getattr(lab.observer, call)
        lab.step(worker, call, None, function, "item 1", fence, worker, expect=expect, **more)

    return lab, step


def outside_without_a_fence() -> Run:
    """The shop checks nothing: the new holder and the zombie both send (W-4)."""
    lab, step = _lab("outside-without-a-fence", "a shop that checks nothing", "breaks")
    step("worker-b", "send", 2, "accepted", 1)
    step("worker-a", "send", 1, "accepted", 2, anomaly="duplicated")
    return lab.run


def outside_with_a_fence() -> Run:
    """The shop compares fences, and the zombie is too late (W-4)."""
    lab, step = _lab("outside-with-a-fence", "a shop that compares fences")
    step("worker-b", "send_fenced", 2, "accepted", 1)
    step("worker-a", "send_fenced", 1, "refused", 1, expect={"reason": "fence"})
    return lab.run


def outside_with_a_fence_in_time() -> Run:
    """The first worker sends its letter and dies before it completes. The next one has a higher fence and
    sends again (W-4)."""
    lab, step = _lab(
        "outside-with-a-fence-in-time", "fences put workers in order and do nothing else", "breaks"
    )
    step("worker-a", "send_fenced", 1, "accepted", 1)
    step("worker-b", "send_fenced", 2, "accepted", 2, anomaly="duplicated")
    return lab.run


def outside_with_a_key() -> Run:
    """The shop uses the item as an idempotency key: one letter, whoever asks (W-4)."""
    lab, step = _lab("outside-with-a-key", "a shop that uses an idempotency key")
    step("worker-a", "send_once", 1, "accepted", 1)
    step("worker-b", "send_once", 2, "replayed", 1, expect={"answer": {"letter": 1}})
    return lab.run


SCENARIOS = (
    outside_without_a_fence,
    outside_with_a_fence,
    outside_with_a_fence_in_time,
    outside_with_a_key,
)
