"""A run step by step, beside its sequence diagram: how each call ended, and the rows that it changed.

It is a piece of HTML that needs no kernel. A few lines of script in it let you choose a step with a click or
the arrow keys. The picture then marks the step and fades what comes later. Where scripts don't run, every
step is shown.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator

from receiptlab.experiment.run import Change, Run, Step
from receiptlab.show import words
from receiptlab.show.palette import ANOMALY_INK, INKS
from receiptlab.show.picture import printable
from receiptlab.show.sequence_diagram import timeline

_SIGNS = {"added": "+", "changed": "~", "removed": "−", "more": "…"}


class Steps:
    """A run to walk through. Jupyter shows `page`, which is HTML."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.page = _page(run)

    def _repr_html_(self) -> str:
        return self.page

    def __repr__(self) -> str:
        return "\n".join(_plain(step) for step in self.run.steps)


def steps(run: Run) -> Steps:
    """Walk through the run. Raises ValueError for a run without steps, and as `timeline` does."""
    if not run.steps:
        raise ValueError(f"{run.name} has no steps to walk through")
    return Steps(run)


def _plain(step: Step) -> str:
    changed = "; ".join(_in_words(step)) or "no row changed"
    why = f" ({step.why})" if step.why else ""
    return f"{step.number} {step.actor} {step.call}: {step.outcome}{why}; {changed}"


def _in_words(step: Step) -> Iterator[str]:
    """The number of changed rows per table: work: 1 changed, outbox: 2 added."""
    counted: dict[str, dict[str, int]] = {}
    for change in step.changes or ():
        if change.what == "more":
            counted.setdefault(change.table, {})["and more"] = 0
        else:
            kinds = counted.setdefault(change.table, {})
            kinds[change.what] = kinds.get(change.what, 0) + 1
    for table, kinds in counted.items():
        yield f"{table}: " + ", ".join(f"{n} {what}" if n else what for what, n in kinds.items())


# The HTML. The list takes the arrow keys, which JupyterLab would use to move between cells.

_STYLE = """<style>
.receiptlab-steps { display: flex; flex-wrap: wrap; gap: 12px; font-size: 13px; line-height: 1.4; }
.receiptlab-steps > div { flex: 1 1 400px; min-width: 0; max-height: 640px; overflow: auto; }
.receiptlab-steps ol { margin: 0; padding: 0; list-style: none; }
.receiptlab-steps li { padding: 4px 8px; border-left: 4px solid transparent; overflow-wrap: anywhere; }
.receiptlab-steps [role=option] { cursor: pointer; }
.receiptlab-steps li[aria-selected=true] { border-left-color: #0072B2; background: rgba(0, 114, 178, 0.12); }
.receiptlab-steps li > div { padding-left: 1.4em; }
.receiptlab-steps li[aria-selected=false] > div { display: none; }
.receiptlab-steps b.ended { background: white; padding: 0 4px; }
</style>"""

_SCRIPT = """<script>
(() => {
  const box = document.currentScript.previousElementSibling, list = box.querySelector("ol");
  const items = [...list.children], rows = JSON.parse(box.dataset.rows), last = items.length - 1;
  const [shade, cover] = box.querySelectorAll("svg .shade, svg .cover");
  const choose = (at) => {
    at = Math.max(0, Math.min(at, last));
    const [top, bottom] = rows[at];
    items.forEach((item, n) => item.setAttribute("aria-selected", n === at));
    list.setAttribute("aria-activedescendant", items[at].id);
    shade.setAttribute("y", top); shade.setAttribute("height", Math.max(bottom - top, 0));
    cover.setAttribute("y", bottom);
    items[at].scrollIntoView({ block: "nearest" });
    const frame = box.lastElementChild, scale = frame.scrollHeight / rows.at(-1)[1];
    frame.scrollTop = Math.max(0, bottom * scale - frame.clientHeight + 60);
  };
  const at = () => items.findIndex((item) => item.getAttribute("aria-selected") === "true");
  const moves = { ArrowUp: () => at() - 1, ArrowDown: () => at() + 1, Home: () => 0, End: () => last };
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "steps");
  list.tabIndex = 0;
  items.forEach((item, n) => {
    item.setAttribute("role", "option");
    item.addEventListener("click", () => { list.focus(); choose(n); });
  });
  list.addEventListener("keydown", (event) => {
    if (moves[event.key]) { event.preventDefault(); event.stopPropagation(); choose(moves[event.key]()); }
  });
  choose(0);
})();
</script>"""


def _page(run: Run) -> str:
    drawn = timeline(run)
    varied = words.deciding(run)
    # The script sets the places of two boxes: one behind the chosen step, one over the steps after it.
    boxes = '<rect class="shade" width="100%" height="0" fill="#0072B2" fill-opacity="0.12"/>'
    boxes += '<rect class="cover" width="100%" height="100%" y="100%" fill="white" fill-opacity="0.8"/>'
    picture = drawn.svg.replace("</svg>", f"{boxes}</svg>")
    name = re.sub(r"\W", "-", run.name)
    items = "".join(_item(run, step, varied, f"step-{name}-{step.number}") for step in run.steps)
    rows = html.escape(json.dumps([drawn.rows[step.number] for step in run.steps]))
    return (
        f'{_STYLE}\n<div class="receiptlab-steps" data-rows="{rows}">\n'
        f'<div><ol data-lm-suppress-shortcuts="true">{items}</ol></div>\n'
        f"<div>{picture}</div>\n</div>{_SCRIPT}"
    )


def _item(run: Run, step: Step, varied: frozenset[str], name: str) -> str:
    call = _text(words.call(run, step, varied))
    ink = ANOMALY_INK if step.anomaly else INKS[words.tone(step)]
    ended = f'<b class="ended" style="color:{ink}">{_text(words.answer(step))}</b>'
    more = "".join(f"<div>{_text(word)}</div>" for word in (step.note, *step.wrong) if word)
    return (
        f'<li id="{name}">{step.number}. {_text(step.actor)}: {call} → {ended}'
        f"{more}<div>{_changes(step)}</div></li>\n"
    )


def _changes(step: Step) -> str:
    if step.changes is None:
        return "The rows were not compared here."
    return "<br>".join(_changed(change) for change in step.changes) or "No row changed."


def _changed(change: Change) -> str:
    if change.what == "more":
        return f"… {_text(change.table)}: {_text(change.key)}"
    names = {**change.was, **change.row}
    columns = ", ".join(_column(name, change) for name in names)
    key = re.sub(r"\b([0-9a-f]{8})[0-9a-f]{56}\b", r"\1…", change.key)
    return f"{_SIGNS[change.what]} <b>{_text(change.table)}</b> ({_text(key)}): {columns}"


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
    return html.escape(printable(str(value)))
