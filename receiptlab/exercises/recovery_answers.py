"""Checks of what is done after something went wrong."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from receiptlab.contracts.base import Contract
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.errors import LabError
from receiptlab.exercises.answers import NotYet, checks, filled, first_wrong, place, raised, reading
from receiptlab.exercises.case_answers import read
from receiptlab.exercises.number_identity import Apart, apart, plain
from receiptlab.exercises.watchdog import go_on
from receiptlab.experiment.case_file import Call, Case, CaseError
from receiptlab.experiment.library import load
from receiptlab.experiment.player import play, played
from receiptlab.experiment.row_diff import Rows
from receiptlab.experiment.run import Change, Run, Step
from receiptlab.faults.failpoints import failpoints_of
from receiptlab.outcomes import Outcome, attempt
from receiptlab.scenarios import restoring
from receiptlab.store import FAILPOINTS, Store

LONGEST = 120
"""So much of what a function returned is shown."""


@checks
def recovers(name: str, number: int, answer: Callable[..., object], between: Sequence[dict] = ()) -> str:
    """The call at step `number` of a case ends at each of its crash points in turn. Then your function is
    called on the file that is left, as `answer(contract, **arguments)` with the arguments of that call; and
    at each point once more after the calls of `between` (lines, as `like` makes them) have come first.

    Where the call had not committed, your function must end as the call itself does then, with the same
    rows. Where it had, it must change no row and return the answer of the call, or what the call returns
    when it comes again.
    """
    filled(answer, Callable, "a function")
    case = load(name)
    calm = replace(case.calls[number - 1], fault="", expect=None)
    points = [
        point for point in failpoints_of(CONTRACTS[case.contract], calm.call) if _strikes(case, number, point)
    ]
    first = play(_until(case, number, calm)).last
    if not points:
        raise CaseError(f"{name}, {place(first)} has no crash points; it ends {first.outcome}")
    others = read(CONTRACTS[case.contract], between).calls if between else ()
    for later in ((), others) if others else ((),):
        for point in points:
            left = _until(case, number, replace(calm, fault=point), *later)
            _recovered(_after(point, later), answer, calm, left, first if point == FAILPOINTS[-1] else None)
    told = f"after a crash at each of the {len(points)} points of {calm.call}"
    others = f"; and it is right when {', '.join(call.call for call in others)} came first" if others else ""
    return f"{told} it is as if nothing had happened{others}"


def _strikes(case: Case, number: int, point: str) -> bool:
    """Whether the call at this step comes to the point."""
    dying = replace(case.calls[number - 1], fault=point, expect=None)
    return play(_until(case, number, dying)).last.reason == point


def _until(case: Case, number: int, *calls: Call) -> Case:
    """The case up to this step, and then these calls."""
    return replace(case, calls=(*case.calls[: number - 1], *calls))


def _after(point: str, later: Sequence[Call]) -> str:
    told = "".join(f" and {call.actor}'s {call.call} at {call.args.get('now')}" for call in later)
    return f"after a crash at {point}{told}"


def _recovered(after: str, answer: Callable, calm: Call, left: Case, committed: Step | None) -> None:
    """Raises NotYet unless the function does what is right on this file. `committed` is how the call ended
    when nothing happened, where it had committed."""
    again, wanted = played(replace(left, calls=(*left.calls, calm)))
    run, content = played(left)
    right = [again.last]
    if committed:
        right = [committed] if again.last.outcome in ("refused", "failed") else [committed, again.last]
    with contextlib.closing(wanted), contextlib.closing(content), _copy(left, content) as contract:
        if not run.held:
            raise CaseError(f"{left.name}, {first_wrong(run)}")
        given = _given(after, answer, contract, calm)
        if not any(_alike(given, step) for step in right):
            what = _otherwise(given, right[0])
            raise NotYet(f"{after} your function {_words(given)}; right is {_right(right[0], calm)}{what}")
        if left_behind := _left_behind(contract):
            raise NotYet(f"{after} your function {left_behind}")
        if differs := _differing(content if committed else wanted, contract.store.db):
            raise NotYet(f"{after} {_told(differs[0])}")


@contextlib.contextmanager
def _copy(case: Case, content: sqlite3.Connection) -> Iterator[Contract]:
    """The contract over a file of its own with this content."""
    kind = CONTRACTS[case.contract]
    with Store.temporary(kind.SCHEMA) as store:
        content.backup(store.db)
        yield kind(store)


def _given(after: str, answer: Callable, contract: Contract, call: Call) -> Outcome:
    go_on()
    try:
        # Numbers that are equal are not identical here, so an answer that compares with `is` is noticed.
        named = {name: apart(value) for name, value in call.args.items()}
        given = attempt(answer, Apart(contract), **named)
        return replace(given, answer=plain(given.answer))
    except Exception as error:
        raise NotYet(f"{after} {raised(error)}") from None


def _alike(given: Outcome, step: Step) -> bool:
    if step.outcome in ("accepted", "replayed"):
        return _returned(given) and given.facts() == step.answer
    return (given.word, given.reason) == (step.outcome, step.reason)


def _returned(given: Outcome) -> bool:
    return given.word in ("accepted", "replayed", "read")


def _words(given: Outcome) -> str:
    if not _returned(given):
        return f"ends as {given.word} {given.reason}".rstrip()
    if given.answer is None:
        return "returns nothing"
    told = repr(given.answer)
    return f"returns {told[:LONGEST]}{'…' if len(told) > LONGEST else ''}"


def _right(step: Step, call: Call) -> str:
    is_answer = step.outcome in ("accepted", "replayed")
    return f"what {call.call} answers" if is_answer else " ".join(reading(step))


def _otherwise(given: Outcome, step: Step) -> str:
    """The fields of the answer that are not as they should be."""
    facts = given.facts()
    if not facts or facts.keys() != step.answer.keys():
        return ""
    names = [name for name in facts if facts[name] != step.answer[name]]
    return f"; {', '.join(f'{name} is {facts[name]}, not {step.answer[name]}' for name in names)}"


def _left_behind(contract: Contract) -> str:
    try:
        contract.store.read("SELECT 1")
    except LabError:
        return "closes the store; leave it open"
    return "leaves a transaction open" if contract.store.db.in_transaction else ""


def _differing(wanted: sqlite3.Connection, is_now: sqlite3.Connection) -> tuple[Change, ...]:
    rows = Rows()
    rows.changes({"": wanted})
    return rows.changes({"": is_now})


def _told(change: Change) -> str:
    what = {"added": "there is a row too many", "removed": "a row is missing"}
    columns = ", ".join(
        f"{name} is {value}, not {change.was.get(name)}" for name, value in change.row.items()
    )
    words = what.get(change.what, f"a row is otherwise ({columns})")
    return f"{words}: {change.table} {change.key}"


@checks
def restores(answer: Sequence[str]) -> str:
    """The steps of the restore procedure by their names, in your order. The world goes on between them as it
    does in `scenarios/restoring.py`, and the audit at the end says which clauses were kept. Then all of it
    once more, and there the original has one more result right after your first step. The restore receipt
    must list every effect."""
    known = {step.__name__: step for step in restoring.PROCEDURE}
    for name in filled(answer, (list, tuple), "a list of names"):
        if not isinstance(name, str) or name not in known:
            raise NotYet(f"there is no step {name}; the steps are {', '.join(sorted(known))}")
    if len(set(answer)) < len(answer):
        raise NotYet(f"{next(name for name in answer if answer.count(name) > 1)} is there twice")
    steps = [known[name] for name in answer]
    _audited(steps, restoring.STORY, "")
    run = _audited(steps, restoring.GOES_ON, "when the original goes on after your first step, ")
    return f"the audit finds {', '.join(run.last.answer)} kept"


def _audited(steps: Sequence[Callable], story: Sequence[Callable], when: str) -> Run:
    """The run of the restore. Raises NotYet where a clause is broken."""
    try:
        run = restoring.restored(steps, story)
    except LabError as error:
        raise NotYet(f"{when}the story stops, because somebody cannot go on: {error}") from None
    broken = [clause for clause, kept in run.last.answer.items() if not kept]
    if broken:
        words = "; ".join(f"{clause}, {BROKEN[clause]}" for clause in broken)
        raise NotYet(f"{when}the audit (step {run.last.number}) finds broken: {words}")
    receipt = next(step for step in run.steps if step.call == "issue")
    listed = sum(len(writer["accepted"]) for writer in receipt.answer["writers"])
    effects = run.last.counts[-1]
    if listed < effects:
        told = f"lists {listed} of the {effects} effects that there are in the end"
        raise NotYet(f"{when}{place(receipt)}: the restore receipt {told}")
    return run


BROKEN = {
    "S-1": "the copy accepted a result before it was in service",
    "S-4": "a late result of the original took effect",
    "S-8": "a piece of work was done twice",
    "S-7": "the copy still owes a message",
    "S-5": "there is no restore receipt",
}
"""What it means that a clause is broken."""
