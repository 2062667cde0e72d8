"""Helpers for notebooks: play a case, run a scenario, show code."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from receiptlab.experiment.case_file import CaseError
from receiptlab.experiment.library import load
from receiptlab.experiment.player import play
from receiptlab.experiment.run import Run
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


def source(function: Callable) -> None:
    """Print the source of a function."""
    print(inspect.getsource(function).rstrip())
