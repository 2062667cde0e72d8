"""Says whether an answer to an exercise is right: `done`, or `not yet` and what is wrong, at which step.

The contract's own cases are the judge, so an answer is right when it keeps what the contract promises,
in whatever words it does so. Every check prints one line and raises nothing for a wrong answer. What is
not filled in yet is `...`.
"""

from receiptlab.exercises.answers import finds, predicted, same
from receiptlab.exercises.case_answers import changed, like, notices, read, print_calls, tells_apart
from receiptlab.exercises.guard_answers import guard, guarded, guards
from receiptlab.exercises.interleaving_answers import ends_in, in_every_interleaving
from receiptlab.exercises.naive_answers import at_once, cut_off
from receiptlab.exercises.recovery_answers import recovers, restores
from receiptlab.exercises.settling_answers import settles

__all__ = [
    "at_once",
    "changed",
    "cut_off",
    "ends_in",
    "finds",
    "guard",
    "guarded",
    "guards",
    "in_every_interleaving",
    "like",
    "notices",
    "predicted",
    "read",
    "recovers",
    "restores",
    "same",
    "settles",
    "print_calls",
    "tells_apart",
]
