"""Plays a case on a real database file and records what came out."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

from receiptlab.contracts.registry import CONTRACTS
from receiptlab.experiment.case_file import Call, Case
from receiptlab.experiment.experiment import Experiment
from receiptlab.experiment.run import Run

DETAILED = 500
"""The most calls in a case for which each step records its leases and changed rows. Reading every row after
every call takes quadratic time, and nobody walks through a longer run."""


def play(
    case: Case,
    guards: dict | None = None,
    *,
    through: Callable[[tuple[Call, ...]], Iterable[Call]] = iter,
) -> Run:
    """Play the case on a new database file. Each actor has its own connection.

    `guards` replaces the contract's guards, to show what happens without one of them. `through` is called
    with the calls and yields them, so that a caller can show progress. An unexpected answer does not stop
    the play: the run says which steps were wrong. A case of more than `DETAILED` calls records only counts,
    no leases and no changed rows.
    """
    with _experiment(case, guards) as lab:
        _play(lab, through(case.calls))
        return lab.run


def played(case: Case) -> tuple[Run, sqlite3.Connection]:
    """Play the case. Returns the run, and a copy in memory of the file as the case left it."""
    copy = sqlite3.connect(":memory:")
    with _experiment(case, None) as lab:
        _play(lab, case.calls)
        lab.observer.store.db.backup(copy)
        return lab.run, copy


def _experiment(case: Case, guards: dict | None) -> Experiment:
    return Experiment(
        CONTRACTS[case.contract],
        case.title,
        name=case.name,
        clauses=case.clauses,
        kind=case.kind,
        guards=guards,
        detailed=len(case.calls) <= DETAILED,
    )


def _play(lab: Experiment, calls: Iterable[Call]) -> None:
    for call in calls:
        facts = {"fault": call.fault, "expect": call.expect, "anomaly": call.anomaly, "note": call.note}
        lab.call(call.actor, call.call, call.args, **facts)
