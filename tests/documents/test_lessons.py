"""The lessons have one shape and one vocabulary, and what they show is asserted."""

import re
from pathlib import Path

import pytest

from tools.notebooks import joined, read

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
LESSONS = sorted(NOTEBOOKS.glob("*.ipynb"))
CELLS = {path.stem: read(path)["cells"] for path in LESSONS}
every_lesson = pytest.mark.parametrize("lesson", CELLS)

HEAD = re.compile(
    r"# .+\n\n"
    r"> \*\*\w+day, \d\d:\d\d\.\*\* .+\n\n"
    r"After this lesson you can .+\n\n"
    r"\*\*Clauses:\*\* .+\. \*\*Minutes:\*\* \d+\. \*\*You need:\*\* (?P<need>.+)"
)
"""Title, the day's ticket from the shop, what the lesson is good for."""
WILD = re.compile(r"> \*\*In the wild\.\*\* .+\(\[[^]]+\]\(https://[^)]+\)\)", re.S)
TAIL = re.compile(
    r"\*\*Take away\.\*\* \*.+\*\n\n"
    r"\*\*What this lesson does not prove\.\*\* .+\n\n"
    r"\*\*Where to look in the code\.\*\* .+\n\n"
    r"\*\*Exercises\.\*\* "
    r"(About (?P<minutes>\d+) minutes: \[exercises\]\(exercises/(?P<name>\w+)\.ipynb\)\.|None: .+)"
)
ONCE = (
    "**You need:**",
    "**In the wild.**",
    "**Take away.**",
    "**What this lesson does not prove.**",
    "**Where to look in the code.**",
    "**Exercises.**",
)
PREDICT = "**Predict before you run:**"

# Words of the lab's earlier language, and filler. The glossary has the terms that lessons use instead.
OTHER_WORDS = (r"high-water", r"turn(s|ed)? away|turn(s|ed)? down", r"\b(simply|just|obviously)\b", r"[—!]")
# A word is said in italics where it is explained, and not used in a lesson before.
EXPLAINED = {
    "guards": "02_replay",
    "ablation": "05_authority",
    "tombstone": "07_retention_tombstones",
    "boundary": "08_range_closure",
    "identity": "09_inbound_receipts",
    "classify": "09_inbound_receipts",
    "handle": "09_inbound_receipts",
    "processor": "10_work_claims",
    "completing batch": "10_work_claims",
    "reclaim": "10_work_claims",
    "zombie": "10_work_claims",
    "drained": "13_crash_points",
    "rollback journal": "13_crash_points",
    "relay": "14_split_brain_restore",
    "generation": "14_split_brain_restore",
    "reconciliation": "14_split_brain_restore",
}


def sources(lesson: str, kind: str) -> list[str]:
    return [joined(cell["source"]) for cell in CELLS[lesson] if cell["cell_type"] == kind]


def prose(lesson: str) -> str:
    """What a lesson says in words: no code, no addresses, no names of other lessons, no exercises."""
    text = "\n\n".join(sources(lesson, "markdown")).split("**Exercises.**")[0]
    return re.sub(r"\[[^]]*\]\([^)]*\)|`[^`]*`", "…", text)


@every_lesson
def test_head_and_tail_have_their_parts_in_their_order(lesson: str):
    first, last = joined(CELLS[lesson][0]["source"]), joined(CELLS[lesson][-1]["source"])
    assert HEAD.match(first), first
    assert WILD.match(joined(CELLS[lesson][-2]["source"])), "a documented incident with its source"
    tail = TAIL.fullmatch(last)
    assert tail, last
    appendix = lesson.startswith("A")
    assert tail["name"] == (None if appendix else lesson)
    if not appendix:
        solution = joined(read(NOTEBOOKS / "solutions" / f"{lesson}.ipynb")["cells"][0]["source"])
        assert f" **Minutes:** {tail['minutes']}. " in solution
    text = "\n".join(sources(lesson, "markdown"))
    assert [text.count(part) for part in ONCE] == [1] * len(ONCE)


@every_lesson
def test_what_a_lesson_builds_on_comes_before_it(lesson: str):
    need = HEAD.match(joined(CELLS[lesson][0]["source"]))["need"]
    needed = re.findall(r"\]\((\w+)\.ipynb\)", need)
    assert bool(needed) is (lesson != LESSONS[0].stem)
    for name in needed:
        assert name in CELLS, name
        assert name < lesson, name


@every_lesson
def test_links_lead_to_lessons_by_their_number(lesson: str):
    for text, link in re.findall(r"\[([^]]+)\]\(([^)]+)\)", "\n".join(sources(lesson, "markdown"))):
        if not link.startswith("https://"):
            assert (NOTEBOOKS / link).is_file(), link
            assert link.startswith(text[:2]) or text.islower(), (text, link)


@every_lesson
def test_a_prediction_is_a_question_and_the_next_cell_answers_it(lesson: str):
    cells = CELLS[lesson]
    places = [place for place, cell in enumerate(cells) if PREDICT in joined(cell["source"])]
    assert places, "every lesson asks"
    for place in places:
        assert "?" in joined(cells[place]["source"]).split(PREDICT)[1], cells[place]["id"]
        assert cells[place + 1]["cell_type"] == "code", cells[place]["id"]


@every_lesson
def test_what_is_named_to_look_at_is_in_the_code(lesson: str):
    modules = list((ROOT / "receiptlab").rglob("*.py"))
    code = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    where = sources(lesson, "markdown")[-1].split("**Where to look in the code.**")[1].splitlines()[0]
    for name in re.findall(r"`([^`]+)`", where):
        if "/" in name or name.endswith(".py"):
            assert (ROOT / name).exists() or name in {path.name for path in modules}, name
        else:
            assert re.search(rf"(?m)(def |class |^){name.rpartition('.')[2]}\b", code), name


@every_lesson
@pytest.mark.parametrize("word", OTHER_WORDS)
def test_one_thing_has_one_word(lesson: str, word: str):
    assert re.findall(word, prose(lesson), re.I) == []


@pytest.mark.parametrize("word", EXPLAINED)
def test_a_word_is_explained_before_it_is_used(word: str):
    assert f"*{word}*" in prose(EXPLAINED[word])
    for lesson in CELLS:
        if lesson < EXPLAINED[word]:
            assert not re.search(rf"\b{word}", prose(lesson), re.I), lesson


def test_where_to_go_on_is_the_table_of_the_readme():
    row = r"(?m)^\| \[[^]]+\]\((?:notebooks/)?(\w+)\.ipynb\) \| (.+?) \|(?: .+? \|)?? (\d+) \|"
    told = re.findall(row, "\n".join(sources("00_start_here", "markdown")))
    assert told == re.findall(row, (ROOT / "README.md").read_text(encoding="utf-8"))[1:]
    assert [name for name, _, _ in told] == list(CELLS)[1:]
    for name, _, minutes in told:
        assert f" **Minutes:** {minutes}. " in joined(CELLS[name][0]["source"]), name
