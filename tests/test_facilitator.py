"""The facilitator's guide against the lessons: every minute adds up, every question stands where it says."""

import re
from pathlib import Path

import pytest

from receiptlab.cases import own_cases
from receiptlab.scenarios import SCENARIOS
from tools.notebooks import joined, read

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "notebooks/FACILITATOR.md").read_text(encoding="utf-8")
LESSONS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
PREDICT = "**Predict before you run:**"
AGENDAS = {"90 minutes: what is a receipt worth": 90, "Half a day: from one call to two copies": 240}


def rows(heading, mark="##"):
    section = GUIDE.split(f"\n{mark} {heading}\n")[1].split(f"\n{mark} ")[0].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
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
            assert which, part


def minutes(path):
    return int(re.search(r"\*\*Minutes:\*\* (\d+)\. ", joined(read(path)["cells"][0]["source"]))[1])


@pytest.mark.parametrize("number", LESSONS)
def test_every_question_of_a_lesson_is_in_the_guide_under_its_heading(number):
    asked = [above for above, _, text in cells(number) for _ in range(text.count(PREDICT))]
    heading = re.search(rf"(?m)^### ({number} .+)$", GUIDE)[1]
    told = rows(heading, "###")
    assert [under for under, _, _ in told] == asked
    assert all(question.endswith("?") or "?" in question for _, question, _ in told)
    assert all(listen for _, _, listen in told)


def test_every_misconception_is_answered_by_a_cell_that_is_there():
    known = {case.name for case in own_cases()} | {run.__name__.replace("_", "-") for run in SCENARIOS}
    for said, number, under, run in rows("What people get wrong, and the cell that answers it"):
        name = run.strip("`")
        there = [
            text for above, cell, text in cells(number) if above == under and cell["cell_type"] == "code"
        ]
        assert there, (said, under)
        assert not name or any(name in text for text in there), (said, name)
        assert not name or name in known or " " in name, name


def test_what_is_cut_and_checked_is_there():
    for number, heading in re.findall(r"In (\d\d), (?:all after )?\"([^\"]+)\"", GUIDE):
        assert heading in {above for above, _, _ in cells(number)}, heading
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make (\w+)`", GUIDE):
        assert re.search(rf"^{target}:", makefile, re.M), target
