"""What every check is made of, and the checks of what was read and predicted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps

from receiptlab.caseformat import Case, CaseError
from receiptlab.errors import LabError
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
    if given != (tuple(truth) if isinstance(truth, list) else truth):
        raise NotYet(f"{about}: {answer!r} is not what the run shows")
    return f"{about}: {answer!r}"


@checks
def predicted(run: Run, answer: Mapping[int, str]) -> str:
    """`answer` has for some steps, by number, how they end: "accepted", or "refused fence" with the reason.

    A step that is wrong is named, and what it comes to is not.
    """
    for number, words in filled(answer, dict, STEPS).items():
        step = step_of(run, number)
        if words is ...:
            raise NotYet(f"{place(step)}: nothing is filled in here")
        if str(words).replace(",", " ").split() not in readings(step):
            raise NotYet(f"{place(step)} does not end as {words}")
    return f"all {len(answer)} steps end as you said"


def step_of(run: Run, number: int) -> Step:
    """A step of a run by its number."""
    if not isinstance(number, int) or not 1 <= number <= len(run.steps):
        raise NotYet(f"there is no step {number}; the steps are 1 to {len(run.steps)}")
    return run.steps[number - 1]


def readings(step: Step) -> list[list[str]]:
    """How an answer may put it. A reason belongs to it where the contract gives one."""
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
    except LabError as error:
        raise NotYet(f"{case.name}: {error}") from None
    except Exception as error:
        raise NotYet(f"{case.name}: {raised(error)}") from None


def raised(error: Exception) -> str:
    """What the learner's code raised, in words."""
    return f"your code raised {type(error).__name__}: {error}"
