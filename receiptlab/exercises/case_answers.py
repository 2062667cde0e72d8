"""Checks of cases: one of the lab's that a learner changed, and one that a learner wrote."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from receiptlab.contracts.base import Contract, Guard
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.exercises.answers import (
    BLANK,
    NotYet,
    checks,
    filled,
    first_wrong,
    numbered,
    place,
    played_case,
    reading,
    spelled,
    step_of,
)
from receiptlab.exercises.guard_answers import resolved
from receiptlab.experiment.case_file import Call, Case, CaseError, read_case
from receiptlab.experiment.library import load
from receiptlab.experiment.run import Step
from receiptlab.faults.ablation import without


def print_calls(case: Case | str) -> None:
    """Print the calls of a case (or of the lab's case with this name) without how they end."""
    case = load(case) if isinstance(case, str) else case
    shared = _shared(case.calls)
    if shared:
        print("in every call that has it:", _arguments(shared))
    for number, call in enumerate(case.calls, 1):
        args = {name: call.args[name] for name in call.args if name not in (*shared, "actor")}
        words = filter(None, (call.actor, call.call, _arguments(args), call.fault and f"[{call.fault}]"))
        print(f"{number:2} {'  '.join(words)}")


def _shared(calls: Sequence[Call]) -> dict[str, object]:
    """The arguments that several calls have, with one value in all of them."""
    values: dict[str, list] = {}
    for call in calls:
        for name, value in call.args.items():
            values.setdefault(name, []).append(value)
    values.pop("actor", None)
    return {
        name: found[0]
        for name, found in values.items()
        if len(found) > 1 and found.count(found[0]) == len(found)
    }


def _arguments(args: Mapping[str, object]) -> str:
    """Arguments in words, with the first eight digits of a digest."""
    short = {name: f"{value[:8]}…" if len(str(value)) == 64 else value for name, value in args.items()}
    return ", ".join(f"{name} {value}" for name, value in short.items())


# A case that is changed

CHANGES = "what to change in a step by its number, such as {1: {'until': 90}}"


@checks
def changed(
    name: str,
    answer: Mapping[int, Mapping[str, object]],
    ends: Mapping[int, str],
    only: Sequence[str] = (),
    steps: Sequence[int] = (),
    at_most: int = 0,
) -> str:
    """Play a case of the lab with your changes. Its steps must end as `ends` says.

    Your answer has the changes by step number: arguments, or the `fault`. `only` lists the arguments that
    may change, `steps` the steps, and `at_most` limits how many arguments change in all. Steps keep their
    order, so no change may make time run backwards.
    """
    case = load(name)
    before = [_line(call) for call in case.calls]
    lines = before.copy()
    for given, changes in filled(answer, dict, CHANGES).items():
        number = numbered(given, len(lines))
        _must_have(lines[number - 1], filled(changes, dict, CHANGES), number, only)
        lines[number - 1] = _edited(lines[number - 1], changes)
    _must_be_few(before, lines, steps, at_most)
    run = played_case(read(CONTRACTS[case.contract], lines))
    _must_go_forwards(before, lines)
    for number, words in ends.items():
        step = step_of(run, number)
        if words.split() not in (reading(step), [step.outcome]):
            raise NotYet(f"{place(step)} must end as {words}, but ends as {' '.join(reading(step))}")
    return f"{name} with your change: {run.story}"


def _must_have(line: Mapping, changes: Mapping[str, object], number: int, only: Sequence[str]) -> None:
    """Raises NotYet for an argument that the step does not have, or that must stay as it is."""
    if ... in changes.values():
        raise NotYet(f"step {number}: {BLANK}")
    for name in changes:
        if name not in (*line["args"], "fault"):
            raise NotYet(f"step {number} has no {name}; it has {', '.join(line['args'])}, and a fault")
        if only and name not in only:
            raise NotYet(f"step {number}: you may change {' and '.join(only)}, not {name}")


def _must_be_few(
    before: Sequence[Mapping], lines: Sequence[Mapping], steps: Sequence[int], most: int
) -> None:
    """Raises NotYet if nothing is changed, or too much, or a wrong step."""
    count = 0
    for number, (old, new) in enumerate(zip(before, lines, strict=True), 1):
        changed = sum(old["args"][name] != new["args"][name] for name in old["args"])
        changed += old.get("fault") != new.get("fault")
        if changed and steps and number not in steps:
            raise NotYet(f"leave step {number} as it is; change step {' or '.join(map(str, steps))}")
        count += changed
    if not count:
        raise NotYet("this is the case as it was; nothing is changed")
    if most and count > most:
        raise NotYet(f"you changed {count} arguments; change only {'one' if most == 1 else most}")


def _must_go_forwards(before: Sequence[Mapping], lines: Sequence[Mapping]) -> None:
    """Raises NotYet if a change puts a step at a time before that of an earlier step."""
    was, times = ([line["args"].get("now") for line in each] for each in (before, lines))
    for one, two in itertools.combinations(range(len(lines)), 2):
        if None not in (times[one], times[two]) and times[one] > times[two] and was[one] <= was[two]:
            raise NotYet(
                f"steps keep their order, so time cannot run backwards: step {one + 1} is at {times[one]}, "
                f"and step {two + 1}, which comes after it, is at {times[two]}"
            )


# A case that a learner writes

MISTAKE = "not yet"
"""The key of a line that `like` could not make."""


def like(name: str, step: int = 0, expect: str = "", **changes: object) -> dict:
    """A call like the one at this step of a case of the lab, as a line of a case file.

    `changes` are arguments or `fault`. `expect` is "accepted", or "refused fence" with the reason. The
    check that reads the line reports what is wrong with it.
    """
    if not isinstance(name, str):
        return {MISTAKE: "like needs the name of a case, in quotes"}
    try:
        calls = load(name).calls
        line = _edited(_line(calls[numbered(step, len(calls)) - 1]), {"fault": ""} | changes)
        word, *reason = spelled(expect) if expect else [""]
    except (NotYet, CaseError) as error:
        return {MISTAKE: f"like({name!r}, {step!r}, …): {error}"}
    if word:
        line["expect"] = {"outcome": word} | ({"reason": " ".join(reason)} if reason else {})
    return line


def _line(call: Call) -> dict:
    """A call as a line of a case file, without its expectation."""
    line = {"actor": call.actor, "call": call.call, "args": call.args}
    return line | ({"fault": call.fault} if call.fault else {})


def _edited(line: Mapping, changes: Mapping[str, object]) -> dict:
    """The line with other arguments, or another fault. An empty fault removes the one that was there."""
    args = line["args"] | {name: value for name, value in changes.items() if name != "fault"}
    edited = line | {"args": args, "actor": args.get("actor", line["actor"])}
    edited["fault"] = changes.get("fault", line.get("fault"))
    return edited if edited["fault"] else {name: edited[name] for name in edited if name != "fault"}


def read(contract: type[Contract], answer: str | Iterable[dict]) -> Case:
    """A case that a learner wrote, with or without its head line, read as strictly as a case file.

    Raises CaseError.
    """
    lines = answer.strip().splitlines() if isinstance(answer, str) else _lines(answer)
    own_head = bool(lines) and '"case"' in lines[0]
    head = [] if own_head else [json.dumps({"case": "your case", "contract": contract.NAME})]
    with tempfile.TemporaryDirectory(prefix="receiptlab-") as folder:
        path = Path(folder) / "mine.jsonl"
        path.write_text("\n".join([*head, *lines]), encoding="utf-8")
        try:
            return read_case(path)
        except CaseError as error:
            raise CaseError(_placed(str(error).removeprefix(str(path)), len(head))) from None


def _lines(answer: Iterable[dict]) -> list[str]:
    """The calls as lines of a file. Raises CaseError for anything that is not a call."""
    for number, line in enumerate(answer, 1):
        if not isinstance(line, dict):
            raise CaseError(f"your case, step {number}: this is not a call; make one with `like`")
        if MISTAKE in line:
            raise CaseError(line[MISTAKE])
    try:
        return [json.dumps(line) for line in answer]
    except TypeError as error:
        raise CaseError(f"your case: a line cannot be written as JSON: {error}") from None


def _placed(message: str, added: int) -> str:
    """A message of the case reader with the line number as the learner counts."""
    number, _, rest = message.removeprefix(":").partition(":")
    where = "step" if added else "line"
    return f"your case, {where} {int(number) - added}:{rest}" if number.isdigit() else f"your case{message}"


# A case that notices


@checks
def notices(
    contract: type[Contract], call: str, name: str, answer: str | Sequence[dict], expect: str = ""
) -> str:
    """Your case must hold with the contract, and must not hold without this guard.

    If `expect` is given, the call that notices must expect exactly that.
    """
    return _noticed(contract, without(contract, call, name), f"without {name}", answer, expect)


@checks
def tells_apart(
    contract: type[Contract],
    call: str,
    guards: Sequence[str | Guard],
    answer: str | Sequence[dict],
    expect: str = "",
) -> str:
    """Your case must hold with the contract, and must not hold when `call` has these guards instead.

    A guard is the name of one of the call's own or a function. `expect` is as for `notices`.
    """
    other = contract.GUARDS | {call: resolved(contract, call, guards)}
    return _noticed(contract, other, f"with those guards of {call}", answer, expect)


def _noticed(
    contract: type[Contract], other: dict, how: str, answer: str | Sequence[dict], expect: str
) -> str:
    """Play a case with the contract's guards and with others. Raises NotYet if it does not notice them."""
    if isinstance(answer, str) and not answer.lstrip().startswith("{"):
        raise NotYet("this needs a list of calls, such as [like(base, 1)]")
    case = read(contract, filled(answer, (str, list, tuple), "a list of calls"))
    if case.contract != contract.NAME:
        raise NotYet(f"your case is for the contract {case.contract}; this exercise needs {contract.NAME}")
    run = played_case(case)
    if not run.held:
        raise NotYet(f"with the contract as it is, {first_wrong(run)}")
    broken = played_case(case, other)
    if broken.held:
        raise NotYet(f"your case holds, but it also holds {how}{_too_little(case)}")
    _must_expect(case, next(step for step in broken.steps if step.wrong), expect)
    return f"your case notices: {how}, {first_wrong(broken)}"


ADD_REASON = 'says only that it is refused; add the reason, as in expect="refused …"'


def _too_little(case: Case) -> str:
    """A hint for a case that expects nothing, or less than it could."""
    if not any(call.expect for call in case.calls):
        return "; no call says how it must end (expect=)"
    return f"; a call {ADD_REASON}" if any(_expected(call) == "refused" for call in case.calls) else ""


def _must_expect(case: Case, notices: Step, expect: str) -> None:
    """Raises NotYet unless the step that notices says in full how it must end."""
    expected = _expected(case.calls[notices.number - 1])
    if expected == "refused":
        raise NotYet(f"{place(notices)} {ADD_REASON}")
    if expect and expected != expect:
        raise NotYet(
            f"{place(notices)} is the call that notices, and it expects {expected or 'nothing'}; "
            f'the exercise asks for expect="{expect}" there'
        )


def _expected(call: Call) -> str:
    expected = call.expect or {}
    return f"{expected.get('outcome', '')} {expected.get('reason', '')}".strip()
