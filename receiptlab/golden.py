"""The result of everything, as one object that anyone can make again and compare.

`data/results.json` holds it. Python and SQLite that made it are named in it, outside of what is
compared. One run stands on one line, so that a change can be read in a diff.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from receiptlab import engine
from receiptlab.cases import data_folder, own_cases
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.errors import LabError
from receiptlab.hazards.faults import points_of
from receiptlab.play import play
from receiptlab.record import Run
from receiptlab.scenarios import SCENARIOS
from receiptlab.scenarios.ablation import ablate, label

FORMAT = 1
COMPARED = ("format", "runs", "ablation")


class ResultsError(LabError):
    """A results file cannot be read or written. The message names the file and what to do."""


def experiments() -> list[Callable[[], Run]]:
    """Every case and every scenario, each as something to call."""
    return [*(lambda case=case: play(case) for case in own_cases()), *SCENARIOS]


def unreached(runs: Iterable[Run]) -> list[str]:
    """The listed crash points at which no run was ended, a line each."""
    struck = {(run.contract, step.call, step.fault) for run in runs for step in run.steps}
    return [
        f"{contract} {call}: no run was ended at its point {point}"
        for contract, kind in CONTRACTS.items()
        for call in kind.POINTS
        for point in points_of(kind, call)
        if (contract, call, point) not in struck
    ]


def result(runs: Iterable[Run]) -> dict:
    """The object of these runs, with the ablation of each contract."""
    told = engine.report()
    return {
        "format": FORMAT,
        "made by": {name: told[name] for name in ("python", "sqlite")},
        "runs": {run.name: json.loads(json.dumps(run.to_dict())) for run in runs},
        "ablation": {
            name: sorted([label(guard), case] for guard, case in ablate(name).noticed) for name in CONTRACTS
        },
    }


def golden_file() -> Path:
    """Where the stored result lies."""
    return data_folder() / "results.json"


def read(path: Path) -> dict:
    """A stored result. Raises ResultsError when it is missing, cut off or of another version."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ResultsError(f"{path}: is damaged or cut off: {error}; take it from git again") from None
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise ResultsError(f"{path}: is not a result of format {FORMAT}; make it anew with run --output")
    return stored


def write(path: Path, made: dict, overwrite: bool = False) -> None:
    """Write the result, whole or not at all. Raises ResultsError when a file is there, unless told to."""
    if path.exists() and not overwrite:
        raise ResultsError(f"{path}: is there already; add --overwrite, or take another name")
    lines = [f"{json.dumps(key)}: {_block(value)}" for key, value in made.items()]
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8", newline="\n")
        os.replace(part, path)
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written: {error.strerror}") from None


def _block(value: object) -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    rows = [f" {json.dumps(key)}: {json.dumps(each, sort_keys=True)}" for key, each in value.items()]
    return "{\n" + ",\n".join(rows) + "\n}"


def differences(stored: object, made: object, path: str = "") -> Iterator[str]:
    """Where the two differ, in what is compared, a line each: the path, what is stored, what came."""
    if isinstance(stored, dict) and isinstance(made, dict):
        keys = [
            key for key in (*stored, *(key for key in made if key not in stored)) if path or key in COMPARED
        ]
        for key in keys:
            yield from differences(
                stored.get(key, _NOTHING), made.get(key, _NOTHING), f"{path}.{key}".lstrip(".")
            )
    elif isinstance(stored, list) and isinstance(made, list) and len(stored) == len(made):
        for number, (one, other) in enumerate(zip(stored, made, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif stored != made or type(stored) is not type(made):
        yield f"{path}: stored {_short(stored)}, came {_short(made)}"


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


def _short(value: object) -> str:
    told = repr(value)
    return told if len(told) <= 100 else f"{told[:97]}…"
