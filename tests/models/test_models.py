"""H-8: each contract beside its model, and that a difference between the two is found."""

import ast
import contextlib
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from receiptlab import models
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.contracts.retention import Retention
from receiptlab.experiment.case_file import read_case
from receiptlab.experiment.player import play
from receiptlab.faults.ablation import guard_names, without
from receiptlab.faults.processes.children import environment
from receiptlab.faults.seeded import Hashed
from receiptlab.models import PAIRS, Pair, explore
from receiptlab.models.owner import OwnerModel
from receiptlab.models.retention import RetentionModel
from receiptlab.models.work import WorkModel
from receiptlab.values import sha256
from tests.faults.broken import LateFence, LaxStaging, NoOutbox, SecondEffect, Stale, TwoTransactions

SIZE = 40
"""Sequences for each pair. `models.run` does as many as one has the time for."""

UNREACHED = ("exhausted", "unknown_field")
"""Guards that no sequence of calls reaches: it takes 2^63 claims, or another version. Cases notice them."""

GUARDS = [
    (name, guard)
    for name, kind in CONTRACTS.items()
    for guard in guard_names(kind)
    if guard[1] not in UNREACHED
]


def broken(contract, model, size=1_000, **more):
    """What is found when one of the two is broken."""
    return explore(partial(Pair, contract, model, **more), size, stop=True)


@pytest.fixture(scope="module")
def rows():
    told = []
    rows = models.run(SIZE, progress=lambda *done: told.append(done))
    assert told[:2] == [("owner", 1, SIZE), ("owner", 2, SIZE)]
    return {row["contract"]: row for row in rows}


@pytest.mark.parametrize("name", PAIRS)
def test_contract_and_model_agree(rows, name):
    row = rows[name]
    assert row["disagreements"] == 0, f"seed {row['seed']}\n{row['witness']}"
    assert (row["sequences"], row["calls"]) == (SIZE, SIZE * 40)


@pytest.mark.parametrize("name", PAIRS)
def test_every_call_is_drawn_and_succeeds(rows, name):
    contract, model = PAIRS[name]
    assert set(contract.calls()) <= set(model.CALLS)
    well = {what.split()[0] for what in rows[name]["outcomes"] if what.split()[1] in ("accepted", "read")}
    assert well == {*model.CALLS, "reopen"}


