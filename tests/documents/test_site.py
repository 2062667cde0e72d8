"""The pages stand alone: links lead to pages and places that are there, and nothing is loaded from elsewhere."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tools import clauses, notebooks, site

CONTRACT = """\
id,contract,kind,clause,short,cases,test,notebook,status
O-1,owner,holds,"failure before `commit`, a < b",failure,,,01_owner,done
O-2,owner,breaks,"no page yet, see O-1",no page,,,01_owner 09_later,done
O-3,owner,holds,end of a span,end,,,01_owner,done
O-4,owner,limit,named by a text alone,text alone,,,01_owner,done
"""
TEXTS = {
    "00_start": "# Start & go\n\nFirst words. See [the owner](01_owner.ipynb#Rows-(O-1)).\n\nMore.",
    "01_owner": "# The owner\n\nIts words.\n\n"
    "**Clauses:** O-1 to O-4. **Minutes:** 20. **You need:** [0](00_start.ipynb). "
    "[Its exercises](exercises/01_owner.ipynb), [notes](FACILITATOR.md).\n\n"
    "## Rows (O-1)\n\nNot O-9, nor UTF-8, nor `O-1`, nor O-1-a-case.\n\n## More (O-1 to O-3)\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    "**What this does not prove.** That O-4 is so.\n\n**Predict:** nothing.\n\n"
    "[Code](../receiptlab/store.py), [web](https://example.org/x.ipynb), $x$.",
    "solutions/01_owner": "# Solutions: Think about it\n\n[Lesson](../01_owner.ipynb). **Minutes:** 35. "
    "[Code](../../receiptlab/store.py), [exercises](../exercises/01_owner.ipynb), "
    "[solution](../solutions/01_owner.ipynb), [clause](../01_owner.ipynb#More-(O-1-to-O-3)).",
}
GUIDE = (
    "# For who leads\n\nSee [the lesson](01_owner.ipynb), [the solution](solutions/01_owner.ipynb), O-1.\n"
)
BOXES = {"wide", "output_subarea"}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="400pt" height="10pt"/>'


class Page(HTMLParser):
    """What a page links to, what it loads, which places it has, and what stands in no box that scrolls."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.boxes: list[str] = []
        self.unboxed: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        values = {name: value or "" for name, value in attrs}
        self.ids += [values["id"]] if "id" in values else []
        if tag == "div":
            self.boxes.append(values.get("class", ""))
        if tag in ("table", "img") and not BOXES & set(" ".join(self.boxes).split()):
            self.unboxed.append(tag)
        if tag == "a":
            self.links.append(values.get("href", ""))
        else:
            self.loaded += [values[name] for name in ("src", "href") if name in values]

    def handle_endtag(self, tag: str) -> None:
        if tag == "div":
            self.boxes.pop()


def lesson(text: str) -> dict:
    markdown = {"cell_type": "markdown", "id": "head", "metadata": {}, "source": text}
    coded = base64.b64encode(SVG.encode()).decode()
    table = f'<b>table</b><img style="max-width:100%" alt="" src="data:image/svg+xml;base64,{coded}">'
    both = {"image/svg+xml": SVG, "text/html": table}
    picture = {"image/svg+xml": SVG, "text/plain": "a timeline of <two>"}
    outputs = [{"output_type": "display_data", "metadata": {}, "data": data} for data in (both, picture)]
    code = {"cell_type": "code", "id": "one", "execution_count": 1, "metadata": {}, "source": "import os"}
    return {"cells": [markdown, code | {"outputs": outputs}]}


def made(folder: Path, texts: dict[str, str], guide: str = "") -> Path:
    """A site made of these texts."""
    (folder / "contract.csv").write_text(CONTRACT, encoding="utf-8")
    for stem, text in texts.items():
        (folder / stem).parent.mkdir(exist_ok=True)
        notebooks.write(folder / f"{stem}.ipynb", lesson(text))
    if guide:
        (folder / "FACILITATOR.md").write_text(guide, encoding="utf-8")
    site.build(folder, folder / "out", folder / "contract.csv")
    return folder / "out"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "out").mkdir()
    (folder / "out" / "renamed_lesson.html").write_text("old")
    return made(folder, TEXTS, GUIDE)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real") / "out"
    site.build(site.ROOT / "notebooks", folder, site.ROOT / "data" / "contract.csv")
    return folder


