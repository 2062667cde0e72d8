"""Checks of what is done after something went wrong, and of an order in which it goes wrong."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from receiptlab.caseformat import Call, Case
from receiptlab.cases import load
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.contracts.shape import Contract
from receiptlab.errors import LabError
from receiptlab.hazards.explored import Order
from receiptlab.hazards.faults import points_of
from receiptlab.judge.answers import NotYet, checks, filled, raised
from receiptlab.outcomes import Outcome, attempt
from receiptlab.play import played
from receiptlab.record import Change
from receiptlab.rows import Rows
from receiptlab.scenarios import every_order, restoring
from receiptlab.store import Store


@checks
def recovers(name: str, number: int, answer: Callable[..., object]) -> str:
    """The call at step `number` of a case ends at each of its crash points in turn. Then your function is
    called on the file that is left, as `answer(contract, **arguments)` with the arguments of that call.

    It must return what the call answers when nothing happens, and every row must be as it is then.
    """
    case, calm = load(name), replace(load(name).calls[number - 1], fault="", expect=None)
    undisturbed, content = played(_until(case, number, calm))
    points = points_of(CONTRACTS[case.contract], calm.call)
    for point in points:
        with _left_by(_until(case, number, replace(calm, fault=point))) as contract:
            after = f"after a crash at {point}"
            given = _given(after, filled(answer), contract, calm)
            if given.facts() != undisturbed.last.answer:
                raise NotYet(f"{after} your function {_words(given)}, not the answer of {calm.call}")
            if differs := _differing(content, contract.store.db):
                raise NotYet(f"{after} {_told(differs[0])}")
    content.close()
    return (
        f"after a crash at each of the {len(points)} points of {calm.call} it is as if nothing had happened"
    )


def _until(case: Case, number: int, call: Call) -> Case:
    """The case up to this step, which is this call."""
    return replace(case, calls=(*case.calls[: number - 1], call))


@contextlib.contextmanager
def _left_by(case: Case) -> Iterator[Contract]:
    """The contract over a file as the case leaves it."""
    kind, (_, content) = CONTRACTS[case.contract], played(case)
    with contextlib.closing(content), Store.temporary(kind.SCHEMA) as store:
        content.backup(store.db)
        yield kind(store)


def _given(after: str, answer: Callable, contract: Contract, call: Call) -> Outcome:
    try:
        return attempt(answer, contract, **call.args)
    except Exception as error:
        raise NotYet(f"{after} {raised(error)}") from None


def _words(given: Outcome) -> str:
    if given.word not in ("accepted", "replayed"):
        return f"ends as {given.word} {given.reason}"
    return "returns something else" if given.answer is not None else "returns nothing"


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
    does in `scenarios/restoring.py`, and the audit at the end says which clauses were kept."""
    known = {step.__name__: step for step in restoring.PROCEDURE}
    for name in filled(answer):
        if name not in known:
            raise NotYet(f"there is no step {name}; the steps are {', '.join(sorted(known))}")
    if len(answer) > len(known):
        raise NotYet(f"{len(answer)} steps are more than the {len(known)} that there are")
    try:
        run = restoring.restored([known[name] for name in answer])
    except LabError as error:
        raise NotYet(f"the story stops, because somebody cannot go on: {error}") from None
    broken = [clause for clause, kept in run.last.answer.items() if not kept]
    if broken:
        raise NotYet(f"the audit (step {run.last.number}) finds {', '.join(broken)} broken")
    return f"the audit finds {', '.join(run.last.answer)} kept"


@checks
def ends_in(experiment: str, verdict: str, answer: str) -> str:
    """Your order of statements, a letter for each, must end in this verdict: doubled, wrong, busy or safe."""
    found = {order.order: order for order in every_order.explored(experiment).orders}
    if filled(answer) not in found:
        raise NotYet(f"{answer!r} is none of the {len(found)} orders; one of them is {min(found)}")
    order = found[answer]
    if order.verdict != verdict:
        raise NotYet(f"in the order {answer} it ends {order.verdict}, with {_counted(order)}")
    return f"in the order {answer} it ends {verdict}, with {_counted(order)}"


def _counted(order: Order) -> str:
    return " ".join(map(str, order.counts))
