"""The crash states that a power cut can leave, built from the log of a disk (for H-4). Standard library only.

The model: everything before a file's last completed sync is on the disk. Of each later write and truncate,
the disk has all, nothing, or some of its sectors of 512 bytes, in any combination, because they can reach
the disk in any order. A name that was created or deleted since the last sync of the folder leads to the
old file, to no file, or to the new one. A write damages no byte outside it, and a sector is old or new,
never a mixture.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from receiptlab.faults.disk.log import CHANGES, Event, apply

SECTOR = 512


class Plan(NamedTuple):
    """The number of states built at each point. Always: everything kept, nothing kept, and each unsynced
    write lost by itself. In addition, `random` subsets; each write torn in `torn` ways, with the others
    and without those after it; and with `alone`, each write kept by itself. With more than `recent`
    unsynced writes, only the latest are used."""

    random: int
    torn: int
    alone: bool
    recent: int


class Kept(NamedTuple):
    """One unsynced write, and the parts of its data that are on the disk: None means all of them."""

    event: Event
    parts: tuple[tuple[int, int], ...] | None

    @property
    def whole(self) -> bool:
        return self.parts is None


class State(NamedTuple):
    """The files by name, as the power cut leaves them, and what was lost, in words."""

    files: dict[str, bytes]
    lost: tuple[str, ...]


class Past:
    """Everything up to one point of the log: what is certainly on the disk, and what is not synced."""

    def __init__(self) -> None:
        self.durable: dict[int, bytearray] = {}
        self.pending: list[Event] = []
        self.names: dict[str, list[int | None]] = {}
        """For each name, the files it may lead to. The last one is what the running system sees."""

    def add(self, event: Event) -> None:
        """Add one entry of the log."""
        if event.kind in CHANGES:
            self.pending.append(event)
        elif event.kind == "sync":
            self._settle(event.file)
        elif event.kind == "create":
            self.durable[event.file] = bytearray()
            self.names.setdefault(event.name, [None]).append(event.file)
        elif event.kind == "delete":
            self.names[event.name].append(None)
        elif event.kind == "folder-sync":
            self.names = {name: files[-1:] for name, files in self.names.items() if files[-1] is not None}

    def states(self, plan: Plan, seed: str) -> Iterator[State]:
        """The states that a power cut at this point can leave, according to the plan. Some can be equal."""
        folders = [
            dict(zip(self.names, files, strict=True)) for files in itertools.product(*self.names.values())
        ]
        for kept in _choices(self.pending, plan, seed):
            contents = self._contents(kept)
            lost = tuple(_words(each) for each in kept if not each.whole)
            for names in folders:
                files = {name: contents[file] for name, file in sorted(names.items()) if file is not None}
                yield State(files, lost + self._undone(names))

    def _settle(self, file: int) -> None:
        for event in self.pending:
            if event.file == file:
                apply(self.durable[file], event)
        self.pending = [event for event in self.pending if event.file != file]

    def _contents(self, kept: list[Kept]) -> dict[int, bytes]:
        changed = {event.file: bytearray(self.durable[event.file]) for event in self.pending}
        for event, parts in kept:
            if event.kind == "write" or parts is None:
                apply(changed[event.file], event, parts)
        bound = {file for files in self.names.values() for file in files if file is not None}
        return {file: bytes(changed.get(file, self.durable[file])) for file in bound}

    def _undone(self, names: dict[str, int | None]) -> tuple[str, ...]:
        return tuple(
            f"creation of {name}" if names[name] is None else f"deletion of {name}"
            for name, files in self.names.items()
            if names[name] != files[-1]
        )


def sectors(event: Event) -> list[tuple[int, int]]:
    """The sectors that a write covers, as pairs of start and end within its data."""
    end = event.at + len(event.data)
    edges = [event.at, *range((event.at // SECTOR + 1) * SECTOR, end, SECTOR), end]
    return [(a - event.at, b - event.at) for a, b in itertools.pairwise(edges)]


def _choices(pending: list[Event], plan: Plan, seed: str) -> Iterator[list[Kept]]:
    whole, none = [Kept(event, None) for event in pending], [Kept(event, ()) for event in pending]
    yield whole
    yield none
    for number in range(max(0, len(pending) - plan.recent), len(pending)):
        yield [*whole[:number], none[number], *whole[number + 1 :]]
        if plan.alone:
            yield [*none[:number], whole[number], *none[number + 1 :]]
        for torn in _torn(pending[number], plan.torn, f"{seed} {number}"):
            yield [*whole[:number], torn, *whole[number + 1 :]]
            yield [*whole[:number], torn, *none[number + 1 :]]
    for number in range(plan.random if len(pending) > 1 else 0):
        yield [_drawn(event, f"{seed} {number} {place}") for place, event in enumerate(pending)]


def _torn(event: Event, ways: int, seed: str) -> Iterable[Kept]:
    """The write with some of its sectors, in this many variants."""
    each = sectors(event) if event.kind == "write" else []
    if len(each) < 2:
        return []
    return [Kept(event, tuple(_some(each, f"{seed} torn {number}"))) for number in range(ways)]


def _drawn(event: Event, seed: str) -> Kept:
    """Kept, lost or torn, determined only by the seed."""
    fate = _numbers(seed, 1)[0] % 5
    if fate < 2 or (fate == 4 and event.kind != "write"):
        return Kept(event, None)
    return Kept(event, () if fate < 4 else tuple(_some(sectors(event), seed)))


def _some(each: list[tuple[int, int]], seed: str) -> list[tuple[int, int]]:
    return [part for part, number in zip(each, _numbers(seed, len(each)), strict=True) if number % 2]


def _numbers(seed: str, count: int) -> bytes:
    """This many numbers below 256, determined only by the seed."""
    return hashlib.shake_256(seed.encode()).digest(count)


def _words(kept: Kept) -> str:
    return f"part of the {kept.event}" if kept.parts else str(kept.event)
