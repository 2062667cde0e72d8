"""What a reader sees: each lesson run in JupyterLab, and each page of the site on a telephone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents import browser, lab_page, lab_server
from tests.documents.site_page import Phone
from tests.documents.test_notebooks import book, code, shown
from tools import notebooks, site

LESSONS = sorted((notebooks.ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory):
    browser.skip_or_fail()
    profile = tmp_path_factory.mktemp("profile")
    with browser.opened(profile, viewport={"width": 1400, "height": 1000}) as context:
        yield context


@pytest.fixture(scope="module")
def lab(chromium, tmp_path_factory: pytest.TempPathFactory):
    with lab_server.running(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(scope="module")
def reader(chromium, lab):
    page = chromium.new_page()
    yield lab_page.Reader(page, lab.page_of("notebooks"))
    page.close()


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_the_lesson_shows_in_jupyterlab_what_is_stored(reader, path: Path):
    assert reader.problems(path) == []


@pytest.fixture
def opened(chromium, lab):
    """Open a notebook of the lab in a page of its own, run nothing, and return the page and the file."""
    pages = []

    def opened(path: str):
        file = lab.root / path
        page = chromium.new_page()
        pages.append(page)
        reader = lab_page.Reader(page, lab.page_of(str(Path(path).parent)))
        lab_page.open_notebook(reader.page, file.name, len(lab_page.code_cells(notebooks.read(file))))
        return page, file

    yield opened
    for page in pages:
        page.close()


@pytest.mark.parametrize("folder", ["notebooks", "workshop"])
def test_a_solution_shows_as_it_opens_what_is_stored(opened, folder: str):
    page, file = opened(f"{folder}/solutions/00_start_here.ipynb")
    assert lab_page.opened_problems(page, notebooks.read(file)) == []
    done = page.locator(f"{lab_page.PANEL} b", has_text="✓ done").first
    assert done.evaluate("it => getComputedStyle(it).backgroundColor") == "rgb(26, 127, 55)"


@pytest.mark.parametrize("name", ["12_erasure.ipynb", "exercises/01_one_transaction.ipynb"])
def test_a_notebook_that_was_only_opened_or_run_stays_as_it_is_when_it_is_saved(opened, name: str):
    page, file = opened(f"notebooks/{name}")
    assert lab_page.save(page, file) is False, "opened"
    if "exercises" not in name:  # what an exercise shows is kept
        lab_page.run_all(page)
        assert lab_page.save(page, file) is False, "opened and run"


def test_a_notebook_that_somebody_has_edited_is_saved(opened):
    page, file = opened("notebooks/exercises/02_replay.ipynb")
    editor = page.locator(f"{lab_page.PANEL} .jp-CodeCell .cm-content").nth(2)
    editor.click()
    page.keyboard.type("# my own words\n")
    assert lab_page.save(page, file) is True
    assert "# my own words" in file.read_text(encoding="utf-8")


def test_there_are_runs_to_be_walked_through():
    cells = [cell for path in LESSONS for cell in lab_page.code_cells(notebooks.read(path))]
    assert any(lab_page.STEPS_CALL in lab_page.source(cell) for cell in cells)


# The same function with notebooks that are broken on purpose. The lab reads them from its own copies.

STEPS = """\
from IPython.display import HTML

from receiptlab import show
from receiptlab.lesson import case

