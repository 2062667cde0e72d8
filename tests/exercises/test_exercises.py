"""The exercises: made from the solutions, blank, and their checks can tell right from wrong."""

import re
import subprocess
from types import FunctionType

import pytest

from receiptlab import exercises as check
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.faults.ablation import guard_names
from tests.exercises.lines import code, lines_of, said
from tools import exercises, notebooks, workshop

LESSONS = sorted((notebooks.ROOT / "notebooks").glob("[0-9]*.ipynb"))
SOLUTIONS = sorted(exercises.SOLUTIONS.glob("*.ipynb"))
CHECKS = [name for name in check.__all__ if name not in ("like", "read", "print_calls")]
each_solution = pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)


def checks(nb):
    """How many checks a notebook calls."""
    return sum(len(re.findall(rf"^check\.(?:{'|'.join(CHECKS)})\(", text, re.M)) for text in code(nb))


def test_each_lesson_has_its_exercises_and_no_other_is_there():
    names = [path.name for path in LESSONS]
    assert [path.name for path in SOLUTIONS] == names
    assert sorted(path.name for path in exercises.EXERCISES.glob("[0-9]*.ipynb")) == names


@each_solution
def test_there_are_three_or_more_and_they_rise(path):
    cells = [cell for cell in notebooks.read(path)["cells"] if cell["cell_type"] == "markdown"]
    text = "\n".join(notebooks.joined(cell["source"]) for cell in cells)
    heads = re.findall(r"^## (\d+)\. (\w+): ", text, re.M)
    kinds = [kind for _, kind in heads]
    assert [int(number) for number, _ in heads] == list(range(1, len(heads) + 1))
    assert set(kinds) == {"Read", "Change", "Build"}
    assert kinds == sorted(kinds, key=["Read", "Change", "Build"].index)


@each_solution
def test_it_says_which_lesson_and_how_long(path):
    first = notebooks.joined(notebooks.read(path)["cells"][0]["source"])
    lesson = notebooks.joined(notebooks.read(notebooks.ROOT / "notebooks" / path.name)["cells"][0]["source"])
    title = lesson.splitlines()[0].removeprefix("# ")
    assert first.startswith(
        f"# Solutions: {title}\n\n**Lesson:** [{path.stem[:2]} {title}](../{path.name}). "
    )
    assert re.search(r" \*\*Minutes:\*\* \d+\. ", first)
    assert f"(../solutions/{path.name})" in first


@each_solution
def test_the_exercise_is_made_from_its_solution(path):
    made = exercises.exercise(notebooks.read(path))
    there = exercises.path_of(path)
    assert exercises.outline(notebooks.read(there)) == exercises.outline(made), (
        "outside of the gaps the exercise is not what its solution makes; run: python -m tools.exercises"
    )
    if there.read_text(encoding="utf-8") != notebooks.to_text(made):
        assert is_uncommitted(there), f"{there.name} is not blank; run: python -m tools.exercises"


def is_uncommitted(path):
    """Whether it differs from what was committed, or nobody can tell: then somebody is at work on it."""
    command = ["git", "diff", "--quiet", "HEAD", "--", path.name]
    try:
        return subprocess.run(command, cwd=path.parent, capture_output=True).returncode != 0
    except OSError:
        return True


@each_solution
def test_a_blank_exercise_runs_to_its_end_and_every_check_says_that_nothing_is_filled_in(path):
    made = exercises.exercise(notebooks.read(path))
    printed = lines_of(code(made))
    assert len(printed) == checks(made) >= 3
    assert all(line.endswith("nothing is filled in here") for line in printed), printed
    gaps = sum(text.count(exercises.BEGIN) for text in code(made))
    assert gaps == len(printed), "a check a gap"


@each_solution
def test_every_check_of_a_solution_says_done(path):
    stored = [
        notebooks.joined(output.get("data", {}).get("text/plain", ""))
        for cell in notebooks.read(path)["cells"]
        for output in cell.get("outputs", [])
    ]
    assert sum(line.startswith("done: ") for line in stored) == checks(notebooks.read(path))
    assert not any(line.startswith("not yet: ") for line in stored)


