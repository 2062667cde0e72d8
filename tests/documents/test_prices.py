"""The measured prices that lesson 08 draws: stored by make bench, whole, and not typed by hand."""

import xml.etree.ElementTree as ET

from receiptlab import show
from receiptlab.experiment.library import measured_prices
from tools.bench_retention import SIZES, filled, size_of

PRICES = measured_prices()


def test_the_stored_prices_are_whole():
    assert set(PRICES) == {"made by", "bytes", "closing"}
    assert [row["receipts"] for row in PRICES["closing"]] == list(SIZES)
    assert all(set(row) == {"receipts", "of", "closing ms", "bare ms", "ratio"} for row in PRICES["closing"])


def test_each_policy_keeps_less_than_the_one_before():
    live, tombstone, closed = PRICES["bytes"].values()
    assert live > tombstone > closed > 0


def test_the_stored_bytes_are_what_is_measured_here(tmp_path):
    """Page sizes do not hang on the machine: a new measurement is close to the stored one."""
    for name, size in size_of(tmp_path):
        assert abs(size / PRICES["bytes"][name] - 1) < 0.1, name


def test_the_stored_times_belong_together():
    """Nobody typed them: each ratio fits its two times, and more receipts take longer."""
    rows = PRICES["closing"]
    assert all(0.7 < row["ratio"] / (row["closing ms"] / row["bare ms"]) < 1.4 for row in rows)
    assert [row["closing ms"] for row in rows] == sorted(row["closing ms"] for row in rows)


def test_a_filled_file_has_what_it_says(tmp_path):
    with filled(tmp_path / "filled.db", 1_000) as store:
        assert store.read("SELECT count(*), min(epoch), max(epoch) FROM receipt") == [(1_000, 1, 10)]


def test_the_picture_has_every_policy_and_every_size():
    words = [
        node.text for node in ET.fromstring(show.prices(PRICES).svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    for expected in (*PRICES["bytes"], *(f"{size:,}" for size in SIZES), "bytes on disk", "milliseconds"):
        assert expected in words
