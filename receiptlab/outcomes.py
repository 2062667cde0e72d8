"""One word for how a call ended. Standard library only.

accepted   it took effect
replayed   it had taken effect before; the saved receipt came back
read       it only looked
refused    the contract said no; nothing was written
failed     the database could not do it; nothing was written
unknown    the answer was lost; it may have taken effect
invalid    an argument was wrong; nothing was tried
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass

from receiptlab.errors import Definite, Indefinite

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
        """The answer's fields as plain data; empty where there is no answer."""
        if is_dataclass(self.answer):
            facts = asdict(self.answer)
        elif hasattr(self.answer, "_asdict"):
            facts = self.answer._asdict()
        else:
            return {}
        facts.pop("outcome", None)
        return facts


def attempt(call: Callable[..., object], /, *args: object, **kwargs: object) -> Outcome:
    """Make the call and say how it ended. Only what the lab does not know comes out as an exception."""
    try:
        answer = call(*args, **kwargs)
    except (Definite, Indefinite) as error:
        return Outcome(error.outcome, error.reason, getattr(error, "fields", ()), str(error))
    except (TypeError, ValueError) as error:
        return Outcome("invalid", str(error).split(" ", 1)[0], (), str(error))
    return Outcome(getattr(answer, "outcome", "accepted"), answer=answer)
