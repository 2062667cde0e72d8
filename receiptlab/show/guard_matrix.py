"""The mutation matrix: which case notices which missing guard."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from receiptlab.show.palette import ANOMALY, BLACK, GREY, PALE
from receiptlab.show.picture import Picture
from receiptlab.show.style import picture, settings

_ROW, _COLUMN, _LEFT, _TOP, _RIGHT = 0.2, 0.4, 2.5, 1.5, 1.1  # inches


def matrix(
    guards: Sequence[str], cases: Sequence[str], noticed: set[tuple[str, str]], named: set[tuple[str, str]]
) -> Picture:
    """Draw cases down and guards across. A filled square: without the guard, the case ends differently.

    A crossed square: a case noticed a guard that it doesn't name. A hollow square: a case names a guard and
    doesn't notice it. A contract with independent guards has neither. Cases that notice nothing are only
    counted below.
    """
    rows = [case for case in cases if any(case == name for _, name in noticed | named)]
    width, height = _LEFT + _COLUMN * len(guards) + _RIGHT, _TOP + _ROW * len(rows) + 0.6
    with settings():
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes(
            (_LEFT / width, 0.5 / height, _COLUMN * len(guards) / width, _ROW * len(rows) / height)
        )
        _grid(axes, guards, rows)
        for y, case in enumerate(rows):
            for x, guard in enumerate(guards):
                _cell(axes, x, y, (guard, case) in noticed, (guard, case) in named)
        silent = len(cases) - len(rows)
        figure.text(
            0.1 / width,
            0.15 / height,
            f"■ without this guard the case ends differently.   "
            f"{silent} further cases notice no missing guard: no guard stops them.",
            color=GREY,
        )
        return picture(figure, f"{len(guards)} guards by {len(rows)} cases, {len(noticed)} noticed")


def _grid(axes, guards: Sequence[str], rows: Sequence[str]) -> None:
    axes.set_xlim(-0.5, len(guards) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(guards)), guards, rotation=55, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, colors=BLACK)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for y, case in enumerate(rows):
        new_clause = y and case.split("-")[:2] != rows[y - 1].split("-")[:2]
        axes.axhline(y - 0.5, color=GREY if new_clause else PALE, linewidth=0.6 if new_clause else 0.4)
    for x in range(len(guards)):
        axes.axvline(x, color=PALE, linewidth=0.4, zorder=0)


def _cell(axes, x: int, y: int, noticed: bool, named: bool) -> None:
    if noticed and named:
        axes.plot(x, y, marker="s", markersize=9, color=ANOMALY, clip_on=False)
    elif noticed:
        axes.plot(x, y, marker="X", markersize=9, color=BLACK)
    elif named:
        axes.plot(x, y, marker="s", markersize=9, markerfacecolor="white", color=ANOMALY)
