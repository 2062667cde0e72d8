"""The results of `interleavings` and `racing_mistakes`, as table rows and as runs (H-6)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from receiptlab.experiment.run import Recorder, Run
from receiptlab.interleaving.findings import SERIALIZABLE, Explored
from receiptlab.outcomes import Outcome, mismatches
from receiptlab.scenarios.interleavings import PAIRS, Race
from receiptlab.scenarios.racing_mistakes import PLANTED

# For two calls of one transaction each, the number can be counted by hand. The first caller has the lock from
# its BEGIN to its COMMIT. The other one asks for it after any statement in between, or not at all, and runs
# afterwards. So a call of n statements gives n interleavings: accept has 7, and 7 + 7 are 14.
EXPECTED = {
    "accept twice, one key": {"serializable": 14},
    "accept twice, two keys": {"serializable": 14},
    "accept three times": {"serializable": 1_320},
    "claim twice": {"serializable": 8},
    "execute twice": {"serializable": 12},
    "execute and close": {"serializable": 11},
    "execute twice and close": {"serializable": 970},
    "deliver twice": {"serializable": 16},
    "deliver, and deliver it changed": {"serializable": 16},
    "deliver three times": {"serializable": 2_840},
    "next twice": {"serializable": 80},
    "complete and next, after the end": {"serializable": 72},
    "sweep and next": {"serializable": 283},
    "reserve twice, one lease": {"serializable": 16},
    "complete twice and reserve": {"serializable": 1_562},
    "apply twice": {"serializable": 12},
    "register and apply": {"serializable": 12},
    "register and apply twice": {"serializable": 1_394},
    "cancel and accept": {"serializable": 11},
    "new authority and accept": {"serializable": 11},
    "revoke and accept": {"serializable": 11},
    "expire and execute": {"serializable": 9},
    "erase and deliver": {"serializable": 14},
    "erase a tenant and deliver": {"serializable": 15},
    "register twice": {"serializable": 12},
    "issue and apply": {"serializable": 14},
    "requeue twice": {"serializable": 12},
    "renew and reserve": {"serializable": 12},
    "fail and reserve": {"serializable": 13},
    "fail and sweep": {"serializable": 29},
    "complete and look": {"serializable": 9},
    "requeue and dead": {"serializable": 7},
    "check outside of the transaction": {"serializable": 2, "duplicated": 48},
    "a deferred transaction": {"serializable": 14, "busy": 296},
    "result and receipt in two transactions": {"serializable": 5, "wrong": 4},
    "a transaction left open": {"deadlock": 4},
    "execute without the guard closed": {"serializable": 6, "wrong": 5},
    "complete without the guard of the state": {"duplicated": 16},
}
"""The number of interleavings with each verdict, for each race."""


@cache
def explored(name: str) -> Explored:
    """Every interleaving of the race of this name, explored once per process. Raises KeyError for another
    name."""
    return {each.name: each for each in (*PAIRS, *PLANTED)}[name].explore()


def rows(experiments: Iterable[Race]) -> list[dict[str, object]]:
    """One row per race: its contract, the number of interleavings in total and with each verdict, and the
    first one that is not serializable."""
    table = []
    for experiment in experiments:
        found = explored(experiment.name)
        harmful = [
            interleaving.interleaving
            for interleaving in found.interleavings
            if interleaving.verdict != SERIALIZABLE
        ]
        facts = {
            "experiment": found.name,
            "contract": found.contract,
            "interleavings": len(found.interleavings),
        }
        table.append(
            facts | found.classes | {"first that is not serializable": harmful[0] if harmful else "–"}
        )
    return table


def witness(name: str) -> Run:
    """The first interleaving of a race that is not serializable, run again step by step. Where all are, the
    first of all."""
    found = explored(name)
    harmful = [
        interleaving.interleaving
        for interleaving in found.interleavings
        if interleaving.verdict != SERIALIZABLE
    ]
    experiment = {each.name: each for each in (*PAIRS, *PLANTED)}[name]
    with experiment.explorer() as explorer:
        return explorer.rerun(harmful[0] if harmful else found.interleavings[0].interleaving)


def _record(name: str, title: str, kind: str, experiments: Iterable[Race]) -> Run:
    """One step per race. A race whose callers never met proves nothing and counts as wrong."""
    record = Recorder(title, name=name, clauses=("H-6",), contract="interleavings", kind=kind)
    for experiment in experiments:
        found = explored(experiment.name)
        classes = {verdict: number for verdict, number in found.classes.items() if number}
        witnesses = {
            f"first {verdict}": interleaving.interleaving for verdict, interleaving in found.witnesses.items()
        }
        answer = (
            {"interleavings": len(found.interleavings)} | classes | witnesses | {"vacuous": found.vacuous}
        )
        wanted = EXPECTED[experiment.name]
        expect = {
            "outcome": "read",
            "answer": {"interleavings": sum(wanted.values())} | wanted | {"vacuous": False},
        }
        record.add(
            found.contract,
            found.name,
            None,
            "read",
            answer=answer,
            expect=expect,
            wrong=mismatches(expect, "", Outcome("read", answer=answer), ()),
        )
    return record.run()


def contracts_in_every_interleaving() -> Run:
    """Two calls of each contract race, in every interleaving of their statements. All are serializable
    (H-6)."""
    two = [experiment for experiment in PAIRS if len(experiment.callers) == 2]
    return _record(
        "contracts-in-every-interleaving", "every interleaving of two calls that race", "holds", two
    )


def mistakes_in_every_interleaving() -> Run:
    """Planted mistakes that only some interleavings show. Each is found (H-6)."""
    return _record(
        "mistakes-in-every-interleaving", "every interleaving of calls with a mistake", "breaks", PLANTED
    )


SCENARIOS = (contracts_in_every_interleaving, mistakes_in_every_interleaving)
