"""A bench for scenarios: a fresh database file, and steps that are recorded as they happen."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from receiptlab.contracts.base import Contract
from receiptlab.experiment.row_diff import Rows
from receiptlab.experiment.run import Lease, Recorder, Run, Step
from receiptlab.faults.failpoints import fault as injected
from receiptlab.faults.processes.children import Child
from receiptlab.outcomes import Outcome, attempt, mismatches
from receiptlab.store import Store


class Lab:
    """Runs the steps of one scenario on a database file of `contract` and records them."""

    def __init__(
        self,
        name: str,
        title: str,
        clauses: str,
        contract: type[Contract],
        kind: str = "holds",
        counts: Iterable[str] = (),
    ) -> None:
        self.contract = contract
        self._folder = tempfile.TemporaryDirectory(prefix="receiptlab-", ignore_cleanup_errors=True)
        self.path = Path(self._folder.name) / "receipts.db"
        Store.create(self.path, contract.SCHEMA).close()
        self.open()
        self.record = Recorder(
            title,
            name=name,
            clauses=clauses.split(),
            contract=contract.NAME,
            kind=kind,
            count_names=counts or contract.COUNTS,
        )
        self._rows = Rows()

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
        anomaly: str = "",
        on: Store | None = None,
        **kwargs: object,
    ) -> Step:
        """Make one call and record how it ended. `fault` strikes on the store `on` (else the first)."""
        with injected(on or self.store, fault) if fault else contextlib.nullcontext():
            outcome = attempt(function, *args, **kwargs)
        return self.note(actor, call, now, outcome, expect=expect, fault=fault, anomaly=anomaly)

    def note(
        self, actor: str, call: str, now: int | None, outcome: Outcome, *, rows: bool = True, **facts: object
    ) -> Step:
        """Record an outcome that was come by in another way, with what the file holds after it.

        Without `rows` nobody looks at them: where chance decides what stands in them, a run must not say it.
        """
        counts = self.counted()
        return self.record.add(
            actor,
            call,
            now,
            outcome.word,
            reason=outcome.reason,
            fields=outcome.fields,
            answer=outcome.facts(),
            counts=counts,
            leases=tuple(Lease(*lease) for lease in self.leases()),
            changes=self._rows.changes(self.files()) if rows else None,
            wrong=mismatches(facts.get("expect"), facts.get("fault", ""), outcome, counts),
            **facts,
        )

    def die(self, actor: str, call: str, args: dict, point: str, counts: list[int]) -> Step:
        """A process makes the call, alone on the file, and ends at the point; the file is opened anew."""
        self.close()
        with Child(self.contract, self.path, call, args, die_at=point) as child:
            code = child.expect("READY").go().expect("CALLING").died()
        self.open()
        expect = {"outcome": "unknown", "reason": point, "counts": counts}
        told = {"fault": point, "expect": expect, "note": f"exit code {code}"}
        return self.note(actor, call, args["now"], Outcome("unknown", point), **told)

    def run(self) -> Run:
        """The steps so far as a Run; the database file is closed and gone."""
        self.close()
        self._folder.cleanup()
        return self.record.run()

    def counted(self) -> tuple[int, ...]:
        """The counts after a step."""
        return self.observer.counted()

    def leases(self) -> list[tuple[str, str, int, int]]:
        """The leases after a step."""
        return self.observer.leases()

    def files(self) -> dict[str, sqlite3.Connection]:
        """The files whose rows are looked at after each step, by the name that their tables go by."""
        return {"": self.observer.store.db}

    def open(self) -> None:
        """Open the file, as a process does that starts."""
        self.store = Store.open(self.path)
        self.observer = self.contract(self.store.again())

    def close(self) -> None:
        """Close every connection of this process to the file."""
        self.observer.store.close()
        self.store.close()
