"""Helpers for notebooks: play a case, expect a refusal, show code."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from receiptlab.experiment.case_file import CaseError
from receiptlab.experiment.library import load
from receiptlab.experiment.player import play
from receiptlab.experiment.run import Run
from receiptlab.outcomes import attempt
from receiptlab.scenarios import SCENARIOS


def case(name: str, guards: dict | None = None) -> Run:
    """Play one of the lab's cases, such as O-07-same-holder-wrong-fence, with other guards if given."""
    return play(load(name), guards)


def scenario(name: str) -> Run:
    """Run one of the lab's scenarios, such as two-transactions."""
    for function in SCENARIOS:
        if function.__name__.replace("_", "-") == name:
            return function()
    raise CaseError(f"there is no scenario {name}; `receiptlab list` shows all")


def refused(reason: str, call: Callable[..., object], /, *args: object, **kwargs: object) -> None:
    """Make a call that the contract must refuse with this reason, and print its message.

    Raises AssertionError when the call ends in any other way.
    """
    outcome = attempt(call, *args, **kwargs)
    assert (outcome.word, outcome.reason) == ("refused", reason), (
        f"expected refused ({reason}), got {outcome}"
    )
    print(f"refused, {outcome.message}")


def invalid(argument: str, call: Callable[..., object], /, *args: object, **kwargs: object) -> None:
    """Make a call whose `argument` is wrong, and print the message.

    Raises AssertionError when the call ends in any other way.
    """
    outcome = attempt(call, *args, **kwargs)
    assert (outcome.word, outcome.reason) == ("invalid", argument), (
        f"expected invalid ({argument}), got {outcome}"
    )
    print(f"invalid, {outcome.message}")


def source(function: Callable) -> None:
    """Print the source of a function."""
    print(inspect.getsource(function).rstrip())
