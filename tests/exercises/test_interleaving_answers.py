"""The checks of interleavings: one that goes wrong, and a function that must be right in all of them."""

import pytest

from receiptlab import exercises as check
from receiptlab.scenarios import interleaving_rows as every_interleaving
from receiptlab.scenarios.naive import (
    Saved,
    accept_by_key_alone,
    accept_in_two_transactions,
    write_all,
    write_message,
    write_receipt,
    write_result,
)
from receiptlab.scenarios.racing_mistakes import accept_and_forget_to_end, accept_deferred
from tests.exercises.lines import said, write_three

BLANK = "not yet: nothing is filled in here"

# ends_in

OUTSIDE = "check outside of the transaction"
DUPLICATED = (
    "done: it ends duplicated: in AAAAABABBBBB A accepted, B accepted, with results 2, receipts 2, outbox 2"
)


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("AAAAABABBBBB", DUPLICATED),
        ("aaaaa ba bbbbb", DUPLICATED),
        (..., BLANK),
        ("", BLANK),
        (5, "not yet: this needs an interleaving in letters"),
        (["A", "B"], "not yet: this needs an interleaving in letters"),
        ("ABC", "not yet: unknown letter 'C'"),
        ("AB", "not yet: AB is too short"),
        ("AAAAAABB", "not yet: AAAAAABB is too long"),
        ("ABABABABABAB", "not yet: ABABABABABAB does not fit"),
        ("AAAAAAB", "not yet: it ends serializable: in AAAAAAB A accepted, B replayed, with results 1, receipts 1, outbox 1"),
    ],
)  # fmt: skip
def test_an_interleaving_that_must_end_in_a_duplicate(answer, line):
    assert said(check.ends_in, OUTSIDE, "duplicated", answer).startswith(line)


def test_only_interleavings_with_the_right_verdict_are_accepted():
    for each in every_interleaving.explored(OUTSIDE).interleavings:
        printed = said(check.ends_in, OUTSIDE, "serializable", each.interleaving)
        assert printed.startswith("done: " if each.verdict == "serializable" else "not yet: ")


def test_a_verdict_that_no_interleaving_has_is_a_mistake_in_the_exercise():
    line = "not yet: no interleaving of check outside of the transaction ends wrong"
    assert said(check.ends_in, OUTSIDE, "wrong", "AAAAAAB") == line


# in_every_interleaving


def statement_by_statement(naive, key, digest):
    db = naive.store.db
    db.execute("BEGIN IMMEDIATE")
    saved = naive.saved(key)
    if not saved:
        write_three(db, key, digest)
    db.execute("COMMIT")
    return saved


def with_a_block(naive, key, digest):
    with naive.store.write() as db:
        saved = naive.saved(key)
        if not saved:
            write_three(db, key, digest)
    return saved


def without_answer(naive, key, digest):
    with_a_block(naive, key, digest)


def commits_early(naive, key, digest):
    db = naive.store.db
    db.execute("BEGIN IMMEDIATE")
    saved = naive.saved(key)
    if not saved:
        write_result(db, digest)
    db.execute("COMMIT")
    if not saved:
        with naive.store.write() as db:
            write_receipt(db, key, digest)
            write_message(db, digest)
    return saved


def forever(naive, key, digest):
    while True:
        naive.saved(key)


def blank(naive, key, digest): ...


def no_receipt(naive, key, digest):
    return with_a_block(naive, key, digest) is not None


def raises(naive, key, digest):
    naive.store.db.execute("BEGIN IMMEDIATE")
    return digest / 0


def through_the_driver(naive, key, digest):
    with naive.store.db as db:
        write_three(db, key, digest)


def made_up(naive, key, digest):
    return write_all(naive, key, digest) or Saved(digest)


RIGHT = "done: all 12 interleavings are serializable: one effect, and a retry gets the receipt"


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (statement_by_statement, RIGHT),
        (with_a_block, RIGHT),
        (..., BLANK),
        (blank, BLANK),
        (5, "not yet: this needs a function"),
        (no_receipt, "not yet: your function returns False; return the receipt, or None"),
        (raises, "not yet: your code raised TypeError: "),
        (through_the_driver, "not yet: your code raised TypeError: 'Gate' object does not support the context manager"),
        (accept_by_key_alone, "not yet: 48 of 50 interleavings end duplicated; in AAAAABABBBBB A accepted, B accepted, with results 2"),
        (accept_deferred, "not yet: 296 of 310 interleavings end busy; in AAAAABBABB A accepted, B failed SQLITE_BUSY_SNAPSHOT"),
        (accept_in_two_transactions, "not yet: 690 of 692 interleavings end duplicated; in AAAAAAABABBBBBBB A accepted, B accepted, with"),
        (accept_and_forget_to_end, "not yet: your function returns and leaves its transaction open"),
        (commits_early, "not yet: 256 of 288 interleavings end duplicated; in AAAABABBBAAAABBBB A accepted, B accepted, with "),
        (without_answer, "not yet: 12 of 12 interleavings end wrong; in "),
        (made_up, "not yet: 10 of 10 interleavings end duplicated; in AAAAABBBBB A replayed, B replayed, with results 2"),
        (forever, "not yet: the interleavings never end; does your function ask again and again?"),
    ],
)  # fmt: skip
def test_a_function_that_must_be_right_in_every_interleaving(answer, line):
    assert said(check.in_every_interleaving, answer).startswith(line)
