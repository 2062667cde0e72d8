"""A disk that fails (H-5). Needs apsw, the extra `hazards`.

For every call of every contract, the N-th disk operation fails, for N = 1, 2, 3 and so on until the call
completes without a failure. The failure happens once, or from then on. A full disk fails its writes after
half of the data. A broken disk fails its writes, syncs, truncates, opens and deletes. Creating and opening a
database file are tested in the same way.

This proves, for the workloads of `workloads`: the caller gets one of the lab's errors. After a definite one,
nothing of the call is in the file, and after an indefinite one all of it or nothing. The file opens again and
is intact. The same call made again ends as it should, on the same connection and on a new one.

It proves nothing about a disk that fails silently, about failing reads, or about a power cut after the
failure: what was written stays. A call of several transactions can end after any of them.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from receiptlab.faults.disk import opening, reopening
from receiptlab.faults.disk.expected_steps import ExpectedStep, connected, ended_as, expectations
from receiptlab.faults.disk.log import Disk, Fault, nothing
from receiptlab.faults.disk.recorder import ProvesNothing
from receiptlab.faults.disk.reopening import moment
from receiptlab.faults.disk.workloads import Workload, lives
from receiptlab.outcomes import Outcome, attempt
from receiptlab.store import Store

if TYPE_CHECKING:
    from receiptlab.faults.disk.vfs import Setting

MOST = 300
"""No call has this many operations. A loop that gets this far is broken."""

BROKEN = {
    "write": "SQLITE_IOERR_WRITE",
    "sync": "SQLITE_IOERR_FSYNC",
    "truncate": "SQLITE_IOERR_TRUNCATE",
    "open": "SQLITE_CANTOPEN",
    "delete": "SQLITE_IOERR_DELETE",
}
KINDS = {"full": {"write": "SQLITE_FULL"}, "broken": BROKEN}
SETTINGS = (("wal", "full"), ("wal", "full", 8), ("delete", "extra"))
ENDS = ("failed", "unknown", "answered")
"""The outcomes of calls in which a failure struck. Answered: as without the failure, because it struck
something that the call doesn't depend on."""


FAILURES = [(kind, for_good) for kind in KINDS for for_good in (False, True)]


def run(
    size: str = "small",
    progress: Callable[[int, int], None] | None = None,
    settings: Iterable[tuple] | None = None,
    of: Iterable[Workload] | None = None,
) -> list[dict[str, object]]:
    """Let the disk fail in every call of every contract. `size` is small (one setting) or full.

    Returns one row for each contract, setting and kind of failure. Unless `of` names the workloads, there
    are also rows for the store, whose calls are `Store.create` and `Store.open`. Raises ProvesNothing when
    no failure struck a call that writes, or when the failures never end.
    """
    from receiptlab.faults.disk.vfs import Setting

    chosen = [Setting(*each) for each in settings or (SETTINGS if size == "full" else SETTINGS[:1])]
    pairs = [(workload, setting) for setting in chosen for workload in (lives() if of is None else of)]
    rows = []
    for number, (workload, setting) in enumerate(pairs):
        if progress:
            progress(number, len(pairs))
        expected = list(expectations(workload, setting))
        rows += [Trial(workload, setting, *each).run(expected) for each in FAILURES]
    if of is None:
        rows += [Trial(lives()[0], chosen[0], *each).run_opening() for each in FAILURES]
    if progress:
        progress(len(pairs), len(pairs))
    return rows


