"""Answers that people gave to the exercises, filled into their cells: wrong ones are refused, right ones accepted."""

import re
import textwrap

import pytest

from receiptlab.exercises import answers
from tests.exercises.lines import code, lines_of
from tools import exercises, notebooks


def cells_of(stem):
    (path,) = exercises.SOLUTIONS.glob(f"{stem}_*.ipynb")
    return code(notebooks.read(path))


def answered(stem, number, answer):
    """The line that a check prints for an answer. `number` counts the gaps of the exercises of a lesson."""
    gaps, kept = 0, []
    for text in cells_of(stem):
        gaps += exercises.BEGIN in text
        mine = exercises.BEGIN in text and gaps == number
        kept.append(exercises.blank(text, filling(answer)) if mine else text)
        if gaps == number and re.search(r"^check\.", text, re.M):
            return lines_of(kept)[-1]
    raise AssertionError(f"lesson {stem} has no gap {number}")


def filling(answer):
    """What to write instead of the lines of a solution, with their indent."""

    def filled(lines):
        indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        return textwrap.indent(textwrap.dedent(answer).strip("\n"), indent).splitlines()

    return filled


def solution_with(stem, number, right, wrong):
    """The solution of a gap with one piece replaced."""
    text = [text for text in cells_of(stem) if exercises.BEGIN in text][number - 1]
    found = re.search(rf"{exercises.BEGIN}.*?\n(.*?)\s*{exercises.END}", text, re.S)
    assert right in found[1]
    return textwrap.dedent(found[1]).replace(right, wrong)


# What may be changed

TWO = "you changed 2 arguments; change only one"
TIME = "steps keep their order, so time cannot run backwards: step "
LIMITS = [
    ("00", 3, "{3: {'now': 500}, 4: {'now': 700}}", "step 3: you may change fault, not now"),
    ("00", 3, "{4: {'fault': 'before_commit'}}", "leave step 4 as it is; change step 3"),
    ("01", 3, "{3: {'fault': 'before_commit'}, 4: {'key': 'key-2', 'now': 160}}", "step 4: you may change fault and now, not key"),
    ("02", 3, "{4: {'epoch': 1, 'policy': 'policy-2'}, 5: {}}", "nothing is filled in here"),
    ("02", 3, "{4: {'epoch': 1, 'now': 135}}", TWO),
    ("02", 3, "{4: {'epoch': 2}}", "this is the case as it was; nothing is changed"),
    ("03", 3, "{6: {'scope': 'shop', 'now': 131}}", TWO),
    ("04", 2, "{3: {'now': 50}}", f"{TIME}2 is at 100, and step 3, which comes after it, is at 50"),
    ("04", 2, "{3: {'now': 99}}", f"{TIME}2 is at 100"),
    ("04", 2, "{3: {'now': 171}}", f"{TIME}3 is at 171, and step 4, which comes after it, is at 170"),
    ("05", 3, "{4: {'epoch': 1}, 5: {'now': 141}}", TWO),
    ("07", 4, "{1: {'epoch': 2}}", "leave step 1 as it is; change step 5"),
    ("08", 4, "{3: {'through': 0, 'now': 121}}", TWO),
    ("09", 4, "{5: {'now': 205}}", "step 5: you may change decision and fault, not now"),
    ("09", 4, "{5: {'decision': 'revision', 'fault': 'before_commit'}}", "leave step 5 as it is"),
    ("10", 3, "{5: {'now': 9999}}", f"{TIME}3 is at 10000, and step 5, which comes after it, is at 9999"),
    ("12", 3, "{1: {'key': 'message-2'}}", "leave step 1 as it is; change step 3"),
    ("13", 3, "{2: {'hold_for': 1102, 'now': 1}}", TWO),
    ("14", 2, "{4: {'generation': 1}}", "leave step 4 as it is; change step 3"),
]  # fmt: skip


