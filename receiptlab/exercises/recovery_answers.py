"""Checks of what a learner does after a crash, and of a restore procedure."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from receiptlab.contracts.base import Contract
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.errors import LabError
from receiptlab.exercises.answers import (
    NotYet,
    called,
    checks,
    filled,
    first_wrong,
    place,
    reading,
    returned,
)
from receiptlab.exercises.case_answers import read
from receiptlab.exercises.number_identity import Apart, apart, plain
from receiptlab.experiment.case_file import Call, Case, CaseError
from receiptlab.experiment.library import load
from receiptlab.experiment.player import play, played
from receiptlab.experiment.row_diff import Rows
from receiptlab.experiment.run import Change, Run, Step
from receiptlab.faults.failpoints import failpoints_of
from receiptlab.outcomes import Outcome
from receiptlab.scenarios import restoring
from receiptlab.store import FAILPOINTS, Store

LONGEST = 120
"""Maximum number of characters shown of what a function returned."""


@checks
def recovers(name: str, number: int, answer: Callable[..., object], between: Sequence[dict] = ()) -> str:
    """The call at step `number` of a case crashes at each of its crash points in turn. Then your function
    is called on the file that is left, as `answer(contract, **arguments)` with the arguments of that call.
    If there are calls in `between` (lines, as `like` makes them), all of it is repeated with these calls
    made after the crash.

    If the crash came before the commit, your function must end as the call itself does then, with the same
    rows. If it came after the commit, it must change no row, and return the answer of the call, or what the
    call returns when it is made again.
    """
    filled(answer, Callable, "a function")
    case = load(name)
    call = replace(case.calls[number - 1], fault="", expect=None)
    first = play(_until(case, number, call)).last
    points = [
        point
        for point in failpoints_of(CONTRACTS[case.contract], call.call)
        if play(_until(case, number, replace(call, fault=point))).last.reason == point
    ]
    if not points:
        raise CaseError(f"{name}, {place(first)} has no crash points; it ends {first.outcome}")
    others = read(CONTRACTS[case.contract], between).calls if between else ()
    for later in ((), others) if others else ((),):
        for point in points:
            left = _until(case, number, replace(call, fault=point), *later)
            when = "".join(f" and {each.actor}'s {each.call} at {each.args.get('now')}" for each in later)
            committed = first if point == FAILPOINTS[-1] else None
            _must_recover(f"after a crash at {point}{when} ", answer, call, left, committed)
    also = f", also when {', '.join(each.call for each in others)} came first" if others else ""
    return f"answer and file are right after a crash at each of the {len(points)} points of {call.call}{also}"


def _until(case: Case, number: int, *calls: Call) -> Case:
    """The case up to this step, and then these calls."""
    return replace(case, calls=(*case.calls[: number - 1], *calls))


def _must_recover(when: str, answer: Callable, call: Call, left: Case, committed: Step | None) -> None:
    """Raises NotYet unless the function is right on this file. `committed` is how the call ended without a
    crash, if the crash came after its commit."""
    again, wanted = played(replace(left, calls=(*left.calls, call)))
    run, content = played(left)
    right = [again.last]
    if committed:
        right = [committed] if again.last.outcome in ("refused", "failed") else [committed, again.last]
    with contextlib.closing(wanted), contextlib.closing(content), _copy(left, content) as contract:
        if not run.held:
            raise CaseError(f"{left.name}, {first_wrong(run)}")
        # A number is never identical to an equal one here, so a comparison with `is` is noticed.
        named = {name: apart(value) for name, value in call.args.items()}
        given = called(when, answer, Apart(contract), **named)
        given = replace(given, answer=plain(given.answer))
        if not any(_is_same(given, step) for step in right):
            raise NotYet(
                f"{when}your function {_ends(given)}; {_right(right[0], call)}{_differs(given, right[0])}"
            )
        _must_be_idle(contract, when)
        rows = Rows()
        rows.changes({"": content if committed else wanted})
        if changes := rows.changes({"": contract.store.db}):
            raise NotYet(f"{when}{_row(changes[0])}")


@contextlib.contextmanager
def _copy(case: Case, content: sqlite3.Connection) -> Iterator[Contract]:
    """The case's contract over a temporary file with this content."""
    kind = CONTRACTS[case.contract]
    with Store.temporary(kind.SCHEMA) as store:
        content.backup(store.db)
        yield kind(store)


