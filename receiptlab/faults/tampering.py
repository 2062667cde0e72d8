"""Changes to a contract's tables that bypass its calls.

Each shows what happens when somebody bypasses the contract. It proves nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from receiptlab.contracts.base import Contract
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.retention import Retention
from receiptlab.contracts.work.work import Work
from receiptlab.values import MAX_INTEGER, canonical, check, sha256

_DELETE = "DELETE FROM receipt WHERE namespace = :namespace AND epoch = :epoch AND operation = :operation"
_COMMAND = "SELECT command FROM receipt WHERE scope = :scope AND key = :key"
_SAVE = "UPDATE receipt SET command = :command, digest = :digest WHERE scope = :scope AND key = :key"
_RESULT = """UPDATE receipt SET result = json_set(result, '$.cost', 5)
    WHERE namespace = :namespace AND epoch = :epoch AND operation = :operation"""
_FENCE = "UPDATE work SET fence = ? WHERE scope = ? AND work = ?"
_FINISH = "UPDATE work SET state = 'done', due = NULL, holder = NULL, reference = :reference WHERE id = :work"
_EFFECT = """INSERT INTO effect (identity, revision, processor, processor_revision, reference, effected_at)
    SELECT identity, revision, processor, processor_revision, :reference, :now FROM work WHERE id = :work"""


def unsafe_delete(contract: Retention, namespace: str, epoch: int, operation: str, now: int) -> None:
    """Delete one receipt to save space, without leaving a tombstone or moving the watermark."""
    named = {"namespace": namespace, "epoch": epoch, "operation": operation, "now": now}
    check(contract.ARGUMENTS, named)
    with contract.store.write() as db:
        db.execute(_DELETE, named)


def unsafe_finish(contract: Work, work: int, reference: str, now: int) -> None:
    """Finish an item by its id, like a queue without fences: the last writer wins."""
    named = {"work": work, "reference": reference, "now": now}
    check(contract.ARGUMENTS, named)
    with contract.store.write() as db:
        db.execute(_FINISH, named)
        db.execute(_EFFECT, named)


def save_as_newer(contract: Owner, scope: str, key: str) -> None:
    """Save a command as a newer version would, with an additional field `priority`."""
    _save(contract, {"scope": scope, "key": key}, {"priority": 5})


def save_as_older(contract: Owner, scope: str, key: str) -> None:
    """Save a command as the first version did, without the version of its form."""
    _save(contract, {"scope": scope, "key": key}, {"form": None})


def _save(contract: Owner, named: dict, changed: dict) -> None:
    check(contract.ARGUMENTS, named)
    with contract.store.write() as db:
        for (command,) in db.execute(_COMMAND, named).fetchall():
            saved = json.loads(command) | changed
            text = canonical({name: value for name, value in saved.items() if value is not None})
            db.execute(_SAVE, named | {"command": text, "digest": sha256(text)})


def save_result_as_newer(contract: Retention, namespace: str, epoch: int, operation: str) -> None:
    """Save a result as a newer version would, with an additional field `cost`."""
    named = {"namespace": namespace, "epoch": epoch, "operation": operation}
    check(contract.ARGUMENTS, named)
    with contract.store.write() as db:
        db.execute(_RESULT, named)


def use_up_fence(contract: Owner, scope: str, work: str) -> None:
    """Set the fence of a piece of work to one below the largest integer."""
    check(contract.ARGUMENTS, {"scope": scope, "work": work})
    with contract.store.write() as db:
        db.execute(_FENCE, (MAX_INTEGER - 1, scope, work))


def _used_up(table: str) -> Callable[[Contract], None]:
    """Give the newest row of the table an id one below the largest integer."""

    def use_up(contract: Contract) -> None:
        with contract.store.write() as db:
            db.execute(
                f"UPDATE {table} SET id = ? WHERE id = (SELECT max(id) FROM {table})", (MAX_INTEGER - 1,)
            )

    return use_up


TAMPERING: dict[str, dict[str, Callable]] = {
    "owner": {
        "save_as_newer": save_as_newer,
        "save_as_older": save_as_older,
        "use_up_fence": use_up_fence,
        "use_up_receipts": _used_up("receipt"),
        "use_up_outbox": _used_up("outbox"),
    },
    "retention": {
        "unsafe_delete": unsafe_delete,
        "save_result_as_newer": save_result_as_newer,
        "use_up_effects": _used_up("effect"),
    },
    "work": {"unsafe_finish": unsafe_finish},
}
"""For each contract, the changes that a case can make behind its back. The first argument is the contract."""
