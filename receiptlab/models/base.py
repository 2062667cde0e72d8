"""The base of the reference models: how a model answers, and its own rules for arguments."""

from __future__ import annotations

import copy
import re
import unicodedata
from collections.abc import Callable
from typing import ClassVar, NamedTuple

LARGEST = 2**63 - 1
Rule = Callable[[object], bool]


class Expected(NamedTuple):
    """How a call must end, in the same words as a contract's."""

    word: str
    reason: str = ""
    fields: tuple[str, ...] = ()
    facts: dict = {}  # noqa: RUF012 - never changed


class No(Exception):
    """The model refuses."""

    def __init__(self, reason: str, *fields: str) -> None:
        self.expected = Expected("refused", reason, fields)


class Wrong(Exception):
    """The argument is invalid in the model's present state."""

    def __init__(self, argument: str) -> None:
        self.expected = Expected("invalid", argument)


def accepted(**facts: object) -> Expected:
    return Expected("accepted", facts=facts)


def replayed(**facts: object) -> Expected:
    return Expected("replayed", facts=facts)


def read(**facts: object) -> Expected:
    return Expected("read", facts=facts)


def name(value: object) -> bool:
    """1 to 128 characters, without control characters and lone surrogates."""
    plain = type(value) is str and 1 <= len(value) <= 128
    return plain and not any(unicodedata.category(each) in ("Cc", "Cs") for each in value)


def whole(low: int = 0, high: int = LARGEST) -> Rule:
    """An integer from low to high."""
    return lambda value: type(value) is int and low <= value <= high


def size(low: int, high: int) -> Rule:
    """A text with a number of UTF-8 bytes in this range."""

    def rule(value: object) -> bool:
        if type(value) is not str or any(unicodedata.category(each) == "Cs" for each in value):
            return False
        return low <= len(value.encode()) <= high

    return rule


def digest(value: object) -> bool:
    """64 lowercase hexadecimal digits."""
    return type(value) is str and re.fullmatch("[0-9a-f]{64}", value) is not None


def word(*words: str) -> Rule:
    """One of these words."""
    return lambda value: type(value) is str and value in words


class Model:
    """A contract as plain dictionaries. A subclass has one method for each call, with the same arguments."""

    NAME: ClassVar[str]
    RULES: ClassVar[dict[str, Rule]]
    """The rule of each argument."""
    CALLS: ClassVar[dict[str, str]]
    """The argument names of each call, in order."""
    STATE: ClassVar[dict[str, str]]
    """By name, the SELECT whose rows must be those that `state` has under this name."""

    RECORDED: ClassVar[tuple[str, ...]] = ()
    """The calls whose refusals are recorded."""

    actor = ""
    """The present caller. What an actor holds in memory belongs to that actor."""

    def call(self, actor: str, call: str, args: dict) -> Expected:
        """Make the call. A call that is refused or invalid must have changed nothing."""
        self.actor = actor
        if argument := self.wrong(call, args):
            return Expected("invalid", argument)
        try:
            return getattr(self, call)(**args)
        except (No, Wrong) as ended:
            return ended.expected

    def interrupted(self, actor: str, call: str, args: dict, fault: str) -> tuple[Model, Expected]:
        """The model after a call whose answer is lost before or after its commit, and how that call ended.
        A call that commits nothing reaches neither failpoint and ends as usual."""
        after = copy.deepcopy(self)
        expected = after.call(actor, call, args)
        recorded = expected.word == "refused" and call in self.RECORDED
        if expected.word not in ("accepted", "replayed") and not recorded:
            return after, expected
        if fault == "before_commit":
            self.keep(after)
        return self if fault == "before_commit" else after, Expected("unknown", fault)

    def keep(self, after: Model) -> None:
        """The call was rolled back: take over from `after` whatever is not in the file and changed
        nevertheless."""

    def wrong(self, call: str, args: dict) -> str:
        """The first argument that breaks its rule, or ""."""
        names = self.CALLS[call].split()
        return next((each for each in names if not self.RULES[each](args[each])), "")

    def reopen(self) -> None:
        """Every connection ended: the file's contents remain, and what was in memory is lost."""

    def counted(self) -> tuple[int, ...]:
        """The counts that a case has after each call."""
        raise NotImplementedError

    def leases(self) -> list[tuple]:
        """(on what, holder, fence, end) of each lease, expired ones included."""
        return []

    def state(self) -> dict[str, list[tuple]]:
        """The rows that must be in the file, in any order."""
        raise NotImplementedError

    def times(self) -> list[int]:
        """Times at which something changes, such as the ends of leases or due times."""
        return []