def _is_same(given: Outcome, step: Step) -> bool:
    if step.outcome in ("accepted", "replayed"):
        return returned(given) and given.facts() == step.answer
    return (given.word, given.reason) == (step.outcome, step.reason)


def _ends(given: Outcome) -> str:
    if not returned(given):
        return f"ends as {given.word} {given.reason}".rstrip()
    if given.answer is None:
        return "returns nothing"
    text = repr(given.answer)
    return f"returns {text[:LONGEST]}{'…' if len(text) > LONGEST else ''}"


def _right(step: Step, call: Call) -> str:
    if step.outcome in ("accepted", "replayed"):
        return f"it should return what {call.call} returns"
    return f"it should end as {' '.join(reading(step))}"


def _differs(given: Outcome, step: Step) -> str:
    """The fields of the answer that are wrong."""
    facts = given.facts()
    if not facts or facts.keys() != step.answer.keys():
        return ""
    names = [name for name in facts if facts[name] != step.answer[name]]
    return f"; {', '.join(f'{name} is {facts[name]}, not {step.answer[name]}' for name in names)}"


def _must_be_idle(contract: Contract, when: str) -> None:
    try:
        contract.store.read("SELECT 1")
    except LabError:
        raise NotYet(f"{when}your function closes the store; leave it open") from None
    if contract.store.db.in_transaction:
        raise NotYet(f"{when}your function leaves a transaction open")


def _row(change: Change) -> str:
    columns = ", ".join(
        f"{name} is {value}, not {change.was.get(name)}" for name, value in change.row.items()
    )
    words = {"added": "there is an extra row", "removed": "a row is missing"}
    return f"{words.get(change.what, f'a row differs ({columns})')}: {change.table} {change.key}"


@checks
def restores(answer: Sequence[str]) -> str:
    """Your answer names the steps of the restore procedure in your order. Other actors go on between them
    as in `scenarios/restoring.py`, and an audit at the end checks the clauses. Then everything runs again,
    and this time the original has one more result right after your first step. The restore receipt must
    list every effect."""
    known = {step.__name__: step for step in restoring.PROCEDURE}
    for name in filled(answer, (list, tuple), "a list of names"):
        if not isinstance(name, str) or name not in known:
            raise NotYet(f"there is no step {name}; the steps are {', '.join(sorted(known))}")
        if answer.count(name) > 1:
            raise NotYet(f"{name} is in the list twice")
    steps = [known[name] for name in answer]
    _audited(steps, restoring.STORY, "")
    run = _audited(steps, restoring.GOES_ON, "when the original goes on after your first step, ")
    return f"the audit finds {', '.join(run.last.answer)} kept"


def _audited(steps: Sequence[Callable], story: Sequence[Callable], when: str) -> Run:
    """The run of the restore. Raises NotYet if a clause is broken."""
    try:
        run = restoring.restored(steps, story)
    except LabError as error:
        raise NotYet(f"{when}the restore cannot go on: {error}") from None
    broken = [clause for clause, kept in run.last.answer.items() if not kept]
    if broken:
        words = "; ".join(f"{clause}, {BROKEN[clause]}" for clause in broken)
        raise NotYet(f"{when}the audit (step {run.last.number}) finds broken clauses: {words}")
    receipt = next(step for step in run.steps if step.call == "issue")
    listed = sum(len(writer["accepted"]) for writer in receipt.answer["writers"])
    if listed < (effects := run.last.counts[-1]):
        raise NotYet(f"{when}{place(receipt)}: the restore receipt lists {listed} of the {effects} effects")
    return run


BROKEN = {
    "S-1": "the copy accepted a result before it was in service",
    "S-4": "a late result of the original took effect",
    "S-8": "a piece of work was done twice",
    "S-7": "the copy still has a pending message",
    "S-5": "there is no restore receipt",
}
"""What has happened if a clause is broken."""
