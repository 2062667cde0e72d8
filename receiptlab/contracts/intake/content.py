"""The digest of a JSON message's content, without the fields that change with every delivery.

The caller decides which fields those are: an attempt counter, the time of sending, the id of the delivery.
A digest over the exact bytes would turn every retry of such a message into changed content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NoReturn

from receiptlab.errors import WrongType, WrongValue
from receiptlab.values import text


def field_paths(volatile: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Field names split at their dots: "meta.sent_at" is `sent_at` in the object `meta`.

    A field with a dot in its name, or inside a list, cannot be named. Raises WrongType or WrongValue.
    """
    if type(volatile) is str:
        raise WrongType("volatile", "must be a list of names, not one text")
    paths = tuple(tuple(text("volatile", name).split(".")) for name in volatile)
    if not all(all(path) for path in paths):
        raise WrongValue("volatile", "must have a name before and after each dot")
    return paths


def content_digest(body: bytes, paths: tuple[tuple[str, ...], ...]) -> tuple[str, str]:
    """The SHA-256 of the body's content, and why the exact bytes were used; "" if the fields were.

    With `paths` from `field_paths` the content is the JSON object without these fields, as sorted, compact
    JSON. Without paths, or if the body is not a JSON object with a single, exact meaning, it is the exact
    bytes.
    """
    try:
        data, why = _without(body, paths) if paths else body, ""
    except (ValueError, ArithmeticError, RecursionError) as error:
        data, why = body, str(error) if type(error) is _NotExact else "it is not JSON"
    return hashlib.sha256(data).hexdigest(), why


class _NotExact(ValueError):
    """JSON that two readers could understand differently."""


def _without(body: bytes, paths: tuple[tuple[str, ...], ...]) -> bytes:
    message = json.loads(
        body.decode("utf-8"), object_pairs_hook=_unique, parse_float=_exact, parse_constant=_no_constant
    )
    if type(message) is not dict:
        raise _NotExact("it is not an object")
    for *above, last in paths:
        inside: Any = message
        for name in above:
            inside = inside.get(name) if type(inside) is dict else None
        if type(inside) is dict:
            inside.pop(last, None)
    return json.dumps(message, sort_keys=True, separators=(",", ":")).encode("ascii")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _NotExact("a field is duplicated")
    return fields


def _exact(literal: str) -> float:
    """A number that a float holds exactly as written. Rounding must not make two amounts equal."""
    if Decimal(literal) != Decimal(repr(float(literal))):
        raise _NotExact("a number has too many digits")
    return float(literal)


def _no_constant(literal: str) -> NoReturn:
    raise _NotExact(f"{literal} is not a JSON number")
