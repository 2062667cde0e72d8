"""Plays a case on a real database file and records what came out."""

from __future__ import annotations

import contextlib
import tempfile
from functools import cache
from pathlib import Path

from receiptlab.cases import CONTRACTS, REOPEN, Call, Case
from receiptlab.hazards.faults import fault
from receiptlab.outcomes import Outcome, attempt
from receiptlab.record import Lease, Recorder, Run
from receiptlab.store import Store


def play(case: Case, guards: dict | None = None) -> Run:
    """Play the case on a fresh fixture, each actor over a connection of its own.

    `guards` replaces the contract's guards, for showing what a missing one does. What the
    contract answers never stops the play: the run tells where it was not as expected.
    """
    contract = CONTRACTS[case.contract]
    record = Recorder(
        case.title,
        name=case.name,
        clauses=case.clauses,
        contract=case.contract,
        expected=case.expected,
        count_names=contract.COUNTS,
    )
    with _Stage(contract, guards) as stage:
        for call in case.calls:
            _step(record, stage, call)
    return record.run()


class _Stage:
    """A fresh fixture in a temporary folder, and one connection for each actor that has called."""

    def __init__(self, contract: type, guards: dict | None) -> None:
        self.contract = contract
        self.guards = contract.GUARDS if guards is None else guards
        self.actors: dict[str, object] = {}

    def __enter__(self) -> _Stage:
        self.folder = tempfile.TemporaryDirectory(prefix="receiptlab-", ignore_cleanup_errors=True)
        self.path = Path(self.folder.name) / "fixture.db"
        self.path.write_bytes(_blank(self.contract))
        self.observer = self.contract(Store.open(self.path))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.reopen()
        self.observer.store.close()
        self.folder.cleanup()

    def actor(self, name: str) -> object:
        if name not in self.actors:
            self.actors[name] = self.contract(Store.open(self.path), self.guards)
        return self.actors[name]

    def reopen(self) -> None:
        """End every connection; each actor's next call opens the file anew."""
        for owner in self.actors.values():
            owner.store.close()
        self.actors.clear()


@cache
def _blank(contract: type) -> bytes:
    """A new fixture of the contract, as bytes: copying it is cheaper than making one each time."""
    with Store.temporary(contract.SCHEMA) as store:
        path = store.path
        store.db.close()
        return path.read_bytes()


def _step(record: Recorder, stage: _Stage, call: Call) -> None:
    outcome = _outcome(stage, call)
    counts = stage.observer.counts()
    record.add(
        call.actor,
        call.call,
        call.args.get("now"),
        outcome.word,
        reason=outcome.reason,
        fields=outcome.fields,
        fault=call.fault,
        harm=call.harm,
        note=call.note,
        args=call.args,
        answer=outcome.facts(),
        counts=counts,
        leases=tuple(Lease(*lease) for lease in stage.observer.leases()),
        expected=call.expect,
        wrong=_unreached(call, outcome) + mismatches(call.expect, outcome, counts),
    )


def _outcome(stage: _Stage, call: Call) -> Outcome:
    if call.call == REOPEN:
        stage.reopen()
        return Outcome("read")
    owner = stage.actor(call.actor)
    with fault(owner.store, call.fault) if call.fault else contextlib.nullcontext():
        return attempt(getattr(owner, call.call), **call.args)


def _unreached(call: Call, outcome: Outcome) -> tuple[str, ...]:
    """A fault that never struck proves nothing, so it is never as expected."""
    if call.fault and outcome.word not in ("unknown", "failed"):
        return (f"fault {call.fault}: the call never came to it",)
    return ()


def mismatches(expect: dict | None, outcome: Outcome, counts: tuple[int, ...]) -> tuple[str, ...]:
    """What did not come out as expected, one text each."""
    if expect is None:
        return ()
    facts = outcome.facts()
    got = {
        "outcome": outcome.word,
        "reason": outcome.reason,
        "fields": list(outcome.fields),
        "counts": list(counts),
    }
    pairs = [(name, expect[name], got[name]) for name in got if name in expect]
    pairs += [(f"answer {name}", value, facts.get(name)) for name, value in expect.get("answer", {}).items()]
    return tuple(
        f"{name}: expected {wanted}, got {was}" for name, wanted, was in pairs if differ(wanted, was)
    )


def differ(wanted: object, was: object) -> bool:
    """Unequal as JSON has it: true is not 1."""
    return wanted != was or type(wanted) is not type(was)
