"""The check of guards for several calls at once: each call needs some of them, in some order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from receiptlab.cases import own_cases
from receiptlab.contracts.shape import Contract, Guard
from receiptlab.judge.answers import NotYet, attempted, checks, filled, first_wrong
from receiptlab.judge.building import written

LISTS = "a list of guards for each call, such as {'accept': ['fence']}"


@checks
def guarded(
    contract: type[Contract], calls: Sequence[str], answer: Mapping[str, Sequence[str | Guard]]
) -> str:
    """Your guards for each of these calls, and the contract's cases judge: played once, with all of them.

    A guard is a function that you wrote, or the name of one of the contract's own. The name may stand at
    any of these calls, so that it does not tell where it belongs.
    """
    given = filled(answer, dict, LISTS)
    for call in (*given, *calls):
        if call not in calls:
            raise NotYet(f"{call!r} is none of the calls {', '.join(calls)}")
        if given.get(call, ...) in (..., [], ()):
            raise NotYet(f"{call}: nothing is filled in here")
    own = {guard.__name__: guard for call in calls for guard in contract.GUARDS[call]}
    mine = {call: _resolved(call, _listed(call, each), own) for call, each in given.items()}
    cases = [case for case in own_cases() if case.contract == contract.NAME]
    for case in cases:
        run = attempted(case, contract.GUARDS | mine)
        if not run.held:
            raise NotYet(f"{case.name}, {first_wrong(run)}")
    told = f"with your guards of {', '.join(calls)}"
    return f"{told} all {len(cases)} cases of {contract.NAME} come out as they should"


def _listed(call: str, answer: object) -> Sequence[str | Guard]:
    if not isinstance(answer, (list, tuple)):
        raise NotYet(f"{call}: this needs a list, such as ['fence'], also for one guard")
    return filled(answer)


def _resolved(call: str, answer: Sequence[str | Guard], own: Mapping[str, Guard]) -> tuple[Guard, ...]:
    for each in answer:
        if not callable(each) and str(each) not in own:
            raise NotYet(f"{call}: there is no guard {each!r}; there are {', '.join(sorted(own))}")
    return tuple(written(each) if callable(each) else own[each] for each in answer)
