"""The rules for arguments, and the canonical text and digest of a command.

Every rule returns the value, or raises WrongType (a TypeError) or WrongValue (a ValueError) with the
argument's name. Nothing is converted, cut or repaired. Types are exact, because a subclass of str or int can
define its own comparison and text, so a digest couldn't tell two of its values apart.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from receiptlab.errors import WrongType, WrongValue

Rule = Callable[[str, Any], object]
"""`rule(name, value)`: raises WrongType or WrongValue unless the value is allowed."""

MAX_INTEGER = 2**63 - 1
"""The largest integer that SQLite stores. https://www.sqlite.org/datatype3.html"""

MAX_TEXT = 128
"""The longest name or key, in characters."""

MAX_BODY = 1_048_576
"""The longest payload, in bytes of UTF-8."""


def text(name: str, value: object) -> str:
    """A non-empty text of at most 128 characters, without control characters and lone surrogates."""
    if type(value) is str and 0 < len(value) <= MAX_TEXT and value.isprintable():
        return value
    return _only_a_text(name, value)


def _only_a_text(name: str, value: object) -> str:
    """Check a text that failed the fast check. isprintable() also fails for harmless spaces and marks."""
    if type(value) is not str:
        raise WrongType(name, f"must be a text, not {type(value).__name__}")
    if not value:
        raise WrongValue(name, "must not be empty")
    if len(value) > MAX_TEXT:
        raise WrongValue(name, f"must have at most {MAX_TEXT} characters, it has {len(value)}")
    for position, character in enumerate(value):
        category = unicodedata.category(character)
        if category == "Cc":
            raise WrongValue(name, f"has a control character (U+{ord(character):04X}) at {position}")
        if category == "Cs":
            raise WrongValue(name, f"has a lone surrogate (U+{ord(character):04X}) at {position}")
    return value


def integer(name: str, value: object, low: int = 0, high: int = MAX_INTEGER) -> int:
    """An integer from `low` to `high`, both included. True, False and 1.0 are not integers here."""
    if type(value) is not int:
        raise WrongType(name, f"must be an integer, not {type(value).__name__}")
    if not low <= value <= high:
        raise WrongValue(name, f"must be from {low} to {high}")
    return value


def bounded(low: int, high: int) -> Callable[[str, object], int]:
    """A rule: an integer from `low` to `high`, both included."""

    def rule(name: str, value: object) -> int:
        return integer(name, value, low, high)

    return rule


def countable(name: str, value: object) -> int:
    """An integer that can still be increased by one."""
    return integer(name, value, high=MAX_INTEGER - 1)


def hex_digest(name: str, value: object) -> str:
    """A SHA-256 digest written as 64 lowercase hexadecimal digits."""
    if type(value) is not str:
        raise WrongType(name, f"must be a text of 64 hexadecimal digits, not {type(value).__name__}")
    if len(value) != 64 or value.strip("0123456789abcdef"):
        raise WrongValue(name, "must be 64 lowercase hexadecimal digits")
    return value


def utf8(name: str, value: object) -> str:
    """A text of at most 1 MiB in UTF-8, possibly empty, of any characters except lone surrogates."""
    if type(value) is not str:
        raise WrongType(name, f"must be a text, not {type(value).__name__}")
    try:
        size = len(value) if value.isascii() else len(value.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise WrongValue(name, f"has a lone surrogate at {error.start}") from None
    if size > MAX_BODY:
        raise WrongValue(name, f"must have at most {MAX_BODY} bytes in UTF-8, it has {size}")
    return value


def sized(low: int, high: int) -> Callable[[str, object], str]:
    """A rule: a text of `low` to `high` bytes in UTF-8, of any characters except lone surrogates."""

    def rule(name: str, value: object) -> str:
        checked = utf8(name, value)
        size = len(checked.encode("utf-8"))
        if not low <= size <= high:
            raise WrongValue(name, f"must have {low} to {high} bytes in UTF-8, it has {size}")
        return checked

    return rule


def one_of(words: tuple[str, ...]) -> Callable[[str, object], str]:
    """A rule: one of these words."""

    def rule(name: str, value: object) -> str:
        if type(value) is not str:
            raise WrongType(name, f"must be a text, not {type(value).__name__}")
        if value not in words:
            raise WrongValue(name, f"must be one of {', '.join(words)}")
        return value

    return rule


def canonical(fields: Mapping[str, str | int]) -> str:
    """This lab's canonical text of a command: compact JSON in ASCII, with sorted keys.

    It works for texts and integers that were checked before. For JSON in general use RFC 8785
    (https://www.rfc-editor.org/rfc/rfc8785).
    """
    pairs = []
    for name in sorted(fields):
        value = fields[name]
        pairs.append(f'"{name}":{quoted(value) if type(value) is str else value}')
    return "{" + ",".join(pairs) + "}"


def sha256(value: str) -> str:
    """The SHA-256 digest of the text's UTF-8 bytes, as 64 lowercase hexadecimal digits."""
    return hashlib.sha256(value.encode("utf-8")).hexdigest()


def check(rules: Mapping[str, Rule], arguments: Mapping[str, object]) -> None:
    """Check each argument by the rule of its name. Raises WrongType or WrongValue."""
    for name, value in arguments.items():
        rules[name](name, value)
