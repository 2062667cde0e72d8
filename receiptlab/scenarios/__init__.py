"""Experiments that need more than a list of calls. Each is a plain function that returns a Run."""

from __future__ import annotations

from collections.abc import Callable

from receiptlab.experiment.run import Run
from receiptlab.scenarios import counterexamples as going_wrong
from receiptlab.scenarios import crash_points, lost_answers, outside, restoring, split_brain, versions
from receiptlab.scenarios import database_files as fixture
from receiptlab.scenarios import disk_runs as disks
from receiptlab.scenarios import file_accidents as database_file
from receiptlab.scenarios import intake_runs as intake
from receiptlab.scenarios import interleaving_rows as every_order
from receiptlab.scenarios import model_runs as modelled
from receiptlab.scenarios import retention_runs as retention
from receiptlab.scenarios import threads as at_once
from receiptlab.scenarios import work_runs as work

SCENARIOS: tuple[Callable[[], Run], ...] = (
    *fixture.SCENARIOS,
    *database_file.SCENARIOS,
    *at_once.SCENARIOS,
    *going_wrong.SCENARIOS,
    *versions.SCENARIOS,
    *retention.SCENARIOS,
    *intake.SCENARIOS,
    *work.SCENARIOS,
    *outside.SCENARIOS,
    *crash_points.SCENARIOS,
    *split_brain.SCENARIOS,
    *lost_answers.SCENARIOS,
    *restoring.SCENARIOS,
    *every_order.SCENARIOS,
    *disks.SCENARIOS,
    *modelled.SCENARIOS,
)
