"""A sandbox: a database file in a temporary folder, and a connection to it for each actor."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
import weakref
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from receiptlab.contracts.base import Contract
from receiptlab.errors import Definite
from receiptlab.faults.failpoints import fault as injected
from receiptlab.faults.tampering import TAMPERING
from receiptlab.outcomes import Outcome, attempt
from receiptlab.store import TIMEOUT_MS, Store

FILE_CALLS = ("reopen", "snapshot", "snapshot_without_wal", "restore", "restore_beside_wal")
"""What an experiment can do to the file itself, besides the contract's calls."""


def known_calls(contract: type[Contract]) -> dict[str, Callable]:
    """Every call of the contract by its name, and what an experiment can do behind its back."""
    return {call: getattr(contract, call) for call in contract.calls()} | TAMPERING.get(contract.NAME, {})


class Sandbox:
    """A new database file of `contract`, and the connections to it. Use it with `with`, or call `close`;
    otherwise it is removed when it is garbage collected.

    `guards` replaces the contract's guards for every actor. Without `sync` no connection waits for the disk,
    which is about ten times as fast, and fine where the experiment isn't about power loss. `timeout_ms` is
    how long a connection waits for a lock.
    """

    def __init__(
        self,
        contract: type[Contract],
        guards: dict | None = None,
        *,
        sync: bool = True,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self.contract, self.guards, self.sync, self.timeout_ms = contract, guards, sync, timeout_ms
        folder = tempfile.TemporaryDirectory(prefix="receiptlab-", ignore_cleanup_errors=True)
        self.path = Path(folder.name) / "receipts.db"
        self.copy = Path(folder.name) / "copy.db"
        self.path.write_bytes(_blank(contract))
        self._connections: dict[str, Contract] = {}
        self._kept: list[Store] = []
        self.close = weakref.finalize(self, _close, self._connections, self._kept, folder)
        """End every connection and remove the folder. Calling it twice is harmless."""

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def keep(self, store: Store) -> Store:
        """Close this store, too, when the sandbox is closed."""
        self._kept.append(store)
        return store

    def actor(self, name: str) -> Contract:
        """The contract over this actor's own connection, which is opened by the actor's first call."""
        if name not in self._connections:
            store = Store.open(self.path, self.timeout_ms)
            if not self.sync:
                store.db.execute("PRAGMA synchronous = OFF")
            self._connections[name] = self.contract(store, self.guards if name else None)
        return self._connections[name]

    @property
    def observer(self) -> Contract:
        """The contract over a connection that makes no calls of its own: it counts and reads."""
        return self.actor("")

    def attempt(self, actor: str, call: str, arguments: dict, fault: str = "") -> Outcome:
        """Make one call by its name, of the contract or on the file, and say how it ended.

        `fault` is a failpoint, or `insert:outbox` for a statement that fails; see `faults.failpoints`.
        """
        if call in FILE_CALLS:
            ended = attempt(getattr(self, call))
            return ended if ended.word == "failed" else Outcome("read")
        contract = self.actor(actor)
        behind = TAMPERING.get(contract.NAME, {}).get(call)
        function = partial(behind, contract) if behind else getattr(contract, call)
        with injected(contract.store, fault) if fault else contextlib.nullcontext():
            return attempt(function, **arguments)

    def reopen(self) -> None:
        """End every connection. The next call of each actor opens the file again."""
        _disconnect(self._connections)

    def snapshot(self) -> None:
        """Keep a copy of the file as it is now, made with SQLite's backup API."""
        self.copy.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(self.copy)) as copy:
            self.observer.store.db.backup(copy)

    def snapshot_without_wal(self) -> None:
        """Keep what copying only the database file, without its WAL, would give now."""
        address = f"{self.path.as_uri()}?mode=ro&immutable=1"  # reads only the file, and keeps SQLite's locks
        with contextlib.closing(sqlite3.connect(address, uri=True)) as without_wal:
            self.copy.write_bytes(without_wal.serialize())

    def restore(self) -> None:
        """End every connection and put the copy in the file's place. Without a copy, nothing happens."""
        self.reopen()
        if self.copy.exists():
            self.path.write_bytes(self.copy.read_bytes())

    def restore_beside_wal(self) -> None:
        """Put the copy in the file's place and leave the WAL, as after a kill. Where the store refuses that,
        the WAL is removed, as its message asks, so that the experiment can go on."""
        wal = Path(f"{self.path}-wal")
        left = wal.read_bytes()  # SQLite has no locks on this one
        self.restore()
        wal.write_bytes(left)
        try:
            _ = self.observer
        except Definite:
            wal.unlink()
            raise


@cache
def _blank(contract: type[Contract]) -> bytes:
    """A new database file of the contract: copying it is faster than making one each time."""
    with Store.temporary(contract.SCHEMA) as store:
        path = store.path
        store.db.close()
        return path.read_bytes()


def _disconnect(connections: dict[str, Contract]) -> None:
    for contract in connections.values():
        contract.store.close()
    connections.clear()


def _close(connections: dict[str, Contract], kept: list[Store], folder: tempfile.TemporaryDirectory) -> None:
    for store in (*(contract.store for contract in connections.values()), *kept):
        with contextlib.suppress(sqlite3.ProgrammingError):  # the garbage collector runs in any thread
            store.close()
    folder.cleanup()
