"""The README against the tree: what it names exists, and its tables are whole."""

import re
from pathlib import Path

import pytest

from receiptlab.cli.commands import main
from receiptlab.contracts.registry import CONTRACTS
from tools import picture

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = (ROOT / "receiptlab/examples/README.md").read_text(encoding="utf-8")
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def rows(heading):
    """The cells of each row of the table under a heading."""
    section = README.split(f"## {heading}\n")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("https://") or (ROOT / link).exists(), link


def minutes(path):
    """The minutes in the head of a notebook."""
    return re.search(r"\*\*Minutes:\*\* (\d+)\. ", path.read_text(encoding="utf-8"))[1]


def test_every_lesson_has_its_row_with_its_clauses_and_minutes():
    told = {re.match(r"\[(\w+)\]", row[0])[1]: row for row in rows("If you study")}
    assert list(told) == [path.stem for path in LESSONS]
    for path in LESSONS:
        head = path.read_text(encoding="utf-8")
        _, _, clauses, lesson, exercises = told[path.stem]
        assert f"**Clauses:** {clauses}. **Minutes:** {lesson}. " in head, path.name
        solution = ROOT / "notebooks/solutions" / path.name
        link = f"[{minutes(solution)}](notebooks/exercises/{path.name})" if solution.exists() else "none"
        assert exercises == link


def test_every_contract_has_its_row():
    told = {row[0]: row for row in rows("If you bring the cases to your own service")}
    assert set(told) == set(CONTRACTS)
    for name, row in told.items():
        assert (ROOT / row[1].strip("`")).is_file()
        assert (ROOT / row[3].strip("`")).is_dir(), name
        for scenario in re.findall(r"`(\w+)`", row[4]):
            assert (ROOT / f"receiptlab/scenarios/{scenario}.py").is_file(), scenario


def test_every_make_target_that_is_named_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(
        r"(?m)(?:`|^)make (\w+)", README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    )
    assert {"lab", "quick", "test", "lint"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_every_command_that_is_named_can_be_called():
    for words in set(re.findall(r"receiptlab ([a-z]+) ", README + EXAMPLES)):
        with pytest.raises(SystemExit) as ended:
            main([words, "--help"])
        assert ended.value.code == 0, words
    for path in re.findall(r"python (tools[/\\]\w+\.py)", README):
        assert (ROOT / path.replace("\\", "/")).is_file(), path


def test_the_picture_is_as_its_runs_make_it():
    same = picture.PICTURE.read_text(encoding="utf-8") == picture.drawn()
    assert same, "run: python tools/picture.py"
    alt, path = re.search(r"!\[([^\]]+)\]\(([^)]+)\)", README).groups()
    assert ROOT / path == picture.PICTURE and len(alt) > 60


def test_every_module_is_in_the_house():
    house = README.split("## Where things are")[1].split("```")[1]
    for path in (ROOT / "receiptlab").iterdir():
        if path.name.startswith("__") and path.name != "__main__.py":
            continue
        name = path.name if path.is_file() else f"{path.name}/"
        assert name in house, name
    for name in ("notebooks/", "data/", "tests/", "tools/"):
        assert name in house
