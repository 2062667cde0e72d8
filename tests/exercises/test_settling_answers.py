"""The checks of a case that tells two orders apart, and of what is done by hand for a closed range."""

import pytest

from receiptlab import exercises as check
from receiptlab.contracts import owner
from receiptlab.contracts.owner import Owner
from receiptlab.errors import Refused
from receiptlab.exercises import like
from receiptlab.faults.ablation import first

BASE = "O-09-revoked-replay"
BEFORE = [like(BASE, number) for number in (1, 2, 3, 4)]
WRONG = first(Owner, "accept", "key_reused")["accept"]


@pytest.fixture
def said(capsys):
    """What was printed since the last look, without the line's end."""
    return lambda: capsys.readouterr().out.rstrip("\n")


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (
            like(BASE, 5, revision=2, expect="refused revoked"),
            "done: your case notices: with those guards of accept, step 5 (worker-a accept at 140): reason: "
            "expected revoked, got key-reused",
        ),
        (
            like(BASE, 5, expect="refused revoked"),
            "not yet: your case holds, and comes out the same with those guards of accept",
        ),
        (
            like(BASE, 5, revision=2, expect="refused key-reused"),
            "not yet: with the contract as it is, step 5 (worker-a accept at 140): reason: expected key-reused",
        ),
        ({"actor": "a", "call": "foo"}, "not yet: your case, step 5: unknown call 'foo'"),
    ],
)
def test_a_case_that_tells_an_order_apart(last, told, said):
    check.tells_apart(Owner, "accept", WRONG, [*BEFORE, last])
    assert said().startswith(told)


def test_a_guard_too_many_is_told_apart(said):
    cancelled = like("O-11-cancelled-claim", 2, now=150, expect="accepted")
    check.tells_apart(Owner, "cancel", ["not_found", owner.revoked, "cancel_state"], [*BEFORE[:2], cancelled])
    assert said() == "not yet: your case holds, and comes out the same with those guards of cancel"
    story = [*BEFORE[:2], BEFORE[3], cancelled]
    check.tells_apart(Owner, "cancel", ["not_found", owner.revoked, "cancel_state"], story)
    assert said().startswith("done: your case notices: with those guards of cancel, step 4 (operator cancel")


@pytest.mark.parametrize(
    ("guards", "mine", "told"),
    [
        (["no_such"], BEFORE, "not yet: cancel has no guard 'no_such'; choose from cancel_state, not_found"),
        (["not_found"], ..., "not yet: nothing is filled in here"),
        (["not_found"], 5, "not yet: this needs a list of calls"),
    ],
)
def test_what_cannot_be_told_apart(guards, mine, told, said):
    check.tells_apart(Owner, "cancel", guards, mine)
    assert said().startswith(told)


def by_hand(contract, namespace, epoch, operation, payload, now):
    if not contract.effects(namespace, epoch, operation).digests:
        contract.execute(namespace, 2, f"late {operation} of {epoch}", payload, now)


def test_settled_by_hand(said):
    check.settles(by_hand)
    assert said() == "done: each of the 3 operations had one effect, and being asked again changed nothing"


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


EXECUTED, LATE = "op-1 of epoch 1, which was executed", "op-2 of epoch 1, which never came"
EARLIER = "op-2 of epoch 0, which never came"


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        (nothing, f"not yet: {LATE}: it has 0 effects, not 1"),
        (send_again, f"not yet: {EXECUTED}: your function ends as refused closed"),
        (count_up, f"not yet: {EXECUTED}: it has 2 effects, not 1"),
        (in_epoch_two, f"not yet: {EXECUTED}: it has 2 effects, not 1"),
        (
            old_id,
            f"not yet: {LATE}: it has 0 effects, not 1; the receipt that `execute` found is that of another",
        ),
        (
            without_epoch,
            f"not yet: {EARLIER}: it has 0 effects, not 1; the receipt that `execute` found is that of",
        ),
        (
            by_payload,
            f"not yet: {EARLIER}: it has 0 effects, not 1; the receipt that `execute` found is that of",
        ),
        (with_time, f"not yet: asked again: {LATE}: it has 2 effects, not 1"),
        (refuses, f"not yet: {EXECUTED}: your function ends as refused no"),
        (lambda contract: None, f"not yet: {EXECUTED}: your code raised TypeError: "),
        ("by hand", "not yet: this needs a function"),
        (..., "not yet: nothing is filled in here"),
    ],
)
def test_what_does_not_settle_it(mine, told, said):
    check.settles(mine)
    assert said().startswith(told)


def test_whether_another_receipt_was_found_is_told_where_nothing_is_returned(said):
    def settle(contract, namespace, epoch, operation, payload, now):
        old_id(contract, namespace, epoch, operation, payload, now)

    check.settles(settle)
    assert said().endswith("; the receipt that `execute` found is that of another operation")
