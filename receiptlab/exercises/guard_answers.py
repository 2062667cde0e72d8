"""Checks of guards that a learner wrote or put in order, with all cases of the contract."""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from types import FunctionType

from receiptlab.contracts.base import Contract, Guard
from receiptlab.errors import LabError
from receiptlab.exercises.answers import (
    BLANK,
    NotYet,
    checks,
    filled,
    first_wrong,
    is_blank,
    played_case,
    raised,
)
from receiptlab.exercises.number_identity import apart, plain
from receiptlab.experiment.library import own_cases

LISTS = "a list of guards for each call, such as {'accept': ['fence']}"


@checks
def guard(contract: type[Contract], call: str, answer: Guard) -> str:
    """Your function replaces the contract's guard of the same name. All cases of the contract must hold."""
    own = [each.__name__ for each in contract.GUARDS[call]]
    name = getattr(filled(answer, Callable, "a function"), "__name__", repr(answer))
    if name not in own:
        raise NotYet(f"{call} has no guard {name}; name your function as one of {', '.join(sorted(own))}")
    mine = [answer if name == each else each for each in own]
    return _all_cases_hold(contract, {call: resolved(contract, call, mine)})


@checks
def guards(contract: type[Contract], call: str, answer: Sequence[str | Guard]) -> str:
    """Your guards for one call, in your order. All cases of the contract must hold.

    Each is the name of one of the contract's own, or a function that you wrote.
    """
    mine = filled(answer, (list, tuple), "a list of guards")
    return _all_cases_hold(contract, {call: resolved(contract, call, mine)})


@checks
def guarded(
    contract: type[Contract], calls: Sequence[str], answer: Mapping[str, Sequence[str | Guard]]
) -> str:
    """Your guards for each of these calls. All cases of the contract must hold with all of them together.

    A guard is a function that you wrote, or the name of a guard of any of these calls.
    """
    given = filled(answer, dict, LISTS)
    for call in (*given, *calls):
        if call not in calls:
            raise NotYet(f"{call!r} is none of the calls {', '.join(calls)}")
        if given.get(call, ...) in (..., [], ()):
            raise NotYet(f"{call}: {BLANK}")
        if not isinstance(given[call], (list, tuple)):
            raise NotYet(f"{call}: this needs a list, such as ['fence'], also for one guard")
    mine = {call: resolved(contract, call, filled(given[call]), calls) for call in calls}
    return _all_cases_hold(contract, mine)


def _all_cases_hold(contract: type[Contract], mine: Mapping[str, Sequence[Guard]]) -> str:
    """Play every case of the contract with these guards. Raises NotYet with the first wrong step.

    Then try each of the learner's functions on every row that its call has read, also on those for which
    an earlier guard refused the call.
    """
    cases = [case for case in own_cases() if case.contract == contract.NAME]
    # Plain cases show best what a guard is for. Those with faults and bad arguments come last.
    cases.sort(key=lambda case: (case.name.startswith("F"), any(call.fault for call in case.calls)))
    read: dict[str, list[tuple[object, object]]] = {call: [] for call in mine}
    noted = {call: (partial(_note, read[call]), *guards) for call, guards in mine.items()}
    for case in cases:
        run = played_case(case, contract.GUARDS | noted)
        if not run.held:
            identity = any(_uses_is(guard) for guards in mine.values() for guard in guards)
            hint = "; compare values with == or !=, not with `is`" if identity else ""
            raise NotYet(f"{case.name}, {first_wrong(run)}{hint}")
    for call, guards in mine.items():
        own = {guard.__name__: guard for guard in contract.GUARDS[call]}
        for guard in guards:
            if hasattr(guard, "__wrapped__") and guard.__name__ in own:
                _must_cope(guard, own[guard.__name__], read[call])
    return f"all {len(cases)} cases of {contract.NAME} hold with your guards of {', '.join(mine)}"


def _note(read: list[tuple[object, object]], call: object, seen: object) -> None:
    """A guard that refuses nothing and keeps what the call has read."""
    read.append((call, seen))


def _uses_is(guard: Guard) -> bool:
    """Whether a learner's guard compares with `is`, other than with None in a condition."""
    code = getattr(getattr(guard, "__wrapped__", None), "__code__", None)
    return code is not None and any(each.opname == "IS_OP" for each in dis.get_instructions(code))


def _must_cope(mine: Guard, theirs: Guard, read: Sequence[tuple[object, object]]) -> None:
    """Raises NotYet if a learner's guard breaks on a row and the contract's own does not."""
    for row in read:
        error = _error_of(mine, row)
        if error and not _error_of(theirs, row):
            raise NotYet(
                f"all cases hold, but {raised(error)}. {mine.__name__} was tried on a row that another guard "
                f"refuses first; it must cope with every row, also where a field is None"
            )


def _error_of(guard: Guard, row: tuple[object, object]) -> Exception | None:
    """What a guard raises, unless it is a refusal."""
    try:
        guard(*row)
    except Exception as error:
        return None if isinstance(error, (LabError, NotYet)) else error
    return None


def resolved(
    contract: type[Contract], call: str, answer: Sequence[str | Guard], calls: Sequence[str] = ()
) -> tuple[Guard, ...]:
    """The guards for an answer of names and functions. A name may belong to any of `calls`. Raises NotYet."""
    own = {guard.__name__: guard for each in calls or (call,) for guard in contract.GUARDS[each]}
    names = [getattr(each, "__name__", each) for each in answer]
    for each, name in zip(answer, names, strict=True):
        if isinstance(each, (list, tuple)):
            raise NotYet("there is a list in the list; put a star before it, as in [*one, *other]")
        if names.count(name) > 1:
            raise NotYet(f"{name} is in the list twice")
        if not callable(each) and each not in own:
            raise NotYet(f"{call} has no guard {each!r}; choose from {', '.join(sorted(own))}")
        if isinstance(each, FunctionType) and is_blank(each):
            raise NotYet(f"{name}: {BLANK}")
    at_home = contract.GUARDS[call]
    return tuple(
        written(each) if callable(each) else own[each] if own[each] in at_home else borrowed(own[each], call)
        for each in answer
    )


def borrowed(guard: Guard, call: str) -> Guard:
    """A guard of another call. Raises NotYet when it reads something that this call does not have."""

    def fitting(request: object, seen: object) -> object:
        try:
            return guard(request, seen)
        except (AttributeError, TypeError) as error:
            what = f"`{error.name}`, which" if getattr(error, "name", None) else "something that"
            raise NotYet(
                f"{guard.__name__} does not fit {call}: it needs {what} {call} does not have"
            ) from None

    fitting.__name__ = guard.__name__
    return fitting


def written(guard: Guard) -> Guard:
    """A guard that a learner wrote. It gets copies whose equal numbers are never the same object, so a
    comparison with `is` is noticed. Raises NotYet if it returns something that no guard returns."""
    name = getattr(guard, "__name__", "your guard")

    @wraps(guard)
    def watched(call: object, seen: object) -> object:
        saved = guard(apart(call), apart(seen))
        if isinstance(saved, BaseException):
            raise NotYet(f"{name} returns {type(saved).__name__}; it must raise it")
        if saved is not None and not hasattr(saved, "outcome"):
            raise NotYet(f"{name} returns {saved!r}; a guard returns nothing, or an answer of the call")
        return plain(saved)

    return watched
