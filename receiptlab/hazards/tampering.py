"""Changes behind a contract's back. They live here, with the experiments, and in no contract.

Each shows what a contract is worth when somebody reaches around it. That is all it proves.
"""

from __future__ import annotations

from collections.abc import Callable

from receiptlab.contracts.retention import Retention
from receiptlab.values import checked

_DELETE = "DELETE FROM receipt WHERE namespace = :namespace AND epoch = :epoch AND operation = :operation"


def unsafe_delete(contract: Retention, namespace: str, epoch: int, operation: str, now: int) -> None:
    """Delete one receipt to save space, and leave no tombstone and no boundary."""
    named = {"namespace": namespace, "epoch": epoch, "operation": operation, "now": now}
    call = checked(contract.ARGUMENTS, named)
    with contract.store.write() as db:
        db.execute(_DELETE, vars(call))


TAMPERING: dict[str, dict[str, Callable]] = {"retention": {"unsafe_delete": unsafe_delete}}
"""By contract, what a case may do behind its back. The first argument is the contract itself."""