walk = show.steps
PAGE = walk(case("O-02-answer-lost")).page"""
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
PICTURE = shown("image/svg+xml", SVG)
TABLE = shown("text/html", "<table></table>")
FROM = "from IPython.display import HTML, display\n"
# The source of a cell, what it has stored, and what is to be told.
BROKEN = [
    (f"{FROM}HTML('<table><tr><td>new</td></tr></table>')", [], ["1 tables are shown, 0 are stored"]),
    ("import sys\nprint('hm', file=sys.stderr)", [], ["it failed or wrote to stderr: hm"]),
    ("'no picture'", [PICTURE], ["0 pictures are shown, 1 are stored"]),
    (
        f"display({{'image/svg+xml': {SVG[:-1]!r}}}, raw=True)",
        [PICTURE],
        ["1 pictures are broken or not to be seen", "0 pictures are shown, 1 are stored"],
    ),
    (
        "HTML('<img src=nowhere.png onerror=\"console.error(17)\">')",
        [],
        ["1 pictures are broken or not to be seen"],
    ),
    ("HTML('<script>throw new Error(19)</script>')", [TABLE], ["0 tables are shown, 1 are stored"]),
    (f"display({{'image/svg+xml': {SVG!r}}}, raw=True)", [PICTURE], []),
    ("1 / 0", [], ["it failed or wrote to stderr: ZeroDivisionError: division by zero"]),
    ("print('later')", [], ["it was not run"]),
]


@pytest.fixture
def found(reader, lab, monkeypatch: pytest.MonkeyPatch):
    """Write cells as a notebook into the lab and say what the check finds."""

    monkeypatch.setattr(lab_page, "PATIENCE", 1)

    def found(name: str, *cells: dict) -> list[str]:
        path = lab.root / "notebooks" / f"{name}.ipynb"
        notebooks.write(path, book(*cells))
        reader.page.click('[data-command="filebrowser:refresh"]')
        return reader.problems(path)

    return found


def test_what_is_broken_in_a_notebook_is_reported(found):
    cells = [code(source, place, *outputs) for place, (source, outputs, _) in enumerate(BROKEN, 1)]
    told = [f"cell {place}: {line}" for place, (*_, lines) in enumerate(BROKEN, 1) for line in lines]
    shown = found("broken", *cells)
    as_it_opens = [line for line in shown if "as it opens" in line]
    assert "cell 3: as it opens, 0 of 1 pictures are shown" in as_it_opens, "nobody has signed this notebook"
    assert [line for line in shown if line not in as_it_opens] == [
        *told,
        "console: 17",
        "console: 19",
        "console: Failed to load resource: the server responded with a status of 404 (Not Found)",
    ]


def test_a_walk_that_is_not_as_it_should_be_is_reported(found):
    stored = shown("text/html", "<svg></svg>")
    calls = [
        ("HTML(PAGE)  # show.steps(a good one)", stored),
        ("HTML(PAGE.replace('keydown', 'never'))  # show.steps(deaf)", stored),
        (
            "HTML(PAGE.replace('shade.setAttribute(\"y\"', 'shade.setAttribute(\"z\"'))  # show.steps(frozen)",
            stored,
        ),
        ("'none'  # show.steps(run)",),
        ("HTML(PAGE)", stored),
    ]
    cells = [code(call, place, *outputs) for place, (call, *outputs) in enumerate(calls, 2)]
    told = [line for line in found("steps", code(STEPS), *cells) if "as it opens" not in line]
    assert told == [
        "cell 3: step 2 of 4 is not chosen after ArrowDown",
        "cell 4: the picture doesn't mark step 2 of 4 after ArrowDown",
        "cell 5: 0 runs to walk through are shown, 1 are called for",
        "cell 6: 1 runs to walk through are shown, 0 are called for",
    ]


# The site, on a telephone


@pytest.fixture(scope="module")
def phone(chromium):
    page = chromium.new_page()
    yield Phone(page)
    page.close()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site.build(notebooks.ROOT / "notebooks", folder, notebooks.ROOT / "data/contract.csv")
    return folder


def test_every_page_of_the_site_is_whole_on_a_telephone_and_asks_for_nothing(phone, built: Path):
    pages = sorted(built.rglob("*.html"))
    assert len(pages) > len(LESSONS)
    assert {page.name: told for page in pages if (told := phone.problems(page))} == {}


def test_the_handout_is_one_sheet_of_paper(phone, built: Path):
    phone.page.goto((built / "handout.html").as_uri())
    for paper in ("A4", "Letter"):
        printed = phone.page.pdf(format=paper, print_background=True)
        assert browser.pages_of_pdf(printed) <= 2, f"{paper}, printed on both sides"


def test_what_is_broken_in_a_page_is_reported(phone, tmp_path: Path):
    path = tmp_path / "broken.html"
    path.write_text(
        "<!DOCTYPE html><p style='width: 400px; margin: 0'>wide</p><img src=nowhere.png>"
        "<img src='http://127.0.0.1:9/x.png' style='display: none'><script>console.error(23)</script>"
    )
    assert phone.problems(path) == [
        "it asks for http://127.0.0.1:9/x.png",
        'it is 408 px wide, 390 are there: <p style="width: 400px; margin: 0">wide</p>',
        "2 pictures are broken or not to be seen",
        "console: 23",
        "console: Failed to load resource: net::ERR_FILE_NOT_FOUND",
        "console: Failed to load resource: net::ERR_UNSAFE_PORT",
    ]


def test_the_pages_of_a_pdf_are_counted(phone, tmp_path: Path):
    for pages in (1, 3):
        path = tmp_path / f"{pages}.html"
        path.write_text("<p style='page-break-after: always'>one</p>" * (pages - 1) + "<p>last</p>")
        phone.page.goto(path.as_uri())
        assert browser.pages_of_pdf(phone.page.pdf(format="A4")) == pages


# Without a browser


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch):
    for name in ("CHROMIUM", browser.REQUIRED):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")


def test_a_skip_says_what_to_install(nothing_here, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(pytest.skip.Exception, match="on Debian: apt install chromium"):
        browser.skip_or_fail()
    monkeypatch.setenv("CHROMIUM", "/no/such/browser")
    assert browser.missing().startswith("CHROMIUM=/no/such/browser is no program")
    monkeypatch.setattr(browser.importlib.util, "find_spec", lambda name: None)
    assert browser.missing().startswith("the package playwright is missing: pip install")


def test_where_a_browser_is_required_its_absence_fails(nothing_here, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(browser.REQUIRED, "required")
    with pytest.raises(pytest.fail.Exception, match="RECEIPTLAB_BROWSER=required, but none of google-chrome"):
        browser.skip_or_fail()
