"""The lab's own data: its cases, its contract map and its measured prices."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path

from receiptlab.experiment.case_file import Case, CaseError, read_case


def data_folder() -> Path:
    """The `data` folder: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "data", package.parent / "data"):
        if folder.is_dir():
            return folder
    raise CaseError(f"{package / 'data'} does not exist; install receiptlab again")


def contract_map() -> list[dict[str, str]]:
    """The rows of `data/contract.csv`: each clause with its cases, tests and lessons."""
    with (data_folder() / "contract.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def measured_prices() -> dict:
    """The contents of `data/prices.json`: the measured price of each retention policy."""
    return json.loads((data_folder() / "prices.json").read_text(encoding="utf-8"))


@cache
def own_cases() -> tuple[Case, ...]:
    """Every case of the lab, sorted by name. No two have the same name."""
    files = sorted((data_folder() / "cases").glob("*/*.jsonl"), key=lambda path: path.stem)
    return tuple(read_case(path) for path in files)


def load(name: str) -> Case:
    """The lab's case of this name, such as O-07-same-holder-wrong-fence. Raises CaseError."""
    for case in own_cases():
        if case.name == name:
            return case
    raise CaseError(f"there is no case {name}; `receiptlab list` shows all")


def titled(contract: str, title: str) -> Case:
    """The lab's case of this contract and title. Raises CaseError when there is none."""
    for case in own_cases():
        if (case.contract, case.title) == (contract, title):
            return case
    raise CaseError(f"{contract} has no case titled {title!r}; `receiptlab list` shows all")
