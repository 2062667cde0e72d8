"""How many interleavings of racing calls ended with each verdict: one bar per race."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from receiptlab.show.palette import ANOMALY, BLACK, COLOURS, GREY, PALE
from receiptlab.show.picture import Picture
from receiptlab.show.style import picture, settings

_COLOURS = {
    "serializable": COLOURS["accepted"],
    "busy": COLOURS["failed"],
    "duplicated": ANOMALY,
    "wrong": COLOURS["unknown"],
    "deadlock": COLOURS["refused"],
}
_HATCHES = {"serializable": "", "busy": "//", "duplicated": "xx", "wrong": "..", "deadlock": "--"}
_ROW, _HEAD, _FOOT, _WIDE, _LEFT, _RIGHT = 0.5, 0.5, 0.45, 7.9, 2.5, 1.0  # inches
_NARROW = 0.13
"""Minimum share of a bar for a label inside it."""


def interleavings(rows: Sequence[Mapping[str, object]]) -> Picture:
    """Draw one bar per row of `scenarios.interleaving_rows.rows`: the share of interleavings with each
    verdict, labelled with word and number, and the total."""
    height = _HEAD + _ROW * len(rows) + _FOOT
    with settings():
        figure = Figure(figsize=(_WIDE, height))
        box = (_LEFT / _WIDE, _FOOT / height, 1 - (_LEFT + _RIGHT) / _WIDE, _ROW * len(rows) / height)
        axes = figure.add_axes(box)
        axes.set_xlim(0, 1)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        for y, row in enumerate(rows):
            _bar(axes, y, row)
        axes.set_yticks(range(len(rows)), [_name(row) for row in rows], color=BLACK, fontsize=8.5)
        axes.set_xticks([0, 0.5, 1], ["0", "half of the interleavings", "all"], color=GREY, fontsize=8)
        axes.tick_params(length=0, pad=6)
        for spine in axes.spines.values():
            spine.set_visible(False)
        title = {"fontsize": 11, "weight": "bold", "color": BLACK}
        figure.text(0.12 / _WIDE, 1 - 0.3 / height, "Verdicts of the interleavings", **title)
        return picture(figure, f"{len(rows)} races: {'; '.join(map(_words, rows))}")


def _name(row: Mapping[str, object]) -> str:
    return (
        f"{row['contract']}: {row['experiment']}" if len(str(row["experiment"])) < 26 else row["experiment"]
    )


def _bar(axes, y: int, row: Mapping[str, object]) -> None:
    total, left = row["interleavings"], 0.0
    beside = []
    axes.barh(y, 1, height=0.6, color=PALE, zorder=1)
    for verdict, colour in _COLOURS.items():
        share = row[verdict] / total
        if not share:
            continue
        look = {"color": colour, "edgecolor": "white", "hatch": _HATCHES[verdict], "linewidth": 0.8}
        axes.barh(y, share, height=0.6, left=left, zorder=2, **look)
        words = f"{row[verdict]:,} {verdict}"
        if share >= _NARROW:
            backing = {"facecolor": "white", "edgecolor": "none", "pad": 1.2, "alpha": 0.9}
            axes.text(
                left + share / 2, y, words, ha="center", va="center", fontsize=8, bbox=backing, zorder=4
            )
        else:
            beside.append(words)
        left += share
    total_words = ", ".join([f"{total:,} interleavings", *beside])
    axes.text(
        1.012, y, total_words.replace(", ", "\n"), va="center", fontsize=7.5, color=BLACK, linespacing=1.1
    )


def _words(row: Mapping[str, object]) -> str:
    counted = ", ".join(f"{row[verdict]} {verdict}" for verdict in _COLOURS if row[verdict])
    return f"{row['experiment']}: {counted}"
