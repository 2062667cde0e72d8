"""A bench for scenarios: a fresh fixture, and steps that are recorded as they happen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from receiptlab.contracts.shape import Contract
from receiptlab.hazards.faults import fault as injected
from receiptlab.outcomes import Outcome, attempt, mismatches
from receiptlab.record import Lease, Recorder, Run, Step
from receiptlab.store import Store


class Lab:
    """Runs the steps of one scenario on a fixture of `contract` and records them."""

    def __init__(
        self, name: str, title: str, clauses: str, contract: type[Contract], kind: str = "holds"
    ) -> None:
        self.store = Store.temporary(contract.SCHEMA)
        self.observer = contract(self.store.again())
        self.record = Recorder(
            title,
            name=name,
            clauses=clauses.split(),
            contract=contract.NAME,
            kind=kind,
            count_names=contract.COUNTS,
        )

    def step(
        self,
        actor: str,
        call: str,
        now: int | None,
        function: Callable[..., object],
        /,
        *args: object,
        expect: dict | None = None,
        fault: str = "",
        harm: str = "",
        on: Store | None = None,
        **kwargs: object,
    ) -> Step:
        """Make one call and record how it ended. `fault` strikes on the store `on` (else the first)."""
        with injected(on or self.store, fault) if fault else contextlib.nullcontext():
            outcome = attempt(function, *args, **kwargs)
        return self.note(actor, call, now, outcome, expect=expect, fault=fault, harm=harm)

    def note(self, actor: str, call: str, now: int | None, outcome: Outcome, **facts: object) -> Step:
        """Record an outcome that was come by in another way, with what the file holds after it."""
        counts = self.observer.counts()
        return self.record.add(
            actor,
            call,
            now,
            outcome.word,
            reason=outcome.reason,
            fields=outcome.fields,
            answer=outcome.facts(),
            counts=counts,
            leases=tuple(Lease(*lease) for lease in self.observer.leases()),
            wrong=mismatches(facts.get("expect"), facts.get("fault", ""), outcome, counts),
            **facts,
        )

    def run(self) -> Run:
        """The steps so far as a Run; the fixture is closed and gone."""
        self.observer.store.close()
        self.store.close()
        return self.record.run()
