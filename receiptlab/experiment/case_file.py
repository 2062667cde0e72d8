"""Case files: an experiment as a list of calls, in JSON Lines. The format is in data/README.md.

Reading is strict. Anything unknown, missing or of a wrong type raises CaseError with the file and the line,
before anything runs.
"""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from receiptlab.contracts.base import Contract
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.errors import LabError
from receiptlab.experiment.sandbox import FILE_CALLS, known_calls
from receiptlab.faults.failpoints import STATEMENTS, failpoints_of
from receiptlab.outcomes import WORDS
from receiptlab.values import integer, text

FORMAT = 1
MAX_LINE = 65_536
"""Maximum length of a line, in bytes."""
MAX_LINES = 10_000
MAX_DEPTH = 5
MAX_NOTE = 1_000
"""Maximum length of a note, in characters."""

_HEAD = {"format": int, "case": str, "clause": list, "contract": str, "expected": str, "note": str}
_LINE = {"actor": str, "call": str, "args": dict, "fault": str, "expect": dict, "anomaly": str, "note": str}
_EXPECT = {"outcome": str, "reason": str, "fields": list, "counts": list, "answer": dict}


class CaseError(LabError):
    """A case file cannot be read. The message names the file and the line. Nothing was run."""


@dataclass(frozen=True)
class Call:
    """One line of a case."""

    line: int
    actor: str
    call: str
    args: dict
    fault: str = ""
    expect: dict | None = None
    anomaly: str = ""
    note: str = ""


@dataclass(frozen=True)
class Case:
    """A case file. `name` is the file's name without its extension. `kind` is holds or breaks."""

    name: str
    title: str
    clauses: tuple[str, ...]
    contract: str
    kind: str
    calls: tuple[Call, ...]
    note: str = ""


