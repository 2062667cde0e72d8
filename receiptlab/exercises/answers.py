"""What every check is made of, and the checks of what was read and predicted."""

from __future__ import annotations

import ast
import html
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import FunctionType

from receiptlab.errors import LabError
from receiptlab.exercises.watchdog import TooLong, go_on, within
from receiptlab.experiment.case_file import Case, CaseError
from receiptlab.experiment.library import own_cases
from receiptlab.experiment.player import play
from receiptlab.experiment.run import Run, Step
from receiptlab.outcomes import WORDS


class NotYet(Exception):
    """What is wrong with an answer. A check turns it into its line."""


LONGEST = 600
"""Maximum number of characters of a line that is printed."""
LIMIT = 20.0
"""Seconds until a check gives up on a case or a call of a learner's function that does not return."""
HANGS = """your code did not return within {limit:g} seconds, so the check stopped it. Does it loop forever,
or wait for a lock that nobody releases? A check may call your function again while the first call is still
running, as another client would"""
BEGIN, END = "# your turn", "# until here"
BLANK = "nothing is filled in here"

BADGE = "padding: 0.1em 0.5em; border-radius: 0.3em; color: #fff; background:"
COLOURS = {"done": ("✓", "#1a7f37"), "not yet": ("○", "#8f5700")}


def say(done: str, not_yet: str = "") -> None:
    """The one line that a check prints. In a notebook its first word is a badge, green where it is done."""
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
    """The answer, if there is one and it is of this form. Raises NotYet for a gap, or says what is needed."""
    empty = isinstance(answer, (list, tuple, dict, str)) and not answer
    gaps = isinstance(answer, (list, tuple)) and any(each is ... for each in answer)
    if answer is ... or empty or gaps or (isinstance(answer, FunctionType) and is_blank(answer)):
        raise NotYet(BLANK)
    if not isinstance(answer, form):
        raise NotYet(f"this needs {words}")
    return answer


def is_blank(function: FunctionType) -> bool:
    """Whether the gap of a function, or the body of one without a gap, still holds nothing but `...`."""
    try:
        lines = textwrap.dedent(inspect.getsource(function)).splitlines()
        words = [line.strip() for line in lines]
        begin = next((place for place, word in enumerate(words) if word.startswith(BEGIN)), None)
        if begin is None:
            body = ast.parse("\n".join(lines)).body[0].body
        else:
            end = words.index(END, begin) if END in words[begin:] else len(lines)
            body = ast.parse(textwrap.dedent("\n".join(lines[begin + 1 : end]))).body
    except (OSError, TypeError, SyntaxError, AttributeError):
        return False  # no source, or no plain function: the check itself will say what is wrong
    return all(_says_nothing(statement) for statement in body)


def _says_nothing(statement: ast.stmt) -> bool:
    """True for `...`, `name = ...`, a docstring and `pass`."""
    is_value = isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        return is_value and statement.value.value is ...
    return is_value or isinstance(statement, ast.Pass)


def checks(check: Callable[..., str]) -> Callable[..., None]:
    """Make a check of a function that returns what to say when all is right and raises NotYet."""

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
        except BaseException as error:  # whatever a learner's answer does, there is one line
            say("", f"this answer cannot be judged: {raised(error)}")

    return checked


def _has_code(value: object) -> bool:
    """Whether there is a function among these arguments."""
    if isinstance(value, (list, tuple, dict)):
        return any(map(_has_code, value.values() if isinstance(value, dict) else value))
    return callable(value) and not isinstance(value, type)


STEPS = "the number of each step, such as {3: 'accepted'}"


@checks
def same(about: str, answer: object, truth: object, hint: str = "") -> str:
    """`answer` must be what the run shows. The truth is not printed. `hint` follows a wrong answer.

    Words may be written with or without hyphens and brackets, and several of them in one text.
    """
    wanted = tuple(truth) if isinstance(truth, (list, tuple)) else (truth,)
    given = _parts(filled(answer), wanted, isinstance(truth, str))
    if _has_text(given) and not _has_text(wanted):
        raise NotYet(f"{about}: write it without quotes")
    if len(wanted) > 1 and len(given) != len(wanted):
        raise NotYet(f"{about}: {len(wanted)} are asked for; you have {len(given)}")
    if [_spelling(each) for each in given] != [_spelling(each) for each in wanted]:
        raise NotYet(f"{about}: {answer!r} is not what the run shows{hint and f'. {hint}'}")
    return f"{about}: {answer!r}"


def _parts(answer: object, wanted: tuple, is_text: bool) -> tuple:
    """The answer as a tuple, however it was put: "fence, state" for two words, a pair for one text."""
    if is_text:
        return (" ".join(map(str, answer)) if isinstance(answer, (list, tuple)) else answer,)
    if isinstance(answer, str) and len(wanted) > 1 and _has_text(wanted):
        return tuple(re.split(r"[\s,]+", answer.strip("()[] ")))
    return tuple(answer) if isinstance(answer, (list, tuple)) else (answer,)


def _has_text(values: tuple) -> bool:
    return any(isinstance(each, str) for each in values)


def _spelling(value: object) -> object:
    return _bare(value) if isinstance(value, str) else value


@checks
def finds(about: str, answer: Callable[..., object], given: object, fits: Callable[[object], bool]) -> str:
    """`answer(given)` must return something for which `fits` is true. What that would be is not printed."""
    found = filled(answer, Callable, "a function")(given)
    if found is None:
        raise NotYet(f"{about}: your function returns nothing")
    if not fits(found):
        raise NotYet(f"{about}: your function returns {found!r}, which does not fit")
    return f"{about}: {found!r}"


@checks
def predicted(run: Run, answer: Mapping[int, str], steps: Sequence[int] = ()) -> str:
    """`answer` has for some steps, by number, how they end: "accepted", or "refused fence" with the reason.

    A step that is wrong is named, and what it comes to is not. `steps` are the ones that are asked for.
    """
    given = {numbered(number, len(run.steps)): words for number, words in filled(answer, dict, STEPS).items()}
    for number, words in given.items():
        step = run.steps[number - 1]
        if words is ...:
            raise NotYet(f"{place(step)}: {BLANK}")
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
    """Without what people put between words: before_commit, key-reused, refused (fence)."""
    return re.sub(r"[-_ (),:]", "", words).lower()


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
    """The first step that was not as expected, and what was not.

    Where the outcome itself is another one, the rest of what differs follows from it and is left out.
    """
    step = next(step for step in run.steps if step.wrong)
    ended = [each for each in step.wrong if each.startswith(("outcome: ", "reason: "))]
    if ended and ended[0].startswith("outcome: "):
        if len(ended) == 1 and step.reason:
            ended[0] += f" ({step.reason})"
        return f"{place(step)}: {'; '.join(ended)}"
    return f"{place(step)}: {'; '.join(step.wrong)}"


def attempted(case: Case, guards: dict | None = None) -> Run:
    """The run of a case. What the learner's own code raises is told, and not a traceback."""
    go_on()
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