@pytest.mark.parametrize(("stem", "number", "answer", "line"), LIMITS)
def test_the_limits_of_a_change_are_enforced(stem, number, answer, line):
    assert answered(stem, number, f"mine = {answer}").startswith(f"not yet: {line}")


# Cases

REASONS = [
    ("00", 4, "exists"),
    ("03", 6, "key-reused"),
    ("04", 5, "holder"),
    ("05", 8, "revoked"),
    ("07", 9, "result-expired"),
    ("08", 7, "closed"),
    ("09", 6, "head-moved"),
    ("10", 6, "lease-lost"),
    ("12", 5, "erased"),
    ("13", 6, "claim-lost"),
]


@pytest.mark.parametrize(("stem", "number", "reason"), REASONS)
def test_a_refusal_without_its_reason_is_not_enough(stem, number, reason):
    line = answered(stem, number, solution_with(stem, number, f'"refused {reason}"', '"refused"'))
    assert line.startswith("not yet: ") and line.count("says only that it is refused; add the reason") == 1


def test_the_damage_must_be_shown_instead_of_the_refusal():
    shown = 'like(base, 2, through=0, now=125, expect="refused boundary")'
    line = answered("08", 7, solution_with("08", 7, "like(base, 2, through=0, now=125)", shown))
    assert line == (
        "not yet: step 3 (operator close_and_collect at 125) is the call that notices, and it expects refused "
        'boundary; the exercise asks for expect="refused closed" there'
    )


# Guards and functions

FENCE = """
if call.fence is not seen.work.fence:
    raise Refused("fence", "this is not the fence handed out last")
"""
EXPIRY = """
if current.due <= command.now:
    raise Refused("claim-lost", "this claim has ended", ("expiry",))
"""
IS_MINE = """
row = contract.get(work)
if row.state == "done" and row.fence is fence:
    return WorkState(work, "done")
"""
BOUNDARY = """
if seen.closed_through is not None and call.through < seen.closed_through:
    raise Refused("boundary", "a boundary never goes back")
"""
WITHOUT_NONE = """
if seen.digest != call.digest:
    raise Refused("conflict", "this operation was sent with another payload")
"""
SAME_BOUNDARY = """
if call.through is seen.closed_through:
    return Closure(call.through, 0, outcome="replayed")
"""
COMPLETE = "return contract.complete(work, fence, reference, now)"
OWN_TRANSACTION = """
with naive.store.write() as db:
    pass
db.execute("BEGIN IMMEDIATE")
write_result(db, digest)
write_receipt(db, key, digest)
write_message(db, digest)
db.execute("COMMIT")
"""
SWALLOWS = """
try:
    with naive.store.write() as db:
        write_result(db, digest)
        write_receipt(db, key, digest)
        write_message(db, digest)
except BaseException:
    pass
"""
TRIES_AGAIN = """
for _ in range(2):
    try:
        with naive.store.write() as db:
            if not naive.saved(key):
                write_three(db, key, digest)
            return naive.saved(key)
    except Exception:
        pass
"""
LOOKS_INSIDE_WRITES_OUTSIDE = """
with naive.store.write() as db:
    saved = naive.saved(key)
if not saved:
    write_three(db, key, digest)
return naive.saved(key)
"""
RECEIPT_TO_BOTH = """
db.execute("BEGIN IMMEDIATE")
if not naive.saved(key):
    write_three(db, key, digest)
saved = naive.saved(key)
db.execute("COMMIT")
return saved
"""
PLAIN_BEGIN = """
db.execute("BEGIN")
saved = naive.saved(key)
if not saved:
    write_three(db, key, digest)
db.execute("COMMIT")
return saved
"""
CATCHES = "cut off before commit of transaction 1, your function catches the fault and goes on"
OUTSIDE = "UPDATE work runs outside `with naive.store.write()`"
DONE = "after a crash at after_commit your function ends as refused already-done"
FIRST_EFFECT = "O-22-result-of-a-newer-version, step 1 (client execute at 100): outcome: expected accepted, got refused (conflict)"
STATEMENTS = "The statements: A: BEGIN, SELECT receipt, UPDATE work, INSERT receipt, INSERT outbox; B: BEGIN"
WRONG = [
    ("04", 3, FENCE, "; compare values with == or !=, not with `is`"),
    ("08", 6, SAME_BOUNDARY, " with `is`"),
    ("10", 4, EXPIRY, "it must cope with every row, also where a field is None"),
    ("10", 7, IS_MINE, DONE),
    ("13", 5, IS_MINE + COMPLETE, DONE),
    ("07", 5, WITHOUT_NONE, FIRST_EFFECT),
    ("01", 4, OWN_TRANSACTION, OUTSIDE),
    ("01", 4, SWALLOWS, CATCHES),
    ("02", 4, TRIES_AGAIN, CATCHES),
    ("02", 4, LOOKS_INSIDE_WRITES_OUTSIDE, OUTSIDE),
    ("06", 5, PLAIN_BEGIN, "296 of 310 interleavings end busy; in AAAAABBABB A accepted, B failed SQLITE_BUSY_SNAPSHOT"),
    ("06", 5, PLAIN_BEGIN, STATEMENTS),
    ("06", 1, "mine = 10", "How many statements has an accept, if two of them have 14 interleavings?"),
    ("10", 2, 'mine = ["fence"]', "this needs 2 values; you gave 1"),
    ("00", 2, 'mine = ("0", "0", "0")', "write it without quotes"),
    ("11", 3, 'mine = dict.fromkeys(calls, ["not_found"])', "not_found does not fit acquire: it needs `work`, which acquire does not have"),
    ("12", 6, "return None", "the day: your function returns nothing"),
    ("12", 6, "return days[0]", "the day: your function returns '2024-01-01', which does not fit"),
]  # fmt: skip


