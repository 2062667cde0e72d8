"""What came of the interleavings that were explored, as plain data. `explorer` makes it."""

from __future__ import annotations

from dataclasses import dataclass

from receiptlab.errors import LabError

SERIALIZABLE, BUSY, DUPLICATED, WRONG, DEADLOCK = "serializable", "busy", "duplicated", "wrong", "deadlock"
VERDICTS = (SERIALIZABLE, BUSY, DUPLICATED, WRONG, DEADLOCK)
"""What an order comes to.

safe       it ended as it should
busy       a caller ended in a lock error; nothing else went wrong
duplicated    an effect happened twice
wrong      it ended in another way than it may
deadlock   every caller that was not at its end waited
"""

Outcomes = tuple[tuple[str, str], ...]


class WrongInterleaving(LabError):
    """An order cannot be run: it has an unknown letter, or names somebody who cannot go on there."""


class TooManyInterleavings(LabError):
    """There are more interleavings than the limit. Nothing is said of those that were run."""


class NotRepeatable(LabError):
    """The same choices came to another place. A caller depends on something other than the file."""


@dataclass(frozen=True)
class Interleaving:
    """One order that was run: who was next at each step, how each call ended (word and reason, in the order
    of the letters; waiting where it never ended), and what is in the file. `waits` counts the steps at which
    somebody found the file locked; `met` says whether one came while another was inside a transaction."""

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
        """How many interleavings came to each verdict; all verdicts are named."""
        verdicts = [interleaving.verdict for interleaving in self.interleavings]
        return {verdict: verdicts.count(verdict) for verdict in VERDICTS}

    @property
    def witnesses(self) -> dict[str, Interleaving]:
        """The first order of each verdict that occurs."""
        first: dict[str, Interleaving] = {}
        for interleaving in self.interleavings:
            first.setdefault(interleaving.verdict, interleaving)
        return {verdict: first[verdict] for verdict in VERDICTS if verdict in first}

    @property
    def vacuous(self) -> bool:
        """True when in no order one came while another was inside a transaction: nothing was tried."""
        return not any(interleaving.met for interleaving in self.interleavings)

    @property
    def clean(self) -> bool:
        """True when every interleaving is safe and the callers truly met."""
        return not self.vacuous and set(self.witnesses) == {SERIALIZABLE}

    def endings(self) -> list[tuple[str, Outcomes, tuple[int, ...], int, str]]:
        """(verdict, outcomes, counts, how many interleavings, the first of them), a row each ending."""
        found: dict[tuple, list[str]] = {}
        for each in self.interleavings:
            found.setdefault((each.verdict, each.outcomes, each.counts), []).append(each.interleaving)
        rows = [(*ending, len(interleavings), interleavings[0]) for ending, interleavings in found.items()]
        return sorted(rows, key=lambda row: VERDICTS.index(row[0]))
