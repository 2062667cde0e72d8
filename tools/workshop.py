"""Learners' copies of the lessons, exercises and solutions, in the folder `workshop`.

A copy has no outputs, and the sentence that answers a question is folded. `make lab` writes the copies that
don't exist yet and never overwrites one. To start a lesson again, delete its copy.
"""

import ast
import copy
import os
from pathlib import Path

from tools import exercises, notebooks

QUESTION = "**Predict before you run:**"


def learners_copy(nb: dict, name: str) -> dict:
    """The lesson without outputs. Under a question, the assert has a folded cell of its own."""
    nb = copy.deepcopy(notebooks.normalised(nb))
    cells, asked = [], False
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
        cells += _folded(cell) if asked and cell["cell_type"] == "code" else [cell]
        asked = QUESTION in cell["source"]
    cells[0]["source"] += f"\n\nThis is your copy. [The same lesson with its outputs](../notebooks/{name})."
    return nb | {"cells": cells}


def _folded(cell: dict) -> list[dict]:
    """The cell without its assert, and the assert in a cell that is folded until somebody opens it."""
    lines = cell["source"].splitlines()
    answer: list[str] = []
    for node in ast.parse(cell["source"]).body:
        if isinstance(node, ast.Assert):
            answer += lines[node.lineno - 1 : node.end_lineno]
            lines[node.lineno - 1 : node.end_lineno] = []
            break
    if not answer:
        return [cell]
    rest = "\n".join(lines).replace("\n\n\n", "\n\n")
    metadata = cell["metadata"] | {"jupyter": {"source_hidden": True}}
    # JupyterLab shows the first line of a folded cell.
    source = "\n".join(["# The answer in a sentence", *answer])
    folded = {"id": f"{cell['id']}-answer", "source": source, "metadata": metadata}
    return [cell | {"source": rest}, cell | folded]


def build(lessons: Path, room: Path) -> list[Path]:
    """Write the copies that don't exist yet. Returns them, the lessons first."""
    texts = {
        path.name: learners_copy(notebooks.read(path), path.name) for path in sorted(lessons.glob("*.ipynb"))
    }
    for path in sorted((lessons / "solutions").glob("*.ipynb")):
        texts[f"exercises/{path.name}"] = exercises.exercise(notebooks.read(path))
        texts[f"solutions/{path.name}"] = notebooks.normalised(notebooks.read(path))
    new = [name for name in texts if not (room / name).exists()]
    for name in new:
        path = room / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")  # a copy is whole or not there
        part.write_text(notebooks.to_text(texts[name]), encoding="utf-8", newline="\n")
        os.replace(part, path)
    return [room / name for name in new]
