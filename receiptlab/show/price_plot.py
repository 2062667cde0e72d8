"""The cost of keeping receipts, and of closing a range."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from receiptlab.show.palette import ANOMALY, BLACK, COLOURS, GREY, PALE
from receiptlab.show.picture import Picture
from receiptlab.show.style import picture, settings


def prices(measured: Mapping) -> Picture:
    """Draw the bytes that each policy keeps on disk (left), and the time to close a range by its size
    (right).

    `measured` is the content of data/prices.json.
    """
    with settings():
        figure = Figure(figsize=(7.9, 3.6))
        _sizes(figure.add_axes((0.13, 0.17, 0.28, 0.66)), measured["bytes"])
        _closing(figure.add_axes((0.55, 0.17, 0.42, 0.66)), measured["closing"])
        return picture(figure, "bytes that each policy keeps, and milliseconds that closing takes")


def _sizes(axes, sizes: Mapping[str, float]) -> None:
    names, bars = list(sizes), [COLOURS["replayed"], COLOURS["refused"], COLOURS["accepted"]]
    axes.barh(names[::-1], [sizes[name] for name in names[::-1]], color=bars[::-1], height=0.55)
    for y, name in enumerate(names[::-1]):
        axes.text(sizes[name] + 3, y, f"{sizes[name]:.0f}", va="center", color=BLACK)
    axes.set_xlim(0, max(sizes.values()) * 1.18)
    axes.set_xlabel("bytes on disk", color=GREY)
    axes.set_title("one of each", loc="left", fontsize=10, weight="bold", color=BLACK)
    axes.tick_params(length=0)


def _closing(axes, closing: list[Mapping[str, float]]) -> None:
    x = [row["receipts"] for row in closing]
    axes.plot(
        x, [row["closing ms"] for row in closing], "o-", color=COLOURS["replayed"], label="close_and_collect"
    )
    axes.plot(
        x, [row["bare ms"] for row in closing], "x--", color=ANOMALY, label="a bare DELETE of the range"
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(x, [f"{size:,}" for size in x])
    y = [tick for tick in (0.1, 1, 10, 100, 1_000) if tick <= 2 * max(row["bare ms"] for row in closing)]
    axes.set_yticks(y, [f"{tick:g}" for tick in y])
    axes.set_ylim(0.5 * min(row["bare ms"] for row in closing), None)
    axes.minorticks_off()
    axes.grid(color=PALE, linewidth=0.6)
    axes.set_xlabel("receipts in the range, a tenth of the file", color=GREY)
    axes.set_ylabel("milliseconds", color=GREY)
    axes.set_title("closing a range", loc="left", fontsize=10, weight="bold", color=BLACK)
    axes.legend(frameon=False, loc="upper left")
