"""Turns a notebook or a Markdown file into the body of a page, with links that lead to pages."""

import ast
import base64
import copy
import html
import posixpath
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
from bs4 import BeautifulSoup, Tag
from jinja2 import pass_context
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbconvert.filters.markdown import markdown2html

from tools import clauses, exercises, notebooks

# The files that become pages, and the names of the pages. All of them can be missing. Exercises are made from
# their solutions, because the exercise files may contain a learner's answers.
NAMES = {
    "*.ipynb": [("{}.ipynb", "{}.html")],
    "solutions/*.ipynb": [
        ("exercises/{}.ipynb", "{}-exercises.html"),
        ("solutions/{}.ipynb", "{}-solution.html"),
    ],
    "FACILITATOR.md": [("{}.md", "facilitator.html")],
}
GLOSSARY = "GLOSSARY.md"
"""Beside the folder of the notebooks."""
SVG = "image/svg+xml"
SMALLEST = 0.75  # share of its width; below this a picture scrolls, because its text would be too small


def find(folder: Path) -> dict[str, str]:
    """The page of each file, by the file's path in the folder of the notebooks."""
    found = {}
    for pattern, names in NAMES.items():
        for path in sorted(folder.glob(pattern)):
            found |= {source.format(path.stem): page.format(path.stem) for source, page in names}
    if (folder.parent / GLOSSARY).is_file():
        found[f"../{GLOSSARY}"] = "glossary.html"
    return found


def is_lesson(source: str) -> bool:
    return source.endswith(".ipynb") and "/" not in source


@dataclass(frozen=True)
class Targets:
    """The targets of links: the page of each file, and the clauses."""

    pages: dict[str, str]
    clauses: frozenset[str]


@dataclass
class Section:
    """A heading, the clauses in it, and those in the text below it."""

    anchor: str
    title: str
    heads: set[str]
    tells: set[str] = field(default_factory=set)


class Page:
    """A file as a page: its name, title, first paragraph, sections and body."""

    def __init__(self, folder: Path, source: str, targets: Targets) -> None:
        self.source, self.name = source, targets.pages[source]
        self.stem = Path(source).stem
        read = _read_notebook if source.endswith(".ipynb") else _read_markdown
        self.body, texts = read(folder / source, source, targets)
        self.sections = sections(texts)
        title, first = _first(texts, "h1"), _first(texts, "p")
        self.title = _words(title) if title else self.stem
        self.about = _without_links(first)
        self.clauses = self._told(r"<strong>Clauses:</strong> (.*?)\. <strong>")
        self.minutes = self._told(r"<strong>Minutes:</strong> (\d+)")

    @property
    def number(self) -> str:
        return self.stem.partition("_")[0]

    def _told(self, pattern: str) -> Markup:
        found = re.search(pattern, self.body)
        return Markup(found[1] if found else "")

    def shows(self, clause: str) -> list[Section]:
        """The sections whose heading names the clause, or else the first one whose text does."""
        heads = [section for section in self.sections if clause in section.heads]
        return heads or [section for section in self.sections if clause in section.tells][:1]


def _read_notebook(path: Path, source: str, targets: Targets) -> tuple[str, list[BeautifulSoup]]:
    made = source.startswith("exercises/")
    notebook = _exercises(path) if made else nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            _describe(output.get("data", {}))
    exporter = _Exporter(source, targets)
    body, _ = exporter.from_notebook_node(notebook)
    return body, exporter.texts


def _exercises(path: Path) -> nbformat.NotebookNode:
    """The blank exercises, made from their solution. The file at the path itself is not read."""
    solution = nbformat.read(path.parent.parent / "solutions" / path.name, as_version=4)
    run = notebooks.normalised(solution)
    blank = nbformat.from_dict(exercises.exercise(run))
    _tell(blank, nbformat.from_dict(run))
    return blank


def _tell(blank: nbformat.NotebookNode, solution: nbformat.NotebookNode) -> None:
    """Cells without a gap get the outputs of the solution's run, unless they use what a gap has to define.

    An exercise has no outputs, and without a kernel a reader would not see what is asked about.
    """
    run = {cell.id: cell for cell in solution.cells}
    answers: set[str] = set()
    for cell in blank.cells:
        if cell.cell_type == "code":
            sets, uses = _names(cell.source)
            same = cell.id in run and run[cell.id].source == cell.source
            if same and not uses & answers:
                cell.outputs = run[cell.id].outputs
            else:
                answers |= sets


