"""The checks of a recovery and of a restore: right answers, wrong ones, and what they are told."""

import itertools
import re

import pytest

from receiptlab import exercises as check
from receiptlab.contracts.work.claims import Changed
from receiptlab.errors import Refused
from receiptlab.exercises import like
from receiptlab.scenarios import restoring
from receiptlab.store import Store

LOST, RECLAIM = "W-06-answer-lost", "W-04-complete-after-reclaim"
BETWEEN = [like(RECLAIM, 3), like(RECLAIM, 5)]
"""Worker-b takes the item and finishes it."""


def told(capsys):
    """The one line that a check has printed."""
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


# recovers


def by_fence(contract, **call):
    row = contract.get(call["work"])
    if row.state == "done" and row.fence == call["fence"]:
        return Changed(call["work"], "done")
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
    return Changed(call["work"], "done") if done else contract.complete(**call)


def every_refusal_is_done(contract, **call):
    try:
        return contract.complete(**call)
    except Refused:
        return Changed(call["work"], "done")


def says_done(contract, **call):
    return Changed(call["work"], "done")


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


@pytest.mark.parametrize("answer", [by_fence, by_trying_first])
def test_a_recovery_that_is_right_at_once_and_later(answer, capsys):
    check.recovers(LOST, 3, answer)
    assert told(capsys) == (
        "done: after a crash at each of the 7 points of complete it is as if nothing had happened"
    )
    check.recovers(LOST, 3, answer, between=BETWEEN)
    assert told(capsys) == (
        "done: after a crash at each of the 7 points of complete it is as if nothing had happened; "
        "and it is right when next, complete came first"
    )


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (..., "nothing is filled in here"),
        (5, "this needs a function"),
        (blank, "nothing is filled in here"),
        (
            idle,
            "after a crash at after_guards your function returns nothing; right is what complete answers",
        ),
        (raises, "after a crash at after_guards your code raised TypeError: "),
        (of_another_form, "after a crash at after_guards your code raised TypeError: of_another_form() got "),
        (looks, "after a crash at after_guards your function returns Look(work=1, "),
        (says_done, "after a crash at after_guards a row is otherwise (unsettled is 1, not 0): receipt "),
        (later, "after a crash at after_guards a row is otherwise (staged_at is 105, not 100): outbox id 2"),
        (
            only_again,
            "after a crash at after_commit your function ends as refused already-done; "
            "right is what complete answers",
        ),
        (one_message_more, "after a crash at after_commit there is a row too many: outbox id 3"),
        (begins, "after a crash at after_guards your function leaves a transaction open"),
        (closes, "after a crash at after_guards your function closes the store"),
    ],
)
def test_a_recovery_that_is_wrong_at_once(answer, line, capsys):
    check.recovers(LOST, 3, answer)
    assert told(capsys).startswith(f"not yet: {line}")


@pytest.mark.parametrize("answer", [by_state, every_refusal_is_done])
def test_a_recovery_that_takes_the_result_of_another_for_its_own(answer, capsys):
    check.recovers(LOST, 3, answer)
    assert told(capsys).startswith("done: ")
    check.recovers(LOST, 3, answer, between=BETWEEN)
    assert told(capsys) == (
        "not yet: after a crash at after_guards and worker-b's next at 1000 and worker-b's complete at 1200 "
        "your function returns Changed(work=1, state='done', due=None); right is refused claim-lost"
    )


@pytest.mark.parametrize(
    ("name", "number", "call"),
    [
        (LOST, 1, "deliver"),
        ("S-07-exact-replay", 2, "apply"),
        ("S-07-exact-replay", 1, "register"),
        ("O-02-answer-lost", 3, "accept"),
    ],
)
def test_what_can_be_made_again_recovers_by_that_alone(name, number, call, capsys):
    check.recovers(name, number, lambda contract, **args: getattr(contract, call)(**args))
    assert re.fullmatch(rf"done: after a crash at each of the \d points of {call} .*", told(capsys))


def test_a_delivery_made_again_in_another_batch_is_not_the_same(capsys):
    check.recovers(LOST, 1, lambda contract, **call: contract.deliver(**call | {"key": "m-2"}))
    assert "a row" in told(capsys)


@pytest.mark.parametrize(("name", "number"), [("S-07-exact-replay", 4), (RECLAIM, 4)])
def test_a_call_without_crash_points_proves_nothing(name, number, capsys):
    check.recovers(name, number, lambda contract, **call: None)
    assert "has no crash points; it ends r" in told(capsys)


def test_the_file_of_a_recovery_is_gone_afterwards(capsys, monkeypatch):
    stores = []
    kept = Store.temporary
    monkeypatch.setattr(Store, "temporary", lambda *args: stores.append(kept(*args)) or stores[-1])
    check.recovers(LOST, 3, by_fence)
    assert len(stores) >= 7
    assert not any(store.path.exists() for store in stores)


# restores

NAMES = [step.__name__ for step in restoring.PROCEDURE]
OPEN, ASK, JUMP, SEND, ISSUE = NAMES


def test_the_procedure_restores(capsys):
    check.restores(NAMES)
    assert told(capsys) == "done: the audit finds S-1, S-4, S-8, S-7, S-5 kept"


def test_nothing_else_than_the_procedure_restores(capsys):
    """Of the orders of all five, those that differ in two neighbours, and those that the first story alone
    would let through. (All 325 orders of one to five steps were tried once.)"""
    swapped = [[*NAMES[:n], NAMES[n + 1], NAMES[n], *NAMES[n + 2 :]] for n in range(4)]
    luck = [[JUMP, ASK, OPEN, SEND, ISSUE], [JUMP, ASK, OPEN, ISSUE, SEND], [JUMP, ASK, ISSUE, SEND, OPEN]]
    fewer = [list(each) for each in itertools.combinations(NAMES, 4)]
    for answer in [*swapped, *luck, [JUMP, ASK, ISSUE, SEND], *fewer]:
        check.restores(answer)
        assert told(capsys).startswith("not yet: "), answer


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (..., "nothing is filled in here"),
        ([], "nothing is filled in here"),
        ([OPEN, ...], "nothing is filled in here"),
        (OPEN, "this needs a list of names"),
        (5, "this needs a list of names"),
        ([[OPEN]], "there is no step ['open_as_suspect']; the steps are ask_for_an_identity, "),
        ([OPEN, "into_service"], "there is no step into_service; the steps are "),
        ([OPEN, ASK, OPEN], "open_as_suspect is there twice"),
        (
            NAMES[1:],
            "the audit (step 20) finds broken: S-1, the copy accepted a result before it was in serv",
        ),
        (
            [OPEN, JUMP, ASK, SEND, ISSUE],
            "the audit (step 21) finds broken: S-4, a late result of the origin",
        ),
        (NAMES[:4], "the audit (step 20) finds broken: S-5, there is no restore receipt"),
        ([ASK, JUMP, SEND, ISSUE, OPEN], "the audit (step 2"),
        ([ASK, JUMP, ISSUE, OPEN, SEND], "the story stops, because somebody cannot go on: SQLITE_READONLY"),
        (
            [JUMP, ASK, OPEN, SEND, ISSUE],
            "when the original goes on after your first step, the audit (step 22) finds broken: S-8, a piece ",
        ),
        (
            [OPEN, ASK, JUMP, ISSUE, SEND],
            "step 19 (receiver issue at 1400): the restore receipt lists 1 of the 2 effects that there are ",
        ),
    ],
)
def test_a_restore_that_breaks_something(answer, line, capsys):
    check.restores(answer)
    assert told(capsys).startswith(f"not yet: {line}")
