"""Deterministic pseudo-random numbers: the same seed gives the same numbers on every machine.

Nothing else in the package uses a clock or a random generator. Everything that varies takes its values
from here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

Each = TypeVar("Each")


class Draw:
    """A source of random choices. A subclass provides the numbers: `below`."""

    def below(self, limit: int) -> int:
        """An integer from 0 to limit - 1."""
        raise NotImplementedError

    def among(self, choices: Sequence[Each]) -> Each:
        """One of these options. Put the simplest one first: a search for a shorter example prefers it."""
        return choices[self.below(len(choices))]

    def chance(self, times: int) -> bool:
        """True once in this many times."""
        return self.below(times) == times - 1


class Hashed(Draw):
    """Numbers from the SHA-256 of a seed and a counter."""

    def __init__(self, *seed: object) -> None:
        self.seed = " ".join(map(str, seed))
        self.drawn = 0
        self.left = 0

    def below(self, limit: int) -> int:
        """An integer from 0 to limit - 1. Slightly uneven, as any remainder is, which doesn't matter here."""
        if self.left < 2**32:
            counted = f"{self.seed} {self.drawn}".encode()
            self.left, self.drawn = int.from_bytes(hashlib.sha256(counted).digest(), "big"), self.drawn + 1
        self.left, number = divmod(self.left, limit)
        return number
