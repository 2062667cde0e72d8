"""The last calls of a case, made at once, in every interleaving of their statements, for `play
--interleavings`.

The earlier calls are played first. The last ones then begin together, each over its own connection. See
`interleaving.explorer`.
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
    "next": "is two transactions, acquire and reserve; write the two, and make reserve one of the last calls",
    "stage": "stages what its actor classified before, over a connection that was closed; write deliver",
    "scrub": "packs the whole file; it cannot run beside others",
}
"""Calls whose interleavings can't be judged."""


def begin(case: Case, last: int) -> tuple[Run, Explorer]:
    """Play all but the last calls. Returns their run, and an explorer of the last ones, to be used with
    `with`.

    What the case expects of its last calls applies to one interleaving and is ignored. Raises CaseError
    when these calls can't be made at once, and ModuleNotFoundError.
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
    """One row per ending: verdict, how each call ended, counts, number of interleavings, and the first of
    them."""
    for verdict, outcomes, counts, interleavings, first in found.endings():
        words = [f"{word} ({why})" if why else word for word, why in outcomes]
        yield (verdict, *words, " ".join(map(str, counts)), interleavings, first)


def findings(found: Explored, file: str, last: int) -> list[str]:
    """What went wrong, one line each, with the command that runs it again."""
    again = f"receiptlab play {file} --interleavings {last} --interleaving"
    lines = [
        f"{verdict}: run it again with  {again} {interleaving.interleaving}"
        for verdict, interleaving in found.witnesses.items()
        if verdict != SERIALIZABLE
    ]
    if found.vacuous:
        lines.append("vacuous: no call ever ran while another one was inside a transaction")
    return lines
