"""Searches for a short sequence of calls on which a contract and its model disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from receiptlab.faults.seeded import Draw, Hashed
from receiptlab.models.calls import draw_step
from receiptlab.models.pair import Disagreement, Pair, Step

LENGTH = 40
"""Calls per sequence."""

Progress = Callable[..., None]


def explore(
    make: Callable[[str], Pair],
    size: int,
    seed: int = 1,
    length: int = LENGTH,
    progress: Progress | None = None,
    stop: bool = False,
) -> dict:
    """Run `size` sequences on pairs from `make(title)`. Returns a row: seed, sequences, calls,
    disagreements, outcomes (how often each call ended how) and witness (a short case file, or ""). The
    same seed gives the same calls. With `stop`, it ends at the first disagreement."""
    row = {"seed": seed, "sequences": 0, "calls": 0, "disagreements": 0, "outcomes": Counter(), "witness": ""}
    for number in range(size):
        title = f"contract and model disagree: seed {seed}, sequence {number}"
        try:
            with make(title) as pair:
                row["outcomes"].update(sequence(pair, Hashed(seed, number), length))
            row["calls"] += length
        except Disagreement as found:
            row["calls"] += len(found.steps)
            row["disagreements"] += 1
            row["witness"] = row["witness"] or shrunk(lambda title=title: make(title), found).case
        row["sequences"] += 1
        if progress:
            progress(number + 1, size)
        if stop and row["disagreements"]:
            break
    return row


def sequence(pair: Pair, draw: Draw, length: int) -> list[str]:
    """Run one sequence. Returns how each call ended. Raises Disagreement."""
    clock, lines = 0, []
    for _ in range(length):
        step = draw_step(pair.model, draw, clock)
        ended = pair.step(*step)
        clock = later(clock, step)
        lines.append(" ".join(filter(None, (step[1], ended.word, ended.reason, *ended.fields))))
    return lines


def later(clock: int, step: Step) -> int:
    """The time after a step. A call from the far future doesn't move the clock."""
    now = step[2].get("now")
    return now if type(now) is int and 0 <= now < clock + 50_000 else clock


def shrunk(make: Callable[[], Pair], found: Disagreement) -> Disagreement:
    """A shorter sequence on which they still disagree: steps are left out as long as that is possible."""
    part = len(found.steps) // 2
    while part:
        at = 0
        while at < len(found.steps):
            shorter = _again(make, found.steps[:at] + found.steps[at + part :])
            found = shorter or found
            at += 0 if shorter else part
        part //= 2
    found = _again(make, [(*step[:3], "") for step in found.steps]) or found
    alone = [("a", *rest) for _, *rest in found.steps]
    return _again(make, alone) or _again(make, found.steps) or found


def _again(make: Callable[[], Pair], steps: list[Step]) -> Disagreement | None:
    try:
        with make() as pair:
            for step in steps:
                pair.step(*step)
    except Disagreement as found:
        return found
    return None
