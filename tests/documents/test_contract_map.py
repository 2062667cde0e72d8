"""The contract map against the tree, both ways."""

import ast
import csv
import json
import re
from pathlib import Path

import pytest

from tests.runs import all_runs

ROOT = Path(__file__).parents[2]
COLUMNS = ["id", "contract", "kind", "clause", "short", "cases", "test", "notebook", "status"]
NUMBERS = {
    "F": range(1, 13),
    "O": range(1, 25),
    "R": (*range(1, 17), 18),
    "I": range(1, 19),
    "W": range(1, 18),
    "C": range(1, 10),
    "S": range(1, 10),
    "H": range(1, 9),
    "X": (3, 4),
    "D": (2,),
}
SHORT = 70  # characters; two lines in a column of the handout

with (ROOT / "data/contract.csv").open(encoding="utf-8", newline="") as file:
    READER = csv.DictReader(file)
    ROWS = list(READER)
BY_ID = {row["id"]: row for row in ROWS}
DONE = [row for row in ROWS if row["status"] == "done"]


def clauses_of_runs():
    return {run.name: set(run.clauses) for run in all_runs()}


def test_the_columns_and_every_id_in_order():
    assert READER.fieldnames == COLUMNS
    assert [row["id"] for row in ROWS] == [
        f"{letter}-{n}" for letter, numbers in NUMBERS.items() for n in numbers
    ]
    assert {row["kind"] for row in ROWS} == {"holds", "breaks", "limit"}
    assert {row["status"] for row in ROWS} <= {"done", "planned"}
    assert all(row["clause"].endswith(".") and row["contract"] for row in ROWS)


def test_every_clause_has_short_words_of_its_own():
    short = [row["short"] for row in ROWS]
    assert [text for text in short if not 0 < len(text) <= SHORT] == []
    assert [text for text in short if text != text.strip() or text.endswith(".")] == []
    assert len({text.casefold() for text in short}) == len(ROWS)
    assert f"at most {SHORT} characters" in (ROOT / "data/README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_short_words_promise_no_more_than_the_clause(row):
    """A reason code, another clause, or a number stands in the clause as well."""
    for part in re.findall(r"\([a-z-]+\)|[A-Z]-\d+|\d+", row["short"]):
        assert part in row["clause"] or part.strip("()") in reasons(row["clause"]), part


def reasons(clause):
    """The codes that stand in brackets, one or more."""
    return {code for inside in re.findall(r"\(([a-z, -]+)\)", clause) for code in inside.split(", ")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_clause_that_is_done_has_case_test_and_lesson(row):
    if row["status"] == "done":
        assert row["notebook"]
        assert row["kind"] == "limit" or (row["cases"] and row["test"])
    else:
        assert not (row["cases"] or row["test"] or row["notebook"])


@pytest.mark.parametrize("row", DONE, ids=lambda row: row["id"])
def test_what_a_row_names_exists(row):
    for name in row["cases"].split():
        assert name in clauses_of_runs(), name
        assert row["id"] in clauses_of_runs()[name] or row["id"] == "H-7", f"{name} does not name {row['id']}"
    for test in row["test"].split():
        path, _, function = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test
    for notebook in row["notebook"].split():
        assert row["id"] in told_in(ROOT / f"notebooks/{notebook}.ipynb"), (
            f"{notebook} does not tell {row['id']}"
        )


def told_in(path):
    """The clause ids that the text of a lesson names; a span such as O-1 to O-3 names all of it."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    found = set(re.findall(r"\b[A-Z]-\d+", text))
    for letter, low, high in re.findall(r"\b([A-Z])-(\d+) to \1-(\d+)", text):
        found |= {f"{letter}-{n}" for n in range(int(low), int(high) + 1)}
    return found


def test_every_run_is_named_by_the_clauses_it_names():
    for name, clauses in clauses_of_runs().items():
        for clause in clauses:
            assert name in BY_ID[clause]["cases"].split(), f"{clause} does not name {name}"


def test_every_lesson_is_named():
    lessons = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert lessons == {name for row in ROWS for name in row["notebook"].split()}
