"""Tables: one row per step of a run, or any rows in the same style."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

import pandas as pd

from receiptlab.experiment.run import Run, Step
from receiptlab.show import words
from receiptlab.show.palette import ANOMALY, COLOURS, GREY, MARKS, ink


class Table:
    """A table. Jupyter shows it in colour; elsewhere it is plain text. `frame` holds the data."""

    def __init__(self, frame: pd.DataFrame, page: str) -> None:
        self.frame = frame
        self.html = page

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.frame.to_string(index=False)


def table(run: Run, counts: bool = True) -> Table:
    """The steps of a run: who made which call, when, how it ended, and the counts that change in this run.
    A column that says nothing in this run is left out, and without `counts` all of theirs."""
    varied = words.deciding(run)
    frame = pd.DataFrame([_row(run, step, varied) for step in run.steps])
    for column in ("fault", "note", "what went wrong", "not as expected"):
        if not frame[column].any():
            frame = frame.drop(columns=column)
    if not counts:
        frame = frame.drop(columns=list(run.count_names))
    if len(frame) > 1:
        same = [name for name in ("now", *run.count_names) if name in frame and frame[name].nunique() == 1]
        frame = frame.drop(columns=same)
    clauses = f" ({', '.join(run.clauses)})" if run.clauses else ""
    return _table(frame, run.name, f"{run.title}{clauses}")


def _row(run: Run, step: Step, varied: frozenset[str]) -> dict[str, object]:
    return {
        "#": step.number,
        "actor": step.actor,
        "call": words.call(run, step, varied),
        "now": "–" if step.now is None else str(step.now),
        "fault": step.fault,
        "answer": f"{MARKS[words.tone(step)]} {words.answer(step)}",
        **dict(zip(run.count_names, step.counts, strict=False)),
        "note": step.note,
        "what went wrong": f"‼ {step.anomaly}" if step.anomaly else "",
        "not as expected": "; ".join(step.wrong),
    }


def plain(rows: Iterable[dict[str, object]], name: str, caption: str = "") -> Table:
    """Any rows in the lab's table style. `name` becomes part of the ids in the page, so use each name
    once."""
    return _table(pd.DataFrame(list(rows)), name, caption)


def _table(frame: pd.DataFrame, name: str, caption: str) -> Table:
    styler = (
        frame.style.hide(axis="index")
        .map(_colour)
        .set_uuid(re.sub(r"\W", "-", name))
        .format(escape="html", precision=2, thousands=",")
    )
    styler = styler.set_table_styles(_STYLES)
    if caption:
        styler = styler.set_caption(html.escape(caption))
    return Table(frame, styler.to_html())


_STYLES = [
    {
        "selector": "caption",
        "props": f"caption-side: top; text-align: left; font-weight: bold; color: {GREY};",
    },
    {"selector": "th", "props": "text-align: left; white-space: nowrap; padding: 4px 10px;"},
    {"selector": "td", "props": "text-align: left; vertical-align: top; padding: 4px 10px;"},
]


def _colour(value: object) -> str:
    """The style of one cell: outcomes and anomalies in their colours, names of cases on one line."""
    mark = str(value).partition(" ")[0]
    if mark == "‼":
        return f"color: white; background-color: {ANOMALY}; font-weight: bold;"
    for word, its in MARKS.items():
        if mark == its:
            return f"color: {ink(word)}; background-color: {COLOURS[word]};"
    return "white-space: nowrap;" if re.fullmatch(r"[A-Z]-\d\d-[\w-]+", str(value)) else ""
