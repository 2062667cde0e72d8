"""The report of make hazards: what is stored is whole and as it should be."""

import json

import apsw
import pytest

from receiptlab import models
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.errors import LabError
from receiptlab.faults.disk import io_errors as diskfault
from receiptlab.faults.disk import power_cut as powercut
from receiptlab.faults.disk.workloads import lives
from receiptlab.faults.processes import kills
from receiptlab.interleaving.findings import Explored, Interleaving
from receiptlab.scenarios import interleaving_rows as every_interleaving
from receiptlab.scenarios import interleavings
from receiptlab.scenarios import racing_mistakes as racing
from tools import hazards

REPORT = json.loads(hazards.REPORT.read_text(encoding="utf-8"))
ROWS = REPORT["rows"]
LIVES = {workload.name: workload for workload in lives()}


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
    with pytest.raises(LabError, match="power cut, owner, WAL: nothing was tried, so nothing was shown"):
        hazards._row("power cut", "owner", "WAL", 0, 0)


def quiet(done, total):
    """No bar."""


def timeless(rows):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def stored(hazard, contracts, settings):
    """These rows of the report."""
    rows = [row for row in ROWS if (row["hazard"], row["setting"] in settings) == (hazard, True)]
    return timeless(row for row in rows if row["contract"] in contracts)


# A part of the report is made again. The rest takes minutes: `make hazards` after each change of a contract.


def test_the_stored_orders_are_what_comes_out_now(monkeypatch):
    few = {row["setting"] for row in ROWS if row["hazard"] == "every interleaving" and row["tried"] < 100}
    for module, name in ((interleavings, "PAIRS"), (racing, "PLANTED")):
        monkeypatch.setattr(module, name, [each for each in getattr(module, name) if each.name in few])
    assert timeless(hazards._interleavings({}, quiet)) == stored(
        "every interleaving", {*CONTRACTS, "naive"}, few
    )
    assert len(few) > 20


same_sqlite = pytest.mark.skipif(
    apsw.sqlitelibversion() != REPORT["apsw"], reason="another SQLite in apsw: it may write other pages"
)


@same_sqlite
def test_the_stored_power_cuts_are_what_comes_out_now(monkeypatch):
    monkeypatch.setattr(powercut, "lives", lambda: [LIVES["retention"]])
    monkeypatch.setattr(powercut, "HOLDS", powercut.HOLDS[:1])
    monkeypatch.setattr(powercut, "BREAKS", powercut.BREAKS[1:2])
    settings = [f"WAL, synchronous {each}, checkpoint at 8 pages" for each in ("FULL", "NORMAL")]
    wanted = stored("power cut", ["retention"], settings)
    assert timeless(hazards._power_cuts(hazards.FULL, quiet)) == wanted
    assert len(wanted) == 2


@same_sqlite
def test_the_stored_disk_faults_are_what_comes_out_now(monkeypatch):
    monkeypatch.setattr(diskfault, "lives", lambda: [LIVES["owner"]])
    settings = [
        f"WAL, synchronous FULL, {kind} {often}" for kind in diskfault.KINDS for often in ("once", "for good")
    ]
    wanted = stored("disk fault", ["owner", "store"], settings)
    assert timeless(hazards._disk_faults(hazards.SMALL, quiet)) == wanted
    assert len(wanted) == 8


# What the tool would notice


def test_callers_that_never_meet_end_the_run(monkeypatch):
    found = Explored("nothing", "owner", (), (), (Interleaving("AB", (), (), "serializable", 0, False),))
    monkeypatch.setattr(every_interleaving, "explored", lambda name: found)
    with pytest.raises(LabError, match="the callers never met, so nothing was shown"):
        list(hazards._interleavings({}, quiet))


def test_everything_that_the_kills_count_is_a_violation(monkeypatch):
    row = {"contract": "owner", "kills": 3, "acknowledged": 9, "lost": 1, "duplicated": 10, "unasked": 100}
    monkeypatch.setattr(kills, "run", lambda *given: [row | {"wrong": ["odd"] * 1000}])
    [told] = hazards._kills(hazards.SMALL, quiet)
    assert (told["tried"], told["violations"], told["setting"]) == (3, 1111, "SIGKILL, 9 calls acknowledged")
    assert told["witness"].startswith("['odd'")


def test_a_model_that_disagrees_is_a_violation(monkeypatch):
    row = {"contract": "owner", "sequences": 2, "calls": 80, "disagreements": 1, "witness": "the case"}
    monkeypatch.setattr(models, "run", lambda *given: [row])
    [told] = hazards._models(hazards.SMALL, quiet)
    assert (told["setting"], told["tried"], told["violations"]) == ("2 sequences", 80, 1)
    assert (told["witness"], told["meant to break"]) == ("the case", False)


@pytest.mark.parametrize(
    ("violations", "meant", "status", "said"),
    [
        (0, False, 0, ""),
        (2, True, 0, ""),
        (2, False, 1, "not as it should be: odd, owner, WAL\n"),
        (0, True, 1, "not as it should be: odd, owner, WAL\n"),
    ],
)
def test_the_exit_status_says_whether_all_was_as_it_should_be(
    monkeypatch, tmp_path, capsys, violations, meant, status, said
):
    sizes = []

    def odd(given, told):
        sizes.append(given)
        told(1, 2)
        yield hazards._row("odd", "owner", "WAL", 5, violations, **{"meant to break": meant})

    monkeypatch.setattr(hazards, "HAZARDS", {"odd": odd})
    output = tmp_path / "report.json"
    monkeypatch.setattr("sys.argv", ["hazards", "--small", "--output", str(output)])
    assert hazards.main() == status
    assert capsys.readouterr().err == f"odd\n{said}"
    assert sizes == [hazards.SMALL]
    told = json.loads(output.read_text(encoding="utf-8"))
    assert [row["violations"] for row in told["rows"]] == [violations]
    assert set(told) == set(REPORT)
