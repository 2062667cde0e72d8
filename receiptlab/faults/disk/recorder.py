"""The life of a contract on a recording disk: every write and sync, and what was acknowledged when (for H-4).

The contract runs as it is, over `filesystem.Connection` in the place of its store's connection.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from receiptlab.errors import LabError
from receiptlab.faults.disk.log import Disk, Event
from receiptlab.faults.disk.reopening import NAME, moment
from receiptlab.faults.disk.workloads import OUTSIDE, Step, Workload
from receiptlab.outcomes import attempt
from receiptlab.store import Store

if TYPE_CHECKING:
    from receiptlab.faults.disk.vfs import Setting

COMMITTED, ACKNOWLEDGED, BEGUN = "committed", "acknowledged", "begun"


class ProvesNothing(LabError):
    """A run of a hazard in which the hazard never struck, or a life that did not go as it should."""


class Recording:
    """The log of one life, and what its marks stand for.

    `moments` are digests of all rows: after the making of the file, and after each commit. `half` are the
    moments at which a call that is one transaction was not at its end. A mark COMMITTED or ACKNOWLEDGED
    has the number of a moment, BEGUN that of a step. What every `gone` of a step names is gone once it was
    acknowledged; `gone_after` has the places in the log.
    """

    def __init__(self, workload: Workload, setting: Setting) -> None:
        from receiptlab.faults.disk import vfs as filesystem

        self.workload, self.setting = workload, setting
        filesystem.seed(f"{workload.name} {setting}")
        self.disk = Disk()
        self.disk.open(NAME, create=True)
        # The file is made as `Store.create` makes it, and durable; the setting is about what comes then.
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
        """Make every call of the life. Raises ProvesNothing where one ends otherwise than it should."""
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

    def _make(self, step: Step, at: SimpleNamespace) -> None:
        outcome = attempt(step.call, at)
        ended = outcome.reason if outcome.word == "refused" else ""
        if ended != step.refused or outcome.word not in ("accepted", "replayed", "read", "refused"):
            raise ProvesNothing(
                f"{self.workload.name} {step.name} ended as {outcome.word}: {outcome.message}"
            )

    def _check(self, step: Step, events: list[Event]) -> None:
        if step.writes and not any(event.kind == "write" for event in events):
            raise ProvesNothing(f"{self.workload.name} {step.name} wrote nothing")

    def _failpoint(self, point: str) -> None:
        if point == "after_commit":
            self.moments.append(moment(self.db))
            self.disk.mark(COMMITTED, len(self.moments) - 1)
        if point == OUTSIDE:
            self.disk.mark(ACKNOWLEDGED, len(self.moments) - 1)
