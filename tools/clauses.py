"""The clauses of the contract for the pages: read from the list, grouped by family, with links."""

import csv
import html
import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

CLAUSE = re.compile(r"\b[A-Z]-\d+\b(?!-)")
SPAN = re.compile(r"\b([A-Z])-(\d+) to \1-(\d+)\b")
PAGE = "clauses.html"
# The meaning of the letter of an id.
FAMILIES = {
    "F": "Database file: one SQLite file",
    "O": "Owner: who commits a result",
    "R": "Retention: what is kept and for how long",
    "I": "Intake: deliveries",
    "W": "Work: each item worked on once",
    "C": "Crash points of intake and work",
    "S": "Split brain: a restored copy, and the receiver",
    "H": "Faults: failures on purpose",
    "X": "Keys at the receiver",
    "D": "Relay: from the outbox to the receiver",
}


def read(contract: Path) -> list[dict[str, str]]:
    """The rows of the list. None if there is no list yet."""
    if not contract.exists():
        return []
    with contract.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def by_family(rows: list[dict[str, str]]) -> list[tuple[str, str, list[dict[str, str]]]]:
    """Letter, heading and rows of each family, in the order of the list."""
    groups = groupby(rows, key=lambda row: row["id"][0])
    return [(letter, FAMILIES[letter], list(group)) for letter, group in groups]


def numbers(row: dict[str, str]) -> str:
    """The numbers of the lessons that show a clause."""
    return " ".join(stem.partition("_")[0] for stem in row["notebook"].split())


def named(text: str) -> set[str]:
    """The ids in a text. A span such as O-1 to O-3 names all of it."""
    found = set(CLAUSE.findall(text))
    for letter, low, high in SPAN.findall(text):
        found |= {f"{letter}-{number}" for number in range(int(low), int(high) + 1)}
    return found


def linked(text: str, known: Iterable[str]) -> str:
    """The text as HTML, each known id a link to the list of clauses."""

    def link(match: re.Match) -> str:
        clause = match[0]
        return f'<a class="clause" href="{PAGE}#{clause}">{clause}</a>' if clause in known else clause

    return CLAUSE.sub(link, html.escape(text, quote=False))
