"""Changes behind a contract's back. They live here, with the experiments, and in no contract.

Each shows what a contract is worth when somebody reaches around it. That is all it proves.
"""

from __future__ import annotations

from collections.abc import Callable

from receiptlab.contracts.retention import Retention
from receiptlab.contracts.work import Work
from receiptlab.values import checked

_DELETE = "DELETE FROM receipt WHERE namespace = :namespace AND epoch = :epoch AND operation = :operation"
_FINISH = "UPDATE work SET state = 'done', due = NULL, holder = NULL, reference = :reference WHERE id = :work"
_EFFECT = """INSERT INTO effect (identity, revision, processor, processor_revision, reference, effected_at)
    SELECT identity, revision, processor, processor_revision, :reference, :now FROM work WHERE id = :work"""


def unsafe_delete(contract: Retention, namespace: str, epoch: int, operation: str, now: int) -> None:
    """Delete one receipt to save space, and leave no tombstone and no boundary."""
    named = {"namespace": namespace, "epoch": epoch, "operation": operation, "now": now}
    call = checked(contract.ARGUMENTS, named)
    with contract.store.write() as db:
        db.execute(_DELETE, vars(call))


def unsafe_finish(contract: Work, work: int, reference: str, now: int) -> None:
    """Finish an item by its id, as a queue does that has no fences: whoever comes last has the last word."""
    call = checked(contract.ARGUMENTS, {"work": work, "reference": reference, "now": now})
    with contract.store.write() as db:
        db.execute(_FINISH, vars(call))
        db.execute(_EFFECT, vars(call))


TAMPERING: dict[str, dict[str, Callable]] = {
    "retention": {"unsafe_delete": unsafe_delete},
    "work": {"unsafe_finish": unsafe_finish},
}
"""By contract, what a case may do behind its back. The first argument is the contract itself."""
