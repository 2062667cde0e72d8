"""The calls in a lesson's cells are those of a case or of a stored run, so that lesson and case can't drift apart."""

import ast
import json
import sys
from pathlib import Path

import pytest

from receiptlab.contracts.registry import CONTRACTS
from receiptlab.experiment.case_file import CaseError
from receiptlab.experiment.experiment import Experiment
from receiptlab.experiment.library import titled
from tools.notebooks import joined, read

ROOT = Path(__file__).parents[2]
LESSONS = {path.stem: read(path)["cells"] for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
STORED = json.loads((ROOT / "data/results.json").read_text(encoding="utf-8"))["runs"]
BY_TITLE = {(run["contract"], run["title"]): run for run in STORED.values()}
BY_MACHINERY = ("06_every_interleaving", "13_crash_points", "14_split_brain_restore")
"""Lessons whose experiments run processes, interleavings or three files; they show the functions that are run."""
every_lesson = pytest.mark.parametrize("lesson", LESSONS)


def code(lesson):
    return [joined(cell["source"]) for cell in LESSONS[lesson] if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def made():
    """Runs a lesson's cells and returns the experiments that the cells make themselves."""
    found: dict[str, list[Experiment]] = {}

    def run(lesson, monkeypatch):
        if lesson not in found:
            monkeypatch.chdir(ROOT / "notebooks")
            space, made, begin = {"__name__": "lesson"}, [], Experiment.__init__

            def recorded(self, *args, **kwargs):
                begin(self, *args, **kwargs)
                if sys._getframe(1).f_globals is space:
                    made.append((self, kwargs.get("guards")))

            monkeypatch.setattr(Experiment, "__init__", recorded)
            for number, source in enumerate(code(lesson), 1):
                exec(compile(source, f"{lesson}, code cell {number}", "exec"), space)
            found[lesson] = made
        return found[lesson]

    return run


@every_lesson
def test_every_experiment_in_a_cell_is_a_case_or_a_stored_run(lesson, made, monkeypatch):
    for lab, guards in made(lesson, monkeypatch):
        title, contract = lab.run.title, lab.run.contract
        if lab.contract in CONTRACTS.values() and has_case(contract, title):
            wrong = lab.differences()
            assert [each for each in wrong if guards is None or "the case" in each] == [], title
        else:
            assert (contract, title) in BY_TITLE, f"there is no case and no scenario titled {title!r}"
            assert told(lab.run.to_dict()["steps"]) == told(BY_TITLE[contract, title]["steps"]), title


def has_case(contract, title):
    try:
        return bool(titled(contract, title))
    except CaseError:
        return False


def told(steps):
    return [
        (
            each["actor"],
            each["call"],
            each["now"],
            each["outcome"],
            each["reason"],
            list(each["counts"]),
            each["anomaly"],
        )
        for each in steps
    ]


@every_lesson
def test_calls_are_in_the_cells(lesson):
    """At least three calls are visible for each experiment that is only named."""
    few = 0 if lesson.startswith("A") else 1 if lesson in BY_MACHINERY else 3
    calls = named = 0
    for source in code(lesson):
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name) and node.func.id in ("case", "scenario"):
                    named += 1
                elif isinstance(node.func, ast.Attribute) and any(
                    word.arg == "now" for word in node.keywords
                ):
                    calls += 1
    assert calls >= few * named, f"{calls} calls, {named} names"


@every_lesson
def test_a_cell_has_at_most_one_assert_and_one_picture(lesson):
    for cell in LESSONS[lesson]:
        if cell["cell_type"] == "code":
            asserts = [
                node for node in ast.walk(ast.parse(joined(cell["source"]))) if isinstance(node, ast.Assert)
            ]
            shown = [
                out for out in cell["outputs"] if {"text/html", "image/svg+xml"} & set(out.get("data", {}))
            ]
            assert len(asserts) <= 1, f"{cell['id']}: {len(asserts)} asserts"
            assert len(shown) <= 1, f"{cell['id']}: {len(shown)} pictures or tables"