def read_case(path: str | os.PathLike) -> Case:
    """Read and check one case file, without running anything. Raises CaseError."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise CaseError(f"{path}: is not a file")
    lines = _lines(path)
    where, head = next(lines, (f"{path}", None))
    if head is None:
        raise CaseError(f"{where}: the file is empty; the first line must be the head")
    if "case" not in head:
        raise CaseError(f'{where}: the head is missing; the first line must be {{"case": …, "contract": …}}')
    _keys(where, "head", head, _HEAD, needed=("case", "contract"))
    contract = _check_head(where, head)
    calls = tuple(_call(place, line, contract) for place, line in lines)
    if not calls:
        raise CaseError(f"{path}: there is no call after the head")
    _snapshot_first(path, calls)
    return Case(
        path.name.removesuffix(".jsonl"),
        head["case"],
        tuple(head.get("clause", ())),
        head["contract"],
        head.get("expected", "holds"),
        calls,
        head.get("note", ""),
    )


def _snapshot_first(path: Path, calls: tuple[Call, ...]) -> None:
    kept = False
    for call in calls:
        kept = kept or call.call.startswith("snapshot")
        if call.call in ("restore", "restore_beside_wal") and not kept:
            raise CaseError(f"{path}:{call.line}: {call.call} needs a snapshot before it")


def _lines(path: Path) -> Iterator[tuple[str, dict]]:
    """(file and line, object) for every line that is not blank."""
    try:
        with path.open("rb") as file:
            for number in range(1, MAX_LINES + 2):
                raw = file.readline(MAX_LINE + 1)
                where = f"{path}:{number}"
                if not raw:
                    return
                if len(raw) > MAX_LINE:
                    raise CaseError(f"{where}: the line is longer than {MAX_LINE} bytes")
                if number > MAX_LINES:
                    raise CaseError(f"{where}: a case has at most {MAX_LINES} lines")
                if raw.strip():
                    yield where, _object(where, raw, first=number == 1)
    except OSError as error:
        raise CaseError(f"{path}: cannot be read: {error.strerror}") from None


def _object(where: str, raw: bytes, first: bool) -> dict:
    try:
        line = raw.decode("utf-8-sig" if first else "utf-8")
        value = json.loads(
            line, object_pairs_hook=no_repeats, parse_constant=_no_constant, parse_float=_finite
        )
    except UnicodeDecodeError as error:
        raise CaseError(f"{where}: not UTF-8 at byte {error.start + 1} of the line") from None
    except RecursionError:
        raise CaseError(f"{where}: not JSON: nested too deeply") from None
    except ValueError as error:
        raise CaseError(f"{where}: not JSON: {error}") from None
    if _depth(value) > MAX_DEPTH:
        raise CaseError(f"{where}: nested deeper than {MAX_DEPTH} levels")
    if not isinstance(value, dict):
        raise CaseError(f"{where}: each line must be an object in braces, this is a {type(value).__name__}")
    return value


def no_repeats(pairs: list[tuple[str, object]]) -> dict:
    """A hook for json.loads that raises ValueError for an object with a repeated key."""
    keys = [key for key, _ in pairs]
    repeated = sorted({key for key in keys if keys.count(key) > 1})
    if repeated:
        raise ValueError(f"the key {repeated[0]!r} appears twice")
    return dict(pairs)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:20]} is too large for a JSON number")
    return number


def _depth(value: object) -> int:
    """How deep lists and objects are nested. It stops one level below the maximum."""
    level, here = 0, [value]
    while here and level <= MAX_DEPTH:
        here = [
            inner
            for each in here
            if isinstance(each, (list, dict))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        level += 1
    return level


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _keys(where: str, what: str, value: dict, known: dict, needed: tuple[str, ...] = ()) -> None:
    for key, found in value.items():
        if key not in known:
            raise CaseError(f"{where}: unknown key {key!r} in the {what}; known are {', '.join(known)}")
        if type(found) is not known[key]:
            is_not = f"{_JSON[known[key]]}, not {_JSON.get(type(found), 'null')}"
            raise CaseError(f"{where}: {key} in the {what} must be {is_not}")
    for key in needed:
        if key not in value:
            raise CaseError(f"{where}: {key} is missing in the {what}")


_JSON = {
    str: "a text",
    int: "an integer",
    list: "a list",
    dict: "an object",
    bool: "true or false",
    float: "a decimal",
}


def _check_head(where: str, head: dict) -> type[Contract]:
    if head.get("format", FORMAT) != FORMAT:
        raise CaseError(f"{where}: this is format {head['format']}, this lab reads format {FORMAT}")
    if head["contract"] not in CONTRACTS:
        raise CaseError(f"{where}: unknown contract {head['contract']!r}; known are {', '.join(CONTRACTS)}")
    if head.get("expected", "holds") not in ("holds", "breaks"):
        raise CaseError(f"{where}: expected in the head must be holds or breaks")
    for clause in head.get("clause", ()):
        _named(where, "clause", clause)
    _named(where, "case", head["case"])
    _noted(where, head)
    return CONTRACTS[head["contract"]]


def _named(where: str, name: str, value: object) -> None:
    try:
        text(name, value)
    except (TypeError, ValueError) as error:
        raise CaseError(f"{where}: {error}") from None


def _noted(where: str, line: dict) -> None:
    note = line.get("note", "")
    if len(note) > MAX_NOTE or not all(each.isprintable() or each == "\n" for each in note):
        raise CaseError(f"{where}: note must have at most {MAX_NOTE} characters, and no control characters")


def _call(where: str, line: dict, contract: type[Contract]) -> Call:
    _keys(where, "line", line, _LINE, needed=("actor", "call"))
    _named(where, "actor", line["actor"])
    name, args, expect = line["call"], line.get("args", {}), line.get("expect")
    _check_args(where, name, args, contract, expect)
    if "fault" in line:
        _check_fault(where, name, line["fault"], contract)
    if expect is not None:
        _check_expect(where, expect, contract)
    number = int(where.rpartition(":")[2])
    for key in ("fault", "anomaly"):
        if key in line:
            _named(where, key, line[key])
    _noted(where, line)
    texts = {key: line.get(key, "") for key in ("fault", "anomaly", "note")}
    return Call(number, line["actor"], name, args, expect=expect, **texts)


def _check_args(where: str, name: str, args: dict, contract: type[Contract], expect: dict | None) -> None:
    if name in FILE_CALLS:
        if args:
            raise CaseError(f"{where}: {name} takes no args")
        return
    known = known_calls(contract)
    if name not in known:
        raise CaseError(f"{where}: unknown call {name!r}; known are {', '.join((*known, *FILE_CALLS))}")
    wanted = list(inspect.signature(known[name]).parameters)[1:]
    for arg in args:
        if arg not in wanted:
            raise CaseError(f"{where}: {name} has no argument {arg!r}; it takes {', '.join(wanted)}")
    for arg in wanted:
        if arg not in args:
            raise CaseError(f"{where}: {name} needs the argument {arg!r}")
    if not (expect and expect.get("outcome") == "invalid"):
        for arg, value in args.items():
            try:
                contract.ARGUMENTS[arg](arg, value)
            except (TypeError, ValueError) as error:
                raise CaseError(f"{where}: {error}") from None


def _check_fault(where: str, call: str, fault: str, contract: type[Contract]) -> None:
    points = failpoints_of(contract, call)
    statements = tuple(f"{statement}:{table}" for statement in STATEMENTS for table in contract.TABLES)
    if fault not in points + statements or call not in contract.writing():
        raise CaseError(
            f"{where}: unknown fault {fault!r} in {call}; known are {', '.join(points + statements)}"
        )


def _check_expect(where: str, expect: dict, contract: type[Contract]) -> None:
    _keys(where, "expect", expect, _EXPECT, needed=("outcome",))
    if expect["outcome"] not in WORDS:
        raise CaseError(f"{where}: unknown outcome {expect['outcome']!r}; known are {', '.join(WORDS)}")
    if "counts" in expect and len(expect["counts"]) != len(contract.COUNTS):
        raise CaseError(
            f"{where}: counts must be the {len(contract.COUNTS)} numbers {', '.join(contract.COUNTS)}"
        )
    if expect.get("reason"):
        _named(where, "reason", expect["reason"])
    try:
        for count in expect.get("counts", ()):
            integer("each of counts", count)
        for name in expect.get("fields", ()):
            text("each of fields", name)
    except (TypeError, ValueError) as error:
        raise CaseError(f"{where}: {error}") from None
