"""One palette and one set of figure settings for every picture and table.

The colours are those of Okabe and Ito, which most people with a colour vision deficiency can tell
apart (Color Universal Design, https://jfly.uni-koeln.de/color/). No colour is used by itself: a word or
a mark always goes with it.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
from matplotlib.figure import Figure

BLACK, GREY, PALE = "#222222", "#767676", "#E4E4E4"

COLOURS = {
    "accepted": "#009E73",
    "replayed": "#0072B2",
    "refused": "#E69F00",
    "failed": "#56B4E9",
    "unknown": "#CC79A7",
    "read": "#999999",
    "invalid": "#F0E442",
}
ANOMALY = "#D55E00"
"""What a counterexample shows: duplicated, lost, overwritten, disclosed."""

MARKS = {
    "accepted": "✓",
    "replayed": "↺",
    "refused": "✕",
    "failed": "⊘",
    "unknown": "?",
    "read": "○",
    "invalid": "∅",
}
SHAPES = {
    "accepted": "o",
    "replayed": "D",
    "refused": "X",
    "failed": "P",
    "unknown": "s",
    "read": "h",
    "invalid": "v",
}

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no advice about its cache folder

_SETTINGS = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and read aloud
    "svg.hashsalt": "receiptlab",  # ids in the file are the same each time
    "font.family": "DejaVu Sans",  # comes with matplotlib, so the measures are the same everywhere
    "font.size": 9,
    "text.parse_math": False,  # names come from users, and a dollar sign is a dollar sign
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}


def ink(word: str) -> str:
    """What can be read on the colour of an outcome."""
    return "white" if word in ("accepted", "replayed") else BLACK


class Picture:
    """An SVG drawing. Jupyter shows it; `save` writes it to a file."""

    def __init__(self, svg: str, words: str) -> None:
        self.svg = svg
        self.words = words

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return self.words

    def save(self, path: str) -> None:
        """Write the drawing to `path` as SVG. Raises OSError as `open` does."""
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(self.svg)


@contextmanager
def settings() -> Iterator[None]:
    """The lab's figure settings, for the time of one drawing."""
    with mpl.rc_context(_SETTINGS):
        yield


def picture(figure: Figure, words: str) -> Picture:
    """The figure as SVG that is the same, byte for byte, each time it is drawn."""
    out = io.StringIO()
    with warnings.catch_warnings():
        # The text stays text, so a sign that this font lacks is drawn by the reader's own.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    # Where the reader lacks that font, one of the same width takes its place.
    svg = out.getvalue().replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    return Picture(svg, words)
