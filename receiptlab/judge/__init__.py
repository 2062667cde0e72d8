"""Says whether an answer to an exercise is right: `done`, or `not yet` and what is wrong, at which step.

The contract's own cases are the judge, so an answer is right when it keeps what the contract promises,
in whatever words it does so. Every check prints one line and raises nothing for a wrong answer. What is
not filled in yet is `...`.
"""

from receiptlab.judge.answers import finds, predicted, same
from receiptlab.judge.building import guard, guarded, guards
from receiptlab.judge.cases import changed, like, notices, read, tell, tells_apart
from receiptlab.judge.interleaving import ends_in, in_every_order
from receiptlab.judge.mending import at_once, cut_off
from receiptlab.judge.recovery import recovers, restores
from receiptlab.judge.settling import settles

__all__ = [
    "at_once",
    "changed",
    "cut_off",
    "ends_in",
    "finds",
    "guard",
    "guarded",
    "guards",
    "in_every_order",
    "like",
    "notices",
    "predicted",
    "read",
    "recovers",
    "restores",
    "same",
    "settles",
    "tell",
    "tells_apart",
]
