"""What the lab has of its own: its cases, its contract map, its measured prices."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path

from receiptlab.experiment.case_file import Case, CaseError, read_case


def data_folder() -> Path:
    """The `data` folder: inside an installed package, beside the package in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "data", package.parent / "data"):
        if folder.is_dir():
            return folder
    raise CaseError(f"{package / 'data'} does not exist; install receiptlab again")


def contract_map() -> list[dict[str, str]]:
    """The rows of `data/contract.csv`: every clause with its cases, tests and lessons."""
    with (data_folder() / "contract.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def measured_prices() -> dict:
    """What `data/prices.json` holds: the measured price of each policy of retention."""
    return json.loads((data_folder() / "prices.json").read_text(encoding="utf-8"))


@cache
def own_cases() -> tuple[Case, ...]:
    """Every case of the lab, by name. A test sees to it that no two share one."""
    files = sorted((data_folder() / "cases").glob("*/*.jsonl"), key=lambda path: path.stem)
    return tuple(read_case(path) for path in files)


def load(name: str) -> Case:
    """One case of the lab by its name, such as O-07-same-holder-wrong-fence."""
    for case in own_cases():
        if case.name == name:
            return case
    raise CaseError(f"there is no case {name}; `python -m receiptlab list` shows all")


def titled(contract: str, title: str) -> Case:
    """The lab's case of this contract and title. Raises CaseError when there is none."""
    for case in own_cases():
        if (case.contract, case.title) == (contract, title):
            return case
    raise CaseError(f"{contract} has no case titled {title!r}; `receiptlab list` shows all")
