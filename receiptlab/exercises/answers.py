"""What all checks share, and the checks of values that a learner read or predicted."""

from __future__ import annotations

import ast
import contextlib
import html
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from types import FunctionType

from receiptlab.errors import LabError
from receiptlab.exercises.watchdog import TooLong, go_on, within
from receiptlab.experiment.case_file import Case, CaseError
from receiptlab.experiment.library import own_cases
from receiptlab.experiment.player import play
from receiptlab.experiment.run import Run, Step
from receiptlab.outcomes import WORDS, Outcome, attempt


class NotYet(Exception):
    """What is wrong with an answer. A check turns it into its line."""


LONGEST = 600
"""Maximum number of characters in a printed line."""
LIMIT = 20.0
"""Seconds until a check stops a case or a learner's function that does not return."""
HANGS = """your code did not return within {limit:g} seconds, so the check stopped it. Does it loop forever,
or wait for a lock that nobody releases? A check may call your function again while the first call is still
running, as another client would"""
BEGIN, END = "# your turn", "# until here"
BLANK = "nothing is filled in here"

BADGE = "padding: 0.1em 0.5em; border-radius: 0.3em; color: #fff; background:"
COLOURS = {"done": ("✓", "#1a7f37"), "not yet": ("○", "#8f5700")}


def say(done: str, not_yet: str = "") -> None:
    """Print a check's one line. In a notebook its first word is a badge, green for `done`."""
    word, text = ("not yet", not_yet) if not_yet else ("done", done)
    text = " ".join(text.split())
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        mark, colour = COLOURS[word]
        badge = f'<b style="{BADGE} {colour}">{mark} {word}</b>'
        shown = {"text/plain": f"{word}: {text}", "text/html": f"<div>{badge} {html.escape(text)}</div>"}
        sys.modules["IPython"].display.display(shown, raw=True)
    else:
        print(f"{word}: {text}")


def filled(answer: object, form: type | tuple[type, ...] = object, words: str = "") -> object:
    """The answer. Raises NotYet if it is a gap, or if it does not have this form (`words` describes it)."""
    is_list = isinstance(answer, (list, tuple))
    empty = isinstance(answer, (list, tuple, dict, str)) and not answer
    blank = isinstance(answer, FunctionType) and is_blank(answer)
    if answer is ... or empty or blank or (is_list and any(each is ... for each in answer)):
        raise NotYet(BLANK)
    if not isinstance(answer, form):
        raise NotYet(f"this needs {words}")
    return answer


def is_blank(function: FunctionType) -> bool:
    """Whether the gap of a function, or its body if it has no gap, is still just `...`."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
        body = ast.parse(source).body[0].body
    except (OSError, TypeError, SyntaxError, AttributeError):
        return False  # no source, or not a plain function: the check itself reports what is wrong
    words = [line.strip() for line in source.splitlines()]
    begin = next((number for number, word in enumerate(words, 1) if word.startswith(BEGIN)), 0)
    end = words.index(END) if END in words else len(words)
    nodes = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.stmt)]
    return all(_does_nothing(node) for node in nodes if begin <= node.lineno <= end)


def _does_nothing(statement: ast.stmt) -> bool:
    """True for `...`, `name = ...`, a docstring and `pass`."""
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Assign):
        return isinstance(value, ast.Constant) and value.value is ...
    is_value = isinstance(statement, ast.Expr) and isinstance(value, ast.Constant)
    return is_value or isinstance(statement, ast.Pass)


def checks(check: Callable[..., str]) -> Callable[..., None]:
    """Decorator of a check. The function returns the text after `done: ` or raises NotYet. The decorated
    one prints the line, whatever the learner's answer does."""

    @wraps(check)
    def checked(*args: object, **kwargs: object) -> None:
        limit = LIMIT if _has_code((args, kwargs)) else None
        try:
            say(within(limit, lambda: check(*args, **kwargs)))
        except (NotYet, CaseError) as error:
            say("", str(error))
        except TooLong:
            say("", HANGS.format(limit=LIMIT))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            say("", f"this answer cannot be checked: {raised(error)}")

    return checked


def _has_code(value: object) -> bool:
    """Whether there is a function among these arguments."""
    if isinstance(value, (list, tuple, dict)):
        return any(map(_has_code, value.values() if isinstance(value, dict) else value))
    return callable(value) and not isinstance(value, type)


# Running a learner's code


@contextlib.contextmanager
def learners_code(where: str = "") -> Iterator[None]:
    """Turn whatever the code inside raises into NotYet, with `where` in front."""
    go_on()
    try:
        yield
    except NotYet:
        raise
    except LabError as error:
        raise NotYet(f"{where}{error}") from None
    except Exception as error:
        raise NotYet(f"{where}{raised(error)}") from None


def raised(error: BaseException) -> str:
    """What a learner's code raised, in words."""
    return f"your code raised {type(error).__name__}: {error}"


def called(where: str, answer: Callable[..., object], *args: object, **named: object) -> Outcome:
    """How a call of the learner's function ended. Raises NotYet if it raised anything unknown to the lab."""
    with learners_code(where):
        return attempt(answer, *args, **named)


def returned(given: Outcome) -> bool:
    return given.word in ("accepted", "replayed", "read")


def must_return(given: Outcome, where: str) -> None:
    """Raises NotYet if the learner's function was refused, or failed."""
    if not returned(given):
        raise NotYet(f"{where}your function ends as {given.word} {given.reason}")


def played_case(case: Case, guards: dict | None = None) -> Run:
    """The run of a case. Raises NotYet with what the learner's guards raised."""
    with learners_code(f"{case.name}: "):
        return play(case, guards)


# What was read, found and predicted