@pytest.mark.parametrize(("stem", "number", "answer", "words"), WRONG)
def test_a_wrong_answer_gets_a_sentence_that_helps(stem, number, answer, words):
    line = answered(stem, number, answer)
    assert line.startswith("not yet: ") and words in line and "never struck" not in line


RIGHT = [
    ("02", 4, "with naive.store.write() as db:\n    naive.saved(key) or write_three(db, key, digest)\n    return naive.saved(key)"),
    ("03", 2, 'mine = "actor, fence"'),
    ("03", 2, 'mine = ["actor", "fence"]'),
    ("04", 2, "mine = {3: {'now': 100}}"),
    ("06", 2, 'mine = "refused (fence)"'),
    ("06", 2, 'mine = ("refused", "fence")'),
    ("06", 5, RECEIPT_TO_BOTH),
    ("10", 2, 'mine = "fence expiry"'),
    ("10", 2, 'mine = ("fence", "expiry")'),
    ("10", 3, "mine = {2: {'now': 9999}}"),
    ("13", 3, "mine = {2: {'now': 101}}"),
]  # fmt: skip


@pytest.mark.parametrize(("stem", "number", "answer"), RIGHT)
def test_a_natural_answer_is_accepted(stem, number, answer):
    assert answered(stem, number, answer).startswith("done: ")


LOCK = """
import threading
lock = vars(threading).setdefault('own', threading.Lock())
with lock:
    with naive.store.write() as db:
        if not naive.saved(key):
            write_three(db, key, digest)
        return naive.saved(key)
"""
ENDLESS = [
    ("02", 4, LOCK),
    ("04", 3, "while True: pass"),
    ("04", 3, "while True:\n    try: call.fence / 0\n    except Exception: pass"),
    ("01", 4, "import threading\nthreading.Event().wait()"),
    ("13", 4, "while contract.get(work): pass"),
]


@pytest.mark.parametrize(("stem", "number", "answer"), ENDLESS)
def test_an_answer_that_never_returns_is_stopped(stem, number, answer, monkeypatch):
    monkeypatch.setattr(answers, "LIMIT", 1.0)
    line = answered(stem, number, answer)
    assert line.startswith("not yet: your code did not return within 1 seconds, so the check stopped it. ")
