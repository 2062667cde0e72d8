"""Tables in the terminal: with rich where it is installed (the extra `cli`), else as plain columns."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

try:
    from rich import box
    from rich.console import Console
    from rich.progress import Progress, track
    from rich.table import Table
    from rich.text import Text
except ImportError:
    Console = None

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


class Plain:
    """Replaces rich's console when rich is missing."""

    width = _PIPED_WIDTH

    def print(self, table: object) -> None:
        print(table)


def console() -> Console | Plain:
    """Writes to standard output. A pipe or a file gets a fixed width, so that nothing is cut."""
    if Console is None:
        return Plain()

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # the caller decides

    out = Piped(markup=False, highlight=False, emoji=False)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        out = Piped(markup=False, highlight=False, emoji=False, width=_PIPED_WIDTH)
    return out


def progress(what: str, steps: Sequence) -> Iterable:
    """The steps, with a progress bar on standard error when that is a terminal."""
    if Console is None:
        return steps
    err = Console(stderr=True)
    return track(steps, description=what, console=err, transient=True, disable=not err.is_terminal)


@contextlib.contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[int], object] | None]:
    """A progress bar on standard error: a function that sets how much is done, or None without a terminal."""
    err = Console(stderr=True) if Console else None
    if err is None or not err.is_terminal:
        yield None
        return
    with Progress(console=err, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done: shown.update(task, completed=done)


def printable(text: object) -> str:
    """The text, with everything that could control a terminal written as an escape."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in str(text)
    )


def grid(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], whole: Sequence[str] = ()
) -> Table | str:
    """A table. Cells are printed as they are, never as markup. The columns in `whole` are not folded."""
    if Console is None:
        return _columns(title, columns, rows)
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


def _columns(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [list(columns), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
    return f"{printable(title)}\n{text}\n" if title else text


def steps(run: Run) -> Table | str:
    """The outcome table of one run, one row per step."""
    faults = ["fault"] if any(step.fault for step in run.steps) else []
    columns = ["#", "actor", "call", "now", *faults, "outcome", "reason or class", "counts", "ok"]
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


def runs(title: str, all_runs: Iterable[Run], width: int = _PIPED_WIDTH) -> Table | str:
    """One row per run: the outcomes of its steps, the counts after the last one, and whether all was as
    expected. In a narrow terminal, clauses and kind are left out."""
    columns = ["clauses", "case or scenario", "kind", "outcomes", "counts", "ok"]
    rows = []
    for run in all_runs:
        counts, verdict = " ".join(map(str, run.last.counts)), "yes" if run.held else "NO"
        rows.append([", ".join(run.clauses), run.name, run.kind, run.story, counts, verdict])
    if width < _NARROW:
        columns, *rows = ([line[n] for n in (1, 3, 4, 5)] for line in (columns, *rows))
    return grid(title, columns, rows, whole=("case or scenario", "kind", "counts", "ok"))


def complaints(run: Run) -> list[str]:
    """What was not as expected, one line each."""
    return [
        printable(f"{run.name}, step {step.number} ({step.call}): {wrong}")
        for step in run.steps
        for wrong in step.wrong
    ]
