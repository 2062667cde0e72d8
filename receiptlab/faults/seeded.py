"""Numbers that look drawn and are counted: the same seed gives the same ones, on every machine.

Nothing in the package asks a clock or a generator of the system. What is to be varied is taken from here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

Each = TypeVar("Each")


class Draw:
    """What can be drawn. A subclass says where the numbers come from: `below`."""

    def below(self, limit: int) -> int:
        """An integer from 0 to limit - 1."""
        raise NotImplementedError

    def among(self, choices: Sequence[Each]) -> Each:
        """One of these. What stands first is the simplest: a search for a shorter example prefers it."""
        return choices[self.below(len(choices))]

    def chance(self, times: int) -> bool:
        """True once in so many times."""
        return self.below(times) == times - 1


class Hashed(Draw):
    """Draws from the SHA-256 of a seed and a counter."""

    def __init__(self, *seed: object) -> None:
        self.seed = " ".join(map(str, seed))
        self.drawn = 0
        self.left = 0

    def below(self, limit: int) -> int:
        """An integer from 0 to limit - 1. It is a little uneven, as any remainder is; nobody minds here."""
        if self.left < 2**32:
            told = f"{self.seed} {self.drawn}".encode()
            self.left, self.drawn = int.from_bytes(hashlib.sha256(told).digest(), "big"), self.drawn + 1
        self.left, number = divmod(self.left, limit)
        return number
