"""What `interleavings` and `racing_mistakes` come to, as rows and as runs (H-6)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from receiptlab.experiment.run import Recorder, Run
from receiptlab.interleaving.findings import SAFE, Explored
from receiptlab.outcomes import Outcome, mismatches
from receiptlab.scenarios.interleavings import PAIRS, Experiment
from receiptlab.scenarios.racing_mistakes import PLANTED

# For two calls that are one transaction each the number can be counted by hand. Whoever is first has the lock
# from its BEGIN to its COMMIT; the other asks for it after any of the statements in between, or does not, and
# then goes on alone. So a call of n statements gives n orders: accept has 7, and 7 + 7 are 14.
EXPECTED = {
    "accept twice, one key": {"safe": 14},
    "accept twice, two keys": {"safe": 14},
    "accept three times": {"safe": 1_320},
    "claim twice": {"safe": 8},
    "execute twice": {"safe": 12},
    "execute and close": {"safe": 11},
    "execute twice and close": {"safe": 970},
    "deliver twice": {"safe": 16},
    "deliver, and deliver it changed": {"safe": 16},
    "deliver three times": {"safe": 2_840},
    "next twice": {"safe": 80},
    "complete and next, after the end": {"safe": 72},
    "sweep and next": {"safe": 283},
    "reserve twice, one lease": {"safe": 16},
    "complete twice and reserve": {"safe": 1_562},
    "apply twice": {"safe": 12},
    "register and apply": {"safe": 12},
    "register and apply twice": {"safe": 1_394},
    "cancel and accept": {"safe": 11},
    "new authority and accept": {"safe": 11},
    "revoke and accept": {"safe": 11},
    "expire and execute": {"safe": 9},
    "erase and deliver": {"safe": 14},
    "erase a tenant and deliver": {"safe": 15},
    "register twice": {"safe": 12},
    "issue and apply": {"safe": 14},
    "requeue twice": {"safe": 12},
    "renew and reserve": {"safe": 12},
    "fail and reserve": {"safe": 13},
    "fail and sweep": {"safe": 29},
    "complete and look": {"safe": 9},
    "requeue and dead": {"safe": 7},
    "check outside of the transaction": {"safe": 2, "doubled": 48},
    "a deferred transaction": {"safe": 14, "busy": 296},
    "result and receipt in two transactions": {"safe": 5, "wrong": 4},
    "a transaction left open": {"deadlock": 4},
    "execute without the guard closed": {"safe": 6, "wrong": 5},
    "complete without the guard of the state": {"doubled": 16},
}
"""For each experiment how many orders come to which verdict."""


@cache
def explored(name: str) -> Explored:
    """Every order of the experiment of this name; explored once in a process. KeyError for another name."""
    return {each.name: each for each in (*PAIRS, *PLANTED)}[name].explore()


def rows(experiments: Iterable[Experiment]) -> list[dict[str, object]]:
    """A row an experiment: its contract, how many orders there are, how many came to which verdict, and the
    first one that is not safe."""
    table = []
    for experiment in experiments:
        found = explored(experiment.name)
        harmful = [order.order for order in found.orders if order.verdict != SAFE]
        told = {"experiment": found.name, "contract": found.contract, "orders": len(found.orders)}
        table.append(told | found.classes | {"first that is not safe": harmful[0] if harmful else "–"})
    return table


def witness(name: str) -> Run:
    """The first order of an experiment that is not safe, run again step by step; the first of all where every
    one is safe."""
    found = explored(name)
    harmful = [order.order for order in found.orders if order.verdict != SAFE]
    experiment = {each.name: each for each in (*PAIRS, *PLANTED)}[name]
    with experiment.explorer() as explorer:
        return explorer.rerun(harmful[0] if harmful else found.orders[0].order)


def _record(name: str, title: str, kind: str, experiments: Iterable[Experiment]) -> Run:
    """A step an experiment. One whose callers never met proves nothing, and is not as expected."""
    record = Recorder(title, name=name, clauses=("H-6",), contract="orders", kind=kind)
    for experiment in experiments:
        found = explored(experiment.name)
        classes = {verdict: number for verdict, number in found.classes.items() if number}
        witnesses = {f"first {verdict}": order.order for verdict, order in found.witnesses.items()}
        answer = {"orders": len(found.orders)} | classes | witnesses | {"vacuous": found.vacuous}
        wanted = EXPECTED[experiment.name]
        expect = {"outcome": "read", "answer": {"orders": sum(wanted.values())} | wanted | {"vacuous": False}}
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


def contracts_in_every_order() -> Run:
    """Two calls of each contract that race, in every order of their statements: each is safe (H-6)."""
    two = [experiment for experiment in PAIRS if len(experiment.callers) == 2]
    return _record("contracts-in-every-order", "every order of two calls that race", "holds", two)


def mistakes_in_every_order() -> Run:
    """Mistakes that only some orders show, planted: each is found (H-6)."""
    return _record("mistakes-in-every-order", "every order of calls with a mistake", "breaks", PLANTED)


SCENARIOS = (contracts_in_every_order, mistakes_in_every_order)
