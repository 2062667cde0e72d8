"""Who goes on next: every choice in its turn, or the choices of an order that is given."""

from __future__ import annotations

from collections.abc import Sequence

from receiptlab.interleaving.findings import NotRepeatable, WrongInterleaving
from receiptlab.interleaving.stepper import Player


class Path:
    """The choices of one order, and which of them are still to be made otherwise."""

    def __init__(self) -> None:
        self.points: list[tuple[tuple[str, ...], int]] = []
        """For each step who could go on with which statement, and the number of the one who did."""

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
        """Choose otherwise at the last point where that is possible. False when there is none left."""
        while self.points:
            able, chosen = self.points.pop()
            if chosen + 1 < len(able):
                self.points.append((able, chosen + 1))
                return True
        return False


class Given:
    """The choices as an order in letters has them."""

    def __init__(self, interleaving: str, players: Sequence[Player]) -> None:
        known = "".join(player.letter for player in players)
        for letter in interleaving:
            if letter not in known:
                raise WrongInterleaving(
                    f"unknown letter {letter!r} in the order; the callers are {', '.join(known)}"
                )
        self.interleaving = interleaving

    def __call__(self, step: int, able: list[Player]) -> Player:
        can = " or ".join(player.letter for player in able)
        if step == len(self.interleaving):
            raise WrongInterleaving(
                f"{self.interleaving or 'the interleaving'} is too short: {can} still has to go on"
            )
        for player in able:
            if player.letter == self.interleaving[step]:
                return player
        raise WrongInterleaving(
            f"{self.interleaving} does not fit: at step {step + 1} it is {can} who can go on"
        )
