"""The checks of a fixed naive version: a call that is cut off, and another try that runs in between."""

import pytest

from receiptlab import exercises as check
from receiptlab.scenarios import naive
from receiptlab.scenarios.naive import write_message, write_receipt, write_result
from tests.exercises.lines import said, write_three

BLANK = "not yet: nothing is filled in here"
CUT = "not yet: cut off after commit of transaction 1 and called again: results, receipts and messages are "


def unwritten(naive, key, digest): ...


def idle(naive, key, digest):
    return None


def beside(service, key, digest):
    with service.store.write():
        pass
    no_transaction(service, key, digest)


def result_first(naive, key, digest):
    with naive.store.write() as db:
        write_result(db, digest)
    with naive.store.write() as db:
        write_receipt(db, key, digest)
        write_message(db, digest)


def message_last(naive, key, digest):
    with naive.store.write() as db:
        write_result(db, digest)
        write_receipt(db, key, digest)
    with naive.store.write() as db:
        write_message(db, digest)


def message_outside(naive, key, digest):
    with naive.store.write() as db:
        write_result(db, digest)
        write_receipt(db, key, digest)
    write_message(naive.store.db, digest)


def message_forgotten(naive, key, digest):
    with naive.store.write() as db:
        write_result(db, digest)
        write_receipt(db, key, digest)


def nested(naive, key, digest):
    with naive.store.write() as db:
        write_result(db, digest)
        with naive.store.write() as inner:
            write_receipt(inner, key, digest)


def no_transaction(naive, key, digest):
    write_three(naive.store.db, key, digest)


def hidden(naive, key, digest):
    try:
        message_last(naive, key, digest)
    except Exception:
        return


def raising(naive, key, digest):
    raise KeyError(key)


@pytest.mark.parametrize(
    ("mine", "line"),
    [
        (naive.write_all, "done: cut off at 2 points and called again, there is one result, "),
        (unwritten, BLANK),
        (idle, "not yet: called once: results, receipts and messages are (0, 0, 0), not (1, 1, 1)"),
        (beside, "not yet: UPDATE work runs outside `with naive.store.write()`; a crash can strike "),
        (result_first, f"{CUT}(2, 1, 1), not (1, 1, 1)"),
        (message_last, CUT),
        (message_outside, CUT),
        (
            hidden,
            "not yet: cut off before commit of transaction 1, your function catches the fault and goes on",
        ),
        (message_forgotten, "not yet: called once: results, receipts and messages are (1, 1, 0), "),
        (nested, "not yet: called once: your function ends as failed nested"),
        (no_transaction, "not yet: nothing is written with `with naive.store.write() as db`"),
        (raising, "not yet: your code raised KeyError: 'key-1'"),
        (lambda naive: None, "not yet: your code raised TypeError: "),
        (..., BLANK),
        ("write_all", "not yet: this needs a function"),
    ],
)
def test_cut_off(mine, line):
    assert said(check.cut_off, mine).startswith(line)


def look_inside(naive, key, digest):
    with naive.store.write() as db:
        if saved := naive.saved(key):
            return saved
        write_three(db, key, digest)


def answers_all(naive, key, digest):
    return look_inside(naive, key, digest) or naive.saved(key)


def look_outside_as_well(naive, key, digest):
    return naive.saved(key) or answers_all(naive, key, digest)


def look_twice_outside(service, key, digest):
    return service.saved(key) or service.saved(key) or naive.write_all(service, key, digest)


def look_in_another_transaction(service, key, digest):
    with service.store.write():
        if saved := service.saved(key):
            return saved
    return naive.write_all(service, key, digest)


def no_answer(naive, key, digest):
    with naive.store.write() as db:
        if naive.saved(key) is None:
            write_three(db, key, digest)


def message_in_another_transaction(naive, key, digest):
    with naive.store.write() as db:
        if saved := naive.saved(key):
            return saved
        write_result(db, digest)
        write_receipt(db, key, digest)
    with naive.store.write() as db:
        write_message(db, digest)


TOO_MANY = "results, receipts and messages are (2, 2, 2), not (1, 1, 1)"
RIVAL = "not yet: another try runs before transaction"


@pytest.mark.parametrize(
    ("mine", "line"),
    [
        (answers_all, "done: there is one effect and every caller gets the receipt, wherever another "),
        (look_outside_as_well, "done: there is one effect and every caller gets the receipt, "),
        (look_inside, "not yet: called for the first time: your function does not return the receipt"),
        (naive.accept_by_key_alone, f"{RIVAL} 1 of your call: {TOO_MANY}"),
        (look_twice_outside, f"{RIVAL} 1 of your call: {TOO_MANY}"),
        (look_in_another_transaction, f"{RIVAL} 2 of your call: {TOO_MANY}"),
        (no_answer, "not yet: called again with the same key: your function does not return the receipt"),
        (message_in_another_transaction, CUT),
        (naive.write_all, f"not yet: called again with the same key: {TOO_MANY}"),
        (unwritten, BLANK),
        (..., BLANK),
        (5, "not yet: this needs a function"),
    ],
)
def test_at_once(mine, line):
    assert said(check.at_once, mine).startswith(line)