def _names(source: str) -> tuple[set[str], set[str]]:
    """The names that some code sets, and those that it uses."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    sets = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    sets |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return sets, {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _read_markdown(path: Path, source: str, targets: Targets) -> tuple[str, list[BeautifulSoup]]:
    text = with_links(markdown2html(path.read_text(encoding="utf-8")), source, targets)
    return str(text), [text]


class _Exporter(HTMLExporter):
    """Converts one notebook and keeps its converted texts."""

    def __init__(self, source: str, targets: Targets) -> None:
        super().__init__(template_name="basic")
        self.source, self.targets = source, targets
        self.texts: list[BeautifulSoup] = []

    @pass_context
    def markdown2html(self, context: object, source: str) -> str:
        text = with_links(super().markdown2html(context, source), self.source, self.targets)
        self.texts.append(text)
        return str(text)


def _describe(data: dict) -> None:
    """Give a picture its alternative text and a legible minimum size."""
    if SVG in data and "text/html" not in data:
        code = base64.b64encode(data[SVG].encode()).decode()
        alt = html.escape(data.get("text/plain", "picture"))
        data["text/html"] = f'<img alt="{alt}" src="data:{SVG};base64,{code}">'
    if "<img" in data.get("text/html", ""):
        data["text/html"] = _legible(data["text/html"])


def _legible(fragment: str) -> str:
    text = BeautifulSoup(fragment, "html.parser")
    for picture in text.find_all("img", src=re.compile(f"^data:{re.escape(SVG)};base64,")):
        svg = base64.b64decode(picture["src"].partition(",")[2]).decode()
        if width := re.search(r'<svg[^>]*?\swidth="([\d.]+)(pt)?"', svg):
            style = f"min-width: {float(width[1]) * SMALLEST:.0f}{width[2] or 'px'}"
            picture["style"] = "; ".join(filter(None, [picture.get("style"), style]))
    return str(text)


def with_links(fragment: str, source: str, targets: Targets) -> BeautifulSoup:
    """The text of one file, with links to pages and clauses, and wide tables that scroll."""
    text = BeautifulSoup(fragment, "html.parser")
    for link in text.find_all("a", href=True):
        _lead(link, source, targets.pages)
    for words in text.find_all(string=clauses.CLAUSE):
        if not words.find_parent(["a", "code", "pre"]):
            words.replace_with(BeautifulSoup(clauses.linked(words, targets.clauses), "html.parser"))
    for paragraph in text.find_all(_has_a_heading):
        paragraph["id"] = paragraph.strong.get_text().rstrip(".").replace(" ", "-")
    for table in text.find_all("table"):
        table.wrap(text.new_tag("div", attrs={"class": "wide"}))
    return text


def _has_a_heading(tag: Tag) -> bool:
    """A paragraph that starts with a bold sentence, such as what a lesson does not prove."""
    first = tag.contents[0] if tag.name == "p" and tag.contents else None
    return isinstance(first, Tag) and first.name == "strong" and first.get_text().endswith(".")


def _lead(link: Tag, source: str, pages: dict[str, str]) -> None:
    """Point a link to the page of its file. A link to any other file of the project becomes plain text."""
    url = urlsplit(link["href"])
    if url.scheme or url.netloc or not url.path:
        return
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), unquote(url.path)))
    if path in pages:
        link["href"] = pages[path] + (f"#{url.fragment}" if url.fragment else "")
    else:
        where = posixpath.normpath(posixpath.join("notebooks", path))
        link.name, link.attrs = "span", {"class": "elsewhere", "title": f"in the project: {where}"}


def sections(texts: list[BeautifulSoup]) -> list[Section]:
    """The sections of these texts."""
    found: list[Section] = []
    for text in texts:
        for part in text.find_all(True, recursive=False):
            told = clauses.named(part.get_text())
            if part.name in ("h2", "h3"):
                found.append(Section(part["id"], _words(part), told))
            elif found and _has_a_heading(part):
                found.append(Section(part["id"], part.strong.get_text().rstrip("."), set(), told))
            elif found:
                found[-1].tells |= told
    return found


def _first(texts: list[BeautifulSoup], name: str) -> Tag | None:
    return next((tag for text in texts if (tag := text.find(name))), None)


def _words(heading: Tag) -> str:
    return heading.get_text().removesuffix("¶").strip()


def _without_links(paragraph: Tag | None) -> Markup:
    """The paragraph without its links."""
    if paragraph is None:
        return Markup("")
    paragraph = copy.copy(paragraph)
    for link in paragraph.find_all("a"):
        link.unwrap()
    return Markup(paragraph.decode_contents())
