"""Each scenario is a test; the counterexamples must go on breaking, in the same way."""

import pytest

from receiptlab.contracts.owner import Owner
from receiptlab.experiment.experiment import Experiment
from receiptlab.experiment.run import Recorder
from receiptlab.scenarios import SCENARIOS
from receiptlab.scenarios import counterexamples as going_wrong
from receiptlab.scenarios import threads as at_once
from tests.runs import all_runs


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_scenario_comes_out_as_it_says(scenario):
    [run] = [run for run in all_runs() if run.name == scenario.__name__.replace("_", "-")]
    assert [step.wrong for step in run.steps if step.wrong] == []
    assert run.clauses


WITNESS = {
    "two-transactions": ("duplicated", (2, 1, 1)),
    "send-after-commit": ("lost", (1, 1, 0)),
    "no-key": ("duplicated", (2, 0, 2)),
    "look-then-write": ("duplicated", (2, 2, 2)),
    "key-alone": ("lost", (1, 1, 1)),
    "lease-checked-by-the-worker": ("overwritten", (2, 0, 2)),
    "receipt-before-authority": ("disclosed", (1, 1, 1)),
}


@pytest.mark.parametrize("scenario", going_wrong.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_counterexample_breaks_with_its_witness(scenario):
    run = scenario()
    assert run.kind == "breaks"
    assert (run.last.anomaly, run.last.counts) == WITNESS[run.name]


def test_every_witness_has_a_counterexample():
    assert {scenario.__name__.replace("_", "-") for scenario in going_wrong.SCENARIOS} == set(WITNESS)


@pytest.mark.parametrize("scenario", [*at_once.SCENARIOS, going_wrong.look_then_write])
def test_a_scenario_gives_the_same_run_each_time(scenario):
    first = scenario().to_dict()
    assert all(scenario().to_dict() == first for _ in range(10))


def test_no_two_counts_of_a_run_have_one_name():
    """A table would keep the last of them."""
    with pytest.raises(ValueError, match="two counts have one name: effects, effects"):
        Recorder("two of them", count_names=("effects", "effects"))
    assert [run.name for run in all_runs() if len(set(run.count_names)) < len(run.count_names)] == []


def test_a_fault_of_a_scenario_that_never_strikes_is_not_as_expected():
    lab = Experiment(Owner, "a fault that strikes nothing", name="fault", clauses="O-1")
    step = lab.step("operator", "counts", None, lab.observer.counted, fault="no_such_point")
    assert lab.run.last == step
    assert step.wrong == ("fault no_such_point: it never struck",)
