"""receiptlab: how a service keeps its promises, shown on a real SQLite database.

    from receiptlab import Experiment, Owner, Refused, Store

`contracts`, `store`, `database_file`, `values` and `errors` are the small part, which
is meant to be read completely. Names such as O-7 are clauses of the contract: `data/contract.csv` lists them.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

_HOMES = {
    "Owner": "receiptlab.contracts.owner",
    "Retention": "receiptlab.contracts.retention",
    "Intake": "receiptlab.contracts.intake.intake",
    "Work": "receiptlab.contracts.work.work",
    "Receiver": "receiptlab.contracts.receiver",
    "Relay": "receiptlab.contracts.relay",
    "Store": "receiptlab.store",
    "Refused": "receiptlab.errors",
    "Experiment": "receiptlab.experiment.experiment",
}
"""Loaded when they are first used, so that `import receiptlab` is fast and needs nothing."""


def __getattr__(name: str) -> object:
    if name == "show":
        return import_module("receiptlab.show")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_HOMES, "show"]