class Trial:
    """One contract under one kind of failure, which happens once or, with `for_good`, every time from then
    on."""

    def __init__(self, workload: Workload, setting: Setting, kind: str, for_good: bool) -> None:
        self.workload, self.setting, self.kind, self.for_good = workload, setting, kind, for_good
        self.counts: Counter[str] = Counter()
        self.witness = ""
        # Store.open refuses a rollback journal that holds a whole call, since no Store leaves one.
        self._as_database_file = setting.journal == "wal"

    def run(self, expected: Iterable[ExpectedStep]) -> dict[str, object]:
        """Every step of the workload with every failure. Returns the result as plain data."""
        with reopening.folder() as where:
            for each in expected:
                self._every(each.step.name, each.step.writes, partial(self._one, each, where))
        return self._row(self.workload.name)

    def run_opening(self) -> dict[str, object]:
        """`Store.create` and `Store.open` with every failure, with the tables of this workload."""
        with reopening.folder() as where:
            for name, trial in opening.TRIALS.items():
                strikes = name == "Store.create" or self.kind != "full"  # opening writes nothing
                self._every(name, strikes, partial(trial, self.workload, self.setting, where))
        return self._row("store")

    def _row(self, contract: str) -> dict[str, object]:
        return {
            "hazard": "disk fault",
            "contract": contract,
            "setting": str(self.setting),
            "failure": f"{self.kind} {'for good' if self.for_good else 'once'}",
            "calls": self.counts["calls"],
            "faults": self.counts["faults"],
            **{word: self.counts[word] for word in ENDS},
            "unknown and there": self.counts["there"],
            "violations": self.counts["violations"],
            "witness": self.witness,
        }

    def _every(self, name: str, writes: bool, one: Callable[[Fault], tuple[str, str]]) -> None:
        """Make a call repeatedly, each time with the next operation failing."""
        self.counts["calls"] += 1
        for number in range(1, MOST):
            fault = Fault(KINDS[self.kind], number, self.for_good)
            word, wrong = one(fault)
            if wrong:
                where = f"failure of operation {number}" if word else "no failure"
                self.counts["violations"] += 1
                self.witness = self.witness or f"{name}, {where}: {wrong}"
            if not word:
                break
            self.counts.update(["faults", word if word in ("failed", "unknown", "raw") else "answered"])
        else:
            raise ProvesNothing(f"{self.workload.name} {name}: the failures never end")
        if number == 1 and writes:
            raise ProvesNothing(f"{self.workload.name} {name}: no failure struck")

    def _one(self, each: ExpectedStep, where: Path, fault: Fault) -> tuple[str, str]:
        """Make the call with the fault, then check the result from all sides. Returns the outcome (empty
        when no fault struck), and what is wrong, if anything."""
        with connected(self.workload, self.setting, Disk(each.files)) as (disk, store, at):
            disk.before = fault
            try:
                outcome = attempt(each.step.call, at)
            except Exception as error:
                return "raw" if fault.struck else "", f"the caller got {type(error).__name__}: {error}"
            struck, left = fault.struck, disk.files()
            if not self.for_good:
                disk.before = nothing
            wrong = self._reopened(each, outcome, left, where)
            wrong = wrong or self._here(each, outcome, store, at)
        return ended_as(outcome)[0] if struck else "", wrong or self._closed(each, disk.files(), where)

    def _reopened(self, each: ExpectedStep, outcome: Outcome, files: dict[str, bytes], where: Path) -> str:
        """What a process finds that opens the file now, and how the call ends when that process makes it
        again."""
        path = reopening.lay(files, where)
        found = reopening.look(path, self.workload.rules, self._as_database_file)
        self.counts["there"] += outcome.word == "unknown" and found.moment == each.moments[-1]
        wrong = each.wrong(outcome, found)
        if wrong:
            return wrong
        with contextlib.closing(Store.open(path)) as store:
            store.db.execute("PRAGMA synchronous = OFF")
            return each.made_again(found.moment, self.workload.on(store))

    def _here(self, each: ExpectedStep, outcome: Outcome, store: Store, at: SimpleNamespace) -> str:
        """Continue on the same connection, with a disk that still fails, or one that works again."""
        try:
            if store.db.in_transaction:
                return f"after {outcome.word}: a transaction is still open"
            if self.for_good:
                attempt(each.step.call, at)
                return ""
            return each.made_again(moment(store.db), at)
        except Exception as error:
            if store.db.closed:
                return ""
            return f"made again, the caller got {type(error).__name__}: {error}"

    def _closed(self, each: ExpectedStep, files: dict[str, bytes], where: Path) -> str:
        """Check the file after the connection was closed."""
        found = reopening.look(reopening.lay(files, where), self.workload.rules, self._as_database_file)
        wrong = found.refused or found.damage or (found.broken and found.broken[0])
        if not wrong and each.step.parts == 1 and found.moment not in (*each.moments, each.twice):
            wrong = "it holds what it never held"
        return f"after the connection was closed: {wrong}" if wrong else ""
