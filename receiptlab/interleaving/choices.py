"""Which caller runs next: every choice in turn, or the choices of a given interleaving."""

from __future__ import annotations

from collections.abc import Sequence

from receiptlab.interleaving.findings import NotRepeatable, WrongInterleaving
from receiptlab.interleaving.stepper import Player


class Path:
    """The choices of one interleaving, and the alternatives that are still untried."""

    def __init__(self) -> None:
        self.points: list[tuple[tuple[str, ...], int]] = []
        """For each step, the callers that could continue with their statements, and the index of the one
        that did."""

    def __call__(self, step: int, able: list[Player]) -> Player:
        here = tuple(player.letter + player.pending for player in able)
        if step == len(self.points):
            self.points.append((here, 0))
        known, chosen = self.points[step]
        if known != here:
            interleaving = "".join(point[number][0] for point, number in self.points[:step])
            raise NotRepeatable(f"after {interleaving or 'no step'} it was {known}, and now it is {here}")
        return able[chosen]

    def turn(self) -> bool:
        """Take the next alternative at the last step that has one. False when there is none left."""
        while self.points:
            able, chosen = self.points.pop()
            if chosen + 1 < len(able):
                self.points.append((able, chosen + 1))
                return True
        return False


class Given:
    """The choices of an interleaving that is given as letters."""

    def __init__(self, interleaving: str, players: Sequence[Player]) -> None:
        known = "".join(player.letter for player in players)
        for letter in interleaving:
            if letter not in known:
                raise WrongInterleaving(
                    f"unknown letter {letter!r} in the interleaving; the callers are {', '.join(known)}"
                )
        self.interleaving = interleaving

    def __call__(self, step: int, able: list[Player]) -> Player:
        can = " or ".join(player.letter for player in able)
        if step == len(self.interleaving):
            raise WrongInterleaving(
                f"{self.interleaving or 'the interleaving'} is too short: {can} still has to continue"
            )
        for player in able:
            if player.letter == self.interleaving[step]:
                return player
        raise WrongInterleaving(
            f"{self.interleaving} does not fit: at step {step + 1} only {can} can continue"
        )
