"""The checks of what is done after a crash, and of a restore procedure."""

import itertools
import re

import pytest

from receiptlab import exercises as check
from receiptlab.contracts.work.claims import WorkState
from receiptlab.errors import Refused
from receiptlab.exercises import like
from receiptlab.scenarios import restoring
from receiptlab.store import Store
from tests.exercises.lines import said

LOST, RECLAIM = "W-06-answer-lost", "W-04-complete-after-reclaim"
BETWEEN = [like(RECLAIM, 3), like(RECLAIM, 5)]
"""Worker-b takes the item and finishes it."""
BLANK = "not yet: nothing is filled in here"
RIGHT = "done: answer and file are right after a crash at each of the 7 points of complete"
BEFORE, AFTER = "not yet: after a crash at after_guards ", "not yet: after a crash at after_commit "

# recovers


def by_fence(contract, **call):
    row = contract.get(call["work"])
    if row.state == "done" and row.fence == call["fence"]:
        return WorkState(call["work"], "done")
    return contract.complete(**call)


def by_trying_first(contract, **call):
    try:
        return contract.complete(**call)
    except Refused:
        row = contract.get(call["work"])
        if (row.state, row.fence) == ("done", call["fence"]):
            return {"work": call["work"], "state": "done", "due": None}
        raise


def only_again(contract, **call):
    return contract.complete(**call)


def by_state(contract, **call):
    done = contract.get(call["work"]).state == "done"
    return WorkState(call["work"], "done") if done else contract.complete(**call)


def every_refusal_is_done(contract, **call):
    try:
        return contract.complete(**call)
    except Refused:
        return WorkState(call["work"], "done")


def says_done(contract, **call):
    return WorkState(call["work"], "done")


def looks(contract, **call):
    return contract.get(call["work"])


def later(contract, **call):
    return by_fence(contract, **call | {"now": call["now"] + 5})


def one_message_more(contract, **call):
    row = contract.get(call["work"])
    if row.state == "done":
        with contract.store.write() as db:
            db.execute("INSERT INTO outbox SELECT NULL, topic, subject, staged_at FROM outbox LIMIT 1")
    return by_fence(contract, **call)


def begins(contract, **call):
    answer = by_fence(contract, **call)
    contract.store.db.execute("BEGIN")
    return answer


def closes(contract, **call):
    answer = by_fence(contract, **call)
    contract.store.close()
    return answer


def blank(contract, **call): ...


def idle(contract, **call):
    return None


def raises(contract, **call):
    return call["reference"] / 0


def of_another_form(contract):
    return contract


TAKES_OVER = (
    "not yet: after a crash at after_guards and worker-b's next at 1000 and worker-b's complete at 1200 your "
    "function returns WorkState(work=1, state='done', due=None); it should end as refused claim-lost"
)


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (by_fence, f"{RIGHT}, also when next, complete came first"),
        (by_trying_first, f"{RIGHT}, also when next, complete came first"),
        (by_state, TAKES_OVER),
        (every_refusal_is_done, TAKES_OVER),
    ],
)
def test_a_recovery_must_not_report_the_result_of_another_worker(answer, line):
    assert said(check.recovers, LOST, 3, answer) == RIGHT
    assert said(check.recovers, LOST, 3, answer, between=BETWEEN) == line


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (..., BLANK),
        (blank, BLANK),
        (5, "not yet: this needs a function"),
        (idle, f"{BEFORE}your function returns nothing; it should return what complete returns"),
        (raises, f"{BEFORE}your code raised TypeError: "),
        (of_another_form, f"{BEFORE}your code raised TypeError: of_another_form() got "),
        (looks, f"{BEFORE}your function returns WorkView(work=1, "),
        (says_done, f"{BEFORE}a row differs (unsettled is 1, not 0): receipt "),
        (later, f"{BEFORE}a row differs (staged_at is 105, not 100): outbox id 2"),
        (only_again, f"{AFTER}your function ends as refused already-done; it should return what complete returns"),
        (one_message_more, f"{AFTER}there is an extra row: outbox id 3"),
        (begins, f"{BEFORE}your function leaves a transaction open"),
        (closes, f"{BEFORE}your function closes the store"),
    ],
)  # fmt: skip
def test_a_recovery_that_is_wrong(answer, line):
    assert said(check.recovers, LOST, 3, answer).startswith(line)


