"""Tables in the terminal. Colours are left out where the output is not a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from receiptlab.record import Run

STYLES = {
    "accepted": "green",
    "replayed": "blue",
    "refused": "yellow",
    "failed": "cyan",
    "unknown": "magenta",
    "NO": "bold red",
}
_PIPED_WIDTH = 160


class _Console(Console):
    """A console that leaves a closed pipe to the caller."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """Writes to standard output; a pipe or a file gets a fixed width, so that nothing is cut."""
    out = _Console(markup=False, highlight=False, emoji=False)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        out = _Console(markup=False, highlight=False, emoji=False, width=_PIPED_WIDTH)
    return out


def progress(what: str, steps: Sequence) -> Iterable:
    """The steps, with a bar on standard error while they run; none where that is no terminal."""
    err = Console(stderr=True)
    return track(steps, description=what, console=err, transient=True, disable=not err.is_terminal)


def grid(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table whose cells are taken as they are, never as markup."""
    table = Table(
        title=Text(title) if title else None, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD
    )
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        cells = [cell for _, cell in zip(columns, row, strict=True)]
        table.add_row(*(Text(str(cell), style=STYLES.get(str(cell), "")) for cell in cells))
    return table


def steps(run: Run) -> Table:
    """The outcome table of one run, a row a step."""
    columns = ["#", "actor", "call", "now", "fault", "outcome", "reason", *run.count_names, "as expected"]
    rows = []
    for step in run.steps:
        now = "–" if step.now is None else step.now
        verdict = "NO" if step.wrong else "yes" if step.expect is not None else "–"
        counts = step.counts or ("",) * len(run.count_names)
        rows.append(
            (step.number, step.actor, step.call, now, step.fault, step.outcome, step.why, *counts, verdict)
        )
    return grid(f"{run.title} ({run.name})", columns, rows)


def runs(title: str, all_runs: Iterable[Run]) -> Table:
    """A row a run: the outcomes of its steps, the counts after the last, and whether all was as expected."""
    columns = ("clauses", "case or scenario", "kind", "outcomes", "counts", "as expected")
    rows = [
        (
            ", ".join(run.clauses),
            run.name,
            run.kind,
            run.story,
            " ".join(map(str, run.last.counts)),
            "yes" if run.held else "NO",
        )
        for run in all_runs
    ]
    return grid(title, columns, rows)


def complaints(run: Run) -> list[str]:
    """What did not come out as expected, a line each."""
    return [
        f"{run.name}, step {step.number} ({step.call}): {wrong}" for step in run.steps for wrong in step.wrong
    ]
