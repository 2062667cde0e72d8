"""Checks the answers to the exercises: prints `done`, or `not yet` with what is wrong and at which step.

An answer is right when the contract's own cases hold with it, however it is written. Every check prints one
line and raises nothing for a wrong answer. A gap that is not filled in yet is `...`.
"""

from receiptlab.exercises.answers import finds, predicted, same
from receiptlab.exercises.case_answers import changed, like, notices, print_calls, read, tells_apart
from receiptlab.exercises.guard_answers import guard, guarded, guards
from receiptlab.exercises.interleaving_answers import ends_in, in_every_interleaving
from receiptlab.exercises.naive_answers import at_once, cut_off
from receiptlab.exercises.recovery_answers import recovers, restores
from receiptlab.exercises.settling_answers import settles

__all__ = ["finds", "predicted", "same"]
__all__ += ["changed", "like", "notices", "print_calls", "read", "tells_apart"]
__all__ += ["guard", "guarded", "guards"]
__all__ += ["ends_in", "in_every_interleaving"]
__all__ += ["at_once", "cut_off"]
__all__ += ["recovers", "restores", "settles"]
