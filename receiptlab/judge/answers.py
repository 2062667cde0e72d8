"""What every check is made of, and the checks of what was read and predicted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps

from receiptlab.caseformat import Case, CaseError
from receiptlab.cases import own_cases
from receiptlab.errors import LabError
from receiptlab.outcomes import WORDS
from receiptlab.play import play
from receiptlab.record import Run, Step


class NotYet(Exception):
    """What is wrong with an answer. A check turns it into its line."""


LONGEST = 600
"""So much of a line is printed."""


def say(done: str, not_yet: str = "") -> None:
    """The one line that a check prints."""
    line = " ".join((f"not yet: {not_yet}" if not_yet else f"done: {done}").split())
    print(line if len(line) <= LONGEST else f"{line[:LONGEST]}…")


def filled(answer: object, form: type | tuple[type, ...] = object, words: str = "") -> object:
    """The answer, if there is one and it is of this form. Raises NotYet for a gap, or says what is needed."""
    empty = isinstance(answer, (list, tuple, dict, str)) and not answer
    if answer is ... or empty or (isinstance(answer, (list, tuple)) and any(each is ... for each in answer)):
        raise NotYet("nothing is filled in here")
    if not isinstance(answer, form):
        raise NotYet(f"this needs {words}")
    return answer


def checks(check: Callable[..., str]) -> Callable[..., None]:
    """Make a check of a function that returns what to say when all is right and raises NotYet."""

    @wraps(check)
    def checked(*args: object, **kwargs: object) -> None:
        try:
            say(check(*args, **kwargs))
        except (NotYet, CaseError) as error:
            say("", str(error))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a learner's answer does, there is one line
            say("", f"this answer cannot be judged: {raised(error)}")

    return checked


STEPS = "the number of each step, such as {3: 'accepted'}"


@checks
def same(about: str, answer: object, truth: object) -> str:
    """`answer` must be what the run shows. The truth is not printed."""
    given = tuple(answer) if isinstance(filled(answer), list) else answer
    if isinstance(given, str) and not isinstance(truth, str):
        raise NotYet(f"{about}: write it without quotes")
    wanted = tuple(truth) if isinstance(truth, (list, tuple)) else None
    if wanted is not None and isinstance(given, tuple) and len(given) != len(wanted):
        raise NotYet(f"{about}: {len(wanted)} are asked for; you have {len(given)}")
    if given != (tuple(truth) if isinstance(truth, list) else truth):
        raise NotYet(f"{about}: {answer!r} is not what the run shows")
    return f"{about}: {answer!r}"


@checks
def predicted(run: Run, answer: Mapping[int, str], steps: Sequence[int] = ()) -> str:
    """`answer` has for some steps, by number, how they end: "accepted", or "refused fence" with the reason.

    A step that is wrong is named, and what it comes to is not. `steps` are the ones that are asked for.
    """
    given = {numbered(number, len(run.steps)): words for number, words in filled(answer, dict, STEPS).items()}
    for number, words in given.items():
        step = run.steps[number - 1]
        if words is ...:
            raise NotYet(f"{place(step)}: nothing is filled in here")
        _compare(run, step, spelled(words))
    missing = [str(number) for number in steps if number not in given]
    if missing:
        raise NotYet(f"steps {', '.join(map(str, steps))} are asked for; {', '.join(missing)} is missing")
    return f"{len(given)} of {len(given)} steps end as you said"


def _compare(run: Run, step: Step, words: list[str]) -> None:
    outcome, *reason = reading(step)
    if words[0] != outcome:
        raise NotYet(f"{place(step)} does not end as {words[0]}")
    given = " ".join(words[1:])
    if _bare(given) == _bare("".join(reason)):
        return
    told = f"{place(step)} ends as {outcome}"
    if not reason:
        raise NotYet(f"{told}, and has no reason")
    if not given:
        how = "what was done to it, as it stands in brackets" if outcome == "unknown" else "its reason"
        raise NotYet(f"{told}; add {how}")
    known = _reasons(run.contract)
    if outcome == "refused" and _bare(given) not in map(_bare, known):
        raise NotYet(f"{given!r} is no reason of {run.contract}; choose from {', '.join(known)}")
    raise NotYet(f"{told}, and not with the reason {given}")


def _bare(words: str) -> str:
    """Without what people put between words: before_commit, key-reused, key reused."""
    return re.sub(r"[-_ ]", "", words).lower()


def _reasons(contract: str) -> list[str]:
    """Every reason with which this contract refuses, by its cases."""
    expected = [call.expect or {} for case in own_cases() if case.contract == contract for call in case.calls]
    return sorted({expect["reason"] for expect in expected if expect.get("outcome") == "refused"})


def spelled(words: object) -> list[str]:
    """The outcome and its reason, however they are put: "refused fence", "refused (fence)", a pair."""
    text = " ".join(map(str, words)) if isinstance(words, (list, tuple)) else str(words)
    found = re.sub(r"[(),:]", " ", text).lower().split()
    if not found or found[0] not in WORDS:
        raise NotYet(f"{words!r} is no outcome; choose from {', '.join(WORDS)}")
    return found


def step_of(run: Run, number: int | str) -> Step:
    """A step of a run by its number."""
    return run.steps[numbered(number, len(run.steps)) - 1]


def numbered(number: object, last: int) -> int:
    """The number of a step. Raises NotYet where there is none such."""
    if isinstance(number, str) and number.isdecimal() and len(number) < 5:
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= last:
        raise NotYet(f"there is no step {number!r}; the steps are 1 to {last}")
    return number


def reading(step: Step) -> list[str]:
    """How a step ends, in words. A reason belongs to it where the contract gives one."""
    reason = step.reason or step.found
    return [step.outcome, reason] if reason else [step.outcome]


def place(step: Step) -> str:
    """A step in words: its number, who called what, and when."""
    when = "" if step.now is None else f" at {step.now}"
    return f"step {step.number} ({step.actor} {step.call}{when})"


def first_wrong(run: Run) -> str:
    """The first step that was not as expected, and what was not."""
    step = next(step for step in run.steps if step.wrong)
    return f"{place(step)}: {'; '.join(step.wrong)}"


def attempted(case: Case, guards: dict | None = None) -> Run:
    """The run of a case. What the learner's own code raises is told, and not a traceback."""
    try:
        return play(case, guards)
    except NotYet:
        raise
    except LabError as error:
        raise NotYet(f"{case.name}: {error}") from None
    except Exception as error:
        raise NotYet(f"{case.name}: {raised(error)}") from None


def raised(error: BaseException) -> str:
    """What the learner's code raised, in words."""
    return f"your code raised {type(error).__name__}: {error}"
