"""The result of every case and scenario as one JSON object, to be made again and compared.

It is stored in `data/results.json`, which also names the Python and SQLite that made it; these are not
compared. Each run is one line, so that a change is readable in a diff.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from receiptlab import sqlite_version as engine
from receiptlab.cli import output_file
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.errors import LabError
from receiptlab.experiment.case_file import no_repeats
from receiptlab.experiment.library import data_folder, own_cases
from receiptlab.experiment.player import play
from receiptlab.experiment.run import Run
from receiptlab.faults.failpoints import failpoints_of
from receiptlab.faults.processes.children import exit_code
from receiptlab.scenarios import SCENARIOS
from receiptlab.scenarios.ablation_matrix import ablate, label

FORMAT = 1
COMPARED = ("format", "runs", "ablation")


class ResultsError(LabError):
    """A results file cannot be read. The message names the file and says what to do."""


def experiments() -> list[Callable[[], Run]]:
    """Every case and every scenario, each as a function."""
    return [*(lambda case=case: play(case) for case in own_cases()), *SCENARIOS]


def made_from(each: Iterable[Callable[[], Run]]) -> tuple[list[Run], dict[str, str]]:
    """The runs of these experiments, and the missing package by the name of each experiment that couldn't
    run."""
    runs, missing = [], {}
    for experiment in each:
        try:
            runs.append(experiment())
        except ModuleNotFoundError as error:
            missing[experiment.__name__.replace("_", "-")] = str(error.name)
    return runs, missing


DYING = (
    ("retention", "execute"),
    ("retention", "close_and_collect"),
    ("intake", "deliver"),
    ("work", "deliver"),
    ("work", "reserve"),
    ("work", "complete"),
    ("work", "sweep"),
)
"""The calls during which a real process must have died, at each of their failpoints."""


def unreached(runs: Iterable[Run]) -> list[str]:
    """The failpoints that no run reached, one line each: of every call that writes, and again for real
    processes."""
    steps = {
        (run.contract, step.call, step.fault, step.note) for run in runs for step in run.steps if step.fault
    }
    struck = {step[:3] for step in steps}
    every = [
        (contract, call, point)
        for contract, kind in CONTRACTS.items()
        for call in kind.GUARDS
        for point in failpoints_of(kind, call)
    ]
    missing = [
        f"{each[0]} {each[1]}: no run ended at its failpoint {each[2]}"
        for each in every
        if each not in struck
    ]
    for contract, call, point in every:
        note = f"exit code {exit_code(CONTRACTS[contract], call, point)}"
        if (contract, call) in DYING and (contract, call, point, note) not in steps:
            missing.append(f"{contract} {call}: no process died at its failpoint {point}")
    return missing


def result(runs: Iterable[Run]) -> dict:
    """The object for these runs, with the mutation tests of each contract."""
    engine_report = engine.report()
    return {
        "format": FORMAT,
        "made by": {name: engine_report[name] for name in ("python", "sqlite")},
        "runs": {run.name: json.loads(json.dumps(run.to_dict())) for run in runs},
        "ablation": {
            name: sorted([label(guard), case] for guard, case in ablate(name).noticed) for name in CONTRACTS
        },
    }


def results_file() -> Path:
    """The path of the stored result."""
    return data_folder() / "results.json"


def read(path: Path) -> dict:
    """A stored result. Raises ResultsError when it is missing, cut off or of another version."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=no_repeats)
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{path}: is damaged or cut off: {error}; restore it from git") from None
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise ResultsError(f"{path}: is not a result of format {FORMAT}; create it with run --output")
    return stored


def write(path: str | os.PathLike, made: dict, overwrite: bool = False) -> None:
    """Write the result, all or nothing. Raises OutputError when the file exists, unless `overwrite` is
    set."""
    text = "{\n" + ",\n".join(f"{json.dumps(key)}: {_block(value)}" for key, value in made.items()) + "\n}\n"
    output_file.write(path, text.encode("utf-8"), overwrite)


def _block(value: object) -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    rows = [f" {json.dumps(key)}: {json.dumps(each, sort_keys=True)}" for key, each in value.items()]
    return "{\n" + ",\n".join(rows) + "\n}"


def differences(stored: object, made: object, path: str = "") -> Iterator[str]:
    """The differences in what is compared, one line each: the path, what is stored, what was found."""
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
        yield f"{path}: stored {_short(stored)}, found {_short(made)}"


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}…"
