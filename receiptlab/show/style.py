"""One set of figure settings for every picture that matplotlib draws."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
from matplotlib.figure import Figure

from receiptlab.show.palette import GREY
from receiptlab.show.picture import Picture

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no advice about its cache folder

_SETTINGS = {
    "svg.fonttype": "none",  # text stays text, for search and screen readers
    "svg.hashsalt": "receiptlab",  # ids in the file are the same each time
    "font.family": "DejaVu Sans",  # comes with matplotlib, so sizes are the same everywhere
    "font.size": 9,
    "text.parse_math": False,  # names come from users: a dollar sign is not mathematics
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}


@contextmanager
def settings() -> Iterator[None]:
    """The lab's figure settings, for one drawing."""
    with mpl.rc_context(_SETTINGS):
        yield


def picture(figure: Figure, words: str) -> Picture:
    """The figure as SVG, byte for byte the same each time."""
    out = io.StringIO()
    with warnings.catch_warnings():
        # Text stays text, so the reader's font draws what this one lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    # A font of the same width, for readers without this one.
    svg = out.getvalue().replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    return Picture(svg, words)
