"""Checks of a case: one that is changed, and one that a learner wrote."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from receiptlab.contracts.base import Contract, Guard
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.exercises.answers import (
    BLANK,
    NotYet,
    attempted,
    checks,
    filled,
    first_wrong,
    numbered,
    place,
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
    """Print the calls of a case, or of the lab's case of this name, without how they end."""
    case = load(case) if isinstance(case, str) else case
    everywhere = _everywhere(case.calls)
    if everywhere:
        print("in every call that has it:", _arguments(everywhere))
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
    """Play a case of the lab with some arguments changed, and see whether steps end as `ends` says.

    `answer` has, by the number of the step, what to change; `fault` can be changed too. `only` names the
    arguments that may change, `steps` the steps, and `at_most` is how many arguments may change in all.
    Steps keep their order, so no change may make time run backwards.
    """
    case = load(name)
    before = [_line(call) for call in case.calls]
    lines = before.copy()
    for given, changes in filled(answer, dict, CHANGES).items():
        number = numbered(given, len(lines))
        lines[number - 1] = _with(lines[number - 1], filled(changes, dict, CHANGES), number, only)
    different = [n for n, (old, new) in enumerate(zip(before, lines, strict=True), 1) if old != new]
    for number in different:
        if steps and number not in steps:
            raise NotYet(f"leave step {number} as it is; change step {' or '.join(map(str, steps))}")
    count = sum(_differences(before[number - 1], lines[number - 1]) for number in different)
    if not count:
        raise NotYet("this is the case as it was; nothing is changed")
    if at_most and count > at_most:
        raise NotYet(f"you changed {count} arguments; change {'one' if at_most == 1 else at_most} only")
    run = attempted(read(CONTRACTS[case.contract], lines))
    _must_go_forwards(before, lines)
    for number, words in ends.items():
        step = step_of(run, number)
        if words.split() not in (reading(step), [step.outcome]):
            raise NotYet(f"{place(step)} must end as {words}, and ends as {' '.join(reading(step))}")
    return f"{name} with your change: {run.story}"


def _differences(old: Mapping, new: Mapping) -> int:
    """How many arguments differ between two lines, the fault included."""
    changed = sum(old["args"][name] != new["args"][name] for name in old["args"])
    return changed + (old.get("fault") != new.get("fault"))


def _must_go_forwards(before: Sequence[Mapping], lines: Sequence[Mapping]) -> None:
    """Raises NotYet where a change puts a step at a time before that of an earlier step."""
    was = [line["args"].get("now") for line in before]
    times = [line["args"].get("now") for line in lines]
    for later, now in enumerate(times):
        for earlier, then in enumerate(times[:later]):
            if None in (then, now) or then <= now or was[earlier] > was[later]:
                continue
            raise NotYet(
                f"steps keep their order, so time cannot run backwards: step {earlier + 1} is at {then}, and "
                f"step {later + 1}, which comes after it, is at {now}"
            )


def _line(call: Call) -> dict:
    """A call as a line of a case file, without what it expects."""
    line = {"actor": call.actor, "call": call.call, "args": call.args}
    return line | ({"fault": call.fault} if call.fault else {})


def _with(line: dict, changes: Mapping[str, object], number: int, only: Sequence[str]) -> dict:
    if ... in changes.values():
        raise NotYet(f"step {number}: {BLANK}")
    for name in changes:
        if name not in (*line["args"], "fault"):
            raise NotYet(f"step {number} has no {name}; it has {', '.join(line['args'])}, and a fault")
        if only and name not in only:
            raise NotYet(f"step {number}: you may change {' and '.join(only)}, not {name}")
    args = line["args"] | {name: value for name, value in changes.items() if name != "fault"}
    line = line | {"args": args, "actor": args.get("actor", line["actor"])}
    if "fault" in changes:
        line.pop("fault", None)
        line |= {"fault": changes["fault"]} if changes["fault"] else {}
    return line


WRONG = "not yet"
ONLY_REFUSED = 'a call says only that it is refused; add the reason, as in expect="refused …"'


