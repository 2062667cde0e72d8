"""Mutation tests of the guards: remove one guard at a time and play every case again (O-17, H-7)."""

from __future__ import annotations

from dataclasses import dataclass

from receiptlab.contracts.registry import CONTRACTS
from receiptlab.experiment.case_file import Case
from receiptlab.experiment.library import own_cases
from receiptlab.experiment.player import play
from receiptlab.faults.ablation import guard_names, watched, without

Guard = tuple[str, str]


@dataclass(frozen=True)
class Ablation:
    """What the cases noticed. A pair (guard, case) is in `noticed` when the case ended differently without
    the guard, and in `named` when the case expects an answer that this guard gives."""

    contract: str
    guards: tuple[Guard, ...]
    cases: tuple[str, ...]
    noticed: frozenset[tuple[Guard, str]]
    named: frozenset[tuple[Guard, str]]


def ablate(contract: str, every: bool = False) -> Ablation:
    """Remove each guard in turn and play the contract's cases again.

    A guard that let every call of a case pass cannot change that case by its absence, so these
    plays are left out; `every` plays them too, and takes several times as long.
    """
    kind = CONTRACTS[contract]
    cases = [case for case in own_cases() if case.contract == contract]
    guards = guard_names(kind)
    pairs = [(guard, case) for case in cases for guard in (guards if every else sorted(_acting(kind, case)))]
    noticed = {(guard, case.name) for guard, case in pairs if not play(case, without(kind, *guard)).held}
    named = {(guard, case.name) for case in cases for guard in named_by(case, guards)}
    names = tuple(case.name for case in cases)
    return Ablation(contract, tuple(guards), names, frozenset(noticed), frozenset(named))


def _acting(kind: type, case: Case) -> set[Guard]:
    guards, acted = watched(kind)
    play(case, guards)
    return acted


def named_by(case: Case, guards: list[Guard]) -> set[Guard]:
    """The guards whose answer the case expects: by the reason of a refusal, or by a replay.

    It relies on the names that `receiptlab.contracts` prescribes for guards.
    """
    named = set()
    for call in case.calls:
        expect = call.expect or {}
        if expect.get("outcome") in ("refused", "replayed"):
            reason = expect.get("reason", "replay").replace("-", "_")
            reasons = [f"{reason}_{field}" for field in expect.get("fields", ())]
            named |= {(call.call, name) for name in (reason, f"{call.call}_{reason}", *reasons)} & set(guards)
    return named


def label(guard: Guard) -> str:
    """`accept state` for the guard accept_state of accept."""
    call, name = guard
    return f"{call} {name.removeprefix(call + '_').replace('_', '-')}"
