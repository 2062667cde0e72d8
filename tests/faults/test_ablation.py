"""O-17 and H-7: each guard carries its own clauses and no other's."""

from itertools import pairwise

import pytest

from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.experiment.library import own_cases
from receiptlab.experiment.player import play
from receiptlab.faults.ablation import first, guard_names, without
from receiptlab.scenarios.ablation_matrix import label
from tests.runs import ablate


@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)
def test_exactly_the_cases_that_name_a_guard_notice_that_it_is_gone(contract):
    ablation = ablate(contract.NAME)
    assert sorted(ablation.noticed ^ ablation.named) == []
    assert {guard for guard, _ in ablation.named} == set(guard_names(contract))


@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_shortcut_finds_what_the_full_matrix_finds(contract):
    """Leaving out the guards that never acted in a case is sound: the full matrix is the same."""
    assert ablate(contract, every=True) == ablate(contract)


def test_a_guard_is_taken_out_or_moved_and_the_contract_stays_whole():
    whole = [guard.__name__ for guard in Owner.GUARDS["accept"]]
    gone = [guard.__name__ for guard in without(Owner, "accept", "fence")["accept"]]
    moved = [guard.__name__ for guard in first(Owner, "accept", "replay")["accept"]]
    assert [name for name in whole if name not in gone] == ["fence"]
    assert moved[0] == "replay"
    assert sorted(moved) == sorted(whole)
    assert [guard.__name__ for guard in Owner.GUARDS["accept"]] == whole
    with pytest.raises(KeyError, match="accept has no guard fnce"):
        without(Owner, "accept", "fnce")


def test_labels_are_the_reasons():
    assert label(("accept", "accept_state")) == "accept state"
    assert label(("claim", "not_found")) == "claim not-found"


# Neighbours that never both have something to say: their order tells nobody anything.
NEVER_BOTH = {
    ("owner", "claim", "not_found", "revoked"),
    ("owner", "claim", "claim_state", "busy"),
    ("owner", "accept", "not_found", "revoked"),
    ("owner", "cancel", "not_found", "cancel_state"),
    ("owner", "renew", "not_found", "revoked"),
    ("owner", "release", "not_found", "revoked"),
}


@pytest.mark.parametrize("contract", [Owner, Receiver], ids=lambda contract: contract.NAME)
def test_guards_that_change_places_with_their_neighbour_are_noticed(contract):
    """A guard in a wrong place can tell of a receipt to somebody who may not know of it."""
    cases = [case for case in own_cases() if case.contract == contract.NAME]
    for call, guards in contract.GUARDS.items():
        for place, (one, other) in enumerate(pairwise(guards)):
            changed = (*guards[:place], other, one, *guards[place + 2 :])
            noticed = not all(play(case, contract.GUARDS | {call: changed}).held for case in cases)
            pair = (contract.NAME, call, one.__name__, other.__name__)
            assert noticed is (pair not in NEVER_BOTH), pair