# Each guard that a learner leaves out is noticed


@pytest.fixture(scope="module")
def built():
    """Every (contract, call, guards) that a solution hands to a check: the one that it wrote, or all of a call."""
    found = []
    kept = check.guard, check.guards, check.guarded
    check.guard = lambda contract, call, mine: found.append((contract, call, mine))
    check.guards = lambda contract, call, mine: found.append((contract, call, tuple(mine)))
    check.guarded = lambda contract, calls, mine: found.extend(
        (contract, call, tuple(mine[call])) for call in calls
    )
    try:
        for path in SOLUTIONS:
            lines_of(code(notebooks.read(path)))
    finally:
        check.guard, check.guards, check.guarded = kept
    return found


def name_of(guard):
    return getattr(guard, "__name__", guard)


def nothing(call, seen):
    """A guard that lets everything pass."""
    return None


def left_out(mine):
    """(name, version without it) of each guard that a learner writes or puts in order."""
    if callable(mine):
        blank = FunctionType(nothing.__code__, globals(), mine.__name__)
        return [(mine.__name__, blank)]
    return [(name_of(guard), [each for each in mine if each is not guard] or [nothing]) for guard in mine]


WITHOUT_EXERCISE = {("owner", "renew"), ("owner", "release"), ("owner", "find")}
"""Calls whose guards no exercise builds yet."""


def test_every_guard_of_every_contract_is_built_in_some_exercise(built):
    mine = {(contract.NAME, call, name) for contract, call, answer in built for name, _ in left_out(answer)}
    every = {(name, *guard) for name, contract in CONTRACTS.items() for guard in guard_names(contract)}
    assert sorted(each for each in every - mine if each[:2] not in WITHOUT_EXERCISE) == []


def test_each_guard_left_out_of_a_learners_version_is_noticed(built):
    for contract, call, answer in built:
        for name, version in left_out(answer):
            line = said(check.guard if callable(version) else check.guards, contract, call, version)
            assert re.match(r"not yet: [A-Z]-\d\d-[\w-]+, step \d+ \(", line), (call, name, line)


# The generator


def book(*sources):
    """A notebook with these code cells."""
    empty = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": 1}
    cells = [empty | {"id": f"c{n}", "source": text} for n, text in enumerate(sources)]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@pytest.mark.parametrize(
    ("solved", "gap"),
    [
        ("mine = 5", "mine = ..."),
        ("mine = {3: 'a', 4: 'b'}", "mine = {3: ..., 4: ...}"),
        ("mine = {3: {'now': 5}}", "mine = ..."),
        ("one = 1\ntwo = 2", "one = ...\ntwo = ..."),
        ("for x in y:\n    print(x)", "..."),
        ("print(1)\nmine = [\n    1,\n]", "mine = ..."),
        ("", "..."),
        ("    if x:\n        return 1", "    ..."),
    ],
)
def test_what_a_gap_looks_like(solved, gap):
    text = f"before = 1\n# your turn: think\n{solved}\n# until here\nafter = 2"
    assert exercises.blank(text) == f"before = 1\n# your turn: think\n{gap}\n# until here\nafter = 2"


def test_a_gap_without_end_is_refused():
    with pytest.raises(exercises.BadSolution):
        exercises.blank("# your turn\nx = 1")


