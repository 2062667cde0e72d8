"""The facilitator's guide against the lessons: every minute adds up, every question stands where it says."""

import ast
import builtins
import json
import re
from pathlib import Path

import pytest

from receiptlab.experiment.library import own_cases
from receiptlab.scenarios import SCENARIOS
from tools.notebooks import joined, read

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "notebooks/FACILITATOR.md").read_text(encoding="utf-8")
LESSONS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
EXERCISES = ROOT / "notebooks/exercises"
PREDICT = "**Predict before you run:**"
AGENDAS = {"90 minutes: what is a receipt worth": 90, "Half a day: from one call to two copies": 240}
WRONG = "What people get wrong, and the cell that answers it"


def section(heading, mark="##"):
    return GUIDE.split(f"\n{mark} {heading}\n")[1].split(f"\n{mark} ")[0].split("\n## ")[0]


def rows(heading, mark="##"):
    table = [line for line in section(heading, mark).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def cells(number):
    """(heading above, cell) of each cell of a lesson; before the first heading stands the lesson's title."""
    above = ""
    for cell in read(LESSONS[number])["cells"]:
        text = joined(cell["source"])
        for line in text.splitlines() if cell["cell_type"] == "markdown" else ():
            if found := re.match(r"##? (.+)", line):
                above = found[1]
        yield above, cell, text


def title(path):
    return joined(read(path)["cells"][0]["source"]).splitlines()[0].removeprefix("# ")


def headings(number):
    return {above for above, _, _ in cells(number)} - {title(LESSONS[number])}


def exercises_of(number):
    """The numbers of a lesson's exercises, as its exercise notebook has them."""
    texts = [joined(cell["source"]) for cell in read(EXERCISES / LESSONS[number].name)["cells"]]
    return {int(found[1]) for text in texts if (found := re.match(r"## (\d+)\. ", text))}


def numbers(words):
    """Words such as "1 to 3" and "1, 2 and 6" as the numbers that they stand for."""
    found = set()
    for first, last in re.findall(r"(\d+)(?: to (\d+))?", words):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def named(text):
    """What a line names of a lesson, in turn: (lesson, heading in quotes) and (lesson, number of an exercise)."""
    lesson = None
    for number, heading, exercise in re.findall(r'(?:in |Before |\[)(\d\d)\b|"([^"]+)"|exercise (\d+)', text):
        lesson = number or lesson
        if heading or exercise:
            yield lesson, heading or int(exercise)


@pytest.mark.parametrize("heading", AGENDAS)
def test_the_minutes_of_an_agenda_add_up(heading):
    spent = [(int(talk), int(exercises)) for _, talk, exercises, _ in rows(heading)]
    assert sum(map(sum, spent)) == AGENDAS[heading]
    assert sum(exercises for _, exercises in spent) * 4 >= AGENDAS[heading], "a quarter is for doing"


@pytest.mark.parametrize("heading", AGENDAS)
def test_no_lesson_of_an_agenda_gets_more_minutes_than_it_takes(heading):
    for part, talk, exercises, which in rows(heading):
        if found := re.match(r"\[(\d\d) [^]]+\]\((\w+\.ipynb)\)", part):
            lesson = LESSONS[found[1]]
            assert lesson.name == found[2]
            assert int(talk) <= minutes(lesson), part
            assert 0 < int(exercises) <= minutes(ROOT / "notebooks/solutions" / lesson.name), part
            assert numbers(which) and numbers(which) <= exercises_of(found[1]), part
            assert part.startswith(f"[{found[1]} {title(lesson)}]"), part


@pytest.mark.parametrize(
    "heading", [*AGENDAS, "Bridges over the lessons that are left out", "When you are late"]
)
def test_what_an_agenda_names_of_a_lesson_is_in_that_lesson(heading):
    lines = [part for part, *_ in rows(heading)]
    lines += re.findall(r"(?m)^- ((?:.+\n?)(?:  .+\n?)*)", section(heading))
    told = [(number, what) for line in lines for number, what in named(line.replace("\n ", ""))]
    assert told
    for number, what in told:
        known = exercises_of(number) if isinstance(what, int) else headings(number)
        assert what in known, (number, what)


def late_lists():
    """What to cut, one text for each agenda."""
    return re.findall(r"(?m)^In .+:\n\n((?:(?:- |  ).+\n)+)", section("When you are late"))


def test_exercises_that_are_cut_or_kept_are_those_of_the_agenda():
    for late, heading in zip(late_lists(), AGENDAS, strict=True):
        given = {part[1:3]: numbers(which) for part, _, _, which in rows(heading) if part.startswith("[")}
        told = [(number, what) for number, what in named(late) if isinstance(what, int)]
        assert told, heading
        assert all(what in given[number] for number, what in told), heading
        assert not re.search(r"(?i)leave out exercise 1\b", late), "never the first"
        after = re.findall(r"Late after (\d\d)", late)
        assert after == sorted(after) and set(after) <= set(given), "in the order of the day"


def minutes(path):
    return int(re.search(r"\*\*Minutes:\*\* (\d+)\. ", joined(read(path)["cells"][0]["source"]))[1])


@pytest.mark.parametrize("number", LESSONS)
def test_every_question_of_a_lesson_is_in_the_guide_under_its_heading(number):
    asked = [above for above, _, text in cells(number) for _ in range(text.count(PREDICT))]
    heading = f"{number} {title(LESSONS[number])}"
    told = rows(heading, "###")
    assert [under for under, _, _ in told] == asked
    assert all(question.endswith("?") or "?" in question for _, question, _ in told)
    assert all(listen for _, _, listen in told)


def test_the_guide_has_the_lessons_by_their_own_titles():
    told = re.findall(r"(?m)^### (\d\d .+)$", GUIDE)
    assert told == [f"{number} {title(path)}" for number, path in LESSONS.items()]


def test_every_misconception_is_answered_by_a_cell_that_is_there():
    known = {case.name for case in own_cases()} | {run.__name__.replace("_", "-") for run in SCENARIOS}
    known |= {name.removeprefix("outside-") for name in known}
    for said, number, under, run in rows(WRONG):
        assert re.match(r'"[^"]+" [A-Z].+\.', said), f"what they say, and what you say: {said}"
        code = [cell for above, cell, _ in cells(number) if above == under and cell["cell_type"] == "code"]
        first, *others = re.findall(r"`([^`]+)`", run)
        there = [cell for cell in code if f'"{first}"' in joined(cell["source"])]
        assert first in known or " " in first or "{" in first, first
        which = re.search(r", the (first|second) cell", run)
        assert len(there) > 1 if which else len(there) == 1, (said, first)
        meant = there[bool(which) and which[1] == "second"]
        top, *later = [text for _, cell, text in cells(number) if cell["cell_type"] == "code"]
        before = [
            text for text in later if any(word.startswith("import ") and word in text for word in others)
        ]
        assert wanted(joined(meant["source"])) <= set.union(*map(given, [top, *before])), (
            said,
            "after a restart",
        )
        lesson = json.dumps([cell for _, cell, _ in cells(number) if cell["cell_type"] == "code"])
        assert all(other in lesson for other in others), (said, others)


def given(code):
    """The names that a cell makes."""
    nodes = list(ast.walk(ast.parse(code)))
    made = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    return made | {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}


def wanted(code):
    """The names that a cell needs from others before it."""
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    return used - given(code) - set(dir(builtins))


def test_what_is_run_and_copied_is_there():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make (\w+)`", GUIDE):
        assert re.search(rf"^{target}:", makefile, re.M), target
    for module in re.findall(r"-m tools\.(\w+)", GUIDE):
        assert (ROOT / f"tools/{module}.py").is_file(), module
    for copied in re.findall(r"`(data/[^`]+)`", GUIDE):
        assert (ROOT / copied).is_file(), copied
    assert "build/workshop" not in GUIDE
