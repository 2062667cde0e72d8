"""The glossary: each term is taught in the lesson that it names, and the most important ones are on the handout."""

import re
from pathlib import Path

import pytest

from tools import handout
from tools.notebooks import joined, read

ROOT = Path(__file__).parents[2]
ENTRY = re.compile(r"(?m)^### (.+)\n(.+(?:\n.+)*)")
TERMS = dict(ENTRY.findall((ROOT / "GLOSSARY.md").read_text(encoding="utf-8")))


def prose(number: str) -> str:
    """The text of the lesson with this number."""
    [path] = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    cells = (joined(cell["source"]) for cell in read(path)["cells"] if cell["cell_type"] == "markdown")
    return " ".join(" ".join(cells).replace("*", "").split()).lower()


def test_terms_are_in_alphabetical_order():
    assert list(TERMS) == sorted(TERMS)


@pytest.mark.parametrize("term", TERMS)
def test_each_lesson_that_teaches_a_term_uses_it(term):
    numbers = re.findall(r"\b\d\d\b", TERMS[term].split("Lesson", 1)[1].split(".")[0])
    assert numbers
    for number in numbers:
        assert re.search(rf"\b{term[:-1]}(y|ies|s|es|{term[-1]})?\b", prose(number)), number


@pytest.mark.parametrize("term", handout.TERMS)
def test_the_handout_has_the_most_important_terms(term):
    assert term in TERMS
    assert term in handout.handout([])
