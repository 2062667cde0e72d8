"""The pages stand alone: links lead to pages that are there, and nothing is loaded from elsewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tools import notebooks, site

CONTRACT = """\
id,contract,kind,clause,cases,test,notebook,status
O-1,owner,holds,"failure before `commit`, a < b",,,01_owner,done
O-2,owner,holds,no page yet,,,01_owner 09_later,done
"""
TEXTS = {
    "00_start": "# Start & go\n\nFirst words. See [the owner](01_owner.ipynb#rows).\n\nMore.",
    "01_owner": "# The `owner`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    "Its words. [Code](../receiptlab/store.py), [web](https://example.org/x.ipynb), $x$.",
}


class Page(HTMLParser):
    """What a page links to and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.tags: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        values = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.links.append(values.get("href", ""))
        else:
            self.loaded += [values[name] for name in ("src", "href") if name in values]


def lesson(text: str) -> dict:
    markdown = {"cell_type": "markdown", "id": "head", "metadata": {}, "source": text}
    data = {"image/svg+xml": '<svg xmlns="http://www.w3.org/2000/svg"/>', "text/html": "<b>table</b>"}
    output = {"output_type": "display_data", "metadata": {}, "data": data}
    code = {"cell_type": "code", "id": "one", "execution_count": 1, "metadata": {}, "source": "import os"}
    return {"cells": [markdown, code | {"outputs": [output]}]}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "contract.csv").write_text(CONTRACT, encoding="utf-8")
    for stem, text in TEXTS.items():
        notebooks.write(folder / f"{stem}.ipynb", lesson(text))
    (folder / "out").mkdir()
    (folder / "out" / "renamed_lesson.html").write_text("old")
    site.build(folder, folder / "out", folder / "contract.csv")
    return folder / "out"


def test_there_is_a_page_a_lesson_and_no_old_one(built: Path):
    assert sorted(path.name for path in built.iterdir()) == [
        "00_start.html",
        "01_owner.html",
        "index.html",
        "style.css",
    ]


def test_the_index_has_titles_first_paragraphs_and_clauses(built: Path):
    text = (built / "index.html").read_text(encoding="utf-8")
    assert '<a href="00_start.html">Start &amp; go</a><br>First words. See the owner.</p>' in text
    assert '<a href="01_owner.html">The <code>owner</code></a><br>Its words.' in text
    assert "<td>failure before <code>commit</code>, a &lt; b</td>" in text
    assert '<td><a href="01_owner.html">01_owner</a>, 09_later</td>' in text


def test_every_link_leads_to_a_page_that_is_there(built: Path):
    for path in built.glob("*.html"):
        for target in Page(path).links:
            file = target.partition("#")[0]
            assert target.startswith("https://") or not file or (built / file).exists(), (path.name, target)
    assert "01_owner.html#rows" in Page(built / "00_start.html").links
    assert "https://example.org/x.ipynb" in Page(built / "01_owner.html").links


def test_nothing_is_loaded_from_elsewhere(built: Path):
    for path in built.glob("*.html"):
        page = Page(path)
        assert "script" not in page.tags
        assert [item for item in page.loaded if not item.startswith("data:")] == ["style.css"]
    assert not re.search(r"@import|url\(", (built / "style.css").read_text(encoding="utf-8"))


def test_pages_fit_a_phone_and_lead_on(built: Path):
    text = (built / "00_start.html").read_text(encoding="utf-8")
    assert '<meta name="viewport" content="width=device-width' in text
    assert "<title>Start &amp; go</title>" in text
    assert text.count('<a href="01_owner.html">The <code>owner</code> →</a>') == 2
    assert text.count('<a href="index.html">') == 2


def test_a_site_without_a_list_of_clauses_can_be_built(tmp_path: Path):
    assert [page.name for page in site.build(tmp_path, tmp_path / "out", tmp_path / "none.csv")] == [
        "index.html"
    ]
