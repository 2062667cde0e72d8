"""Experiments that need more than a list of calls. Each is a plain function that returns a Run."""

from __future__ import annotations

from collections.abc import Callable

from receiptlab.record import Run
from receiptlab.scenarios import (
    at_once,
    crash_points,
    database_file,
    disks,
    every_order,
    fixture,
    going_wrong,
    intake,
    lost_answers,
    modelled,
    outside,
    restoring,
    retention,
    split_brain,
    versions,
    work,
)

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
