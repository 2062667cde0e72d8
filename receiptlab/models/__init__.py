"""Reference models: each contract as plain dictionaries, compared with the real one call by call (H-8).

Each reference model consists of plain dictionaries, written from the clauses and not from the contract's
code. After every call, the outcome, reason, answer, counts, leases and all rows of the file must be equal.

This proves that contract and model agree on the sequences that were tried. It proves nothing about other
sequences, about simultaneous calls, or about a clause that both misread in the same way.
"""

from __future__ import annotations

from functools import partial

from receiptlab.contracts.base import Contract
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver
from receiptlab.contracts.retention import Retention
from receiptlab.contracts.work.work import Work
from receiptlab.models.base import Model
from receiptlab.models.intake import IntakeModel
from receiptlab.models.owner import OwnerModel
from receiptlab.models.pair import Disagreement, Pair
from receiptlab.models.receiver import ReceiverModel
from receiptlab.models.retention import RetentionModel
from receiptlab.models.search import Progress, explore
from receiptlab.models.work import ErasingModel, WorkModel

__all__ = ["PAIRS", "Disagreement", "Pair", "explore", "run"]

PAIRS: dict[str, tuple[type[Contract], type[Model]]] = {
    "owner": (Owner, OwnerModel),
    "retention": (Retention, RetentionModel),
    "intake": (Intake, IntakeModel),
    "work": (Work, WorkModel),
    "work and erasure": (Work, ErasingModel),
    "receiver": (Receiver, ReceiverModel),
}
"""The contract and its model, by the name of the comparison."""


def run(size: int, progress: Progress | None = None, seed: int = 1) -> list[dict]:
    """Run `size` sequences of calls on each of `PAIRS`. Returns a row for each: contract, seed, sequences,
    calls, disagreements, outcomes (how often each call ended how), and witness: a short case file with what
    the model expects, for `receiptlab play FILE`, or "" when they agree.

    The same seed gives the same calls. `progress` is called with the name, the number done and the total.
    """
    rows = []
    for name, (contract, model) in PAIRS.items():
        report = partial(progress, name) if progress else None
        rows.append({"contract": name} | explore(partial(Pair, contract, model), size, seed, progress=report))
    return rows
