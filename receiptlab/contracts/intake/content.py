"""The digest of a JSON message's content, without the fields that change with every delivery of it.

Which fields those are is the caller's decision: an attempt counter, the time of sending, the id of the
delivery. A digest over the exact bytes would make every retry of such a message changed content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from decimal import Decimal

from receiptlab.errors import WrongType, WrongValue
from receiptlab.values import text


def field_paths(volatile: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """The names of fields, split at their dots: "meta.sent_at" is `sent_at` in the object `meta`. A field
    whose own name has a dot, or one within a list, cannot be named. Raises WrongType or WrongValue."""
    if type(volatile) is str:
        raise WrongType("volatile", "must be a list of names, not one text")
    paths = tuple(tuple(text("volatile", name).split(".")) for name in volatile)
    if not all(all(path) for path in paths):
        raise WrongValue("volatile", "must have a name before and after each dot")
    return paths


def content_digest(body: bytes, paths: tuple[tuple[str, ...], ...]) -> tuple[str, str]:
    """The SHA-256 of the body's content, and why its bytes were compared; "" where its fields were.

    With `paths` from `field_paths` the content is the JSON object without these fields, as sorted, compact
    JSON. Without any, or where the body has no single, exact meaning as a JSON object, it is the exact bytes.
    """
    try:
        data, why = _without(body, paths) if paths else body, ""
    except (ValueError, ArithmeticError, RecursionError) as error:
        data, why = body, error.args[0] if type(error) is _NotExact else "it is not JSON"
    return hashlib.sha256(data).hexdigest(), why


class _NotExact(ValueError):
    """JSON that two readers could understand differently."""


def _without(body: bytes, paths: tuple[tuple[str, ...], ...]) -> bytes:
    hooks = {"object_pairs_hook": _once, "parse_float": _float, "parse_constant": _constant}
    found = json.loads(body.decode("utf-8"), **hooks)
    if type(found) is not dict:
        raise _NotExact("it is not an object")
    for *above, last in paths:
        inside = found
        for name in above:
            inside = inside.get(name) if type(inside) is dict else None
        if type(inside) is dict:
            inside.pop(last, None)
    return json.dumps(found, sort_keys=True, separators=(",", ":")).encode("ascii")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _NotExact("a field stands twice")
    return found


def _float(literal: str) -> float:
    """A number that a float holds exactly as written; two amounts must not become one by rounding."""
    if Decimal(literal) != Decimal(repr(float(literal))):
        raise _NotExact("a number has too many digits")
    return float(literal)


def _constant(literal: str) -> None:
    raise _NotExact(f"{literal} is no number of JSON")
