"""What every check is made of, and the checks of what was read and predicted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps

from receiptlab.caseformat import Case, CaseError
from receiptlab.errors import LabError
from receiptlab.outcomes import WORDS
from receiptlab.play import play
from receiptlab.record import Run, Step


class NotYet(Exception):
    """What is wrong with an answer. A check turns it into its line."""


def say(done: str, not_yet: str = "") -> None:
    """The one line that a check prints."""
    print(f"not yet: {not_yet}" if not_yet else f"done: {done}")


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

    return checked


STEPS = "the number of each step, such as {3: 'accepted'}"


@checks
def same(about: str, answer: object, truth: object) -> str:
    """`answer` must be what the run shows. The truth is not printed."""
    given = tuple(answer) if isinstance(filled(answer), list) else answer
    if isinstance(given, str) and not isinstance(truth, str):
        raise NotYet(f"{about}: write it without quotes")
    if given != (tuple(truth) if isinstance(truth, list) else truth):
        raise NotYet(f"{about}: {answer!r} is not what the run shows")
    return f"{about}: {answer!r}"


@checks
def predicted(run: Run, answer: Mapping[int, str], steps: int = 1) -> str:
    """`answer` has for some steps, by number, how they end: "accepted", or "refused fence" with the reason.

    A step that is wrong is named, and what it comes to is not. So many `steps` are asked for.
    """
    for number, words in filled(answer, dict, STEPS).items():
        step = step_of(run, number)
        if words is ...:
            raise NotYet(f"{place(step)}: nothing is filled in here")
        _compare(step, spelled(words))
    if len(answer) < steps:
        raise NotYet(f"{steps} steps are asked for; you have {len(answer)}")
    return f"{len(answer)} of {len(answer)} steps end as you said"


def _compare(step: Step, words: list[str]) -> None:
    reading = [word.lower() for word in readings(step)[0]]
    if words[0] != reading[0]:
        raise NotYet(f"{place(step)} does not end as {words[0]}")
    if words == reading:
        return
    if len(words) == 1:
        raise NotYet(f"{place(step)} ends as {words[0]}; add its reason, such as '{words[0]} {EXAMPLE}'")
    if len(reading) == 1:
        raise NotYet(f"{place(step)} ends as {words[0]}, and has no reason")
    raise NotYet(f"{place(step)} ends as {words[0]}, and not with the reason {' '.join(words[1:])}")


EXAMPLE = "revoked"


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
    if isinstance(number, str) and number.isdigit():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= last:
        raise NotYet(f"there is no step {number!r}; the steps are 1 to {last}")
    return number


def readings(step: Step) -> list[list[str]]:
    """How a step ends, in words. A reason belongs to it where the contract gives one."""
    reason = step.reason or step.found
    return [[step.outcome, reason]] if reason else [[step.outcome]]


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


def raised(error: Exception) -> str:
    """What the learner's code raised, in words."""
    return f"your code raised {type(error).__name__}: {error}"
