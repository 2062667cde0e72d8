"""Runs checks and cells of notebooks, and returns the lines that they print."""

import contextlib
import io
import itertools
import linecache

from receiptlab.scenarios.naive import write_message, write_receipt, write_result
from tools import notebooks

CELLS = itertools.count(1)


def said(check, *args, **named):
    """The one line that a check prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        check(*args, **named)
    (line,) = printed.getvalue().splitlines()
    return line


def code(nb):
    """The code cells of a notebook."""
    return [notebooks.joined(cell["source"]) for cell in nb["cells"] if cell["cell_type"] == "code"]


def lines_of(cells):
    """The lines that checks print when these cells are run. A check may read the source of a function."""
    names = {"__name__": "exercise"}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for text in cells:
            name = f"cell {next(CELLS)}"
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            exec(compile(text, name, "exec"), names)
    return [line for line in printed.getvalue().splitlines() if line.startswith(("done: ", "not yet: "))]


def write_three(db, key, digest):
    """What an accepted call of the naive service writes."""
    write_result(db, digest)
    write_receipt(db, key, digest)
    write_message(db, digest)
