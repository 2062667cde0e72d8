"""Plays witnesses on contract and model: python -m receiptlab.models FILE ...

For those that `receiptlab play` can't play. Prints where they disagree. Exit status 1 if any does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from receiptlab.models import PAIRS, Disagreement, Pair


def main(paths: list[str]) -> int:
    """Play each file. Returns the exit status."""
    status = 0
    for path in paths:
        head, *lines = map(json.loads, Path(path).read_text(encoding="utf-8").splitlines())
        contract, model = PAIRS["work and erasure" if head["contract"] == "work" else head["contract"]]
        try:
            with Pair(contract, model, head["case"]) as pair:
                for line in lines:
                    pair.step(line["actor"], line["call"], line.get("args", {}), line.get("fault", ""))
            print(f"{path}: contract and model agree")
        except Disagreement as found:
            status = 1
            print(f"{path}: {'; '.join(found.wrong)}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
