"""The last calls of a case, made at once, in every interleaving of their statements.

What `play --interleavings` does. The calls before them are played as they stand; the last ones begin together on
the file as it is then, each over a connection of its own. See `interleaving.explorer`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from receiptlab.contracts.base import Contract
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.experiment.case_file import FILE_CALLS, Call, Case, CaseError
from receiptlab.experiment.player import played
from receiptlab.experiment.run import Run
from receiptlab.faults.tampering import TAMPERING
from receiptlab.interleaving.explorer import LETTERS, Explorer
from receiptlab.interleaving.findings import SERIALIZABLE, Explored
from receiptlab.interleaving.stepper import Caller

_NOT_ONE = {
    "next": "is two transactions, acquire and reserve; write the two, and let reserve come at once",
    "stage": "stages what its actor classified before, over a connection that is gone; write deliver",
    "scrub": "packs the whole file; it cannot be made at once",
}
"""Calls whose interleavings could not be judged."""


def begin(case: Case, last: int) -> tuple[Run, Explorer]:
    """Play all but the last calls. Gives their run, and an explorer of the last ones; close it with `with`.

    What a case expects of its last calls is of one order, and is not looked at. Raises CaseError when these
    calls cannot be made at once, and ModuleNotFoundError.
    """
    calls = _last(case, last)
    run, content = played(replace(case, calls=case.calls[:-last]))
    callers = [_caller(CONTRACTS[case.contract], call) for call in calls]
    try:
        return run, Explorer(CONTRACTS[case.contract], callers, partial(_as_left, content), name=case.name)
    finally:
        content.close()


def _last(case: Case, last: int) -> tuple[Call, ...]:
    calls = case.calls[-last:]
    if not 2 <= last <= len(LETTERS):
        raise CaseError(f"--interleavings takes 2 to {len(LETTERS)} calls, not {last}")
    if len(calls) < last:
        raise CaseError(f"{case.name}: has {len(calls)} calls, --interleavings wants the last {last}")
    if len({call.actor for call in calls}) < last:
        raise CaseError(f"{case.name}: the last {last} calls must be of different actors, to be made at once")
    for call in calls:
        if call.call in _NOT_ONE:
            raise CaseError(f"{case.name}, line {call.line}: {call.call} {_NOT_ONE[call.call]}")
        if call.call in FILE_CALLS or call.fault:
            what = "has a fault" if call.fault else f"is {call.call}"
            raise CaseError(f"{case.name}, line {call.line}: the call {what}; it cannot be made at once")
    return calls


def _caller(contract: type[Contract], call: Call) -> Caller:
    behind = TAMPERING.get(contract.NAME, {}).get(call.call)

    def make(over: Contract) -> object:
        function = partial(behind, over) if behind else getattr(over, call.call)
        return function(**call.args)

    return Caller(call.actor, call.call, make, call.args.get("now"), call.args)


def _as_left(content: sqlite3.Connection, contract: Contract) -> None:
    content.backup(contract.store.db)


def endings(found: Explored) -> Iterator[tuple[object, ...]]:
    """A row each ending: verdict, how each call ended, counts, how many interleavings, and the first of them."""
    for verdict, outcomes, counts, interleavings, first in found.endings():
        words = [f"{word} ({why})" if why else word for word, why in outcomes]
        yield (verdict, *words, " ".join(map(str, counts)), interleavings, first)


def findings(found: Explored, file: str, last: int) -> list[str]:
    """What is not as it should be, a line each, with the command that runs it again."""
    again = f"python -m receiptlab play {file} --interleavings {last} --interleaving"
    told = [
        f"{verdict}: run it again with  {again} {interleaving.interleaving}"
        for verdict, interleaving in found.witnesses.items()
        if verdict != SERIALIZABLE
    ]
    if found.vacuous:
        told.append("vacuous: in no order one of the calls came while another was inside a transaction")
    return told
