"""A contract beside a plain model of it (H-8): the same calls to both, and everything compared.

Each model is plain dictionaries, written from the clauses and not from the contract's code; it is the
second opinion. After every call the outcome, the reason, the answer, the counts, the leases and all rows
of the file must be the same.

It proves that contract and model agree on the sequences that were tried. It proves nothing about others,
about two calls at the same time, or about a clause that both got wrong in the same way.
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
"""By what is compared, the contract and its model."""


def run(size: int, progress: Progress | None = None, seed: int = 1) -> list[dict]:
    """`size` sequences of calls on each of `PAIRS`. Returns a row for each: contract, seed, sequences, calls,
    disagreements, outcomes (how often each call told what), and witness: a short case file with what the
    model expects, for `python -m receiptlab play FILE`; "" where they agree.

    The same seed gives the same calls. `progress` is told the pair, and how many of how many are done.
    """
    rows = []
    for name, (contract, model) in PAIRS.items():
        told = partial(progress, name) if progress else None
        rows.append({"contract": name} | explore(partial(Pair, contract, model), size, seed, progress=told))
    return rows
