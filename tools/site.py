"""The lessons as static pages that need no network: python -m tools.site

Writes to build/site: an index by lesson, an index by clause, a page for each lesson with its exercises and
its solution, the facilitator's guide, the glossary and the handout. The pages load nothing from elsewhere.
"""

import html
import sys
from pathlib import Path

from markupsafe import Markup
from nbconvert.filters.markdown import markdown2html
from pygments.formatters import HtmlFormatter

from tools import clauses, handout, pages
from tools.pages import Page, Targets
from tools.templates import FOLDER, rendered

ROOT = Path(__file__).resolve().parent.parent
INDEX = "index.html"
FACILITATOR = "facilitator.html"
GLOSSARY = "glossary.html"
Links = list[tuple[str, str]]
"""The page and text of each link."""


class Site:
    """All pages, made from the folder of the notebooks and the list of clauses."""

    def __init__(self, notebooks: Path, contract: Path) -> None:
        self.rows = clauses.read(contract)
        known = frozenset(row["id"] for row in self.rows)
        self.targets = Targets(pages.find(notebooks), known)
        self.pages = {source: Page(notebooks, source, self.targets) for source in self.targets.pages}
        self.lessons = [page for source, page in self.pages.items() if pages.is_lesson(source)]

    def texts(self) -> dict[str, str]:
        """The HTML of each page by its name, the index first."""
        texts = {INDEX: self.framed("receiptlab", "index.html", site=self)}
        if self.rows:
            texts[clauses.PAGE] = self.framed("Clauses", "clauses.html", site=self)
            texts[handout.NAME] = handout.handout(self.rows, in_site=True)
        for page in self.pages.values():
            title = f"{page.number} {page.title}" if page in self.lessons else page.title
            texts[page.name] = self.framed(title, "lesson.html", body=Markup(page.body), **self.ways(page))
        return texts

    def framed(self, title: str, template: str, **values: object) -> str:
        values = {"before": None, "after": None, "beside": [], **values}
        return rendered(template, title=title, everywhere=self.everywhere(), **values)

    def everywhere(self) -> Links:
        """The links that every page has."""
        links = [(INDEX, "Lessons")]
        if self.rows:
            links += [(clauses.PAGE, "Clauses"), (handout.NAME, "Handout")]
        if GLOSSARY in self.targets.pages.values():
            links.append((GLOSSARY, "Glossary"))
        if FACILITATOR in self.targets.pages.values():
            links += [(FACILITATOR, "For facilitators")]
        return links

    def ways(self, page: Page) -> dict[str, object]:
        """The links from a page: the previous and next lesson, and the pages of the same lesson."""
        before, after = None, None
        if page in self.lessons:
            place = self.lessons.index(page)
            before = self.lessons[place - 1] if place else None
            after = self.lessons[place + 1] if place + 1 < len(self.lessons) else None
        return {"before": before, "after": after, "beside": self.beside(page)}

    def beside(self, page: Page) -> list[tuple[Page, str]]:
        """The lesson, the exercises and the solution of one stem, without the page itself."""
        words = {"": "Lesson", "exercises/": "Exercises", "solutions/": "Solution"}
        same = [(self.pages.get(f"{folder}{page.stem}.ipynb"), word) for folder, word in words.items()]
        return [(other, word) for other, word in same if other and other is not page]

    # For the templates

    def families(self) -> list[tuple[str, str, list[dict[str, str]]]]:
        return clauses.by_family(self.rows)

    def sentence(self, row: dict[str, str]) -> Markup:
        """The clause as HTML, without the enclosing paragraph."""
        text = pages.with_links(markdown2html(html.escape(row["clause"], quote=False)), "", self.targets)
        return Markup(text.p.decode_contents())

    def shown(self, row: dict[str, str]) -> list[tuple[str, Page | None]]:
        """The lessons that show a clause, with None for a page that doesn't exist yet."""
        return [(stem, self.pages.get(f"{stem}.ipynb")) for stem in row["notebook"].split()]


def build(notebooks: Path, site: Path, contract: Path) -> list[Path]:
    """Build the whole site. Returns its pages, the index first."""
    texts = Site(notebooks, contract).texts()
    site.mkdir(parents=True, exist_ok=True)
    for old in site.glob("*.html"):
        old.unlink()
    code_colours = HtmlFormatter(style="friendly").get_style_defs(".highlight")
    style = (FOLDER / "style.css").read_text(encoding="utf-8") + code_colours + "\n"
    for name, text in {**texts, "style.css": style}.items():
        (site / name).write_text(text, encoding="utf-8", newline="\n")
    return [site / name for name in texts]


def main() -> int:
    made = build(ROOT / "notebooks", ROOT / "build" / "site", ROOT / "data" / "contract.csv")
    print(f"{len(made)} pages; start at {made[0].relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
