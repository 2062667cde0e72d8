"""The lessons as pages that need no network and no server: python tools/site.py

Writes build/site/index.html and a page a lesson. Nothing on them is loaded from elsewhere.
"""

import csv
import html
import re
import sys
from pathlib import Path
from string import Template

from nbconvert import HTMLExporter
from nbconvert.filters.markdown import markdown2html
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).resolve().parent.parent
LOCAL_LINK = re.compile(r'<a href="(?![a-z]+:|#)([^"#]*)(#[^"]*)?"([^>]*)>(.*?)</a>', re.DOTALL)

PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<link rel="stylesheet" href="style.css">
</head>
<body>
<nav>$nav</nav>
<main>
$body
</main>
<nav>$nav</nav>
</body>
</html>
""")

STYLE = """\
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 56rem; padding: 0 1rem 3rem; color: #222; background: #fff;
  font: 1.05rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1, h2, h3 { line-height: 1.25; margin: 1.6em 0 .5em; }
a { color: #0062a3; }
nav { display: flex; gap: 1rem; justify-content: space-between; padding: .8rem 0; font-size: .95rem; }
pre, code { font: .9rem/1.45 ui-monospace, Menlo, Consolas, monospace; }
pre { margin: 0; padding: .6rem .8rem; overflow-x: auto; white-space: pre; }
:not(pre) > code { background: #f2f2ef; padding: .1em .3em; border-radius: 3px; }
.input_area { background: #f7f7f4; border-left: 3px solid #0072b2; margin-top: 1rem; }
.output_wrapper { border-left: 3px solid #d8d8d4; margin-bottom: 1rem; padding-left: .2rem; }
.prompt, .anchor-link { display: none; }
table { display: block; overflow-x: auto; max-width: 100%; border-collapse: collapse; margin: .6rem 0;
  font-size: .95rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
img, svg { max-width: 100%; height: auto; }
blockquote { margin: 1rem 0; padding: .1rem 1rem; border-left: 3px solid #e69f00; background: #fdf8ee; }
.elsewhere { border-bottom: 1px dotted #888; }
"""


class Lesson:
    """A notebook as a page: its title, its first paragraph and its body."""

    def __init__(self, path: Path) -> None:
        self.page = path.stem + ".html"
        self.body, _ = HTMLExporter(template_name="basic").from_filename(str(path))
        self.title, self.about = head_of(self.body)
        self.title = self.title or path.stem


def head_of(body: str) -> tuple[str, str]:
    """The text of the first heading and the first paragraph, without links."""
    found = []
    for tag in ("h1", "p"):
        match = re.search(rf"<{tag}\b[^>]*>(.*?)</{tag}>", body, re.DOTALL)
        inner = match[1] if match else ""
        inner = re.sub(r'<a class="anchor-link".*?</a>', "", inner)
        found.append(re.sub(r"</?a\b[^>]*>", "", inner).strip())
    return found[0], found[1]


def without_tags(text: str) -> str:
    return re.sub(r"<[^>]*>", "", text)


def localised(body: str, pages: set[str]) -> str:
    """Links between lessons lead to pages. A link to another file of the project becomes its name."""

    def replace(match: re.Match) -> str:
        target, anchor, rest, text = match[1], match[2] or "", match[3], match[4]
        page = target.removesuffix(".ipynb") + ".html"
        if target.endswith(".ipynb") and page in pages:
            return f'<a href="{page}{anchor}"{rest}>{text}</a>'
        where = target.lstrip("./")
        return f'<span class="elsewhere" title="in the project: {where}">{text}</span>'

    return LOCAL_LINK.sub(replace, body)


def link(page: str, words: str) -> str:
    return f'<a href="{page}">{words}</a>'


def navigation(lessons: list[Lesson], place: int) -> str:
    """Previous, the index, next; an empty span keeps the index in the middle."""
    before = link(lessons[place - 1].page, "← " + lessons[place - 1].title) if place else "<span></span>"
    is_last = place + 1 == len(lessons)
    after = "<span></span>" if is_last else link(lessons[place + 1].page, lessons[place + 1].title + " →")
    return before + link("index.html", "All lessons") + after


def clause_table(contract: Path, pages: set[str]) -> str:
    """Which lesson shows which clause. Nothing if there is no list of clauses yet."""
    if not contract.exists():
        return ""
    with contract.open(encoding="utf-8", newline="") as file:
        rows = [_clause_row(row, pages) for row in csv.DictReader(file)]
    head = "<tr><th>Clause</th><th>Kind</th><th>It says</th><th>Lessons</th></tr>"
    return f"<h2>Clauses</h2>\n<table>\n{head}\n" + "\n".join(rows) + "\n</table>"


def _clause_row(row: dict[str, str], pages: set[str]) -> str:
    stems = (row["notebook"] or "").split()
    lessons = [link(f"{stem}.html", stem) if f"{stem}.html" in pages else html.escape(stem) for stem in stems]
    clause = markdown2html(html.escape(row["clause"], quote=False)).strip()
    clause = clause.removeprefix("<p>").removesuffix("</p>")
    cells = [html.escape(row["id"]), html.escape(row["kind"]), clause, ", ".join(lessons)]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def index(lessons: list[Lesson], contract: Path) -> str:
    entries = [
        f'<li value="{int(le.page[:2])}"><p>{link(le.page, le.title)}<br>{le.about}</p></li>'
        for le in lessons
    ]
    table = clause_table(contract, {lesson.page for lesson in lessons})
    body = "<h1>receiptlab</h1>\n<ol>\n" + "\n".join(entries) + f"\n</ol>\n{table}"
    return PAGE.substitute(title="receiptlab", nav="", body=body)


def build(notebooks: Path, site: Path, contract: Path) -> list[Path]:
    """Make the whole site anew; return its pages, the index first."""
    lessons = [Lesson(path) for path in sorted(notebooks.glob("*.ipynb"))]
    pages = {lesson.page for lesson in lessons}
    texts = {"index.html": index(lessons, contract)}
    for place, lesson in enumerate(lessons):
        body, nav = localised(lesson.body, pages), navigation(lessons, place)
        texts[lesson.page] = PAGE.substitute(title=without_tags(lesson.title), nav=nav, body=body)
    site.mkdir(parents=True, exist_ok=True)
    for old in site.glob("*.html"):
        old.unlink()
    for name, text in texts.items():
        (site / name).write_text(text, encoding="utf-8", newline="\n")
    code_colours = HtmlFormatter(style="friendly").get_style_defs(".highlight")
    (site / "style.css").write_text(STYLE + code_colours + "\n", encoding="utf-8", newline="\n")
    return [site / name for name in texts]


def main() -> int:
    pages = build(ROOT / "notebooks", ROOT / "build" / "site", ROOT / "data" / "contract.csv")
    print(f"{len(pages)} pages; start at {pages[0].relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
