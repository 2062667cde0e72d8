"""The crash states that a power cut can leave, by setting, and how many lost or kept data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from matplotlib.figure import Figure

from receiptlab.show.palette import ANOMALY, BLACK, COLOURS
from receiptlab.show.picture import Picture
from receiptlab.show.style import picture, settings

_WORDS = {
    "kept": ("kept everything", COLOURS["accepted"]),
    "lost": ("lost an acknowledged call", COLOURS["refused"]),
    "damaged": ("damaged the file", ANOMALY),
    "half": ("kept half a call", COLOURS["unknown"]),
    "back": ("brought erased data back", COLOURS["replayed"]),
}


def states(rows: Iterable[Mapping]) -> Picture:
    """Draw one bar per setting, over all contracts: the share of crash states with each finding.

    `rows` are those of `faults.disk.power_cut.run`.
    """
    counted = _by_setting(rows)
    names = list(counted)
    with settings():
        figure = Figure(figsize=(7.9, 0.2 + 0.62 * len(names)))
        height = 1 - 0.1 / (0.2 + 0.62 * len(names))
        axes = figure.add_axes((0.24, 0.02, 0.73, height))
        for y, name in enumerate(names):
            _bar(axes, y, counted[name])
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlim(0, 1)
        axes.set_yticks(range(len(names)), [name.replace(", checkpoint", ",\ncheckpoint") for name in names])
        axes.set_xticks([])
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)
        return picture(figure, "; ".join(f"{name}: {_sentence(counted[name])}" for name in names))


def _by_setting(rows: Iterable[Mapping]) -> dict[str, dict[str, int]]:
    counted: dict[str, dict[str, int]] = {}
    for row in rows:
        counts = counted.setdefault(row["setting"], dict.fromkeys(_WORDS, 0))
        for word in _WORDS:
            counts[word] += row[word]
    return counted


def _bar(axes, y: int, counts: Mapping[str, int]) -> None:
    left, total = 0.0, max(1, sum(counts.values()))
    for word, (_, colour) in _WORDS.items():
        part = counts[word] / total
        if part:
            wide = max(part, 0.004)  # a few of many stay visible
            axes.barh(y - 0.13, wide, left=min(left, 1 - wide), height=0.3, color=colour)
        left += part
    axes.text(0, y + 0.22, _sentence(counts), color=BLACK, fontsize=8.5, va="center")


def _sentence(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[word]:,} {says}" for word, (says, _) in _WORDS.items() if counts[word])
