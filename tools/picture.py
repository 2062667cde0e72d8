"""The picture at the top of the README, drawn from two runs: python tools/picture.py [--check]

The same story twice: an answer is lost, and the worker retries.
"""

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path

from receiptlab import show
from receiptlab.experiment.run import Run
from receiptlab.lesson import case, scenario
from receiptlab.show.palette import ANOMALY_INK, BLACK, INKS, NOTE
from receiptlab.show.picture import FONT

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "data" / "overview.svg"
HEAD, GAP = 58, 30  # pixels above the timelines, and between them


def stories() -> tuple[tuple[str, str, str, Run], ...]:
    """For each side: a headline, a description, its colour, and the run."""
    naive, kept = scenario("no-key"), case("O-02-answer-lost")
    return (
        ("Asked again, done again", "a call without a key", ANOMALY_INK, titled(naive, 0)),
        ("Asked again, answered again", "a receipt, saved under a key", INKS["accepted"], titled(kept, 2)),
    )


def titled(run: Run, first: int) -> Run:
    """The run from its step `first` on, without title and clauses, which are drawn above it."""
    steps = [replace(step, number=number) for number, step in enumerate(run.steps[first:], 1)]
    return replace(run, title="", clauses=(), steps=tuple(steps))


def drawn() -> str:
    """Both timelines side by side, each under its sentence."""
    parts, left, height = [], 0.0, 0.0
    for words, about, colour, run in stories():
        inside, wide, high = _timeline(run)
        parts += [
            f'<svg x="{left:g}" y="{HEAD - 22:g}" width="{wide:g}" height="{high:g}" '
            f'viewBox="0 0 {wide:g} {high:g}">{inside}</svg>',
            f'<rect x="{left + 10:g}" y="14" width="6" height="38" fill="{colour}"/>',
            _text(left + 26, 30, words, f'font-size="15" font-weight="bold" fill="{BLACK}"'),
            _text(left + 26, 49, about, f'font-size="13" fill="{NOTE}"'),
        ]
        left, height = left + wide + GAP, max(height, high + HEAD - 22)
    width, space = left - GAP, 'xmlns="http://www.w3.org/2000/svg"'
    head = (
        f'<svg {space} viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
        f' font-family="{FONT}">'
    )
    return (
        "\n".join((head, f'<rect width="{width:g}" height="{height:g}" fill="white"/>', *parts, "</svg>"))
        + "\n"
    )


def _text(x: float, y: float, words: str, style: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" {style}>{words}</text>'


def _timeline(run: Run) -> tuple[str, float, float]:
    """The contents of a timeline's svg element, and its size in pixels."""
    svg = show.timeline(run).svg
    wide, high = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()
    return svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")], float(wide), float(high)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Draw the picture of the README.")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail when it differs")
    options = parser.parse_args(arguments)
    text = drawn()
    if options.check:
        same = PICTURE.read_text(encoding="utf-8") == text
        print("the picture matches its runs" if same else "the picture differs; run: python tools/picture.py")
        return 0 if same else 1
    PICTURE.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
