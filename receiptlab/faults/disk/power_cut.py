"""A power cut (H-4). Needs apsw, the extra `hazards`.

Every write, truncate, sync, creation and deletion of a contract's workload is recorded. After each of them,
the states that a power cut could leave are built (`crash_states` has the model), written out as real files,
and reopened with the SQLite of the standard library.

This proves, for the workloads of `workloads` and this model: every acknowledged call is there, every other
call is there completely or not at all, the file is intact, and what was erased stays erased. The same states
under weaker settings show what each sync is for.

It proves nothing about a disk that loses synced data, damages other sectors than it writes, or leaves a
sector half written, nor about a file system whose sync doesn't sync, nor about two connections (see
`vfs`). Many states are tried, but not all.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from receiptlab.faults.disk import reopening
from receiptlab.faults.disk.crash_states import Past, Plan, State
from receiptlab.faults.disk.log import Event
from receiptlab.faults.disk.recorder import ACKNOWLEDGED, BEGUN, COMMITTED, ProvesNothing, Recording
from receiptlab.faults.disk.reopening import Found
from receiptlab.faults.disk.workloads import Workload, lives

SEED = "power cut 1"
PLANS = {"small": Plan(2, 0, False, 1_000), "full": Plan(6, 1, True, 1_000)}
UNSYNCED = 12
"""Without syncs, the number of unsynced writes keeps growing. Only this many of the latest are lost one by
one."""

HOLDS = (("wal", "full", 8), ("wal", "full"), ("delete", "extra"))
BREAKS = (("delete", "full"), ("wal", "normal", 8), ("wal", "off", 8))
VERDICTS = ("kept", "lost", "damaged", "half", "back")
"""The verdicts on a crash state: intact; an acknowledged call is missing; the file is damaged; a call is
there in part, or contents that never existed; erased bytes are there again."""


class Place(NamedTuple):
    """What was acknowledged, committed and in progress at a point of the log."""

    point: int = 0
    acknowledged: int = -1
    committed: int = 0
    step: int = -1


class Verdict(NamedTuple):
    word: str
    why: str = ""


class CrashStateCount:
    """The result of one recording: the number of states with each verdict, and the smallest witness."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.counts: Counter[str] = Counter()
        self.witness: tuple = ()
        self.points = 0
        self._found: dict[bytes, Found] = {}
        self._judged: set[tuple] = set()

    @property
    def states(self) -> int:
        """The number of different states that were opened."""
        return len(self._found)

    def take(self, state: State, place: Place, where: Path) -> None:
        """Open the state unless an equal one was opened, and judge it unless it was judged at an equal
        place."""
        key = _digest(state.files)
        gone = [each for after, each in self.recording.gone_after if place.point >= after]
        judged = (key, *place[1:3], len(gone))
        if judged in self._judged:
            return
        self._judged.add(judged)
        if key not in self._found:
            path = reopening.lay(state.files, where)
            database_file = self.recording.setting.journal == "wal"
            self._found[key] = reopening.look(path, self.recording.workload.rules, database_file)
        verdict = judge(self._found[key], state.files, place, gone, self.recording)
        self.counts[verdict.word] += 1
        size = (len(state.lost), place.point, state.lost)
        if verdict.word != "kept" and (not self.witness or size < self.witness[0]):
            self.witness = (size, self._tell(state, place, verdict))

    def row(self) -> dict[str, object]:
        """The result as plain data."""
        counts = {word: self.counts[word] for word in VERDICTS}
        judged = sum(counts.values())
        return {
            "hazard": "power cut",
            "contract": self.recording.workload.name,
            "setting": str(self.recording.setting),
            "calls": len(self.recording.workload.steps),
            "points": self.points,
            "states": self.states,
            "judged": judged,
            **counts,
            "violations": judged - counts["kept"],
            "witness": self.witness[1] if self.witness else "",
        }

    def _tell(self, state: State, place: Place, verdict: Verdict) -> str:
        steps, events = self.recording.workload.steps, self.recording.events
        call = "the creation of the file"
        if place.step >= 0:
            call = f"call {place.step + 1}, {steps[place.step].name}"
        lost, more = "; ".join(state.lost[:3]) or "nothing", len(state.lost) - 3
        lost += f"; and {more} more" if more > 0 else ""
        after = _last(events[: place.point])
        return f"{verdict.word}: {verdict.why}. In {call}, after: {after}. Lost: {lost}."


def run(
    size: str = "small",
    progress: Callable[[int, int], None] | None = None,
    settings: Iterable[tuple] = HOLDS + BREAKS,
    of: Iterable[Workload] | None = None,
) -> list[dict[str, object]]:
    """Cut the power at every point of every workload, under every setting. `size` is small or full.

    Returns one row for each contract and setting. Raises ProvesNothing when a listed call wrote nothing,
    or when no state differs from the final one.
    """
    from receiptlab.faults.disk.vfs import Setting

    plan = PLANS[size]
    pairs = [(workload, Setting(*each)) for each in settings for workload in (lives() if of is None else of)]
    rows = []
    for number, (workload, setting) in enumerate(pairs):
        if progress:
            progress(number, len(pairs))
        fitting = plan._replace(recent=UNSYNCED) if setting.synchronous == "off" else plan
        rows.append(cut(Recording(workload, setting).live(), fitting).row())
    if progress:
        progress(len(pairs), len(pairs))
    return rows


def cut(recording: Recording, plan: Plan) -> CrashStateCount:
    """Build, open and judge the states at every point of the recording."""
    tally, past, place = CrashStateCount(recording), Past(), Place()
    with reopening.folder() as where:
        for number, event in enumerate(recording.events, 1):
            past.add(event)
            place = _further(place, event, number)
            tally.points += event.kind != "mark"
            for state in past.states(plan, f"{SEED} {recording.workload.name} {recording.setting} {number}"):
                tally.take(state, place, where)
    if tally.states < 2:
        raise ProvesNothing(f"{recording.workload.name}: no state differs from the final one")
    return tally


def judge(found: Found, files: dict[str, bytes], place: Place, gone: list[bytes], of: Recording) -> Verdict:
    """The verdict on a state at this place of this recording."""
    if any(each in content for each in gone for content in files.values()):
        return Verdict("back", "erased bytes are in a file after the scrub was acknowledged")
    if found.refused or found.damage:
        if place.acknowledged < 0 and not found.damage:
            return Verdict("kept")  # nobody knows yet that the file exists
        missing = found.refused in ("missing", "empty")
        return Verdict("lost" if missing else "damaged", found.refused or found.damage)
    if found.broken:
        return Verdict("half", found.broken[0])
    at = [number for number, each in enumerate(of.moments) if each == found.moment]
    if any(place.acknowledged <= each <= place.committed + 1 and each not in of.half for each in at):
        return Verdict("kept")
    if any(each < place.acknowledged for each in at):
        return Verdict("lost", "an acknowledged call is missing")
    return Verdict("half", "one part of a call is there" if at else "the file holds what it never held")


def _further(place: Place, event: Event, point: int) -> Place:
    place = place._replace(point=point)
    if event.kind != "mark":
        return place
    field = {ACKNOWLEDGED: "acknowledged", COMMITTED: "committed", BEGUN: "step"}[event.name]
    return place._replace(**{field: event.at})


def _last(events: list[Event]) -> str:
    done = [str(event) for event in events if event.kind != "mark" or event.name == ACKNOWLEDGED]
    return done[-1].replace("mark ", "it was ") if done else "nothing"


def _digest(files: dict[str, bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for name, content in files.items():
        digest.update(f"{name} {len(content)} ".encode() + content)
    return digest.digest()
