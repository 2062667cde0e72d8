"""Experiments: calls by actors, what fills in their arguments, faults, and the case of the same title."""

import gc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import receiptlab
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.owner import Owner, Receipt, WorkLease
from receiptlab.contracts.receiver import Receiver
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.contracts.work.work import Work
from receiptlab.experiment.case_file import CaseError
from receiptlab.experiment.experiment import Experiment, NothingStruck
from receiptlab.experiment.library import load, own_cases
from receiptlab.faults.ablation import without
from receiptlab.faults.processes.children import environment
from receiptlab.outcomes import Outcome
from receiptlab.values import sha256

MUG = {"scope": "shop", "work": "order-17"}
CONSTANT = {"revision": 1, "epoch": 1, "policy": "policy-1"}


@pytest.fixture
def lab():
    with Experiment(Owner, "a worker sleeps", **CONSTANT) as lab:
        [operator] = lab.actors("operator")
        operator.add(MUG, now=0)
        yield lab


@pytest.fixture
def claimed(lab):
    """Two actors with a claim each; the second one counts."""
    a, b = lab.actors("worker-a", "worker-b")
    return a, a.claim(MUG, now=100, until=160), b, b.claim(MUG, now=200, until=260)


def test_calls_are_recorded_with_what_came_out_and_raise_nothing(lab, claimed):
    a, old, b, new = claimed
    late = a.accept(old, key="key-1", result="printed by a", now=210)
    assert (late.word, late.reason) == ("refused", "fence")
    receipt = b.accept(new, key="key-2", result="printed by b", now=220)
    assert type(receipt) is Receipt and receipt.result_digest == sha256("printed by b")
    assert lab.outcomes == [*["accepted"] * 3, "refused: fence", "accepted"]
    last = lab.run.last
    assert (last.actor, last.call, last.now, last.counts) == ("worker-b", "accept", 220, (1, 1, 1))
    assert last.args["fence"] == 2 and last.args["policy"] == "policy-1"
    assert {change.table for change in last.changes} == {"work", "receipt", "outbox"}


def test_arguments_by_name_win_over_an_earlier_answer_and_that_over_constants(lab, claimed):
    a, old, _, new = claimed
    a.accept(old, new, key="key-1", result="x", now=1)
    assert lab.run.last.args["fence"] == new.fence
    a.accept(new, fence=7, epoch=3, key="key-1", result="x", now=1)
    assert [lab.run.last.args[name] for name in ("fence", "epoch", "actor")] == [7, 3, "worker-a"]


def test_an_earlier_claim_never_lends_its_holder(lab, claimed):
    a, _, _, of_b = claimed
    assert a.accept(of_b, key="key-1", result="x", now=210).reason == "holder"
    assert WorkLease("shop", "order-17", "worker-b", 2, 260) == of_b


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.acept, r"Owner has no call 'acept'; its calls are add, claim, accept, "),
        (
            lambda a: a.accept(MUG, now=1),
            r"accept still needs key, fence, result_digest; it takes scope, work, ",
        ),
        (
            lambda a: a.accept(MUG, key="k", fences=1),
            r"accept has no argument fences; it takes scope, work, ",
        ),
        (lambda a: a.claim("shop", now=1, until=2), r"claim: give arguments by name, .* not 'shop'"),
        (lambda a: a.claim(WorkLease, now=1, until=2), r"claim: give arguments by name, "),
        (
            lambda a: a.accept(Outcome("refused", "busy", message="busy: held"), key="k", now=1),
            r"accept: an earlier call has no answer to pass on, because it ended as <refused: busy: held>",
        ),
        (
            lambda a: a.accept(MUG, key="k", fence=1, result="x", result_digest="0" * 64, now=1),
            r"accept: give result or result_digest, not both",
        ),
    ],
)
def test_a_call_that_is_written_wrongly_is_an_error_of_the_cell(lab, call, message):
    [a] = lab.actors("worker-a")
    steps = len(lab.run.steps)
    with pytest.raises((AttributeError, TypeError), match=message):
        call(a)
    assert len(lab.run.steps) == steps


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Experiment("Owner", "t"), "needs a contract's class first, such as Owner; not 'Owner'"),
        (lambda: Experiment(Owner, "t", scoop="shop"), "no call of Owner has an argument scoop"),
        (
            lambda: Experiment(Owner, "t").actors("a", "a"),
            "give each actor its own name, as a text; not 'a', 'a'",
        ),
        (lambda: Experiment(Owner, "t").actors(["a", "b"]), "as a text; not ['a', 'b']"),
        (lambda: Experiment(Owner, "t").call("a", "get", {}, fault="zzz"), "Owner has no failpoint 'zzz'"),
    ],
)
def test_an_experiment_that_is_set_up_wrongly_is_an_error_of_the_cell(make, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        make()


def test_an_experiment_shows_its_title_and_draws_a_time_that_is_none():
    lab = Experiment(Owner, "a wrong time", scope="s", work="w", revision=1, epoch=1, policy="p")
    [a] = lab.actors("a")
    a.add(now=0)
    assert a.claim(now="1", until=2).word == "invalid"
    assert repr(lab) == "<experiment 'a wrong time', 2 steps>"
    assert "invalid argument: now" in lab.timeline().svg


def test_faults_are_not_nested(lab):
    with (
        pytest.raises(ValueError, match="one fault at a time"),
        lab.answer_lost(),
        lab.crash("after receipt"),
    ):
        pass


def test_an_actor_knows_its_calls_and_their_help():
    [actor] = Experiment(Owner, "help").actors("worker-a")
    assert {"accept", "claim", "reopen", "runs"} <= set(dir(actor))
    assert actor.accept.__doc__ == Owner.accept.__doc__
    assert repr(actor) == "<actor worker-a>"


def test_a_lost_answer_is_lost_after_the_commit(lab, claimed):
    _, _, b, new = claimed
    with lab.answer_lost():
        assert b.accept(new, key="key-2", result="x", now=220).word == "unknown"
    assert b.accept(new, key="key-2", result="x", now=230).outcome == "replayed"
    assert lab.run.steps[-2].fault == "after_commit" and lab.run.last.fault == ""


def test_a_crash_or_a_failing_statement_leaves_nothing(lab, claimed):
    _, _, b, new = claimed
    with lab.crash("after receipt"):
        assert b.accept(new, key="key-2", result="x", now=220).reason == "after_receipt"
    with lab.failing("outbox"):
        assert b.accept(new, key="key-2", result="x", now=221).word == "failed"
    assert lab.run.last.counts == (0, 0, 0)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (
            lambda lab: lab.crash("after lunch"),
            "Owner has no failpoint 'after lunch'; it has before commit, ",
        ),
        (lambda lab: lab.failing("table"), "tables are work, receipt, outbox; statements are insert, "),
        (lambda lab: lab.failing("work", "select"), "statements are insert, update, delete; not select"),
    ],
)
def test_a_fault_that_does_not_exist_is_refused_with_those_that_do(lab, block, message):
    with pytest.raises(ValueError, match=message):
        block(lab)


