"""Checks of a case: one that is changed, and one that a learner wrote."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from receiptlab.caseformat import Call, Case, CaseError, read_case
from receiptlab.cases import load
from receiptlab.contracts.shape import Contract, Guard
from receiptlab.hazards.ablation import without
from receiptlab.judge.answers import NotYet, attempted, checks, filled, first_wrong, place, readings, step_of
from receiptlab.judge.building import resolved


def tell(case: Case | str) -> None:
    """Print the calls of a case, or of the lab's case of this name, without how they end."""
    case = load(case) if isinstance(case, str) else case
    everywhere = _everywhere(case.calls)
    if everywhere:
        print("in every call:", _arguments(everywhere))
    for number, call in enumerate(case.calls, 1):
        args = {name: call.args[name] for name in call.args if name not in (*everywhere, "actor")}
        words = filter(None, (call.actor, call.call, _arguments(args), call.fault and f"[{call.fault}]"))
        print(f"{number:2} {'  '.join(words)}")


def _everywhere(calls: Sequence[Call]) -> dict[str, object]:
    """The arguments that have one value wherever they occur, more than once."""
    values: dict[str, list] = {}
    for call in calls:
        for name, value in call.args.items():
            values.setdefault(name, []).append(value)
    return {
        name: found[0]
        for name, found in values.items()
        if len(found) > 1 and all(each == found[0] for each in found) and name != "actor"
    }


def _arguments(args: Mapping[str, object]) -> str:
    """Arguments in words; of a digest the first eight signs."""
    short = {name: f"{value[:8]}…" if len(str(value)) == 64 else value for name, value in args.items()}
    return ", ".join(f"{name} {value}" for name, value in short.items())


CHANGES = "what to change in each step, such as {3: {'now': 159}}"


@checks
def changed(name: str, answer: Mapping[int, Mapping[str, object]], ends: Mapping[int, str]) -> str:
    """Play a case of the lab with some arguments changed, and see whether steps end as `ends` says.

    `answer` has, by the number of the step, what to change; `fault` can be changed too.
    """
    calls = list(load(name).calls)
    for number, changes in filled(answer, dict, CHANGES).items():
        if number not in range(1, len(calls) + 1):
            raise NotYet(f"{name} has no step {number}; it has {len(calls)}")
        calls[number - 1] = _with(calls[number - 1], filled(changes, dict, CHANGES), number)
    run = attempted(replace(load(name), calls=tuple(calls)))
    for number, words in ends.items():
        step = step_of(run, number)
        if words.split() not in (*readings(step), [step.outcome]):
            raise NotYet(f"{place(step)} must end as {words}, and ends as {' '.join(readings(step)[0])}")
    return f"{name} with your change: {run.story}"


def _with(call: Call, changes: Mapping[str, object], number: int) -> Call:
    if ... in changes.values():
        raise NotYet(f"step {number}: nothing is filled in here")
    for name in changes:
        if name not in call.args and name != "fault":
            raise NotYet(f"step {number} has no {name}; it has {', '.join(call.args)}")
    args = call.args | {name: value for name, value in changes.items() if name != "fault"}
    actor = args.get("actor", call.actor)
    return replace(call, args=args, actor=actor, fault=changes.get("fault", call.fault))


def like(name: str, number: int, expect: str = "", **changes: object) -> dict:
    """A call like the one at this step of a case of the lab, as a line of a case file.

    `changes` are arguments, or `fault`; `expect` is "accepted", or "refused fence" with the reason.
    """
    call = load(name).calls[number - 1]
    fault = changes.pop("fault", "")
    args = call.args | changes
    line = {"actor": args.get("actor", call.actor), "call": call.call, "args": args}
    if fault:
        line["fault"] = fault
    if expect:
        word, _, reason = expect.partition(" ")
        line["expect"] = {"outcome": word} | ({"reason": reason} if reason else {})
    return line


def read(contract: type[Contract], answer: str | Iterable[dict]) -> Case:
    """A case that somebody wrote, read as strictly as a file is: its lines, with or without the head.

    Raises CaseError.
    """
    try:
        lines = answer.strip().splitlines() if isinstance(answer, str) else list(map(json.dumps, answer))
    except TypeError as error:
        raise CaseError(f"your case: a line cannot be written as JSON: {error}") from None
    own_head = bool(lines) and '"case"' in lines[0]
    head = [] if own_head else [json.dumps({"case": "your case", "contract": contract.NAME})]
    with tempfile.TemporaryDirectory(prefix="receiptlab-") as folder:
        path = Path(folder) / "mine.jsonl"
        path.write_text("\n".join([*head, *lines]), encoding="utf-8")
        try:
            return read_case(path)
        except CaseError as error:
            raise CaseError(_placed(str(error).removeprefix(str(path)), len(head))) from None


def _placed(told: str, added: int) -> str:
    """A message of the reader with the line as its writer counts."""
    number, _, rest = told.removeprefix(":").partition(":")
    return f"your case, line {int(number) - added}:{rest}" if number.isdigit() else f"your case{told}"


@checks
def notices(contract: type[Contract], call: str, name: str, answer: str | Sequence[dict]) -> str:
    """Your case must hold with the contract as it is, and come out otherwise when this guard is left out."""
    return _apart(
        contract,
        answer,
        without(contract, call, name),
        f"when {name} is left out of {call}",
        f"without {name}",
    )


@checks
def tells_apart(
    contract: type[Contract], call: str, guards: Sequence[str | Guard], answer: str | Sequence[dict]
) -> str:
    """Your case must hold with the contract as it is, and come out otherwise when `call` has these guards.

    Each is the name of one of its own or a function: another order, say, or one guard more.
    """
    other = contract.GUARDS | {call: resolved(contract, call, guards)}
    return _apart(contract, answer, other, f"with those guards of {call}", f"with those guards of {call}")


def _apart(
    contract: type[Contract], answer: str | Sequence[dict], other: dict, same: str, differs: str
) -> str:
    """Play a case with the contract's guards and with others. Raises NotYet where it holds with both."""
    case = read(contract, filled(answer, (str, list, tuple), "a list of calls"))
    if case.contract != contract.NAME:
        raise NotYet(f"your case is of the contract {case.contract}; this asks for {contract.NAME}")
    run = attempted(case)
    if not run.held:
        raise NotYet(f"with the contract as it is, {first_wrong(run)}")
    broken = attempted(case, other)
    if broken.held:
        raise NotYet(f"your case holds, and comes out the same {same}")
    return f"your case holds; {differs}, {first_wrong(broken)}"