def like(name: str, step: int = 0, expect: str = "", **changes: object) -> dict:
    """A call like the one at this step of a case of the lab, as a line of a case file.

    `changes` are arguments, or `fault`; `expect` is "accepted", or "refused fence" with the reason. What is
    wrong with it is told by the check that reads the line.
    """
    if not isinstance(name, str):
        return {WRONG: "like needs the name of a case, in quotes"}
    try:
        calls = load(name).calls
        line = _line(calls[numbered(step, len(calls)) - 1])
        word, *reason = spelled(expect) if expect else [""]
    except (NotYet, CaseError) as error:
        return {WRONG: f"like({name!r}, {step!r}, …): {error}"}
    fault = changes.pop("fault", "")
    line["args"] = line["args"] | changes
    line["actor"] = line["args"].get("actor", line["actor"])
    line.pop("fault", None)
    line |= {"fault": fault} if fault else {}
    if word:
        line["expect"] = {"outcome": word} | ({"reason": " ".join(reason)} if reason else {})
    return line


def read(contract: type[Contract], answer: str | Iterable[dict]) -> Case:
    """A case that somebody wrote, read as strictly as a file is: its lines, with or without the head.

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
    """The calls as lines of a file. Raises CaseError for what is none."""
    for number, line in enumerate(answer, 1):
        if not isinstance(line, dict):
            raise CaseError(f"your case, step {number}: this is no call; `like` makes one")
        if WRONG in line:
            raise CaseError(line[WRONG])
    try:
        return [json.dumps(line) for line in answer]
    except TypeError as error:
        raise CaseError(f"your case: a line cannot be written as JSON: {error}") from None


def _placed(told: str, added: int) -> str:
    """A message of the reader with the line as its writer counts."""
    number, _, rest = told.removeprefix(":").partition(":")
    where = "step" if added else "line"
    return f"your case, {where} {int(number) - added}:{rest}" if number.isdigit() else f"your case{told}"


@checks
def notices(
    contract: type[Contract], call: str, name: str, answer: str | Sequence[dict], expect: str = ""
) -> str:
    """Your case must hold with the contract as it is, and come out otherwise when this guard is left out.

    The call that notices must be one that has to end as `expect` says, where that is given.
    """
    guards = without(contract, call, name)
    return _apart(contract, answer, guards, f"when {name} is left out of {call}", f"without {name}", expect)


@checks
def tells_apart(
    contract: type[Contract],
    call: str,
    guards: Sequence[str | Guard],
    answer: str | Sequence[dict],
    expect: str = "",
) -> str:
    """Your case must hold with the contract as it is, and come out otherwise when `call` has these guards.

    Each is the name of one of its own or a function: another order, say, or one guard more. `expect` is as
    for `notices`.
    """
    other = contract.GUARDS | {call: resolved(contract, call, guards)}
    with_those = f"with those guards of {call}"
    return _apart(contract, answer, other, with_those, with_those, expect)


def _apart(
    contract: type[Contract],
    answer: str | Sequence[dict],
    other: dict,
    same: str,
    differs: str,
    expect: str,
) -> str:
    """Play a case with the contract's guards and with others. Raises NotYet where it holds with both."""
    if isinstance(answer, str) and not answer.lstrip().startswith("{"):
        raise NotYet("this needs a list of calls, such as [like(base, 1)]")
    case = read(contract, filled(answer, (str, list, tuple), "a list of calls"))
    if case.contract != contract.NAME:
        raise NotYet(f"your case is of the contract {case.contract}; this asks for {contract.NAME}")
    run = attempted(case)
    if not run.held:
        raise NotYet(f"with the contract as it is, {first_wrong(run)}")
    broken = attempted(case, other)
    if broken.held:
        raise NotYet(f"your case holds, and comes out the same {same}{_too_little(case)}")
    _must_expect(case, next(step for step in broken.steps if step.wrong), expect)
    return f"your case notices: {differs}, {first_wrong(broken)}"


def _too_little(case: Case) -> str:
    """A hint for a case that expects nothing, or less than it could."""
    if not any(call.expect for call in case.calls):
        return "; no call says how it must end (expect=)"
    return f"; {ONLY_REFUSED}" if any(_said(call) == "refused" for call in case.calls) else ""


def _must_expect(case: Case, notices: Step, expect: str) -> None:
    """Raises NotYet unless the step that notices says in full how it has to end."""
    said = _said(case.calls[notices.number - 1])
    if said == "refused":
        raise NotYet(
            f'{place(notices)} says only that it is refused; add the reason, as in expect="refused …"'
        )
    if expect and said != expect:
        asked = f'the exercise asks for expect="{expect}" there'
        raise NotYet(
            f"{place(notices)} is the call that notices, and it expects {said or 'nothing'}; {asked}"
        )


def _said(call: Call) -> str:
    expected = call.expect or {}
    return f"{expected.get('outcome', '')} {expected.get('reason', '')}".strip()
