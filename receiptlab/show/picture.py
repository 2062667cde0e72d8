"""An SVG picture, and a pen that draws one. Needs only the standard library."""

from __future__ import annotations

import html

from receiptlab.show.palette import BLACK

FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
SIZE = 13
"""The size of text, in pixels."""
LINE = 16
"""The height of a line of text."""

_NARROW, _WIDE = frozenset("ijlIt.,:;'|!()[]f -r/"), frozenset("mwMW—…%@✓↺✕‼")


class Picture:
    """An SVG drawing. Jupyter shows it; `save` writes it to a file.

    `rows` has the top and bottom of each step of a run, by its number."""

    def __init__(self, svg: str, words: str, rows: dict[int, tuple[float, float]] | None = None) -> None:
        self.svg = svg
        self.words = words
        self.rows = rows or {}

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return self.words

    def save(self, path: str) -> None:
        """Write the drawing to `path` as SVG. Raises OSError as `open` does."""
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(self.svg)


def printable(text: str) -> str:
    """The text with escapes in place of control characters and lone surrogates, which XML can't hold."""
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


def width(text: str, size: int = SIZE, bold: bool = False) -> float:
    """The approximate width of a text in pixels, rounded up rather than down."""
    ems = sum(0.37 if each in _NARROW else 0.95 if each in _WIDE else 0.63 for each in text)
    return ems * size * (1.1 if bold else 1.0)


def wrap(text: str, most: float, size: int = SIZE) -> list[str]:
    """The text in lines of at most `most` pixels, broken at spaces."""
    lines: list[str] = []
    for word in text.split():
        if lines and width(f"{lines[-1]} {word}", size) <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


class Pen:
    """Draws lines, boxes and text, in pixels from the top left corner."""

    def __init__(self) -> None:
        self._back: list[str] = []
        self._front: list[str] = []

    def line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str, thick: float = 1.3, dash: str = ""
    ) -> None:
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._back.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"'
            f' stroke-width="{thick:g}"{dashes}/>'
        )

    def arrow(self, x1: float, x2: float, y: float, colour: str, dash: str = "") -> None:
        """A horizontal arrow from x1 to x2."""
        way = 1 if x2 > x1 else -1
        self.line(x1, y, x2 - 6 * way, y, colour, 1.5, dash)
        points = f"{x2:.1f},{y:.1f} {x2 - 9 * way:.1f},{y - 4.5:.1f} {x2 - 9 * way:.1f},{y + 4.5:.1f}"
        self._back.append(f'<polygon points="{points}" fill="{colour}"/>')

    def box(
        self, x: float, y: float, wide: float, high: float, fill: str, stroke: str = "none", round_: float = 3
    ) -> None:
        self._back.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="{round_:g}"'
            f' fill="{fill}" stroke="{stroke}"/>'
        )

    def dot(self, x: float, y: float, radius: float, fill: str, stroke: str) -> None:
        self._back.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}" stroke="{stroke}"'
            ' stroke-width="1.5"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = BLACK,
        *,
        anchor: str = "start",
        bold: bool = False,
        size: int = SIZE,
        halo: bool = False,
    ) -> None:
        """Text on the base line `y`. A halo keeps it readable over lines."""
        weight = ' font-weight="bold"' if bold else ""
        around = (
            ' stroke="white" stroke-width="4" paint-order="stroke" stroke-linejoin="round"' if halo else ""
        )
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._front.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"{place}{weight}{around}>'
            f"{html.escape(text, quote=False)}</text>"
        )

    def picture(self, wide: float, high: float, name: str, words: str) -> Picture:
        """What was drawn, on white. `words` describe it to those who can't see it.

        On a narrow screen it shrinks to 75 %, so that text keeps at least nine pixels, and then scrolls.
        """
        body = "\n".join(self._back + self._front)
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}"'
            f' height="{high:.0f}" style="max-width:100%;min-width:{0.75 * wide:.0f}px;height:auto"'
            f' role="img" font-family="{FONT}">\n<title>{html.escape(name, quote=False)}</title>\n'
            f"<desc>{html.escape(words, quote=False)}</desc>\n"
            f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
        )
        return Picture(printable(svg), printable(words))
