"""A contract with one guard removed (H-7), to show which check enforces which promise.

This proves that the cases notice each missing guard. It doesn't prove that the guards are sufficient.
"""

from __future__ import annotations

from collections.abc import Callable

from receiptlab.contracts.base import Contract


def guard_names(contract: type[Contract]) -> list[tuple[str, str]]:
    """(call, guard) of every guard, in the order in which a call runs them."""
    return [(call, guard.__name__) for call, guards in contract.GUARDS.items() for guard in guards]


def without(contract: type[Contract], call: str, name: str) -> dict:
    """The contract's guards without this one. Raises KeyError when there is no such guard."""
    if (call, name) not in guard_names(contract):
        raise KeyError(f"{call} has no guard {name}")
    kept = tuple(guard for guard in contract.GUARDS[call] if guard.__name__ != name)
    return contract.GUARDS | {call: kept}


def first(contract: type[Contract], call: str, name: str) -> dict:
    """The contract's guards with this one moved to the front: the right checks in the wrong order."""
    moved = [guard for guard in contract.GUARDS[call] if guard.__name__ == name]
    return contract.GUARDS | {call: (*moved, *without(contract, call, name)[call])}


def watched(contract: type[Contract]) -> tuple[dict, set[tuple[str, str]]]:
    """The contract's guards, and a set that collects each guard that refused or answered a call."""
    acted: set[tuple[str, str]] = set()
    watching = {
        call: tuple(_watching(guard, (call, guard.__name__), acted) for guard in guards)
        for call, guards in contract.GUARDS.items()
    }
    return watching, acted


def _watching(guard: Callable, name: tuple[str, str], acted: set) -> Callable:
    def watch(*args: object) -> object:
        try:
            saved = guard(*args)
        except BaseException:
            acted.add(name)
            raise
        if saved is not None:
            acted.add(name)
        return saved

    return watch
