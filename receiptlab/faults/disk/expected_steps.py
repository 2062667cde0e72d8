"""The expected end of each step of a workload without failures, and a connection to make it on (for H-5)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

from receiptlab.faults.disk.log import Disk
from receiptlab.faults.disk.reopening import NAME, Found, moment
from receiptlab.faults.disk.workloads import CallStep, Workload
from receiptlab.outcomes import Outcome, attempt
from receiptlab.store import Store

if TYPE_CHECKING:
    from receiptlab.faults.disk.vfs import Setting


class ExpectedStep(NamedTuple):
    """A step without failures: the files before it; the file's digest before, between and after its
    transactions; its outcome; its outcome when it is made again; and the digest after that."""

    step: CallStep
    files: dict[str, bytes]
    moments: tuple[str, ...]
    first: tuple[str, str]
    second: tuple[str, str]
    twice: str

    def wrong(self, outcome: Outcome, found: Found) -> str:
        """What is wrong with the file after this outcome, in words, or nothing. After a definite failure
        it must be as before; after an unknown outcome as before or as after; otherwise as after. A step of
        several transactions may have ended after any of them."""
        if found.refused or found.damage or found.broken:
            return f"after {outcome.word}: {found.refused or found.damage or found.broken[0]}"
        if found.moment not in self.moments:
            return f"after {outcome.word}: the file holds what it never held"
        if self.step.parts == 1 and outcome.word == "failed" and found.moment != self.moments[0]:
            return "after failed: something was written"
        if outcome.word not in ("failed", "unknown") and found.moment != self.moments[-1]:
            return f"after {outcome.word}: not all of it was written"
        return ""

    def made_again(self, found: str, at: SimpleNamespace) -> str:
        """Make the step again on a file in this state. Returns what is wrong, in words. When the file
        holds only a part of a step of several transactions, any outcome is right."""
        ended = ended_as(attempt(self.step.call, at))
        if found not in (self.moments[0], self.moments[-1]):
            return ""
        fresh = found == self.moments[0]
        right = self.first if fresh else self.second
        if ended != right:
            return f"made again, it ended as {' '.join(ended)}, not as {' '.join(right)}"
        if moment(at.store.db) != (self.moments[-1] if fresh else self.twice):
            return "made again, it left another result"
        return ""


def expectations(workload: Workload, setting: Setting) -> Iterator[ExpectedStep]:
    """The workload without failures, step by step."""
    files = _made(workload, setting)
    for step in workload.steps:
        with connected(workload, setting, Disk(files)) as (disk, store, at):
            moments = [moment(store.db)]
            store.failpoint = _noting(moments, store)
            first, after = ended_as(attempt(step.call, at)), disk.files()
            between = moments[1:-1] if step.parts > 1 else []
            moments = [moments[0], *between, moment(store.db)]
            second = ended_as(attempt(step.call, at))
            yield ExpectedStep(step, files, tuple(moments), first, second, moment(store.db))
        files = after


def _noting(moments: list[str], store: Store):
    def failpoint(point: str) -> None:
        if point == "after_commit":
            moments.append(moment(store.db))

    return failpoint


@contextlib.contextmanager
def connected(
    workload: Workload, setting: Setting, disk: Disk
) -> Iterator[tuple[Disk, Store, SimpleNamespace]]:
    """The workload's contracts on the contents of this disk, within the block."""
    from receiptlab.faults.disk import vfs as filesystem

    store = Store(Path(NAME), filesystem.opened(disk, setting), 0)
    try:
        yield disk, store, workload.on(store)
    finally:
        store.close()


def ended_as(outcome: Outcome) -> tuple[str, str]:
    """A call's outcome, for comparison."""
    return outcome.word, outcome.reason


def _made(workload: Workload, setting: Setting) -> dict[str, bytes]:
    """The files of a new database file."""
    from receiptlab.faults.disk import vfs as filesystem

    disk = Disk({NAME: b""})
    with contextlib.closing(filesystem.opened(disk, setting)) as db:
        Store(Path(NAME), db, 0)._fill(workload.schema)
    return disk.files()
