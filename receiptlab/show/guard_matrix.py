"""The mutation matrix: which case notices which missing guard."""

from __future__ import annotations

from collections.abc import Sequence

from receiptlab.show.palette import ANOMALY, BLACK, NOTE, PALE
from receiptlab.show.picture import Pen, Picture, width

_ROW, _TOP, _MARGIN, _SQUARES = 15, 34, 12, 470


def matrix(
    guards: Sequence[str], cases: Sequence[str], noticed: set[tuple[str, str]], named: set[tuple[str, str]]
) -> Picture:
    """Draw a row for each guard and a column for each case, sorted by the first guard that it notices. So
    cases that each notice one guard make a diagonal.

    A filled square: without the guard, the case ends differently. A cross: a case noticed a guard that it
    doesn't name. A hollow square: a case names a guard and doesn't notice it. A contract with independent
    guards has neither of the two. Cases without a mark are left out.
    """
    rank = {guard: number for number, guard in enumerate(guards)}
    marks: dict[str, set[int]] = {}
    for guard, case in noticed | named:
        marks.setdefault(case, set()).add(rank[guard])
    columns = sorted(marks, key=lambda case: (sorted(marks[case]), cases.index(case)))
    left = _MARGIN + max(map(width, guards), default=0) + 8
    step = max(4.0, min(14.0, _SQUARES / max(len(columns), 1)))
    pen = Pen()
    for y, guard in enumerate(guards):
        top = _TOP + y * _ROW
        pen.line(left, top + _ROW, left + step * len(columns), top + _ROW, PALE, 1)
        pen.text(_MARGIN, top + 12, guard)
        for x, case in enumerate(columns):
            _mark(pen, left + x * step, top + 2, step - 1, (guard, case) in noticed, (guard, case) in named)
        several = sum((guard, case) in noticed for case in columns)
        pen.text(left + step * len(columns) + 10, top + 12, f"{several}", NOTE)
    pen.text(_MARGIN, 16, "guard", bold=True)
    pen.text(left, 16, f"each column is one of {len(columns)} cases", bold=True)
    pen.text(left, 30, "filled: without this guard the case ends differently", NOTE, size=12)
    wide, high = left + step * len(columns) + 40, _TOP + _ROW * len(guards) + 8
    said = "; ".join(f"{guard}: {', '.join(c for c in columns if (guard, c) in noticed)}" for guard in guards)
    return pen.picture(wide, high, "which case notices which missing guard", f"Noticed by {said}.")


def _mark(pen: Pen, x: float, y: float, size: float, noticed: bool, named: bool) -> None:
    if noticed and named:
        pen.box(x, y, size, 11, ANOMALY, round_=0)
    elif noticed:
        pen.line(x, y, x + size, y + 11, BLACK, 2)
        pen.line(x + size, y, x, y + 11, BLACK, 2)
    elif named:
        pen.box(x, y, size, 11, "white", ANOMALY, 0)
