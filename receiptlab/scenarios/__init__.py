"""Experiments that need more than a list of calls. Each is a plain function that returns a Run."""

from __future__ import annotations

from collections.abc import Callable

from receiptlab.experiment.run import Run
from receiptlab.scenarios import (
    counterexamples,
    crash_points,
    database_files,
    disk_runs,
    file_accidents,
    intake_runs,
    interleaving_rows,
    lost_answers,
    model_runs,
    outside,
    restoring,
    retention_runs,
    split_brain,
    threads,
    versions,
    work_runs,
)

SCENARIOS: tuple[Callable[[], Run], ...] = (
    *database_files.SCENARIOS,
    *file_accidents.SCENARIOS,
    *threads.SCENARIOS,
    *counterexamples.SCENARIOS,
    *versions.SCENARIOS,
    *retention_runs.SCENARIOS,
    *intake_runs.SCENARIOS,
    *work_runs.SCENARIOS,
    *outside.SCENARIOS,
    *crash_points.SCENARIOS,
    *split_brain.SCENARIOS,
    *lost_answers.SCENARIOS,
    *restoring.SCENARIOS,
    *interleaving_rows.SCENARIOS,
    *disk_runs.SCENARIOS,
    *model_runs.SCENARIOS,
)
