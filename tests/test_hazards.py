"""The report of make hazards: what is stored is whole and as it should be."""

import json

from receiptlab.contracts.registry import CONTRACTS
from receiptlab.errors import LabError
from tools import hazards

REPORT = json.loads(hazards.REPORT.read_text(encoding="utf-8"))
ROWS = REPORT["rows"]


def test_every_hazard_tried_every_contract_it_is_about():
    for hazard in hazards.HAZARDS:
        assert {row["contract"] for row in ROWS if row["hazard"] == hazard} >= set(CONTRACTS), hazard


def test_what_must_hold_held_and_what_must_break_broke_with_a_witness():
    for row in ROWS:
        assert row["tried"] > 0
        assert bool(row["violations"]) == row["meant to break"], row
        assert bool(row["witness"]) == row["meant to break"], row


def test_the_sizes_are_the_full_ones():
    tried = {name: sum(row["tried"] for row in ROWS if row["hazard"] == name) for name in hazards.HAZARDS}
    assert tried["power cut"] > 20_000
    assert tried["kills"] == hazards.FULL["kills"]
    assert tried["disk fault"] > 5_000
    assert REPORT["seeds"]


def test_a_hazard_that_tried_nothing_is_an_error():
    try:
        hazards._row("power cut", "owner", "WAL", 0, 0)
    except LabError as error:
        assert "nothing was tried" in str(error)
    else:
        raise AssertionError("it should be told")
