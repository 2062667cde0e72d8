"""A contract's workload on a logging disk: every write and sync, and what was acknowledged when (for H-4).

The contract runs unchanged, over `vfs.Connection` in place of its store's connection.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from receiptlab.errors import LabError
from receiptlab.faults.disk.log import Disk, Event
from receiptlab.faults.disk.reopening import NAME, moment
from receiptlab.faults.disk.workloads import OUTSIDE, CallStep, Workload
from receiptlab.outcomes import attempt
from receiptlab.store import Store

if TYPE_CHECKING:
    from receiptlab.faults.disk.vfs import Setting

COMMITTED, ACKNOWLEDGED, BEGUN = "committed", "acknowledged", "begun"


class ProvesNothing(LabError):
    """The fault never struck, or the workload didn't run as it should, so the run proves nothing."""


class Recording:
    """The log of one workload, and the meaning of its marks.

    `moments` are digests of all rows: after the creation of the file, and after each commit. `half` are
    the moments within a call of a single transaction. A mark COMMITTED or ACKNOWLEDGED has the number of a
    moment, and BEGUN that of a step. The words in a step's `gone` must be in no file after the step was
    acknowledged; `gone_after` has these places in the log.
    """

    def __init__(self, workload: Workload, setting: Setting) -> None:
        from receiptlab.faults.disk import vfs as filesystem

        self.workload, self.setting = workload, setting
        filesystem.seed(f"{workload.name} {setting}")
        self.disk = Disk()
        self.disk.open(NAME, create=True)
        # The file is created as `Store.create` does, and durable. The setting applies to what follows.
        careful = setting._replace(synchronous="extra" if setting.synchronous == "extra" else "full")
        self.db = filesystem.opened(self.disk, careful)
        self.store = Store(Path(NAME), self.db, 0)
        self.store._fill(workload.schema)
        self.moments, self.half = [moment(self.db)], set()
        self.gone_after: list[tuple[int, bytes]] = []
        self.disk.mark(ACKNOWLEDGED)
        if setting != careful:
            self.db.execute(f"PRAGMA synchronous = {setting.synchronous}")
        self.store.failpoint = self._failpoint

    @property
    def events(self) -> list[Event]:
        return self.disk.log

    def live(self) -> Recording:
        """Make every call of the workload. Raises ProvesNothing when one doesn't end as it should."""
        at = self.workload.on(self.store)
        for number, step in enumerate(self.workload.steps):
            first, start = len(self.moments), len(self.disk.log)
            self.disk.mark(BEGUN, number)
            self._make(step, at)
            self.disk.mark(ACKNOWLEDGED, len(self.moments) - 1)
            self.gone_after += [(len(self.disk.log), each) for each in step.gone]
            if len(self.moments) - first > step.parts:
                self.half |= set(range(first, len(self.moments) - 1))
            self._check(step, self.disk.log[start:])
        self.store.close()
        return self

    def _make(self, step: CallStep, at: SimpleNamespace) -> None:
        outcome = attempt(step.call, at)
        ended = outcome.reason if outcome.word == "refused" else ""
        if ended != step.refused or outcome.word not in ("accepted", "replayed", "read", "refused"):
            raise ProvesNothing(
                f"{self.workload.name} {step.name} ended as {outcome.word}: {outcome.message}"
            )

    def _check(self, step: CallStep, events: list[Event]) -> None:
        if step.writes and not any(event.kind == "write" for event in events):
            raise ProvesNothing(f"{self.workload.name} {step.name} wrote nothing")

    def _failpoint(self, point: str) -> None:
        if point == "after_commit":
            self.moments.append(moment(self.db))
            self.disk.mark(COMMITTED, len(self.moments) - 1)
        if point == OUTSIDE:
            self.disk.mark(ACKNOWLEDGED, len(self.moments) - 1)
