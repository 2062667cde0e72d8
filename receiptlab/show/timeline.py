"""The timeline of a run: one lane per actor and one for the database, with events from left to right.

x is the number of the event, not wall time. A bar is a lease. A line goes down to the database when the call
reached it, and is broken when the answer or the call was lost.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from receiptlab.experiment.run import Lease, Run, Step
from receiptlab.show.style import (
    ANOMALY,
    BLACK,
    COLOURS,
    GREY,
    PALE,
    SHAPES,
    Picture,
    picture,
    settings,
)

_EVENT, _LANE, _LEFT, _RIGHT, _HEAD, _FOOT = 1.42, 0.98, 1.5, 0.4, 0.45, 0.5  # inches
_A_ROW = 7  # events per row
MAX_EVENTS, MAX_ACTORS = 200, 12
_DATABASE = "database"


@dataclass(frozen=True)
class _Bar:
    lane: str
    start: float
    end: float
    words: str
    expired: bool
    slot: int


def timeline(run: Run, until: int | None = None) -> Picture:
    """Draw the run, with at most seven events per row.

    With `until`, only the events up to that number are drawn, on the lanes of the whole run, and the last one
    is highlighted in grey.

    Raises ValueError for more than 200 events or 12 actors, which would be unreadable.
    """
    actors = list(dict.fromkeys(step.actor for step in run.steps if step.call != "reopen"))
    if len(run.steps) > MAX_EVENTS or len(actors) > MAX_ACTORS:
        raise ValueError(
            f"a timeline shows at most {MAX_EVENTS} events and {MAX_ACTORS} actors; draw a part of it"
        )
    lanes = [*actors, _DATABASE if _DATABASE not in actors else "the database file"]
    rows = [run.steps[at : at + _A_ROW] for at in range(0, len(run.steps), _A_ROW)]
    told = replace(run, steps=run.steps[:until])
    clauses = textwrap.shorten(", ".join(run.clauses), 40, placeholder=" …")
    head = f"{run.title}   {clauses}"
    width = max(_LEFT + _EVENT * min(len(run.steps), _A_ROW) + _RIGHT, 0.1 * len(head) + 0.5)
    row_height = _LANE * len(lanes) + _FOOT
    height = _HEAD + row_height * len(rows)
    with settings():
        figure = Figure(figsize=(width, height))
        figure.text(
            0.12 / width, 1 - 0.28 / height, f"{run.title}   ", fontsize=11, weight="bold", color=BLACK
        )
        figure.text(1 - 0.12 / width, 1 - 0.28 / height, clauses, ha="right", color=GREY)
        for number, steps in enumerate(rows):
            bottom = height - _HEAD - row_height * (number + 1) + _FOOT
            box = (_LEFT / width, bottom / height, _EVENT * len(steps) / width, _LANE * len(lanes) / height)
            axes = figure.add_axes(box)
            _draw_row(axes, told, steps, lanes)
            if until in [step.number for step in steps]:
                axes.axvspan(until - 0.5, until + 0.5, color=PALE, alpha=0.5, zorder=0)
        return picture(figure, f"timeline of {run.name}: {len(run.steps)} events")


def _draw_row(axes, run: Run, steps: tuple[Step, ...], lanes: list[str]) -> None:
    first, last = steps[0].number, steps[-1].number
    axes.set_xlim(first - 0.5, last + 0.5)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    _lanes(axes, lanes)
    for bar in _bars(run, lanes):
        if bar.start < last + 0.5 and bar.end > first - 0.5:
            _draw_bar(axes, bar, lanes.index(bar.lane), first - 0.5, last + 0.5)
    for step in (step for step in steps if step.number <= len(run.steps)):
        if step.call == "reopen":
            _draw_reopen(axes, step, len(lanes))
        else:
            _draw_call(axes, step, lanes.index(step.actor), len(lanes) - 1)
        before = run.steps[step.number - 2].counts if step.number > 1 else (0,) * len(step.counts)
        _draw_counts(axes, step, before, len(lanes) - 1, run.count_names)
    labels = [
        f"{step.number}\nnow {_short(step.now)}" if step.now is not None else f"{step.number}"
        for step in steps
    ]
    axes.set_xticks([step.number for step in steps], labels, color=GREY, fontsize=8.5)
    names = ", ".join(run.count_names)
    if names:
        axes.annotate(
            textwrap.fill(f"({names})", 26),
            (0, len(lanes) - 0.78),
            (-0.12, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=7.5,
            color=BLACK,
        )


def _short(now: int) -> str:
    """Long times would overlap, so only the last digits are shown."""
    return str(now) if now < 10**9 else f"…{now % 10**6:06}"


def _lanes(axes, lanes: list[str]) -> None:
    names = [textwrap.fill(name, 17) for name in lanes]
    axes.set_yticks(range(len(lanes)), names, color=BLACK)
    axes.tick_params(length=0, pad=8)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for y in range(len(lanes) - 1):
        axes.axhline(y, color=GREY, linewidth=0.8, zorder=1)
    axes.axhspan(len(lanes) - 1.14, len(lanes) - 0.86, color=PALE, zorder=0)


def _bars(run: Run, lanes: list[str]) -> list[_Bar]:
    """Each lease, from the event that began it to the event that ended it or to its expiry."""
    bars = []
    seen: dict[Lease, Step] = {}
    for step in run.steps:
        for lease in step.leases:
            seen.setdefault(lease, step)
    for lease, start in seen.items():
        end, expired = _end(run, lease, start.number)
        lane = start.actor if start.actor in lanes else lanes[-1]
        slot = sum(1 for bar in bars if bar.lane == lane and bar.end > start.number)
        number = "token" if lease.on.startswith("queue ") else "fence"  # a queue's lease has its own token
        words = f"{number} {lease.fence}, {'expired at' if expired else 'until'} {lease.until}"
        bars.append(_Bar(lane, start.number, end, words, expired, slot))
    return bars


def _end(run: Run, lease: Lease, start: int) -> tuple[float, bool]:
    for step in run.steps[start:]:
        if step.now is not None and step.now >= lease.until:
            return step.number - 0.35, True
        if lease not in step.leases:
            return step.number, False
    return len(run.steps) + 0.5, False


def _draw_bar(axes, bar: _Bar, y: int, left: float, right: float) -> None:
    start, end = max(bar.start, left), min(bar.end, right)
    top = y + 0.1 + 0.2 * bar.slot
    axes.barh(top + 0.08, end - start, height=0.17, left=start, color=COLOURS["failed"], alpha=0.45, zorder=1)
    if bar.expired and end == bar.end:
        axes.plot([end, end], [top - 0.03, top + 0.19], color=BLACK, linewidth=1.4, zorder=3)
    if bar.start >= left:  # a bar that continues from the row above needs no second label
        inside = not bar.expired and 0.042 * len(bar.words) < end - start
        below = 0 if inside else 0.18
        axes.text(start + 0.06, top + 0.09 + below, bar.words, va="center", fontsize=7, color=BLACK, zorder=4)


def _draw_call(axes, step: Step, y: int, database: int) -> None:
    colour, x = COLOURS[step.outcome], step.number
    before_commit = step.outcome == "unknown" and step.fault not in ("", "after_commit")
    reached = database - (0.36 if before_commit else 0.16)
    lost = step.outcome == "unknown"
    sent = step.outcome != "invalid"
    if sent:
        axes.plot(
            [x, x],
            [y, reached],
            color=colour,
            linewidth=1.6,
            linestyle=(0, (3, 2)) if lost else "-",
            zorder=2,
        )
    if sent and not before_commit:
        axes.plot(x, reached, marker="v", markersize=5, color=colour, zorder=3)
    if lost:
        axes.plot(
            x,
            reached if before_commit else (y + reached) / 2,
            marker="x",
            markersize=9,
            markeredgewidth=2.2,
            color=ANOMALY,
            zorder=5,
        )
    axes.plot(
        x, y, marker=SHAPES[step.outcome], markersize=9, color=colour, markeredgecolor="white", zorder=4
    )
    words = _words(step)
    axes.text(
        x,
        y - 0.44 - 0.08 * max(0, words.count("\n") - 1),  # a third line would cover the mark
        words,
        ha="center",
        va="top",
        fontsize=8,
        linespacing=1.15,
        color=BLACK,
        zorder=6,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.9},
    )


def _words(step: Step) -> str:
    lost = {"before_commit": "crash before commit", "after_commit": "answer lost", "": step.why}
    why = step.why or step.found
    if step.outcome == "unknown":
        why = lost.get(step.fault, f"crash {step.fault}")
    wrapped = textwrap.fill(why.replace("_", "_\u200b"), 20) if why else ""
    statement = (
        step.call.split()[0].isupper() and step.outcome != "failed"
    )  # a statement that ran needs no more
    head = step.call if statement or step.call == "waits" else f"{step.call}: {step.outcome}"
    return "\n".join(part for part in (head, wrapped.replace("\u200b", "")) if part)


def _draw_reopen(axes, step: Step, lanes: int) -> None:
    axes.plot(
        [step.number] * 2, [-0.5, lanes - 1.16], color=BLACK, linewidth=1.2, linestyle=(0, (1, 2)), zorder=2
    )
    axes.text(
        step.number,
        -0.44,
        "file reopened",
        ha="center",
        va="top",
        fontsize=8,
        color=BLACK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
    )


def _by_file(names: tuple[str, ...], counts: tuple[int, ...]) -> str:
    """The counts, one line per file. The part of a count's name before the colon is its file."""
    lines: dict[str, list[str]] = {}
    for name, count in zip(names or ("",) * len(counts), counts, strict=True):
        file, colon, _ = name.partition(": ")
        lines.setdefault(file if colon else "", []).append(str(count))
    return "\n".join(f"{file} {', '.join(told)}".strip() for file, told in lines.items())


def _draw_counts(axes, step: Step, before: tuple, y: int, names: tuple[str, ...]) -> None:
    if step.counts:
        changed = before != step.counts
        told = _by_file(names, step.counts)
        several = "\n" in told
        axes.text(
            step.number,
            y - 0.12 if several else y + 0.02,
            told,
            ha="center",
            va="top" if several else "center",
            fontsize=8 if several else 9,
            linespacing=1.05 if several else None,
            weight="bold" if changed else "normal",
            color=BLACK if changed else GREY,
            zorder=4,
        )
    if step.anomaly:
        axes.text(
            step.number,
            y + 0.33,
            f" {textwrap.shorten(step.anomaly, 18, placeholder=chr(0x2026))} ",
            ha="center",
            va="center",
            fontsize=8,
            weight="bold",
            color="white",
            bbox={"facecolor": ANOMALY, "edgecolor": "none", "boxstyle": "round,pad=0.25"},
            zorder=6,
        )
