"""The check of how operations of a closed range are settled by hand."""

import pytest

from receiptlab import exercises as check
from receiptlab.errors import Refused
from tests.exercises.lines import said


def by_hand(contract, namespace, epoch, operation, payload, now):
    if not contract.effects(namespace, epoch, operation).digests:
        contract.execute(namespace, 2, f"late {operation} of {epoch}", payload, now)


def nothing(contract, namespace, epoch, operation, payload, now):
    """Nothing is done."""
    return None


def send_again(contract, **arguments):
    return contract.execute(**arguments)


def count_up(contract, namespace, epoch, operation, payload, now):
    return contract.execute(namespace, epoch + 1, operation, payload, now)


def in_epoch_two(contract, namespace, epoch, operation, payload, now):
    return contract.execute(namespace, 2, operation, payload, now)


def old_id(contract, namespace, epoch, operation, payload, now):
    if not contract.effects(namespace, epoch, operation).digests:
        return contract.execute(namespace, 2, operation, payload, now)


def by_payload(contract, namespace, epoch, operation, payload, now):
    if not contract.effects(namespace, epoch, operation).digests:
        return contract.execute(namespace, 2, f"late {payload}", payload, now)


def without_epoch(contract, namespace, epoch, operation, payload, now):
    if not contract.effects(namespace, epoch, operation).digests:
        return contract.execute(namespace, 2, f"late {operation}", payload, now)


def with_time(contract, namespace, epoch, operation, payload, now):
    if not contract.effects(namespace, epoch, operation).digests:
        return contract.execute(namespace, 2, f"late {operation} of {epoch} at {now}", payload, now)


def refuses(contract, **arguments):
    raise Refused("no", "I do not know")


def old_id_without_answer(contract, **arguments):
    old_id(contract, **arguments)


EXECUTED, LATE = "not yet: op-1 of epoch 1, which was executed", "not yet: op-2 of epoch 1, which never came"
EARLIER = "not yet: op-2 of epoch 0, which never came"
OTHER = "it has 0 effects, not 1; the receipt that `execute` found belongs to another operation"


@pytest.mark.parametrize(
    ("mine", "line"),
    [
        (by_hand, "done: each of the 3 operations had one effect, and asking again changed nothing"),
        (nothing, f"{LATE}: it has 0 effects, not 1"),
        (send_again, f"{EXECUTED}: your function ends as refused closed"),
        (count_up, f"{EXECUTED}: it has 2 effects, not 1"),
        (in_epoch_two, f"{EXECUTED}: it has 2 effects, not 1"),
        (old_id, f"{LATE}: {OTHER}"),
        (old_id_without_answer, f"{LATE}: {OTHER}"),
        (without_epoch, f"{EARLIER}: {OTHER}"),
        (by_payload, f"{EARLIER}: {OTHER}"),
        (with_time, "not yet: asked again: op-2 of epoch 1, which never came: it has 2 effects, not 1"),
        (refuses, f"{EXECUTED}: your function ends as refused no"),
        (lambda contract: None, f"{EXECUTED}: your code raised TypeError: "),
        ("by hand", "not yet: this needs a function"),
        (..., "not yet: nothing is filled in here"),
    ],
)
def test_settles(mine, line):
    assert said(check.settles, mine).startswith(line)
