"""The sheet has the whole contract, made from the list of clauses, and needs nothing else."""

import html
import re

import pytest

from receiptlab.outcomes import WORDS
from receiptlab.show import palette
from tools import clauses, handout

ROWS = clauses.read(handout.ROOT / "data" / "contract.csv")
PAGE = handout.handout(ROWS)


def items(page: str) -> list[tuple[str, str, str, str]]:
    """Kind, id, lessons and words of each clause, as they stand on the sheet."""
    found = re.findall(r'<li class="(\w+)"><span>(.*?)</span>\s*<span>(.*?)</span>\s*</li>', page, re.DOTALL)
    told = []
    for kind, names, words in found:
        name, _, lessons = text(names).partition(" ")
        told.append((kind, name, lessons, text(words)))
    return told


def text(part: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", part)).strip()


def test_every_clause_is_on_the_sheet_once_in_order_with_words_kind_and_lessons():
    wanted = []
    for row in ROWS:
        words = row["short"] if row["kind"] == "holds" else f"{row['kind']} {row['short']}"
        lessons = " ".join(stem[:2] for stem in row["notebook"].split())
        wanted.append((row["kind"], row["id"], lessons, words))
    assert items(PAGE) == wanted


@pytest.mark.parametrize("in_site", [False, True])
def test_another_list_makes_another_sheet(in_site: bool):
    row = {"id": "O-1", "kind": "limit", "short": "a < b", "notebook": "03_key 10_work"}
    page = handout.handout([row], in_site)
    assert items(page) == [("limit", "O-1", "03 10", "limit a < b")]
    assert "1 clauses in short words" in page and "stated, and not shown (1)" in page
    assert ('href="clauses.html#O-1"' in page) is in_site


def test_families_have_a_heading_each():
    headings = re.findall(r"<h2>(\w) <span>(.*?)</span></h2>", PAGE)
    assert headings == list(clauses.FAMILIES.items())
    assert {row["id"][0] for row in ROWS} == set(clauses.FAMILIES)


def test_the_legend_has_every_outcome_with_its_mark_and_colour_and_every_kind():
    assert [entry["word"] for entry in handout.legend()] == list(WORDS)
    for word in WORDS:
        mark = f'background: {palette.COLOURS[word]}">{palette.MARKS[word]}</i> <b>{word}</b>'
        assert mark in PAGE, word
    assert set(handout.KINDS) == {row["kind"] for row in ROWS}
    for kind in handout.KINDS:
        count = sum(row["kind"] == kind for row in ROWS)
        assert re.search(rf"<b>{kind}</b> [^<]*\({count}\)", PAGE), kind


def test_the_sheet_stands_alone():
    assert not re.search(r"<script|<link|<img|@import|url\(|https?:|<a ", PAGE)
    assert "@page" in PAGE


def test_it_is_written_by_itself_too(tmp_path, monkeypatch, capsys):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "contract.csv").write_bytes((handout.ROOT / "data" / "contract.csv").read_bytes())
    monkeypatch.setattr(handout, "ROOT", tmp_path)
    assert handout.main() == 0
    assert (tmp_path / capsys.readouterr().out.strip()).read_text(encoding="utf-8") == PAGE
