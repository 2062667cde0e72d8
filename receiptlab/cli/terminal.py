"""Tables in the terminal. Colours are left out where the output is not a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from receiptlab.experiment.run import Run

STYLES = {
    "accepted": "green",
    "replayed": "blue",
    "refused": "yellow",
    "failed": "cyan",
    "unknown": "magenta",
    "NO": "bold red",
}
_PIPED_WIDTH = 160
_NARROW = 120


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


def printable(text: object) -> str:
    """The text with everything that could steer a terminal written as an escape."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in str(text)
    )


def grid(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], whole: Sequence[str] = ()
) -> Table:
    """A table whose cells are taken as they are, never as markup. The columns in `whole` are not folded."""
    table = Table(
        title=Text(printable(title)) if title else None,
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        table.add_column(Text(column), overflow="fold", no_wrap=column in whole)
    for row in rows:
        cells = [cell for _, cell in zip(columns, row, strict=True)]
        table.add_row(*(Text(printable(cell), style=STYLES.get(str(cell), "")) for cell in cells))
    return table


def steps(run: Run) -> Table:
    """The outcome table of one run, a row a step."""
    faults = ["fault"] if any(step.fault for step in run.steps) else []
    columns = ["#", "actor", "call", "now", *faults, "outcome", "reason or finding", "counts", "ok"]
    rows = []
    for step in run.steps:
        now = "–" if step.now is None else step.now
        verdict = "NO" if step.wrong else "yes" if step.expect is not None else "–"
        fault = [step.fault] if faults else []
        counts = " ".join(map(str, step.counts))
        rows.append(
            (step.number, step.actor, step.call, now, *fault, step.outcome, step.why, counts, verdict)
        )
    named = f"; counts: {', '.join(run.count_names)}" if run.count_names else ""
    return grid(f"{run.title} ({run.name}){named}", columns, rows, whole=("#", "outcome", "counts", "ok"))


def runs(title: str, all_runs: Iterable[Run], width: int = _PIPED_WIDTH) -> Table:
    """A row a run: the outcomes of its steps, the counts after the last, and whether all was as expected.
    A narrow terminal does without the clauses and the kind."""
    columns = ["clauses", "case or scenario", "kind", "outcomes", "counts", "ok"]
    rows = []
    for run in all_runs:
        counts, verdict = " ".join(map(str, run.last.counts)), "yes" if run.held else "NO"
        rows.append([", ".join(run.clauses), run.name, run.kind, run.story, counts, verdict])
    if width < _NARROW:
        columns, *rows = ([line[n] for n in (1, 3, 4, 5)] for line in (columns, *rows))
    return grid(title, columns, rows, whole=("case or scenario", "kind", "counts", "ok"))


def complaints(run: Run) -> list[str]:
    """What did not come out as expected, a line each."""
    told = [
        f"{run.name}, step {step.number} ({step.call}): {wrong}" for step in run.steps for wrong in step.wrong
    ]
    return [printable(line) for line in told]
