"""An experiment on three files: an owner, a copy of its file that was restored beside it, and a receiver."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver, Writer
from receiptlab.contracts.relay import Relay, to_file
from receiptlab.experiment.experiment import Experiment
from receiptlab.experiment.run import Step
from receiptlab.outcomes import Outcome
from receiptlab.store import Store
from receiptlab.values import sha256

SHOP = "shop"
COUNTS = (
    *("results", "receipts", "outbox"),
    *("copy: results", "copy: receipts", "copy: outbox"),
    "receiver: effects",
)
"""The file comes before the colon, as it does for the tables in `CopyExperiment.files`."""


class OwnerFile:
    """An owner's file with its two contracts: the owner and the relay."""

    def __init__(self, path: Path) -> None:
        self.store = Store.open(path, timeout_ms=200)
        self.owner = Owner(self.store)
        self.relay = Relay(self.store)


def backup(store: Store, path: Path) -> None:
    """Copy the file as it is now, with SQLite's backup API (https://www.sqlite.org/backup.html)."""
    with contextlib.closing(sqlite3.connect(path)) as copy:
        store.db.backup(copy)


class CopyExperiment(Experiment):
    """Records calls on the three files. The copy exists after `take_backup`.

    lab = CopyExperiment("a backup is restored beside its original")
    lab.prepared()
    lab.take_backup(now=100)
    lab.accept(lab.original, "worker of the original", "key-1", now=200)
    lab.accept(lab.copy, "worker of the copy", "key-2", now=200, anomaly="duplicated")
    lab.timeline()
    """

    def __init__(self, title: str, name: str = "", clauses: str = "", kind: str = "holds") -> None:
        super().__init__(Relay, title, name=name, clauses=clauses, kind=kind, counts=COUNTS)
        self.original = self.owner_file(self.path)
        self.copy: OwnerFile | None = None
        self.operator: OwnerFile | None = None
        """The operator's connection to the copy."""
        self.early = 0
        """How many results the copy had when it went into service."""
        store = Store.create(self.path.with_name("receiver.db"), Receiver.SCHEMA)
        self.receiver = Receiver(self.sandbox.keep(store))

    def owner_file(self, path: Path) -> OwnerFile:
        """Open an owner's file, until the experiment is closed."""
        owner_file = OwnerFile(path)
        self.sandbox.keep(owner_file.store)
        return owner_file

    def counted(self) -> tuple[int, ...]:
        here = self.original.owner.counted()
        there = self.copy.owner.counted() if self.copy else (0, 0, 0)
        return (*here, *there, self.receiver.counted()[1])

    def leases(self) -> list[tuple[str, str, int, int]]:
        there = self.copy.owner.leases() if self.copy else []
        return self.original.owner.leases() + [(f"copy of {on}", *rest) for on, *rest in there]

    def files(self) -> dict[str, sqlite3.Connection]:
        copy = {"copy": self.copy.store.db} if self.copy else {}
        return super().files() | copy | {"receiver": self.receiver.store.db}

    def step(self, actor: str, call: str, now: int | None, function: Callable, /, *args, **more) -> Step:
        """As in `Experiment`. A contract's own method goes to the file of its contract."""
        more.setdefault("file", self._file_of(getattr(function, "__self__", None)))
        return super().step(actor, call, now, function, *args, **more)

    def _file_of(self, contract: object) -> str:
        store = getattr(contract, "store", None)
        if store is None or store.path == self.path:
            return "original"
        return "copy" if self.copy and store.path == self.copy.store.path else "receiver"

    def identity(self, party: OwnerFile, instance: str, now: int, actor: str = "operator") -> Step:
        """The receiver gives this file a writer identity, and the file writes under it from now on."""

        def ask() -> Writer:
            writer = self.receiver.register(SHOP, instance, now)
            party.relay.write_as(writer)
            return writer

        return self.step(actor, "register", now, ask, expect={"outcome": "accepted"}, file="receiver")

    def prepared(self, *works: str) -> None:
        """The original has its identity, and worker-a holds leases on the work."""
        self.identity(self.original, "host-1", 0)
        for work in works or ("order-17",):
            call = {"scope": SHOP, "work": work, "revision": 1, "epoch": 1, "policy": "policy-1", "now": 0}
            self.original.owner.add(**call)
            claim = (SHOP, work, "worker-a", 10, 1_000)
            given = {"outcome": "accepted", "answer": {"fence": 1}}
            self.step("worker-a", "claim", 10, self.original.owner.claim, *claim, expect=given)

    def take_backup(self, now: int) -> None:
        """Copy the original's file and open the copy."""
        path = self.path.with_name("copy.db")

        def copy() -> dict:
            backup(self.original.store, path)
            self.copy = self.owner_file(path)
            return {}

        self.step("operator", "backup", now, copy, expect={"outcome": "accepted"})

    def accept(
        self, party: OwnerFile, who: str, key: str, now: int, expect: dict | None = None, **other: object
    ) -> Step:
        """A worker sends its result for a claim from before the backup."""
        call = {"scope": SHOP, "work": "order-17", "actor": "worker-a", "key": key, "revision": 1, "epoch": 1}
        call |= {"policy": "policy-1", "fence": 1, "result_digest": sha256(f"result {key}"), "now": now}
        anomaly = other.pop("anomaly", "")
        return self.step(
            who, "accept", now, party.owner.accept, **call | other, expect=expect, anomaly=anomaly
        )

    def send(
        self,
        party: OwnerFile,
        actor: str,
        now: int,
        answer: dict | None = None,
        receive: Callable | None = None,
        **more: object,
    ) -> Step:
        """Send the pending messages of one file. `receive` replaces the receiver. The step is refused when a
        message was refused, unknown when an attempt failed, and failed when nothing reached the receiver."""
        options = {key: more.pop(key) for key in ("keyed", "look_up", "max_attempts") if key in more}
        to = receive or to_file(party.relay, self.receiver, now)
        sent = party.relay.send(to, 10, now, **options)
        word, reason = "accepted", ""
        tried = party.relay.delayed() + party.relay.reconciliation()
        if sent.stopped:
            word, reason = "failed", sent.stopped
        elif sent.failed:
            word = "unknown"
            reason = next(entry.detail for entry in tried if entry.state in ("unanswered", "parked"))
        elif sent.refused:
            word, reason = "refused", tried[-1].detail
        expect = None if answer is None else {"outcome": word, "answer": answer}
        if "counts" in more:
            expect["counts"] = more.pop("counts")
        return self.note(
            actor,
            "send",
            now,
            Outcome(word, reason, answer=sent._asdict()),
            expect=expect,
            file="receiver",
            **more,
        )
