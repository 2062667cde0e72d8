"""The results of an exploration, as plain data. `explorer` makes them."""

from __future__ import annotations

from dataclasses import dataclass

from receiptlab.errors import LabError

SERIALIZABLE, BUSY, DUPLICATED, WRONG, DEADLOCK = "serializable", "busy", "duplicated", "wrong", "deadlock"
VERDICTS = (SERIALIZABLE, BUSY, DUPLICATED, WRONG, DEADLOCK)
"""The verdicts on an interleaving.

serializable  it ended as some serial order would, or as the judge allows
busy          a caller ended with a lock error, and nothing else went wrong
duplicated    an effect happened twice
wrong         it ended in any other way
deadlock      every unfinished caller was waiting
"""

Outcomes = tuple[tuple[str, str], ...]


class WrongInterleaving(LabError):
    """An interleaving can't be run: it has an unknown letter, or a caller that can't continue at that
    step."""


class TooManyInterleavings(LabError):
    """There are more interleavings than the limit. There is no result for those that were run."""


class NotRepeatable(LabError):
    """The same choices led to other statements. A caller depends on something other than the file."""


@dataclass(frozen=True)
class Interleaving:
    """One interleaving: which caller ran at each step, how each call ended (word and reason, in the order
    of the letters; waiting when it never ended), and the counts. `waits` counts the steps at which a
    caller found the file locked. `met` is true when a caller ran while another one was inside a
    transaction."""

    interleaving: str
    outcomes: Outcomes
    counts: tuple[int, ...]
    verdict: str
    waits: int
    met: bool


@dataclass(frozen=True)
class Explored:
    """Every interleaving of these callers."""

    name: str
    contract: str
    callers: tuple[str, ...]
    count_names: tuple[str, ...]
    interleavings: tuple[Interleaving, ...]

    @property
    def classes(self) -> dict[str, int]:
        """The number of interleavings with each verdict, including those with none."""
        verdicts = [interleaving.verdict for interleaving in self.interleavings]
        return {verdict: verdicts.count(verdict) for verdict in VERDICTS}

    @property
    def witnesses(self) -> dict[str, Interleaving]:
        """The first interleaving with each verdict that occurs."""
        first: dict[str, Interleaving] = {}
        for interleaving in self.interleavings:
            first.setdefault(interleaving.verdict, interleaving)
        return {verdict: first[verdict] for verdict in VERDICTS if verdict in first}

    @property
    def vacuous(self) -> bool:
        """True when no caller ever ran while another one was inside a transaction: nothing was tested."""
        return not any(interleaving.met for interleaving in self.interleavings)

    @property
    def clean(self) -> bool:
        """True when every interleaving is serializable and the callers met."""
        return not self.vacuous and set(self.witnesses) == {SERIALIZABLE}

    def endings(self) -> list[tuple[str, Outcomes, tuple[int, ...], int, str]]:
        """One row per ending: (verdict, outcomes, counts, number of interleavings, the first of them)."""
        found: dict[tuple, list[str]] = {}
        for each in self.interleavings:
            found.setdefault((each.verdict, each.outcomes, each.counts), []).append(each.interleaving)
        rows = [(*ending, len(interleavings), interleavings[0]) for ending, interleavings in found.items()]
        return sorted(rows, key=lambda row: VERDICTS.index(row[0]))
