"""Power cuts and failing disks under an owner's workload (H-4, H-5). Other contracts: `make hazards`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from receiptlab.experiment.run import Recorder, Run
from receiptlab.faults.disk import io_errors as diskfault
from receiptlab.faults.disk import power_cut as powercut
from receiptlab.faults.disk.workloads import Workload, lives
from receiptlab.outcomes import Outcome, mismatches


def owner_workload() -> list[Workload]:
    """The owner's workload that is cut off and made to fail."""
    return [workload for workload in lives() if workload.name == "owner"]


def _recorded(name: str, title: str, clause: str, kind: str, rows: Iterable[Mapping], wanted) -> Run:
    """Record one step per row: what happened in the crash states, or under the failures."""
    record = Recorder(title, name=name, clauses=(clause,), contract="owner", kind=kind)
    for row in rows:
        about = {key: value for key, value in row.items() if key not in ("hazard", "contract", "setting")}
        expect = {"outcome": "read", "answer": wanted(row)}
        call = " ".join(filter(None, (row["setting"], row.get("failure"))))
        wrong = mismatches(expect, "", Outcome("read", answer=about), ())
        anomaly = "lost" if row.get("lost") else ""
        record.add("the disk", call, None, "read", answer=about, expect=expect, wrong=wrong, anomaly=anomaly)
    return record.run()


def power_cut_with_every_sync() -> Run:
    """The power is cut at each point of an owner's workload, with every sync in place (H-4)."""
    rows = powercut.run("small", settings=powercut.HOLDS, of=owner_workload())
    title = "the power is cut at every point, with every sync"
    kept = {"violations": 0, "lost": 0, "damaged": 0, "half": 0, "back": 0}
    return _recorded("power-cut-with-every-sync", title, "H-4", "holds", rows, lambda row: kept)


def power_cut_with_fewer_syncs() -> Run:
    """The same with settings that sync less often. Acknowledged calls are lost, and worse (H-4)."""
    rows = powercut.run("small", settings=powercut.BREAKS, of=owner_workload())
    title = "the power is cut at every point, with fewer syncs"

    marked = [row | {"loses": row["lost"] > 0, "damages": row["damaged"] > 0} for row in rows]

    def wanted(row: Mapping) -> dict:
        return {"loses": True, "damages": "OFF" in row["setting"], "back": 0}

    return _recorded("power-cut-with-fewer-syncs", title, "H-4", "breaks", marked, wanted)


def disk_that_fails() -> Run:
    """Each write, sync, truncate and open of an owner's workload fails, once and then for good (H-5)."""
    rows = diskfault.run("small", of=owner_workload())
    none = {"violations": 0}
    return _recorded("disk-that-fails", "each disk operation fails", "H-5", "holds", rows, lambda row: none)


SCENARIOS = (power_cut_with_every_sync, power_cut_with_fewer_syncs, disk_that_fails)
