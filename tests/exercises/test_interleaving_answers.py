"""The checks of interleavings of statements: right answers, wrong ones, and what they are told."""

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


def told(capsys):
    """The one line that a check has printed."""
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


# ends_in

OUTSIDE = "check outside of the transaction"


@pytest.mark.parametrize("answer", ["AAAAABABBBBB", "aaaaa ba bbbbb"])
def test_an_order_that_ends_so(answer, capsys):
    check.ends_in(OUTSIDE, "duplicated", answer)
    assert told(capsys) == (
        "done: it ends duplicated: in AAAAABABBBBB A accepted, B accepted, with results 2, receipts 2, outbox 2"
    )


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (..., "nothing is filled in here"),
        ("", "nothing is filled in here"),
        (5, "this needs an order in letters"),
        (["A", "B"], "this needs an order in letters"),
        ("ABC", "unknown letter 'C' in the order; the callers are A, B"),
        ("AB", "AB is too short: A or B still has to go on"),
        ("AAAAAABB", "AAAAAABB is too long: all is over after AAAAAAB"),
        ("ABABABABABAB", "ABABABABABAB does not fit: at step 6 it is A who can go on"),
        (
            "AAAAAAB",
            "it ends serializable: in AAAAAAB A accepted, B replayed, with results 1, receipts 1, outbox 1",
        ),
    ],
)
def test_an_order_that_does_not_end_so(answer, line, capsys):
    check.ends_in(OUTSIDE, "duplicated", answer)
    assert told(capsys).startswith(f"not yet: {line}")


def test_every_order_that_was_explored_is_judged_by_what_it_came_to(capsys):
    for interleaving in every_interleaving.explored(OUTSIDE).interleavings:
        check.ends_in(OUTSIDE, "serializable", interleaving.interleaving)
        assert told(capsys).startswith("done: " if interleaving.verdict == "serializable" else "not yet: ")


def test_a_verdict_that_no_order_has_is_not_asked_for(capsys):
    check.ends_in(OUTSIDE, "wrong", "AAAAAAB")
    assert told(capsys) == "not yet: no order of check outside of the transaction ends wrong"


# in_every_interleaving


def write(db, key, digest):
    write_result(db, digest)
    write_receipt(db, key, digest)
    write_message(db, digest)


def statement_by_statement(naive, key, digest):
    db = naive.store.db
    db.execute("BEGIN IMMEDIATE")
    saved = naive.saved(key)
    if not saved:
        write(db, key, digest)
    db.execute("COMMIT")
    return saved


def with_a_block(naive, key, digest):
    with naive.store.write() as db:
        saved = naive.saved(key)
        if not saved:
            write(db, key, digest)
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


def for_ever(naive, key, digest):
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
        write(db, key, digest)


def made_up(naive, key, digest):
    return write_all(naive, key, digest) or Saved(digest)


@pytest.mark.parametrize("answer", [statement_by_statement, with_a_block])
def test_a_function_that_is_right_in_every_interleaving(answer, capsys):
    check.in_every_interleaving(answer)
    assert told(capsys) == (
        "done: all 12 interleavings are safe: one effect, and a client that asks again gets the receipt"
    )


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (..., "nothing is filled in here"),
        (5, "this needs a function"),
        (blank, "nothing is filled in here"),
        (no_receipt, "your function returns False; return the receipt, or None"),
        (raises, "your code raised TypeError: "),
        (
            through_the_driver,
            "your code raised TypeError: 'Gate' object does not support the context manager",
        ),
        (
            accept_by_key_alone,
            "48 of 50 interleavings end duplicated; in AAAAABABBBBB A accepted, B accepted, with results 2",
        ),
        (
            accept_deferred,
            "296 of 310 interleavings end busy; in AAAAABBABB A accepted, B failed SQLITE_BUSY_SNAPSHOT",
        ),
        (
            accept_in_two_transactions,
            "690 of 692 interleavings end duplicated; in AAAAAAABABBBBBBB A accepted, B accepted, with",
        ),
        (accept_and_forget_to_end, "your function returns and leaves its transaction open"),
        (
            commits_early,
            "256 of 288 interleavings end duplicated; in AAAABABBBAAAABBBB A accepted, B accepted, with ",
        ),
        (without_answer, "12 of 12 interleavings end wrong; in "),
        (
            made_up,
            "10 of 10 interleavings end duplicated; in AAAAABBBBB A replayed, B replayed, with results 2",
        ),
        (for_ever, "there is no end to the interleavings; does your function ask again and again?"),
    ],
)
def test_a_function_that_some_order_shows_to_be_wrong(answer, line, capsys):
    check.in_every_interleaving(answer)
    assert told(capsys).startswith(f"not yet: {line}")
