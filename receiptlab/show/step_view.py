"""A run step by step: the call, how it ended, the rows that it changed, and the timeline up to there.

With a live kernel in Jupyter this is a widget. Everywhere else the run is shown as a table and a picture.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator

from receiptlab.experiment.run import Change, Run, Step
from receiptlab.show.palette import ANOMALY, BLACK, COLOURS, GREY, MARKS
from receiptlab.show.sequence_diagram import timeline
from receiptlab.show.tables import plain

_WIDGET = "application/vnd.jupyter.widget-view+json"
_SIGNS = {"added": "+", "changed": "~", "removed": "−", "more": "…"}


class Steps:
    """A run to walk through. Jupyter shows it as a widget; without a kernel, as a table and a picture.

    `page` is that table and picture as HTML.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._pictures: dict[int, str] = {}
        self.picture(len(run.steps))

    @property
    def page(self) -> str:
        rows = [_row(step) for step in self.run.steps]
        table = plain(rows, f"steps-{self.run.name}", f"{self.run.title} ({', '.join(self.run.clauses)})")
        return table.html + self.picture(len(self.run.steps))

    def call(self, number: int) -> str:
        """One step as HTML, counted from 1: who called what, with which arguments, and how it ended."""
        return _call(self.run.steps[number - 1])

    def rows(self, number: int) -> str:
        """The rows that a step changed, as HTML."""
        return _changes(self.run.steps[number - 1])

    def picture(self, number: int) -> str:
        """The timeline up to this step as HTML, with the layout of the whole run, so that nothing moves."""
        if number not in self._pictures:
            drawn = timeline(self.run, until=number)
            data = base64.b64encode(drawn.svg.encode()).decode()
            words = html.escape(drawn.words)
            self._pictures[number] = (
                f'<img style="max-width:100%" alt="{words}" src="data:image/svg+xml;base64,{data}">'
            )
        return self._pictures[number]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        bundle = {"text/plain": repr(self), "text/html": self.page}
        widget = _widget(self)
        return bundle if widget is None else bundle | {_WIDGET: widget}

    def __repr__(self) -> str:
        return "\n".join(_plain(step) for step in self.run.steps)


def steps(run: Run) -> Steps:
    """Walk through the run. Raises ValueError for a run without steps, and as `timeline` does."""
    if not run.steps:
        raise ValueError(f"{run.name} has no steps to walk through")
    return Steps(run)


def _widget(shown: Steps) -> dict | None:
    """The widget's part of the MIME bundle, when there is a live kernel and ipywidgets."""
    try:
        from IPython import get_ipython

        if getattr(get_ipython(), "kernel", None) is None:
            return None
        from receiptlab.show.step_widget import walk
    except ImportError:
        return None
    return walk(shown)._repr_mimebundle_()[_WIDGET]


# One step in words


def _row(step: Step) -> dict[str, object]:
    return {
        "#": step.number,
        "actor": step.actor,
        "call": step.call,
        "outcome": f"{MARKS[step.outcome]} {step.outcome}",
        "why": step.why or step.found,
        "rows that changed": "; ".join(_in_words(step)),
    }


def _plain(step: Step) -> str:
    told = "; ".join(_in_words(step)) or "no row changed"
    why = f" ({step.why})" if step.why else ""
    return f"{step.number} {step.actor} {step.call}: {step.outcome}{why}; {told}"


def _in_words(step: Step) -> Iterator[str]:
    """The number of changed rows per table: work ~ 1, outbox + 2."""
    counted: dict[str, dict[str, int]] = {}
    for change in step.changes or ():
        if change.what == "more":
            counted.setdefault(change.table, {})["and more"] = 0
        else:
            kinds = counted.setdefault(change.table, {})
            kinds[change.what] = kinds.get(change.what, 0) + 1
    for table, kinds in counted.items():
        yield f"{table}: " + ", ".join(f"{n} {what}" if n else what for what, n in kinds.items())


# One step as HTML


def _call(step: Step) -> str:
    ink = "white" if step.outcome in ("accepted", "replayed") else BLACK
    outcome = (
        f'<span style="background:{COLOURS[step.outcome]};color:{ink};padding:1px 8px">'
        f"{MARKS[step.outcome]} {step.outcome}</span>"
    )
    anomaly = (
        f'<b style="background:{ANOMALY};color:white;padding:1px 8px">‼ {_text(step.anomaly)}</b>'
        if step.anomaly
        else ""
    )
    told = "".join(f"<div>{_text(word)}</div>" for word in (step.note, *step.wrong) if word)
    arguments = ", ".join(f"{_text(name)} {_value(value)}" for name, value in step.args.items())
    fault = f" <i>{_text(step.fault)}</i>" if step.fault else ""
    why = step.why if step.why != step.fault else ""
    return (
        f"<div><b>{_text(step.actor)}</b> calls <b>{_text(step.call)}</b>{fault} {outcome} "
        f"{_text(why or step.found)} {anomaly}</div>{told}"
        f'<div style="color:{GREY};overflow-wrap:anywhere">{arguments}</div>'
    )


def _changes(step: Step) -> str:
    if step.changes is None:
        return "<p>The rows were not compared here.</p>"
    if not step.changes:
        return "<p>No row changed.</p>"
    rows = "".join(_changed(change) for change in step.changes)
    heads = "".join(f'<th style="text-align:left">{head}</th>' for head in ("table", "", "row", "columns"))
    return f'<table style="margin:.5em 0;line-height:1.4"><tr>{heads}</tr>{rows}</table>'


def _changed(change: Change) -> str:
    names = {**change.was, **change.row}
    columns = ", ".join(_column(name, change) for name in names)
    what = "" if change.what == "more" else change.what
    key = re.sub(r"\b([0-9a-f]{8})[0-9a-f]{56}\b", r"\1…", change.key)
    cells = (_text(change.table), f"{_SIGNS[change.what]} {what}", _text(key), columns)
    styles = ("white-space:nowrap",) * 2 + ("",) * 2
    told = (
        f'<td style="text-align:left;vertical-align:top;{style}">{cell}</td>'
        for cell, style in zip(cells, styles, strict=True)
    )
    return f"<tr>{''.join(told)}</tr>"


def _column(name: str, change: Change) -> str:
    now = _value(change.row.get(name))
    if change.what != "changed":
        return f"{_text(name)} {_value(change.was.get(name)) if change.what == 'removed' else now}"
    return f"{_text(name)} <s>{_value(change.was.get(name))}</s> → <b>{now}</b>"


def _value(value: object) -> str:
    """A value in a few characters: of a digest, the first eight."""
    text = "none" if value is None else str(value)
    is_digest = len(text) == 64 and not text.strip("0123456789abcdef")
    return _text(f"{text[:8]}…" if is_digest else text)


def _text(value: object) -> str:
    return html.escape(str(value))
