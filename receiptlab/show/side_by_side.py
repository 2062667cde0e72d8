"""Two owners that don't know about each other, side by side: the timeline of each, and what it believes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from receiptlab.experiment.run import Run
from receiptlab.show.style import BLACK, GREY, PALE, Picture, picture, settings
from receiptlab.show.timeline import _draw_row

_EVENT, _LANE, _LEFT, _HEAD, _FOOT = 1.42, 0.98, 1.55, 0.55, 1.15  # inches


def sides(runs: Sequence[Run], beliefs: Sequence[str]) -> Picture:
    """Draw the runs side by side, each with its belief below. A run may have at most seven steps."""
    lanes = [[*dict.fromkeys(step.actor for step in run.steps), "database"] for run in runs]
    widths = [_LEFT + _EVENT * len(run.steps) + 0.25 for run in runs]
    tall = _LANE * max(map(len, lanes))
    width, height = sum(widths), _HEAD + tall + _FOOT
    with settings():
        figure, left = Figure(figsize=(width, height)), 0.0
        for run, belief, names, wide in zip(runs, beliefs, lanes, widths, strict=True):
            title = {"fontsize": 11, "weight": "bold", "color": BLACK}
            figure.text((left + 0.12) / width, 1 - 0.28 / height, run.title, **title)
            size = (_EVENT * len(run.steps) / width, _LANE * len(names) / height)
            bottom = (_FOOT + tall - _LANE * len(names)) / height
            _draw_row(figure.add_axes(((left + _LEFT) / width, bottom, *size)), run, run.steps, names)
            _belief(figure, (left + 0.12) / width, 0.42 / height, belief, int(wide * 11))
            left += wide
            if left < width - 0.1:
                figure.add_artist(_line(left / width))
        return picture(figure, f"{len(runs)} timelines side by side: {'; '.join(beliefs)}")


def _belief(figure: Figure, x: float, y: float, belief: str, columns: int) -> None:
    box = {"facecolor": PALE, "edgecolor": "none", "boxstyle": "round,pad=0.4"}
    figure.text(x, y, textwrap.fill(belief, columns), fontsize=9, color=BLACK, va="center", bbox=box)


def _line(x: float):

    return Line2D([x, x], [0.02, 0.98], color=GREY, linewidth=0.8, linestyle=(0, (4, 3)))
