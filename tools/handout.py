"""The whole contract on one printed sheet: python -m tools.handout

Writes build/site/handout.html, a single file without scripts that loads nothing.
"""

import sys
from collections import Counter
from pathlib import Path

from receiptlab import outcomes
from receiptlab.show import palette
from tools import clauses
from tools.templates import rendered

ROOT = Path(__file__).resolve().parent.parent
NAME = "handout.html"
TERMS = (
    *(
        "idempotency key",
        "fencing token",
        "lease",
        "heartbeat",
        "visibility timeout",
        "dead letter",
        "tombstone",
    ),
    *(
        "watermark",
        "transactional outbox",
        "relay",
        "deduplication",
        "exactly-once effect",
        "indefinite outcome",
    ),
    *("failpoint", "anomaly", "interleaving", "serializable", "mutation test", "reference model"),
)
"""The terms to search for; GLOSSARY.md explains them."""

KINDS = {
    "holds": "is executed, and holds",
    "breaks": "a counterexample: it breaks in the same way each time",
    "limit": "is stated, and not shown",
}


def legend() -> list[dict[str, str]]:
    """The words for how a call ends, in the order and with the meaning of receiptlab.outcomes."""
    lines = [line.split(maxsplit=1) for line in (outcomes.__doc__ or "").splitlines()]
    told = {line[0]: line[1] for line in lines if line and line[0] in outcomes.WORDS}
    return [
        {
            "word": word,
            "mark": palette.MARKS[word],
            "colour": palette.COLOURS[word],
            "ink": palette.ink(word),
            "means": told[word],
        }
        for word in outcomes.WORDS
    ]


def handout(rows: list[dict[str, str]], in_site: bool = False) -> str:
    """The sheet. In the site, each id links to its full sentence."""
    counts = Counter(row["kind"] for row in rows)
    return rendered(
        "handout.html",
        rows=rows,
        families=clauses.by_family(rows),
        kinds=[(kind, means, counts[kind]) for kind, means in KINDS.items()],
        legend=legend(),
        terms=TERMS,
        numbers=clauses.numbers,
        anomaly=palette.ANOMALY,
        clause_page=clauses.PAGE if in_site else "",
    )


def main() -> int:
    path = ROOT / "build" / "site" / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = clauses.read(ROOT / "data" / "contract.csv")
    path.write_text(handout(rows), encoding="utf-8", newline="\n")
    print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