@pytest.fixture(params=["built", "real"])
def any_site(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def between(text: str, start: str, end: str) -> str:
    return text.split(start, 1)[1].split(end, 1)[0]


# Which pages there are


def test_there_is_a_page_for_each_file_and_no_old_one(built: Path):
    assert sorted(path.name for path in built.iterdir()) == [
        "00_start.html",
        "01_owner-exercises.html",
        "01_owner-solution.html",
        "01_owner.html",
        "clauses.html",
        "facilitator.html",
        "handout.html",
        "index.html",
        "style.css",
    ]


def test_exercises_solutions_and_notes_may_be_missing(tmp_path: Path):
    lessons = {stem: text for stem, text in TEXTS.items() if "/" not in stem}
    out = made(tmp_path, lessons)
    assert not [path.name for path in out.iterdir() if "-" in path.name or "facilitator" in path.name]
    page = text_of(out / "01_owner.html")
    assert 'title="in the project: notebooks/exercises/01_owner.ipynb">Its exercises</span>' in page
    assert "Exercises" not in page + text_of(out / "index.html")
    assert "facilitator" not in page.lower().replace("notebooks/facilitator.md", "")


def test_every_lesson_of_the_project_has_its_page(real: Path):
    for path in (site.ROOT / "notebooks").glob("*.ipynb"):
        assert (real / f"{path.stem}.html").exists()


# The index by lesson


def test_the_index_has_number_title_first_paragraph_minutes_and_clauses(built: Path):
    text = text_of(built / "index.html")
    assert '00 <a href="00_start.html">Start &amp; go</a></h3>\n<p>First words. See the owner.</p>' in text
    entry = between(text, '01 <a href="01_owner.html">The owner</a>', "</li>")
    assert "<p>Its words.</p>" in entry and "20 minutes" in entry
    assert '<a class="clause" href="clauses.html#O-1">O-1</a> to <a' in entry
    assert '<a href="01_owner-exercises.html">Exercises</a>, 35 minutes' in entry
    assert '<a href="01_owner-solution.html">Solution</a></p>' in entry


# The index by clause


def test_the_index_by_clause_has_every_clause_once_with_kind_and_sentence(real: Path):
    text = text_of(real / "clauses.html")
    rows = clauses.read(site.ROOT / "data" / "contract.csv")
    assert re.findall(r'<section class="clause" id="([^"]+)">', text) == [row["id"] for row in rows]
    for row in rows:
        section = between(text, f'<section class="clause" id="{row["id"]}">', "</section>")
        assert f'<b class="kind {row["kind"]}">{row["kind"]}</b>' in section
        sentence = re.sub("<[^>]*>", "", between(section, "<p>", "</p>"))
        assert sentence == row["clause"]
        for stem in row["notebook"].split():
            assert f'<a href="{stem}.html">' in section


def test_a_clause_leads_to_the_sections_whose_headings_name_it(built: Path):
    text = text_of(built / "clauses.html")
    first, second, fourth = (between(text, f'id="O-{n}"', "</section>") for n in (1, 2, 4))
    assert "<p>failure before <code>commit</code>, a &lt; b</p>" in first
    assert re.findall('href="(01[^"]+)"', first) == [
        "01_owner.html",
        "01_owner.html#Rows-(O-1)",
        "01_owner.html#More-(O-1-to-O-3)",
    ]
    assert re.findall('href="(01[^"]+)"', second) == ["01_owner.html", "01_owner.html#More-(O-1-to-O-3)"]
    assert "<li>09_later</li>" in second
    # No heading names it, so it is where the text does.
    assert re.findall('href="(01[^"]+)"', fourth) == [
        "01_owner.html",
        "01_owner.html#What-this-does-not-prove",
    ]


def test_clauses_in_the_text_lead_to_the_index_by_clause(built: Path):
    text = text_of(built / "01_owner.html")
    link = '<a class="clause" href="clauses.html#{0}">{0}</a>'.format
    assert f"<strong>Clauses:</strong> {link('O-1')} to {link('O-4')}. " in text
    assert "<p>Not O-9, nor UTF-8, nor <code>O-1</code>, nor O-1-a-case.</p>" in text
    assert f'<h2 id="Rows-(O-1)">Rows ({link("O-1")})<a class="anchor-link"' in text


# Exercises


GAP = "def mine():\n    # your turn\n    return 'answer'\n    # until here"
CELLS = {"ask": "print('story')", "gap": GAP, "use": "mine()", "more": "x = mine()", "late": "print(x)"}


def with_gap(folder: Path) -> Path:
    """A site with a solution of which a part is for learners to write."""
    book = {"cells": lesson("# Solutions: The owner")["cells"][:1]}
    for number, (name, source) in enumerate(CELLS.items(), 1):
        told = {"output_type": "stream", "name": "stdout", "text": f"output of {name}\nand more\n"}
        cell = {"cell_type": "code", "id": name, "execution_count": number, "metadata": {}}
        book["cells"].append(cell | {"source": source, "outputs": [told]})
    (folder / "solutions").mkdir(exist_ok=True)
    notebooks.write(folder / "solutions" / "01_owner.ipynb", book)
    return made(folder, {"01_owner": "# The owner"})


def test_exercises_show_what_is_asked_about_and_no_answer(tmp_path: Path):
    out = with_gap(tmp_path)
    texts = {page: text_of(out / f"01_owner-{page}.html") for page in ("exercises", "solution")}
    seen = {page: re.findall(r"output of (\w+)\nand more\n", text) for page, text in texts.items()}
    assert seen == {"exercises": ["ask"], "solution": list(CELLS)}
    assert {page: "answer" in text for page, text in texts.items()} == {"exercises": False, "solution": True}
    assert "<title>Exercises: The owner</title>" in texts["exercises"]


def test_what_somebody_wrote_into_the_exercises_is_not_published(tmp_path: Path):
    def texts() -> dict[str, str]:
        return {path.name: text_of(path) for path in with_gap(tmp_path).iterdir()}

    before = texts()
    (tmp_path / "exercises").mkdir()
    filled = lesson("# Mine")
    filled["cells"][1]["source"] = "mine = 'my own answer'"
    for name in ("01_owner", "01_owner-Copy1", "notes"):
        notebooks.write(tmp_path / "exercises" / f"{name}.ipynb", filled)
    assert texts() == before


# Links and files


def test_every_link_leads_to_a_page_and_a_place_that_is_there(any_site: Path):
    pages = {path.name: Page(path) for path in any_site.glob("*.html")}
    for name, page in pages.items():
        for target in page.links:
            if target.startswith("https://"):
                continue
            file, _, place = target.partition("#")
            assert (file or name) in pages, (name, target)
            assert not place or unquote(place) in pages[file or name].ids, (name, target)


def test_lesson_exercises_and_solution_lead_to_each_other_and_not_to_themselves(built: Path):
    ways = {
        "01_owner.html": "Lesson",
        "01_owner-exercises.html": "Exercises",
        "01_owner-solution.html": "Solution",
    }
    for name in ways:
        links = [f'<a href="{page}">{words}</a>' for page, words in ways.items() if page != name]
        assert text_of(built / name).count(f"<span>{' · '.join(links)}</span>") == 2, name


def test_a_file_without_a_page_is_named(built: Path):
    named = '<span class="elsewhere" title="in the project: receiptlab/store.py">'
    assert f"{named}Code</span>" in text_of(built / "01_owner.html")
    assert f"{named}Code</span>" in text_of(built / "01_owner-exercises.html")


def test_nothing_is_loaded_from_elsewhere(any_site: Path):
    for path in any_site.glob("*.html"):
        page = Page(path)
        assert text_of(path).count("<script>") == text_of(path).count('class="receiptlab-steps"')
        wanted = [] if path.name == "handout.html" else ["style.css"]
        assert [item for item in page.loaded if not item.startswith("data:")] == wanted
        assert not re.search(r"@import|url\(\s*['\"]?(?!#)", text_of(path)), path.name
    assert not re.search(r"@import|url\(", text_of(any_site / "style.css"))


# What a reader sees


def test_pages_fit_a_phone_and_lead_on(built: Path):
    text = text_of(built / "00_start.html")
    assert '<meta name="viewport" content="width=device-width' in text
    assert "<title>00 Start &amp; go</title>" in text
    assert text.count('<a href="01_owner.html">01 The owner →</a>') == 2
    assert text_of(built / "01_owner.html").count('<a href="00_start.html">← 00 Start &amp; go</a>') == 2
    for path in built.glob("*.html"):
        if path.name != "handout.html":
            assert {"index.html", "clauses.html", "handout.html", "facilitator.html"} <= set(Page(path).links)


def test_what_is_wide_has_a_box_to_scroll_in(any_site: Path):
    for path in any_site.glob("*.html"):
        assert Page(path).unboxed == [], path.name
    assert "\npre, .output_subarea, .wide { overflow-x: auto; }\n" in text_of(any_site / "style.css")


def test_a_picture_has_words_and_a_legible_size_and_a_table_comes_before_it(built: Path):
    text = text_of(built / "00_start.html")
    assert "<b>table</b>" in text
    within, picture = re.findall("<img [^>]*>", text)
    assert 'style="max-width:100%; min-width: 300pt"' in within
    assert 'alt="a timeline of &lt;two&gt;"' in picture
    assert 'style="min-width: 300pt"' in picture


def test_every_picture_of_the_project_has_words(real: Path):
    for path in real.glob("*.html"):
        assert "No description has been provided" not in text_of(path), path.name
