"""What all checks share, and the checks of values that were read or predicted."""

import pytest

from receiptlab import exercises as check
from receiptlab.contracts.owner import Owner
from receiptlab.exercises import like
from receiptlab.lesson import case
from tests.exercises.lines import said

REPLACED = "O-06-lease-replaced"
BLANK = "not yet: nothing is filled in here"
STEP = "step 4 (worker-a accept at 210)"
WORDS = "choose from accepted, replayed, read, refused, failed, unknown, invalid"


@pytest.mark.parametrize(
    ("mine", "line"),
    [
        ({4: "refused fence", 5: "accepted"}, "done: 2 of 2 steps end as you said"),
        ({4: "refused, fence"}, "done: 1 of 1 steps end as you said"),
        ({"4": "Refused (fence)", 5: ("accepted",)}, "done: 2 of 2 steps end as you said"),
        ({4: "refused holder"}, f"not yet: {STEP} ends as refused, but its reason is not holder"),
        ({4: "refused"}, f"not yet: {STEP} ends as refused; add its reason"),
        ({5: "accepted", 4: ...}, f"not yet: {STEP}: nothing is filled in here"),
        ({9: "accepted"}, "not yet: there is no step 9; the steps are 1 to 5"),
        ({0: "accepted"}, "not yet: there is no step 0; the steps are 1 to 5"),
        ({"four": "accepted"}, "not yet: there is no step 'four'; the steps are 1 to 5"),
        ({4: None}, f"not yet: None is not an outcome; {WORDS}"),
        ({4: "acepted"}, f"not yet: 'acepted' is not an outcome; {WORDS}"),
        ({4: "accepted"}, f"not yet: {STEP} does not end as accepted"),
        ({5: "accepted fence"}, "not yet: step 5 (worker-b accept at 220) ends as accepted and has no reason"),
        ({4: "refused expiry"}, "not yet: 'expiry' is not a reason of owner; choose from busy, epoch, exhausted, exists, "),
        (..., BLANK),
        ({}, BLANK),
        ("accepted", "not yet: this needs the number of each step, such as {3: 'accepted'}"),
    ],
)  # fmt: skip
def test_predicted(mine, line):
    printed = said(check.predicted, case(REPLACED), mine)
    assert printed.startswith(line) if line.endswith(", ") else printed == line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("unknown after_commit", "done: 1 of 1 steps end as you said"),
        ("unknown after commit", "done: 1 of 1 steps end as you said"),
        ("Unknown (after-commit)", "done: 1 of 1 steps end as you said"),
        ("unknown", "not yet: step 3 (worker-a accept at 120) ends as unknown; add its fault, which is shown in brackets"),
    ],
)  # fmt: skip
def test_the_reason_of_an_unknown_outcome_is_its_fault(words, line):
    assert said(check.predicted, case("O-02-answer-lost"), {3: words}) == line


def test_all_steps_that_are_asked_for_must_be_predicted():
    line = said(check.predicted, case(REPLACED), {4: "refused fence"}, steps=(4, 5))
    assert line == "not yet: predict steps 4, 5; 5 is missing"


@pytest.mark.parametrize(
    ("mine", "line"),
    [
        ((1, 1, 1), "done: the counts: (1, 1, 1)"),
        ([1, 1, 1], "done: the counts: [1, 1, 1]"),
        ((1, 1, 2), "not yet: the counts: (1, 1, 2) is not what the run shows"),
        ((1, 1), "not yet: the counts: this needs 3 values; you gave 2"),
        ("(1, 1, 1)", "not yet: the counts: write it without quotes"),
        ((1, ..., 1), BLANK),
        (..., BLANK),
    ],
)
def test_same(mine, line):
    assert said(check.same, "the counts", mine, case(REPLACED).last.counts) == line


def exits(call, seen):
    raise SystemExit("enough")


@pytest.mark.parametrize(
    ("line", "name", "args"),
    [
        ("x: <object object at", check.same, ("x", object(), 1)),
        ("x: 'yyy", check.same, ("x", "y" * 10**6, "z")),
        ("there is a list in the list;", check.guards, (Owner, "accept", [["not_found"], "fence"])),
        ("this answer cannot be checked: your code raised SystemExit", check.guards, (Owner, "accept", [exits])),
        ("", check.notices, (Owner, "accept", "fence", [like(REPLACED, 1, now=10**5000)])),
        ("there is no step '³'", check.predicted, (case(REPLACED), {"³": "accepted"})),
        ("", check.predicted, (case(REPLACED), {4: "refused\nfence\nnot"})),
    ],
)  # fmt: skip
def test_any_answer_gets_one_short_line_and_no_traceback(line, name, args):
    printed = said(name, *args)
    assert printed.startswith(f"not yet: {line}") and len(printed) < 1_000


def test_ctrl_c_is_not_an_answer():
    def fence(call, seen):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check.guard(Owner, "accept", fence)
