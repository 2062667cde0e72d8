"""Checks of guards that a learner wrote or put in order: the contract's own cases judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps

from receiptlab.cases import own_cases
from receiptlab.contracts.shape import Contract, Guard
from receiptlab.judge.answers import NotYet, attempted, checks, filled, first_wrong

LISTS = "a list of guards for each call, such as {'accept': ['fence']}"


@checks
def guard(contract: type[Contract], call: str, answer: Guard) -> str:
    """Your function takes the place of the contract's guard of that name, and the contract's cases judge."""
    own = [each.__name__ for each in contract.GUARDS[call]]
    name = getattr(filled(answer, Callable, "a function"), "__name__", repr(answer))
    if name not in own:
        raise NotYet(f"{call} has no guard {name}; call your function by one of {', '.join(sorted(own))}")
    return _judged(
        contract, {call: resolved(contract, call, [answer if name == each else each for each in own])}
    )


@checks
def guards(contract: type[Contract], call: str, answer: Sequence[str | Guard]) -> str:
    """Your guards for one call, in your order, and the contract's cases judge.

    Each is the name of one of the contract's own, or a function that you wrote.
    """
    return _judged(
        contract, {call: resolved(contract, call, filled(answer, (list, tuple), "a list of guards"))}
    )


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
        if not isinstance(given[call], (list, tuple)):
            raise NotYet(f"{call}: this needs a list, such as ['fence'], also for one guard")
    return _judged(contract, {call: resolved(contract, call, filled(given[call]), calls) for call in calls})


def _judged(contract: type[Contract], mine: Mapping[str, Sequence[Guard]]) -> str:
    """Play every case of the contract with these guards. Raises NotYet with the first step that is wrong."""
    cases = [case for case in own_cases() if case.contract == contract.NAME]
    cases.sort(key=lambda case: case.name.startswith("F"))  # what a guard is for is told before bad arguments
    for case in cases:
        run = attempted(case, contract.GUARDS | mine)
        if not run.held:
            raise NotYet(f"{case.name}, {first_wrong(run)}")
    told = f"with your guards of {', '.join(mine)}"
    return f"{told} all {len(cases)} cases of {contract.NAME} come out as they should"


def resolved(
    contract: type[Contract], call: str, answer: Sequence[str | Guard], calls: Sequence[str] = ()
) -> tuple[Guard, ...]:
    """The guards themselves, for what may be their names; these may be of any of `calls`. Raises NotYet."""
    own = {guard.__name__: guard for each in calls or (call,) for guard in contract.GUARDS[each]}
    names = [getattr(each, "__name__", each) for each in answer]
    for each, name in zip(answer, names, strict=True):
        if isinstance(each, (list, tuple)):
            raise NotYet("there is a list in the list; put a star before it, as in [*one, *other]")
        if names.count(name) > 1:
            raise NotYet(f"{name} stands there twice")
        if not callable(each) and each not in own:
            raise NotYet(f"{call} has no guard {each!r}; choose from {', '.join(sorted(own))}")
    return tuple(written(each) if callable(each) else own[each] for each in answer)


def written(guard: Guard) -> Guard:
    """A guard that a learner wrote. Raises NotYet where it returns what no guard returns."""
    name = getattr(guard, "__name__", "your guard")

    @wraps(guard)
    def watched(call: object, seen: object) -> object:
        saved = guard(call, seen)
        if isinstance(saved, BaseException):
            raise NotYet(f"{name} returns {type(saved).__name__}; it must raise it")
        if saved is not None and not hasattr(saved, "outcome"):
            raise NotYet(f"{name} returns {saved!r}; a guard returns nothing, or an answer of the call")
        return saved

    return watched
