"""The lab's colours and marks: one for each outcome, in every picture and table.

The hues are those of Okabe and Ito, which most people with a colour vision deficiency can tell apart (Color
Universal Design, https://jfly.uni-koeln.de/color/). `INKS` are the same hues, dark enough for text on white
(at least 4.5:1). A word or a mark always accompanies a colour.
"""

from __future__ import annotations

BLACK, GREY, PALE = "#222222", "#767676", "#E4E4E4"
NOTE = "#5F5F5F"
"""Grey text."""

COLOURS = {
    "accepted": "#009E73",
    "replayed": "#0072B2",
    "refused": "#E69F00",
    "failed": "#56B4E9",
    "unknown": "#CC79A7",
    "read": "#999999",
    "invalid": "#F0E442",
}
INKS = {
    "accepted": "#006B4E",
    "replayed": "#0B62A4",
    "refused": "#845600",
    "failed": "#1F6488",
    "unknown": "#963A72",
    "read": NOTE,
    "invalid": "#6A6000",
}
ANOMALY = "#D55E00"
"""What a counterexample shows: duplicated, lost, overwritten, disclosed."""
ANOMALY_INK = "#B23C00"

MARKS = {
    "accepted": "✓",
    "replayed": "↺",
    "refused": "✕",
    "failed": "⊘",
    "unknown": "?",
    "read": "○",
    "invalid": "∅",
}


def ink(word: str) -> str:
    """A text colour that is readable on the colour of an outcome."""
    return "white" if word in ("accepted", "replayed") else BLACK