STEPS = "the number of each step, such as {3: 'accepted'}"


@checks
def same(about: str, answer: object, truth: object, hint: str = "") -> str:
    """Your answer must be what the run shows. `hint` is printed after a wrong one; the truth never is.

    Words may have hyphens and brackets or not, and several words may be one text.
    """
    wanted = truth if isinstance(truth, (list, tuple)) else (truth,)
    given, is_text = filled(answer), any(isinstance(each, str) for each in wanted)
    if is_text and isinstance(given, str) and len(wanted) > 1:
        given = re.split(r"[\s,]+", given.strip("()[] "))
    given = given if isinstance(given, (list, tuple)) else (given,)
    if is_text and len(wanted) == 1:
        given = (" ".join(map(str, given)),)
    if any(isinstance(each, str) for each in given) and not is_text:
        raise NotYet(f"{about}: write it without quotes")
    if len(wanted) > 1 and len(given) != len(wanted):
        raise NotYet(f"{about}: this needs {len(wanted)} values; you gave {len(given)}")
    if list(map(_bare, given)) != list(map(_bare, wanted)):
        raise NotYet(f"{about}: {answer!r} is not what the run shows{hint and f'. {hint}'}")
    return f"{about}: {answer!r}"


@checks
def finds(about: str, answer: Callable[..., object], given: object, fits: Callable[[object], bool]) -> str:
    """`answer(given)` must return a value for which `fits` is true. That value is not printed."""
    found = filled(answer, Callable, "a function")(given)
    if found is None:
        raise NotYet(f"{about}: your function returns nothing")
    if not fits(found):
        raise NotYet(f"{about}: your function returns {found!r}, which does not fit")
    return f"{about}: {found!r}"


@checks
def predicted(run: Run, answer: Mapping[int, str], steps: Sequence[int] = ()) -> str:
    """Your answer says how steps end, by number: "accepted", or "refused fence" with the reason.

    A wrong step is named, but not how it ends. `steps` are the ones to predict.
    """
    given = {numbered(number, len(run.steps)): words for number, words in filled(answer, dict, STEPS).items()}
    for number, words in given.items():
        step = run.steps[number - 1]
        if words is ...:
            raise NotYet(f"{place(step)}: {BLANK}")
        _compare(run, step, spelled(words))
    missing = [str(number) for number in steps if number not in given]
    if missing:
        raise NotYet(f"predict steps {', '.join(map(str, steps))}; {', '.join(missing)} is missing")
    return f"{len(given)} of {len(given)} steps end as you said"


def _compare(run: Run, step: Step, words: list[str]) -> None:
    outcome, *reason = reading(step)
    if words[0] != outcome:
        raise NotYet(f"{place(step)} does not end as {words[0]}")
    given, known = " ".join(words[1:]), _reasons(run.contract)
    if _bare(given) == _bare("".join(reason)):
        return
    ends = f"{place(step)} ends as {outcome}"
    if not reason:
        raise NotYet(f"{ends} and has no reason")
    if not given:
        what = "its fault, which is shown in brackets" if outcome == "unknown" else "its reason"
        raise NotYet(f"{ends}; add {what}")
    if outcome == "refused" and _bare(given) not in map(_bare, known):
        raise NotYet(f"{given!r} is not a reason of {run.contract}; choose from {', '.join(known)}")
    raise NotYet(f"{ends}, but its reason is not {given}")


def _bare(value: object) -> object:
    """A text in lower case, without what people write between words: before_commit, key-reused, (fence)."""
    return re.sub(r"[-_ (),:]", "", value).lower() if isinstance(value, str) else value


def _reasons(contract: str) -> list[str]:
    """Every reason for which this contract refuses a call in some case."""
    expected = [call.expect or {} for case in own_cases() if case.contract == contract for call in case.calls]
    return sorted({expect["reason"] for expect in expected if expect.get("outcome") == "refused"})


def spelled(words: object) -> list[str]:
    """The outcome and its reason, however they are written: "refused fence", "refused (fence)", a pair."""
    text = " ".join(map(str, words)) if isinstance(words, (list, tuple)) else str(words)
    found = re.sub(r"[(),:]", " ", text).lower().split()
    if not found or found[0] not in WORDS:
        raise NotYet(f"{words!r} is not an outcome; choose from {', '.join(WORDS)}")
    return found


def step_of(run: Run, number: int | str) -> Step:
    """A step of a run by its number."""
    return run.steps[numbered(number, len(run.steps)) - 1]


def numbered(number: object, last: int) -> int:
    """The number of a step. Raises NotYet if there is no such step."""
    if isinstance(number, str) and number.isdecimal() and len(number) < 5:
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= last:
        raise NotYet(f"there is no step {number!r}; the steps are 1 to {last}")
    return number


def reading(step: Step) -> list[str]:
    """How a step ends, in words: its outcome, and its reason if there is one."""
    reason = step.reason or step.found
    return [step.outcome, reason] if reason else [step.outcome]


def place(step: Step) -> str:
    """A step in words: its number, actor, call and time."""
    when = "" if step.now is None else f" at {step.now}"
    return f"step {step.number} ({step.actor} {step.call}{when})"


def first_wrong(run: Run) -> str:
    """The first step that was not as expected, and what differs.

    If the outcome differs, everything else follows from it, so only outcome and reason are shown.
    """
    step = next(step for step in run.steps if step.wrong)
    differs = list(step.wrong)
    if any(each.startswith("outcome: ") for each in differs):
        differs = [each for each in differs if each.startswith(("outcome: ", "reason: "))]
        if len(differs) == 1 and step.reason:
            differs[0] += f" ({step.reason})"
    return f"{place(step)}: {'; '.join(differs)}"