def test_the_same_seed_gives_the_same_calls_and_another_one_others():
    make = partial(Pair, Owner, OwnerModel)
    one, again, other = explore(make, 3), explore(make, 3), explore(make, 3, seed=2)
    assert one == again
    assert one["outcomes"] != other["outcomes"]
    drawn = [
        [source.below(10) for _ in range(200)] for source in (Hashed("a", 1), Hashed("a", 1), Hashed("b", 1))
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert set(drawn[0]) == set(range(10))


# Sequences that were found, by what the contract did then


ITEM = {
    "tenant": "x",
    "namespace": "x",
    "key": "x",
    "digest": sha256("A"),
    "processor": "p",
    "processor_revision": "1",
}
ITEM |= {"retain_until": 100, "tombstone_until": 10_000, "now": 0}
NEXT = {
    "namespace": "x",
    "processor": "p",
    "worker": "a",
    "limit": 1,
    "hold_for": 50,
    "max_attempts": 3,
    "now": 1,
}
SWEEP = {"worker": "a", "token": 1, "limit": 5, "max_attempts": 3, "now": 200}
DONE = {"work": 1, "fence": 1, "reference": "of a", "now": 2}
MAIL = {"key_kind": "explicit", "tenant": "x", "namespace": "x", "key": "x", "digest": sha256("A")}
KEPT = {"reference": "", "retain_until": 100, "tombstone_until": 200, "now": 0}
ERASE = {"key_kind": "explicit", "tenant": "x", "namespace": "x", "key": "x", "now": 2}

FOUND = {
    "a claim on a row that was compacted fitted the next item": [
        ("work", "deliver", ITEM),
        ("work", "next", NEXT),
        ("work", "next", NEXT | {"worker": "b", "now": 60}),
        ("work", "complete", DONE | {"fence": 2, "now": 61}),
        ("work", "acquire_sweep", {"worker": "a", "now": 200}),
        ("work", "sweep", SWEEP),
        ("work", "deliver", ITEM | {"key": "y", "now": 210}),
        ("work", "next", NEXT | {"worker": "b", "now": 220}),
        ("work", "complete", DONE | {"now": 230}),
    ],
    "a claim on an item that was erased fitted the next item": [
        ("work and erasure", "deliver", ITEM),
        ("work and erasure", "next", NEXT),
        ("work and erasure", "erase_identity", ERASE),
        ("work and erasure", "deliver", ITEM | {"key": "y", "now": 3}),
        ("work and erasure", "next", NEXT | {"worker": "b", "now": 4}),
        ("work and erasure", "complete", DONE | {"now": 5}),
    ],
    "a revision that was done and compacted was worked on again once another one came": [
        ("work", "deliver", ITEM),
        ("work", "next", NEXT),
        ("work", "complete", DONE),
        ("work", "acquire_sweep", {"worker": "a", "now": 200}),
        ("work", "sweep", SWEEP),
        ("work", "deliver", ITEM | {"digest": sha256("B"), "now": 210, "retain_until": 1_000}),
        ("work", "deliver", ITEM | {"now": 220}),
        ("work", "next", NEXT | {"limit": 2, "now": 230}),
        ("work", "complete", DONE | {"work": 3, "now": 231}),
    ],
    "a redelivery used up a number": [
        ("work", "deliver", ITEM),
        ("work", "deliver", ITEM),
        ("work", "deliver", ITEM | {"key": "y"}),
    ],
    "content that was not known any more was counted as seen": [
        ("intake", "deliver", MAIL | KEPT | {"changed_as": "revision"}),
        ("intake", "sweep", {"limit": 1, "now": 100}),
        ("intake", "classify", MAIL),
        ("intake", "sweep", {"limit": 1, "now": 200}),
        ("intake", "deliver", MAIL | KEPT | {"changed_as": "revision", "digest": sha256("B")}),
        ("intake", "stage", KEPT | {"decision": "seen"}),
    ],
    "a redelivery told a number that its content has no more": [
        ("intake", "deliver", MAIL | KEPT | {"changed_as": "revision"}),
        ("intake", "deliver", MAIL | KEPT | {"changed_as": "revision", "digest": sha256("B")}),
        ("intake", "classify", MAIL | {"digest": sha256("B")}),
        ("intake", "sweep", {"limit": 1, "now": 100}),
        ("intake", "sweep", {"limit": 1, "now": 200}),
        ("intake", "deliver", MAIL | KEPT | {"changed_as": "revision", "digest": sha256("B")}),
        ("intake", "stage", KEPT | {"decision": "seen"}),
    ],
}


@pytest.mark.parametrize("what", FOUND)
def test_what_was_found_is_not_so_any_more(what):
    with Pair(*PAIRS[FOUND[what][0][0]]) as pair:
        for _, call, args in FOUND[what]:
            pair.step("a", call, args)


# Planted faults: each must be found


@pytest.mark.parametrize(
    ("name", "guard"), GUARDS, ids=lambda part: " ".join(part) if type(part) is tuple else part
)
def test_a_missing_guard_is_found_and_its_witness_can_be_played(tmp_path, name, guard):
    contract, model = PAIRS[name]
    guards = without(contract, *guard)
    row = broken(contract, model, guards=guards)
    assert row["disagreements"] == 1
    assert len(row["witness"].splitlines()) <= 14, row["witness"]
    path = tmp_path / "witness.jsonl"
    path.write_text(row["witness"], encoding="utf-8")
    case = read_case(path)
    assert f"seed 1, sequence {row['sequences'] - 1}" in case.title
    assert play(case).held, "the whole contract does what the model expects"
    with contextlib.suppress(Exception):  # without a guard it may fail in any way
        assert not play(case, guards).held


@pytest.mark.parametrize(
    "name, kind",
    [
        ("retention", TwoTransactions),
        ("work", NoOutbox),
        ("work", SecondEffect),
        ("intake", LaxStaging),
        ("receiver", LateFence),
        ("owner", Stale),
    ],
)
def test_a_broken_contract_is_found(name, kind):
    row = broken(kind, PAIRS[name][1])
    assert row["disagreements"] == 1
    assert row["sequences"] <= 40


def test_two_transactions_are_found_by_a_fault_between_them():
    row = broken(TwoTransactions, RetentionModel)
    *_, last = map(json.loads, row["witness"].splitlines())
    assert (last["call"], last["fault"]) == ("execute", "after_commit")


class ClosedTooLate(RetentionModel):
    def _open(self, namespace, epoch):
        super()._open(namespace, epoch + 1)


class EndsOneLater(OwnerModel):
    def times(self):
        return [end + 1 for end in super().times()]

    def claim(self, scope, work, actor, now, until):
        return super().claim(scope, work, actor, now, until + 1)


class OneAttemptMore(WorkModel):
    def fail(self, max_attempts, **named):
        return super().fail(max_attempts=max_attempts + 1, **named)


class ForgetsTheMessage(models.IntakeModel):
    def owe(self, topic, subject, now):
        pass


class KeepsNoRefusals(models.ReceiverModel):
    def apply(self, owner, generation, instance, key, now, **effect):
        return self._apply(owner, generation, instance, key, effect, now)


@pytest.mark.parametrize(
    "model", [ClosedTooLate, EndsOneLater, OneAttemptMore, ForgetsTheMessage, KeepsNoRefusals]
)
def test_a_model_changed_in_one_line_is_found(model):
    contract, _ = PAIRS[model.NAME]
    row = broken(contract, model)
    assert row["disagreements"] == 1
    assert row["sequences"] <= 40


def test_a_missing_guard_is_found_and_its_witness_is_a_short_case(tmp_path):
    guards = without(Retention, "execute", "conflict")
    row = broken(Retention, RetentionModel, guards=guards)
    path = tmp_path / "witness.jsonl"
    path.write_text(row["witness"], encoding="utf-8")
    run = [sys.executable, "-m", "receiptlab", "play", str(path)]
    assert subprocess.run(run, env=environment(), capture_output=True, timeout=60).returncode == 0
    case = read_case(path)
    assert [call.call for call in case.calls] == ["execute", "execute"]
    assert not play(case, guards).held


def test_a_witness_with_an_erasure_is_played_beside_the_model(tmp_path):
    delivery = {"tenant": "x", "namespace": "x", "key": "x", "digest": sha256("A"), "processor": "p"}
    delivery |= {"processor_revision": "1", "retain_until": 1, "tombstone_until": 2, "now": 0}
    named = {"key_kind": "explicit", "tenant": "x", "namespace": "x", "key": "x", "now": 1}
    with Pair(*PAIRS["work and erasure"]) as pair:
        pair.step("a", "deliver", delivery)
        pair.step("a", "erase_identity", named)
    path = tmp_path / "witness.jsonl"
    path.write_text(pair.case(), encoding="utf-8")
    run = [sys.executable, "-m", "receiptlab.models", str(path)]
    done = subprocess.run(run, env=environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"{path}: contract and model agree\n")


def test_models_use_the_standard_library_and_no_guard():
    """The second opinion asks nobody: of the package the models import only each other."""
    folder = Path(models.__file__).parent
    for name in ("base", "owner", "retention", "intake", "work", "receiver"):
        tree = ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                part = node.module.split(".")
                assert part[0] in sys.stdlib_module_names or part[:2] == [
                    "receiptlab",
                    "models",
                ], name
