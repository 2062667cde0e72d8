"""A notebook in JupyterLab, opened, run and looked at as a reader does it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.documents.browser import Complaints
from tools import notebooks

PANEL = ".jp-NotebookPanel:visible"
STEPS = ".receiptlab-steps"
STEPS_CALL = "show.steps("
PATIENCE = 10  # seconds, until a widget has answered
LONGEST_RUN = 300_000  # milliseconds
# What JupyterLab's console is told when all is well, each in full.
HARMLESS = (
    # A notebook was closed while its debugger still asked.
    "Could not restore the debugger state: "
    "Canceled future for debug_request message before replies were done",
)

IS_READY = """(cells) => {
  const kernel = document.querySelector('.jp-Toolbar-kernelName');
  return kernel && kernel.textContent !== 'No Kernel'
    && document.querySelector('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
    && document.querySelectorAll('.jp-Notebook .jp-CodeCell').length === cells;
}"""

# All cells wait from the start, with a star; a cell that fails takes the stars of those behind it.
PROMPTS = "[...document.querySelectorAll('.jp-Notebook .jp-CodeCell .jp-InputArea-prompt')]"
RUN_HAS_BEGUN = f"() => {PROMPTS}.some((prompt) => /[*\\d]/.test(prompt.textContent))"
RUN_IS_OVER = f"""() => document.querySelector('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
  && !{PROMPTS}.some((prompt) => prompt.textContent.includes('*'))"""

# A picture is good when it has a size, is not hidden, and the browser could draw it.
GOOD = """
const seen = (el) => { const box = el.getBoundingClientRect();
  return el.checkVisibility() && box.width > 0 && box.height > 0; };
const drawn = async (el) => { if (el.tagName !== 'IMG') return true;
  try { await el.decode(); return el.naturalWidth > 0; } catch { return false; } };
const picturesIn = (el) => [...el.querySelectorAll('img, svg')]
  .filter((it) => !it.parentElement.closest('svg'));
const good = async (pictures) => {
  const is = await Promise.all(pictures.map(drawn));
  return pictures.filter((it, i) => is[i] && seen(it)); };
"""

# What each code cell shows.
LOOK = f"""async () => {{
  {GOOD}
  const cells = [];
  for (const cell of document.querySelectorAll('.jp-Notebook .jp-CodeCell')) {{
    const outputs = [...cell.querySelectorAll('.jp-OutputArea-output')];
    const pictures = outputs.flatMap(picturesIn);
    const whole = (await good(pictures)).length;
    cells.push({{
      prompt: cell.querySelector('.jp-InputArea-prompt').textContent,
      stderr: [...cell.querySelectorAll('[data-mime-type="application/vnd.jupyter.stderr"]')]
        .map((el) => el.textContent.trim()),
      pictures: whole, broken: pictures.length - whole,
      tables: outputs.flatMap((el) => [...el.querySelectorAll('table')])
        .filter(seen).length,
    }});
  }}
  return cells;
}}"""

# The colour of a table's caption, if it has one. In an untrusted notebook it is not that of its style sheet.
COLOUR_OF = """(table) => {
  const caption = document.querySelector(`#${table} caption`);
  if (!caption) return null;
  const parts = getComputedStyle(caption).color.match(/\\d+/g);
  return '#' + parts.map((part) => Number(part).toString(16).padStart(2, '0')).join('');
}"""


class Reader:
    """Somebody at JupyterLab, with the lessons in the list of files."""

    def __init__(self, page, address: str) -> None:
        self.page = page
        self.complaints = Complaints(page, HARMLESS)
        page.goto(address)
        page.wait_for_selector(".jp-Launcher")  # it comes last, and in front

    def problems(self, path: Path) -> list[str]:
        """Open a notebook and look at it, then run it from nothing. Returns what is not as it is stored."""
        stored = notebooks.read(path)
        open_notebook(self.page, path.name, len(code_cells(stored)))
        try:
            found = opened_problems(self.page, stored)
            clear(self.page)
            run_all(self.page)
            found += problems(self.page, stored)
            return found + [f"console: {line}" for line in self.complaints.taken()]
        finally:
            close(self.page)


def opened_problems(page, notebook: dict) -> list[str]:
    """What a reader misses before any cell was run: pictures, tables, and the colours of tables."""
    found = []
    for place, (cell, shown) in enumerate(zip(code_cells(notebook), page.evaluate(LOOK), strict=True), 1):
        html = "".join(_parts(cell, "text/html"))
        stored = len(_parts(cell, "image/")) + len(re.findall(r"<(?:img|svg)\b", html)), html.count("<table")
        for kind, count in zip(("pictures", "tables"), stored, strict=True):
            if shown[kind] != count:
                found.append(f"cell {place}: as it opens, {shown[kind]} of {count} {kind} are shown")
        for table, colour in re.findall(r"#(T_[\w-]+) caption \{[^}]*\bcolor: (#\w{6})", html):
            if page.evaluate(COLOUR_OF, table) not in (colour, None):
                found.append(f"cell {place}: as it opens, {table} has not its colour")
    return found


def save(page, path: Path) -> bool:
    """Save the notebook from the menu. Returns whether the file's bytes changed."""
    before = path.read_bytes()
    with page.expect_response(lambda answer: answer.request.method == "PUT" and path.name in answer.url):
        menu(page, "File", "docmanager:save")
    return path.read_bytes() != before


def menu(page, top: str, command: str) -> None:
    page.click(f'li.lm-MenuBar-item:has-text("{top}")')
    page.click(f'li[data-command="{command}"]')


def open_notebook(page, name: str, cells: int) -> None:
    """Open it from the list of files, and wait for its cells and its kernel."""
    page.dblclick(f'.jp-DirListing-item:has-text("{name}")')
    page.wait_for_function(IS_READY, arg=cells)


def clear(page) -> None:
    """Take all outputs away: what is looked at later comes from the run."""
    menu(page, "Edit", "editmenu:clear-all")
    prompts = [cell["prompt"].strip() for cell in page.evaluate(LOOK)]
    assert prompts and set(prompts) == {"[ ]:"}, f"the prompts are not cleared: {prompts}"
    assert page.locator(f"{PANEL} .jp-OutputArea-output").count() == 0, "outputs are left"


def run_all(page) -> None:
    """Run all cells and wait until the kernel rests."""
    menu(page, "Run", "runmenu:run-all")
    page.wait_for_function(RUN_HAS_BEGUN)
    page.wait_for_function(RUN_IS_OVER, timeout=LONGEST_RUN)
    page.wait_for_timeout(100)  # for what arrives when the kernel already rests


def close(page) -> None:
    """Close the notebook, which ends its kernel, and keep nothing."""
    menu(page, "File", "application:close")
    page.click('.jp-Dialog button:has-text("Discard")')
    page.wait_for_selector(".jp-NotebookPanel", state="detached")


def problems(page, notebook: dict) -> list[str]:
    """What is not as the stored notebook promises, a line each, after all cells were run."""
    found = []
    for place, (cell, shown) in enumerate(zip(code_cells(notebook), page.evaluate(LOOK), strict=True), 1):
        told = [*cell_problems(cell, shown), *steps_problems(page, place, cell)]
        found += [f"cell {place}: {line}" for line in told]
    return found


def code_cells(notebook: dict) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def cell_problems(cell: dict, shown: dict) -> Iterator[str]:
    for text in shown["stderr"]:  # JupyterLab shows a traceback as the same kind
        yield f"it failed or wrote to stderr: {text.splitlines()[-1]}"
    if source(cell).strip() and not re.search(r"\d", shown["prompt"]):
        yield "it was not run"
    if shown["broken"]:
        yield f"{shown['broken']} pictures are broken or not to be seen"
    for kind, count in (("pictures", pictures(cell)), ("tables", tables(cell))):
        if shown[kind] != count:
            yield f"{shown[kind]} {kind} are shown, {count} are stored"


def source(cell: dict) -> str:
    return "".join(cell["source"])


def _parts(cell: dict, mime: str) -> list[str]:
    data = [output.get("data", {}) for output in cell["outputs"]]
    return ["".join(value) for part in data for name, value in part.items() if name.startswith(mime)]


def pictures(cell: dict) -> int:
    """How many pictures a cell has stored."""
    inline = "".join(_parts(cell, "text/html"))
    return len(_parts(cell, "image/")) + len(re.findall(r"<(?:img|svg)\b", inline))


def tables(cell: dict) -> int:
    return "".join(_parts(cell, "text/html")).count("<table")


def steps_problems(page, place: int, cell: dict) -> Iterator[str]:
    """Walk through a cell's run, if it calls for that."""
    expected = int(STEPS_CALL in source(cell))
    shown = page.locator(f"{PANEL} .jp-CodeCell").nth(place - 1).locator(STEPS)
    if not comes(lambda: shown.count() == expected):
        yield f"{shown.count()} runs to walk through are shown, {expected} are called for"
    elif expected:
        yield from walk(shown)


def walk(steps) -> Iterator[str]:
    """The keys choose a step, and the picture marks it; or what is not so first."""
    last = steps.locator("li").count()
    marked: dict[int, str] = {}
    for key, wanted in (("Home", 1), ("ArrowDown", 2), ("End", last), ("ArrowUp", last - 1), ("Home", 1)):
        steps.locator("ol").focus()
        steps.locator("ol").press(key)
        chosen = steps.locator("li[aria-selected=true]").all_inner_texts()
        if [text.partition(".")[0] for text in chosen] != [str(wanted)]:
            yield f"step {wanted} of {last} is not chosen after {key}"
            return
        place = steps.locator("svg .shade").get_attribute("y")
        if marked.setdefault(wanted, place) != place or len(set(marked.values())) < len(marked):
            yield f"the picture doesn't mark step {wanted} of {last} after {key}"
            return


def comes(true: Callable[[], bool]) -> bool:
    """The kernel answers a button a moment later."""
    for _ in range(PATIENCE * 10):
        if true():
            return True
        time.sleep(0.1)
    return False
