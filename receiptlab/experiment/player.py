"""Plays a case on a real database file and records what came out."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path

from receiptlab.contracts.base import Contract
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.errors import Definite
from receiptlab.experiment.case_file import FILE_CALLS, Call, Case
from receiptlab.experiment.row_diff import Rows
from receiptlab.experiment.run import Change, Lease, Recorder, Run
from receiptlab.faults.failpoints import fault
from receiptlab.faults.tampering import TAMPERING
from receiptlab.outcomes import Outcome, attempt, mismatches
from receiptlab.store import Store

DETAILED = 500
"""The largest number of calls in a case for which each step records its leases and changed rows. Reading
every row after every call takes quadratic time, and nobody walks through a run that is longer."""


def play(
    case: Case,
    guards: dict | None = None,
    *,
    through: Callable[[tuple[Call, ...]], Iterable[Call]] = iter,
) -> Run:
    """Play the case on a fresh database file. Each actor has its own connection.

    `guards` replaces the contract's guards, to show what happens without one of them. `through` is called
    with the calls and yields them, so that a caller can show progress. An answer that was not expected does
    not stop the play: the run says which ones were not. A case of more than `DETAILED` calls
    records counts only, no leases and no changed rows.
    """
    record = _recorder(case)
    with _Stage(CONTRACTS[case.contract], guards) as stage:
        for call in through(case.calls):
            _step(record, stage, call, detailed=len(case.calls) <= DETAILED)
    return record.run()


def _recorder(case: Case) -> Recorder:
    return Recorder(
        case.title,
        name=case.name,
        clauses=case.clauses,
        contract=case.contract,
        kind=case.kind,
        count_names=CONTRACTS[case.contract].COUNTS,
    )


def played(case: Case) -> tuple[Run, sqlite3.Connection]:
    """Play the case; the run, and a copy of the file as it is left then, in memory."""
    record, copy = _recorder(case), sqlite3.connect(":memory:")
    with _Stage(CONTRACTS[case.contract], None) as stage:
        for call in case.calls:
            _step(record, stage, call)
        stage.observer.store.db.backup(copy)
    return record.run(), copy


class _Stage:
    """A fresh database file in a temporary folder, and one connection for each actor that has called."""

    def __init__(self, contract: type[Contract], guards: dict | None) -> None:
        self.contract = contract
        self.guards = guards
        self.actors: dict[str, Contract] = {}

    def __enter__(self) -> _Stage:
        self.folder = tempfile.TemporaryDirectory(prefix="receiptlab-", ignore_cleanup_errors=True)
        self.path = Path(self.folder.name) / "receipts.db"
        self.copy = Path(self.folder.name) / "copy.db"
        self.path.write_bytes(_blank(self.contract))
        self.observer = self.contract(Store.open(self.path))
        self.rows = Rows()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.reopen()
        self.observer.store.close()
        self.folder.cleanup()

    def actor(self, name: str) -> Contract:
        if name not in self.actors:
            self.actors[name] = self.contract(Store.open(self.path), self.guards)
        return self.actors[name]

    def changes(self) -> tuple[Change, ...]:
        """The rows that changed since the last time that this was asked."""
        return self.rows.changes({"": self.observer.store.db})

    def reopen(self) -> None:
        """End every connection; each actor's next call opens the file anew."""
        for actor in self.actors.values():
            actor.store.close()
        self.actors.clear()

    def snapshot(self) -> None:
        """Keep a copy of the file as it is now, made with SQLite's backup API."""
        self.copy.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(self.copy)) as copy:
            self.observer.store.db.backup(copy)

    def snapshot_without_wal(self) -> None:
        """Keep what a file copy of the database file by itself would be now."""
        address = f"{self.path.as_uri()}?mode=ro&immutable=1"  # reads the file only, and keeps SQLite's locks
        with contextlib.closing(sqlite3.connect(address, uri=True)) as alone:
            self.copy.write_bytes(alone.serialize())

    def restore(self) -> None:
        """End every connection and put the copy in the file's place. Without a copy: nothing happens."""
        self._restore()
        self.observer = self.contract(Store.open(self.path))

    def restore_beside_wal(self) -> None:
        """As if the processes had been killed: the copy takes the file's place, and the WAL stays. Where it
        is refused, it is removed after that, as the message asks, and the copy is opened."""
        wal = Path(f"{self.path}-wal")
        left = wal.read_bytes()  # SQLite has no locks on this one
        self._restore()
        wal.write_bytes(left)
        try:
            self.observer = self.contract(Store.open(self.path))
        except Definite:
            wal.unlink()
            self.observer = self.contract(Store.open(self.path))
            raise

    def _restore(self) -> None:
        self.reopen()
        self.observer.store.close()
        if self.copy.exists():
            self.path.write_bytes(self.copy.read_bytes())


@cache
def _blank(contract: type[Contract]) -> bytes:
    """A new database file of the contract, as bytes: copying it is cheaper than making one each time."""
    with Store.temporary(contract.SCHEMA) as store:
        path = store.path
        store.db.close()
        return path.read_bytes()


def _step(record: Recorder, stage: _Stage, call: Call, *, detailed: bool = True) -> None:
    outcome = _outcome(stage, call)
    counts = stage.observer.counted()
    record.add(
        call.actor,
        call.call,
        call.args.get("now"),
        outcome.word,
        reason=outcome.reason,
        fields=outcome.fields,
        fault=call.fault,
        anomaly=call.anomaly,
        note=call.note,
        args=call.args,
        answer=outcome.facts(),
        counts=counts,
        leases=tuple(Lease(*lease) for lease in stage.observer.leases()) if detailed else (),
        changes=stage.changes() if detailed else None,
        expect=call.expect,
        wrong=mismatches(call.expect, call.fault, outcome, counts),
    )


def _outcome(stage: _Stage, call: Call) -> Outcome:
    if call.call in FILE_CALLS:
        ended = attempt(getattr(stage, call.call))
        return ended if ended.word == "failed" else Outcome("read")
    actor = stage.actor(call.actor)
    behind = TAMPERING.get(actor.NAME, {}).get(call.call)
    function = partial(behind, actor) if behind else getattr(actor, call.call)
    with fault(actor.store, call.fault) if call.fault else contextlib.nullcontext():
        return attempt(function, **call.args)
