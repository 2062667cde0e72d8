"""Hypothesis drives a contract and its model: one rule for each call, its arguments drawn from the same place
as in `models.run`, but by a search that looks for what differs and makes it short.

For a longer search with a seed: python -m tests.machines EXAMPLES SEED
"""

import sys

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from receiptlab.faults.seeded import Draw
from receiptlab.models import PAIRS, Disagreement, Pair
from receiptlab.models.calls import draw_step
from receiptlab.models.pair import REOPEN
from receiptlab.models.search import later, shrunk

# It is made short afterwards, by leaving calls out: that is quicker than drawing all of it anew.
BOUNDED = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.generate],
}


class Searched(Draw):
    """Hypothesis says what is drawn."""

    def __init__(self, data):
        self.data = data

    def below(self, limit):
        return self.data.draw(st.integers(0, limit - 1))


class Machine(RuleBasedStateMachine):
    """A pair and its clock. `machine` adds the rules."""

    make = None

    def __init__(self):
        super().__init__()
        self.pair, self.clock = self.make().__enter__(), 0

    def teardown(self):
        self.pair.__exit__()

    def do(self, call, data):
        step = draw_step(self.pair.model, Searched(data), self.clock, call)
        self.pair.step(*step)
        self.clock = later(self.clock, step)


def machine(contract, model, guards=None):
    """The machine of this pair."""

    def of(call):
        return rule(data=st.data())(lambda self, data: self.do(call, data))

    def make(self):
        return Pair(contract, model, guards=guards)

    rules = {f"call_{call}": of(call) for call in (*model.CALLS, REOPEN)}
    return type(f"{model.__name__}Machine", (Machine,), rules | {"make": make})


def search(contract, model, examples, guards=None, start=None, steps=30):
    """Try so many sequences. Raises Disagreement, with a short sequence. Without a seed to start from it tries
    the same ones each time."""
    found = machine(contract, model, guards)
    told = settings(**BOUNDED, max_examples=examples, stateful_step_count=steps, derandomize=start is None)
    try:
        run_state_machine_as_test(found if start is None else seed(start)(found), settings=told)
    except Disagreement as long:
        title = f"contract and model disagree: hypothesis, seed {start}"
        raise shrunk(lambda: Pair(contract, model, title, guards), long) from None


if __name__ == "__main__":
    for name, (contract, model) in PAIRS.items():
        search(contract, model, int(sys.argv[1]), start=int(sys.argv[2]))
        print(f"{name}: agreed in {sys.argv[1]} examples, seed {sys.argv[2]}")
