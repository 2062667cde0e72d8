"""Copies in which equal integers are never the same object.

Python keeps one object for each small integer, so a guard that compares with `is` passes with the small
numbers of a case and fails with large ones. The checks give such copies to a learner's code.
"""

from __future__ import annotations

import copy
import dataclasses
from types import SimpleNamespace


class Number(int):
    """An integer that is equal to others of its value and identical to none of them."""

    def __deepcopy__(self, memo: dict) -> int:
        return int(self)


Number.__name__ = "int"  # so that Python's own messages call it int


def apart(value: object) -> object:
    """A copy of a call, a row or an answer with its integers as Numbers."""
    return _copied(value, int, Number)


def plain(value: object) -> object:
    """The same with ordinary integers again."""
    return _copied(value, Number, int)


def _copied(value: object, old: type, new: type) -> object:
    if type(value) is old:
        return new(value)
    if isinstance(value, tuple):
        items = [_copied(each, old, new) for each in value]
        return type(value)._make(items) if hasattr(value, "_make") else tuple(items)
    if isinstance(value, SimpleNamespace) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    ):
        made = copy.copy(value)
        for name, each in vars(value).items():
            object.__setattr__(made, name, _copied(each, old, new))
        return made
    return value


class Apart:
    """A contract that takes Numbers as arguments and returns Numbers."""

    def __init__(self, contract: object) -> None:
        self._contract = contract

    def __getattr__(self, name: str) -> object:
        found = getattr(self._contract, name)
        if not callable(found):
            return found

        def called(*args: object, **kwargs: object) -> object:
            named = {name: plain(value) for name, value in kwargs.items()}
            return apart(found(*map(plain, args), **named))

        return called
