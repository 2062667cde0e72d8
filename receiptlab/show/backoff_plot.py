"""How long a failed item waits for its next attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from receiptlab.show.palette import BLACK, COLOURS, GREY, PALE
from receiptlab.show.picture import Picture
from receiptlab.show.style import picture, settings


def waits(of_items: Mapping[str, Sequence[int]], longest: Sequence[int]) -> Picture:
    """Draw each item's delays in milliseconds, attempt by attempt, as dots in the band that the rule allows:
    from half of `longest` to all of it."""
    attempts = range(1, len(longest) + 1)
    with settings():
        figure = Figure(figsize=(7.9, 3.5))
        axes = figure.add_axes((0.1, 0.15, 0.66, 0.74))
        for attempt, wait in zip(attempts, longest, strict=True):
            axes.bar(attempt, wait - wait // 2, bottom=wait // 2, width=0.62, color=PALE, zorder=1)
            axes.text(attempt, wait * 1.06, f"{wait:,}", ha="center", va="bottom", color=GREY, fontsize=8)
        colours = [COLOURS[name] for name in ("accepted", "replayed", "refused", "unknown", "failed")]
        for number, (item, drawn) in enumerate(of_items.items()):
            x = [attempt - 0.2 + 0.4 * number / max(1, len(of_items) - 1) for attempt in attempts]
            colour = colours[number % len(colours)]
            axes.plot(x, drawn, "oDsXP"[number % 5], color=colour, markersize=6, label=item, zorder=3)
        axes.set_ylim(0, max(longest) * 1.2)
        axes.set_xticks(attempts, [f"after {n}" for n in attempts], color=BLACK)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("failed attempts", color=GREY)
        axes.set_ylabel("milliseconds to the next attempt", color=GREY)
        axes.tick_params(length=0)
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.02))
        return picture(figure, f"delays of {len(of_items)} items over {len(longest)} attempts")
