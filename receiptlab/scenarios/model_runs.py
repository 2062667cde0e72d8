"""Each contract and its reference model, given the same calls (H-8)."""

from __future__ import annotations

from receiptlab import models
from receiptlab.experiment.run import Recorder, Run
from receiptlab.outcomes import Outcome, mismatches

SEQUENCES = 5


def models_agree() -> Run:
    """Seeded random sequences of calls on each contract and on a model made of dictionaries (H-8)."""
    title = "the same calls on each contract and its reference model"
    record = Recorder(title, name="models-agree", clauses=("H-8",), contract="models")
    for row in models.run(SEQUENCES):
        answer = {name: row[name] for name in ("seed", "sequences", "calls", "disagreements")}
        expect = {"outcome": "read", "answer": {"sequences": SEQUENCES, "disagreements": 0}}
        wrong = mismatches(expect, "", Outcome("read", answer=answer), ())
        record.add("a seed", row["contract"], None, "read", answer=answer, expect=expect, wrong=wrong)
    return record.run()


SCENARIOS = (models_agree,)