def test_a_block_in_which_nothing_struck_is_an_error(lab):
    [a] = lab.actors("worker-a")
    with (
        pytest.raises(NothingStruck, match="no call in this block reached after_receipt"),
        lab.crash("after receipt"),
    ):
        a.get(MUG)
    with pytest.raises(KeyError), lab.answer_lost():
        raise KeyError  # the block's own error comes first


def test_a_function_of_ones_own_runs_on_the_actors_connection(lab):
    def count_twice(owner, times):
        return {"counts": owner.counted() * times}

    [a] = lab.actors("worker-a")
    assert a.runs(count_twice, times=2, anomaly="duplicated") == {"counts": (0, 0, 0) * 2}
    step = lab.run.last
    assert (step.call, step.args, step.anomaly) == ("count_twice", {"times": 2}, "duplicated")


def test_steps_are_compared_with_the_case_of_the_same_title():
    case = load("O-07-same-holder-wrong-fence")

    def again(calls):
        lab = Experiment(CONTRACTS[case.contract], case.title)
        for call in calls:
            [actor] = lab.actors(call.actor)
            getattr(actor, call.call)(**call.args)
        return lab

    assert again(case.calls).held()
    assert again(case.calls[:-1]).differences() == [
        f"{len(case.calls) - 1} steps; the case {case.name} has {len(case.calls)} calls"
    ]
    lab = Experiment(Owner, case.title, guards=without(Owner, "accept", "fence"))
    for call in case.calls:
        [actor] = lab.actors(call.actor)
        getattr(actor, call.call)(**call.args)
    assert not lab.held() and "outcome: expected refused, got accepted" in " ".join(lab.differences())
    with pytest.raises(CaseError, match="owner has no case titled 'mine'"):
        Experiment(Owner, "mine").held()


def test_no_two_cases_of_a_contract_have_one_title():
    titles = [(case.contract, case.title) for case in own_cases()]
    assert sorted(set(titles)) == sorted(titles)


def test_the_file_is_gone_with_the_experiment():
    lab = Experiment(Owner, "short")
    path = Path(lab.path)
    lab.actors("a")[0].add(MUG, **CONSTANT, now=0)
    assert path.exists()
    run = lab.run
    del lab
    gc.collect()
    assert not path.parent.exists() and run.last.outcome == "accepted"


@pytest.mark.parametrize("kind", [Owner, Intake, Work, Receiver])
def test_every_contract_can_be_experimented_on(kind):
    lab = Experiment(kind, "empty")
    assert lab.counted() == (0,) * len(kind.COUNTS) and lab.run.steps == ()


def test_the_package_offers_what_one_needs_and_loads_it_when_it_is_used():
    code = (
        "import sys, receiptlab; print(sorted({'pandas', 'matplotlib', 'receiptlab.store'} & {*sys.modules}))"
    )
    code += "; from receiptlab import *; [getattr(receiptlab, name) for name in dir(receiptlab)]"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    assert receiptlab.Experiment is Experiment and receiptlab.Owner is Owner
    with pytest.raises(AttributeError, match="has no attribute 'Ownr'"):
        _ = receiptlab.Ownr
