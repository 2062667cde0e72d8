"""The facilitator's guide: minutes add up, and the lessons, headings and commands it names exist."""

import re
from pathlib import Path

import pytest

from tools.notebooks import joined, read

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "notebooks/FACILITATOR.md").read_text(encoding="utf-8")
LESSONS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))  # nobody gives an appendix as a talk
AGENDAS = {"90 minutes": 90, "Half a day": 240}


def title(path):
    return joined(read(path)["cells"][0]["source"]).splitlines()[0].removeprefix("# ")


@pytest.mark.parametrize("name", AGENDAS)
def test_the_minutes_of_an_agenda_add_up(name):
    agenda = GUIDE.split(f"\n## {name}")[1].split("\n## ")[0]
    spent = re.findall(r"(?m)^\|.*\| *(\d+) *\| *(\d+) *\|[^|]*\|$", agenda)
    assert sum(int(talk) + int(exercises) for talk, exercises in spent) == AGENDAS[name]


def test_every_link_leads_to_a_file():
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", GUIDE)
    assert links
    for link in links:
        assert (ROOT / "notebooks" / link).exists(), link


def test_every_lesson_has_its_questions_under_its_title():
    assert re.findall(r"(?m)^### (\d\d .+)$", GUIDE) == [f"{path.stem[:2]} {title(path)}" for path in LESSONS]


def test_every_heading_an_agenda_names_is_in_its_lesson():
    for file, rest in re.findall(r"(?m)^\| \[[^]]+\]\((\w+\.ipynb)\)([^|]*)\|", GUIDE):
        text = "\n".join(joined(cell["source"]) for cell in read(ROOT / "notebooks" / file)["cells"])
        for heading in re.findall(r'"([^"]+)"', rest):
            assert f"## {heading}" in text, (file, heading)


def test_every_question_of_a_lesson_is_asked_under_its_heading():
    parts = re.split(r"(?m)^### (\d\d) .+$", GUIDE.split("\n## What people get wrong")[0])[1:]
    for number, rows in zip(parts[::2], parts[1::2], strict=True):
        [path] = [path for path in LESSONS if path.stem.startswith(number)]
        asked, heading = [], ""
        for cell in read(path)["cells"]:
            for text in joined(cell["source"]).split("\n\n") if cell["cell_type"] == "markdown" else ():
                heading = text.removeprefix("## ") if text.startswith("## ") else heading
                asked += [heading] * ("**Predict before you run:**" in text)
        assert re.findall(r"(?m)^\| (?!under|---)(.+?) \| ", rows) == asked, path.stem


def test_every_misconception_is_answered_under_a_heading():
    table = GUIDE.split("\n## What people get wrong")[1].split("\n## ")[0]
    for number, heading in re.findall(r"(?m)^\| .+ \| (\d\d) \| (.+?) \| .+ \|$", table):
        [path] = [path for path in LESSONS if path.stem.startswith(number)]
        assert f"## {heading}" in "\n".join(joined(cell["source"]) for cell in read(path)["cells"]), heading


def test_every_command_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make (\w+)`", GUIDE):
        assert re.search(rf"^{target}:", makefile, re.M), target