@pytest.mark.parametrize(
    ("name", "number", "call"),
    [
        (LOST, 1, "deliver"),
        ("S-07-exact-replay", 2, "apply"),
        ("S-07-exact-replay", 1, "register"),
        ("O-02-answer-lost", 3, "accept"),
    ],
)
def test_a_call_that_replays_recovers_when_it_is_made_again(name, number, call):
    line = said(check.recovers, name, number, lambda contract, **args: getattr(contract, call)(**args))
    assert re.fullmatch(rf"done: .* after a crash at each of the \d points of {call}", line)


def test_a_delivery_in_another_batch_is_not_the_same():
    line = said(check.recovers, LOST, 1, lambda contract, **call: contract.deliver(**call | {"key": "m-2"}))
    assert line.startswith("not yet: ") and "a row" in line


@pytest.mark.parametrize(("name", "number"), [("S-07-exact-replay", 4), (RECLAIM, 4)])
def test_a_call_without_crash_points_proves_nothing(name, number):
    line = said(check.recovers, name, number, lambda contract, **call: None)
    assert line.startswith("not yet: ") and "has no crash points; it ends r" in line


def test_the_files_of_a_recovery_are_removed(monkeypatch):
    stores = []
    kept = Store.temporary
    monkeypatch.setattr(Store, "temporary", lambda *args: stores.append(kept(*args)) or stores[-1])
    check.recovers(LOST, 3, by_fence)
    assert len(stores) >= 7
    assert not any(store.path.exists() for store in stores)


# restores

NAMES = [step.__name__ for step in restoring.PROCEDURE]
OPEN, ASK, JUMP, SEND, ISSUE = NAMES


def test_only_the_procedure_restores():
    """Neighbours swapped, one step missing, and orders that the first story accepts. (All 325 orders of one
    to five steps were tried once.)"""
    swapped = [[*NAMES[:n], NAMES[n + 1], NAMES[n], *NAMES[n + 2 :]] for n in range(4)]
    luck = [[JUMP, ASK, OPEN, SEND, ISSUE], [JUMP, ASK, OPEN, ISSUE, SEND], [JUMP, ASK, ISSUE, SEND, OPEN]]
    fewer = [list(each) for each in itertools.combinations(NAMES, 4)]
    for answer in [*swapped, *luck, [JUMP, ASK, ISSUE, SEND], *fewer]:
        assert said(check.restores, answer).startswith("not yet: "), answer


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (NAMES, "done: the audit finds S-1, S-4, S-8, S-7, S-5 kept"),
        (..., BLANK),
        ([], BLANK),
        ([OPEN, ...], BLANK),
        (OPEN, "not yet: this needs a list of names"),
        (5, "not yet: this needs a list of names"),
        ([[OPEN]], "not yet: there is no step ['open_as_suspect']; the steps are ask_for_an_identity, "),
        ([OPEN, "into_service"], "not yet: there is no step into_service; the steps are "),
        ([OPEN, ASK, OPEN], "not yet: open_as_suspect is in the list twice"),
        (NAMES[1:], "not yet: the audit (step 20) finds broken clauses: S-1, the copy accepted a result before it was in serv"),
        ([OPEN, JUMP, ASK, SEND, ISSUE], "not yet: the audit (step 21) finds broken clauses: S-4, a late result of the origin"),
        (NAMES[:4], "not yet: the audit (step 20) finds broken clauses: S-5, there is no restore receipt"),
        ([ASK, JUMP, SEND, ISSUE, OPEN], "not yet: the audit (step 2"),
        ([ASK, JUMP, ISSUE, OPEN, SEND], "not yet: the restore cannot go on: SQLITE_READONLY"),
        ([JUMP, ASK, OPEN, SEND, ISSUE], "not yet: when the original goes on after your first step, the audit (step 22) finds broken clauses: S-8, a piece "),
        ([OPEN, ASK, JUMP, ISSUE, SEND], "not yet: step 19 (receiver issue at 1400): the restore receipt lists 1 of the 2 effects"),
    ],
)  # fmt: skip
def test_restores(answer, line):
    assert said(check.restores, answer).startswith(line)
