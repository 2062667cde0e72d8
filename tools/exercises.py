"""Generates the exercises from the solutions: python -m tools.exercises [--check] [--force]

A solution is a complete notebook. What a learner has to write is between two comments, `# your turn` and
`# until here`. The exercise has the same cells with `...` between the comments, and without the cells that
have the tag `solution`.
"""

import argparse
import ast
import copy
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from tools import notebooks

SOLUTIONS = notebooks.ROOT / "notebooks" / "solutions"
EXERCISES = notebooks.ROOT / "notebooks" / "exercises"
BEGIN, END = "# your turn", "# until here"
TITLE = ("# Solutions: ", "# Exercises: ")


class BadSolution(ValueError):
    """No exercise can be made from this solution. The message says where."""


def exercise(solution: dict) -> dict:
    """The exercise of a solution: blank and without outputs."""
    nb = copy.deepcopy(notebooks.normalised(solution))
    nb["cells"] = [cell for cell in nb["cells"] if "solution" not in cell["metadata"].get("tags", [])]
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"source": blank(cell["source"]), "outputs": [], "execution_count": None}
    first = nb["cells"][0]
    first["source"] = first["source"].replace(*TITLE)
    return nb


def outline(nb: dict) -> list[tuple[str, str, str]]:
    """The part that a learner doesn't change: each cell without outputs and without the contents of the
    gaps."""
    return [
        (cell["id"], cell["cell_type"], blank(cell["source"], lambda taken: []))
        for cell in notebooks.normalised(nb)["cells"]
    ]


def blank(source: str, gap: Callable[[list[str]], list[str]] | None = None) -> str:
    """The code with `...` between the two comments, or with the result of `gap`."""
    gap = gap or _gap
    kept: list[str] = []
    taken: list[str] | None = None
    for line in source.splitlines():
        word = line.strip()
        if word.startswith(BEGIN):
            kept.append(line)
            taken = []
        elif word == END and taken is not None:
            kept += [*gap(taken), line]
            taken = None
        elif taken is None:
            kept.append(line)
        else:
            taken.append(line)
    if taken is not None:
        raise BadSolution(f"no {END!r} after {BEGIN!r}")
    return "\n".join(kept)


def _gap(lines: list[str]) -> list[str]:
    """The contents of a gap for learners: assigned names and the keys of dictionaries stay."""
    code = textwrap.dedent("\n".join(lines))
    indent = " " * (len(lines[0]) - len(lines[0].lstrip())) if lines else ""
    found = [_blanked(statement) for statement in ast.parse(code).body]
    told = list(dict.fromkeys(found)) or ["..."]
    if len(told) > 1:
        told = [line for line in told if line != "..."]
    return [indent + line for line in told]


def _blanked(statement: ast.stmt) -> str:
    is_name = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    if not is_name:
        return "..."
    value = statement.value
    if isinstance(value, ast.Dict) and all(isinstance(each, ast.Constant) for each in value.values):
        pairs = ", ".join(f"{ast.unparse(key)}: ..." for key in value.keys)
        return f"{statement.targets[0].id} = {{{pairs}}}"
    return f"{statement.targets[0].id} = ..."


def path_of(solution: Path) -> Path:
    return EXERCISES / solution.name


def is_being_filled_in(path: Path) -> bool:
    """Whether somebody has written into it: an answer, an output, or something unreadable."""
    try:
        nb = notebooks.normalised(notebooks.read(path))
        blank_one = exercise(nb)
    except (OSError, ValueError, KeyError, TypeError, SyntaxError):
        return True
    return nb["cells"] != blank_one["cells"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make the exercises from the solutions.")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail when one differs")
    parser.add_argument("--force", action="store_true", help="also replace exercises that contain answers")
    options = parser.parse_args(arguments)
    solutions = sorted(SOLUTIONS.glob("*.ipynb"))
    if not solutions:
        print(f"there are no solutions in {SOLUTIONS}")
        return 1
    EXERCISES.mkdir(exist_ok=True)
    try:
        differ = [path for path in solutions if _made(path, options.check, options.force)]
    except (ValueError, KeyError, SyntaxError) as error:
        print(f"no exercise can be made: {error}")
        return 1
    return 1 if differ and options.check else 0


def _made(solution: Path, only_look: bool, force: bool) -> bool:
    """Make one exercise. Returns whether the existing one differed."""
    made, path = exercise(notebooks.read(solution)), path_of(solution)
    text = notebooks.to_text(made)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    if path.exists() and not force and is_being_filled_in(path):
        print(f"{path.name}: kept, because somebody has written into it; --force replaces it")
        return False
    if not only_look:
        path.write_text(text, encoding="utf-8", newline="\n")
    print(f"{path.name}: {'differs from its solution' if only_look else 'made'}")
    return True


if __name__ == "__main__":
    sys.exit(main())