def test_filling_in_changes_no_outline_and_any_other_edit_does():
    solved = book("# your turn\nmine = 1\n# until here\ncheck.same('x', mine, 1)")
    blank = exercises.exercise(solved)
    half = book("# your turn\nmine = (\n# until here\ncheck.same('x', mine, 1)")
    other = book("# your turn\nmine = 1\n# until here\ncheck.same('x', 1, 1)")
    assert exercises.outline(solved) == exercises.outline(blank) == exercises.outline(half)
    assert exercises.outline(other) != exercises.outline(blank)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Empty folders in place of the solutions and exercises."""
    monkeypatch.setattr(exercises, "SOLUTIONS", tmp_path)
    monkeypatch.setattr(exercises, "EXERCISES", tmp_path / "exercises")
    return tmp_path


KEPT = "one.ipynb: kept, because somebody has written into it; --force replaces it\n"


@pytest.mark.parametrize(
    ("was", "written"),
    [
        ("mine = ...", "mine = 7"),
        ("mine = ...", "mine = ("),
        ("mine = ...", "mine = ...\\n# a note"),
        ("# until here", "# until"),
        ('"outputs": []', '"outputs": [{"output_type": "stream", "name": "stdout", "text": "1"}]'),
        ('"cells"', "no notebook any more"),
    ],
)
def test_an_exercise_that_somebody_has_written_into_is_kept(folders, capsys, was, written):
    solved = book("# your turn\nmine = 1\n# until here\ncheck.same('x', mine, 1)")
    notebooks.write(folders / "one.ipynb", solved)
    assert exercises.main([]) == 0 and exercises.main(["--check"]) == 0
    made = folders / "exercises" / "one.ipynb"
    blank = made.read_text()
    made.write_text(blank.replace(was, written))
    capsys.readouterr()
    assert exercises.main([]) == 0
    assert capsys.readouterr().out == KEPT
    assert made.read_text() == blank.replace(was, written) != blank
    assert exercises.main(["--force"]) == 0 and made.read_text() == blank


def test_a_blank_exercise_that_differs_from_its_solution_is_made_again(folders):
    assert exercises.main([]) == 1, "no solutions"
    notebooks.write(folders / "one.ipynb", book("# your turn\nmine = 1\n# until here"))
    assert exercises.main([]) == 0
    notebooks.write(folders / "one.ipynb", book("# your turn\nyours = 1\n# until here"))
    assert exercises.main(["--check"]) == 1 and exercises.main([]) == 0
    assert "yours = ..." in (folders / "exercises" / "one.ipynb").read_text()
    notebooks.write(folders / "one.ipynb", book("# your turn\nyours = 1"))
    assert exercises.main([]) == 1, "no end of the gap"


def test_cells_that_explain_the_solution_stay_there():
    nb = book("x = 1")
    because = {"cell_type": "markdown", "id": "why", "metadata": {"tags": ["solution"]}, "source": "Because."}
    nb["cells"].append(because)
    assert len(exercises.exercise(nb)["cells"]) == 1


# For a room


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    return workshop.build(notebooks.ROOT / "notebooks", tmp_path_factory.mktemp("room") / "room")


def test_the_copies_have_everything_and_no_output(room):
    lessons = list((notebooks.ROOT / "notebooks").glob("*.ipynb"))
    assert len(room) == len(lessons) + 2 * len(LESSONS)
    for path in room:
        if path.parent.name != "solutions":
            cells = [cell for cell in notebooks.read(path)["cells"] if cell["cell_type"] == "code"]
            assert cells and not any(cell["outputs"] or cell["execution_count"] for cell in cells), path.name


def test_the_answer_to_a_question_is_folded_and_nothing_else(room):
    folded = 0
    for path in room:
        if path.parent.name == "room":
            cells = notebooks.read(path)["cells"]
            assert f"](../notebooks/{path.name})" in notebooks.joined(cells[0]["source"])
            for question, calls, answer in zip(cells, cells[1:], cells[2:], strict=False):
                if workshop.QUESTION in notebooks.joined(question["source"]):
                    assert "\nassert " not in notebooks.joined(calls["source"]), (path.name, calls["id"])
                hidden = answer["metadata"].get("jupyter", {}).get("source_hidden", False)
                assert hidden is answer["id"].endswith("-answer"), (path.name, answer["id"])
                if hidden:
                    first, second, *_ = notebooks.joined(answer["source"]).splitlines()
                    assert "assert" not in first and second.startswith("assert"), (
                        "the first line is always shown"
                    )
                folded += hidden
    assert folded > 10


def test_a_copy_with_work_in_it_is_kept_and_a_missing_one_is_written(tmp_path):
    lessons, room = notebooks.ROOT / "notebooks", tmp_path / "room"
    made = workshop.build(lessons, room)
    made[0].write_text("my work")
    made[1].unlink()
    assert workshop.build(lessons, room) == [made[1]]
    assert made[0].read_text() == "my work" and not list(room.rglob("*.part"))
