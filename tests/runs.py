"""Every case, scenario and ablation, run once for all tests of a file that only look at them."""

from __future__ import annotations

import functools

from receiptlab.cli import results
from receiptlab.experiment.run import Run
from receiptlab.scenarios.ablation_matrix import ablate as _ablate


@functools.cache
def all_runs() -> tuple[Run, ...]:
    """The run of every case and every scenario."""
    return tuple(run() for run in results.experiments())


ablate = functools.cache(_ablate)
