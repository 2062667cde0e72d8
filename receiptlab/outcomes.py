"""How a call ended, in one word.

accepted   it took effect
replayed   it had taken effect before, and the saved receipt came back
read       it only read
refused    the contract said no, and nothing was written
failed     the database or the file could not do it, and nothing was written
unknown    no answer came, and it may have taken effect
invalid    an argument was wrong, and nothing was tried
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from receiptlab.errors import Definite, Indefinite, WrongArgument

WORDS = ("accepted", "replayed", "read", "refused", "failed", "unknown", "invalid")


@dataclass(frozen=True, repr=False)
class Outcome:
    """How a call ended: the word, a reason code, the fields that the reason is about, and the answer."""

    word: str
    reason: str = ""
    fields: tuple[str, ...] = ()
    message: str = ""
    answer: object = None

    def __repr__(self) -> str:
        said = self.message or self.reason or self.answer
        return f"<{self.word}: {said}>" if said is not None else f"<{self.word}>"

    def facts(self) -> dict[str, object]:
        """The answer's fields as JSON has them. Empty if there is no answer."""
        if isinstance(self.answer, dict):
            facts = dict(self.answer)
        elif hasattr(self.answer, "facts"):
            facts = self.answer.facts()
        elif is_dataclass(self.answer) and not isinstance(self.answer, type):
            facts = asdict(self.answer)
        elif hasattr(self.answer, "_asdict"):
            facts = self.answer._asdict()
        else:
            return {}
        facts.pop("outcome", None)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}


def attempt(call: Callable[..., object], /, *args: object, **kwargs: object) -> Outcome:
    """Make the call and return how it ended. Unknown exceptions propagate."""
    try:
        answer = call(*args, **kwargs)
    except (Definite, Indefinite) as error:
        return Outcome(error.outcome, error.reason, getattr(error, "fields", ()), str(error))
    except WrongArgument as error:
        return Outcome("invalid", error.argument, (), str(error))
    if isinstance(answer, dict):
        return Outcome(answer.get("outcome", "accepted"), answer=answer)
    return Outcome(getattr(answer, "outcome", "accepted"), answer=answer)


def mismatches(
    expect: dict[str, Any] | None, fault: str, outcome: Outcome, counts: tuple[int, ...]
) -> tuple[str, ...]:
    """What differs from the expected outcome, one text each.

    A fault that never struck proves nothing, so that is always a mismatch.
    """
    wrong = () if _struck(fault, outcome) else (f"fault {fault}: it never struck",)
    if expect is None:
        return wrong
    got: dict[str, Any] = {
        "outcome": outcome.word,
        "reason": outcome.reason,
        "fields": list(outcome.fields),
        "counts": list(counts),
    }
    facts = outcome.facts()
    pairs = [(name, expect[name], got[name]) for name in got if name in expect]
    pairs += [
        (f"answer {name}", value, facts.get(name, "nothing"))
        for name, value in expect.get("answer", {}).items()
    ]
    return wrong + tuple(
        f"{name}: expected {wanted}, got {'none' if was == '' else was}"
        for name, wanted, was in pairs
        if _differ(wanted, was)
    )


def _struck(fault: str, outcome: Outcome) -> bool:
    if ":" in fault:  # a failing statement, see faults.failpoints
        return outcome.reason == "SQLITE_CONSTRAINT_TRIGGER"
    return not fault or outcome.reason == fault


def _differ(wanted: object, was: object) -> bool:
    """Whether two values differ in JSON, where true is not 1."""
    return wanted != was or type(wanted) is not type(was)
