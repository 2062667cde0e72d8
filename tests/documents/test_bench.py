"""The growth bench runs on today's tables and calls. What it measures is not looked at here."""

import pytest

from tools import bench_growth


@pytest.mark.parametrize("growth", bench_growth.GROWTHS, ids=lambda growth: growth.contract.NAME)
def test_every_contract_can_be_measured_in_two_sizes(growth, tmp_path, monkeypatch):
    monkeypatch.setattr(bench_growth, "WARM_UP", 1)
    rows = bench_growth.measure(tmp_path, growth, small=2, large=9, rounds=2)
    measured = {what.split(",")[0] for _, what, *_ in rows}
    linear = {"revoke", "issue", "counts", "scrub", "erase_namespace", "stage", "erase_digest", "discard"}
    linear |= {"acquire", "acquire_sweep", "reserve"}  # parts of `next` and of `sweep`
    assert set(growth.contract.calls()) - linear <= measured
