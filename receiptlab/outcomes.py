"""One word for how a call ended. Standard library only.

accepted   it took effect
replayed   it had taken effect before; the saved receipt came back
read       it only looked
refused    the contract said no; nothing was written
failed     the database or the file could not do it; nothing was written
unknown    no answer came; it may have taken effect
invalid    an argument was wrong; nothing was tried
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass

from receiptlab.errors import Definite, Indefinite, WrongArgument

WORDS = ("accepted", "replayed", "read", "refused", "failed", "unknown", "invalid")


@dataclass(frozen=True)
class Outcome:
    """How a call ended: the word, a reason code, the fields the reason is about, and the answer."""

    word: str
    reason: str = ""
    fields: tuple[str, ...] = ()
    message: str = ""
    answer: object = None

    def facts(self) -> dict[str, object]:
        """The answer's fields as JSON has them; empty where there is no answer."""
        if isinstance(self.answer, dict):
            facts = dict(self.answer)
        elif hasattr(self.answer, "facts"):
            facts = self.answer.facts()
        elif is_dataclass(self.answer):
            facts = asdict(self.answer)
        elif hasattr(self.answer, "_asdict"):
            facts = self.answer._asdict()
        else:
            return {}
        facts.pop("outcome", None)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}


def attempt(call: Callable[..., object], /, *args: object, **kwargs: object) -> Outcome:
    """Make the call and say how it ended. Only what the lab does not know comes out as an exception."""
    try:
        answer = call(*args, **kwargs)
    except (Definite, Indefinite) as error:
        return Outcome(error.outcome, error.reason, getattr(error, "fields", ()), str(error))
    except WrongArgument as error:
        return Outcome("invalid", error.argument, (), str(error))
    return Outcome(getattr(answer, "outcome", "accepted"), answer=answer)


def mismatches(expect: dict | None, fault: str, outcome: Outcome, counts: tuple[int, ...]) -> tuple[str, ...]:
    """What did not come out as expected, one text each.

    A fault that never struck proves nothing, so it is never as expected, whatever is expected.
    """
    wrong = () if _struck(fault, outcome) else (f"fault {fault}: it never struck",)
    if expect is None:
        return wrong
    got = {
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
    """Unequal as JSON has it: true is not 1."""
    return wanted != was or type(wanted) is not type(was)
