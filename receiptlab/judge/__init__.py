"""Says whether an answer to an exercise is right: `done`, or `not yet` and what is wrong, at which step.

The contract's own cases are the judge, so an answer is right when it keeps what the contract promises,
in whatever words it does so. Every check prints one line and raises nothing for a wrong answer. What is
not filled in yet is `...`.
"""

from receiptlab.judge.answers import predicted, same
from receiptlab.judge.building import guard, guards
from receiptlab.judge.cases import changed, like, notices, read, tell
from receiptlab.judge.recovery import ends_in, recovers, restores

__all__ = [
    "changed",
    "ends_in",
    "guard",
    "guards",
    "like",
    "notices",
    "predicted",
    "read",
    "recovers",
    "restores",
    "same",
    "tell",
]
