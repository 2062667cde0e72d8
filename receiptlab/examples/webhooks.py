"""Takes in webhook deliveries, in JSON Lines.

A line is an object with exactly these fields: `id`, the provider's id of the delivery; `source`, the
namespace of that id; and the exact body, as text in `body` or as bytes in `body_base64`. Empty lines are
skipped.

Key: the id within its source. Digest: SHA-256 over the exact bytes of the body, without parsing, sorting or
trimming. If the provider puts an attempt counter or the time of sending into the body, name these volatile
fields: the digest is then over the JSON object without them (see `content`). A body that isn't JSON is
compared by its bytes, and reported. Keep the list of fields the same: a delivery taken in with another list
counts as changed.

Policy for a changed body under a known id: always a collision. Providers repeat a delivery unchanged, and
use a new id for anything new.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from sqlite3 import Connection
from typing import BinaryIO

from receiptlab.contracts.intake.content import content_digest, field_paths
from receiptlab.contracts.intake.items import Changed, Staged
from receiptlab.examples.batches import Broken, Delivery, Doubtful, flaw

MAX_LINE = 1_048_576
"""Maximum length of a line, in bytes without its end."""

# Rows are not unique by identity: a delivery whose tombstone is gone is taken in a second time.
SCHEMA = (
    """CREATE TABLE delivery (
        id INTEGER NOT NULL PRIMARY KEY, identity TEXT NOT NULL, revision INTEGER NOT NULL,
        disposition TEXT NOT NULL CHECK (disposition IN ('accepted', 'collision')),
        body BLOB NOT NULL, place TEXT NOT NULL, taken_in_at INTEGER NOT NULL) STRICT""",
    "CREATE INDEX delivery_by_identity ON delivery (identity, revision)",
)
_INSERT = """INSERT INTO delivery (identity, revision, disposition, body, place, taken_in_at)
    VALUES (?, ?, ?, ?, ?, ?)"""
_FORMS = ({"id", "source", "body"}, {"id", "source", "body_base64"})
_PIECE = 65_536
_MARK = b"\xef\xbb\xbf"  # a byte order mark


@dataclass(frozen=True, kw_only=True)
class Webhook(Delivery):
    """A webhook delivery with its body."""

    body: bytes

    TABLE = "delivery"

    def corrects(self, db: Connection, changed: Changed) -> bool:
        """Never: a provider does not rewrite a delivery."""
        return False

    def write(self, db: Connection, staged: Staged, disposition: str, now: int) -> None:
        """Write the delivery's row."""
        db.execute(_INSERT, (staged.identity, staged.revision, disposition, self.body, self.place, now))


class UnreadableLine(Exception):
    """This line can't be used. The message says why."""


def webhooks(
    file: BinaryIO, tenant: str, volatile: Iterable[str] = ()
) -> Iterator[Webhook | Broken | Doubtful]:
    """Every delivery of a file opened in binary mode, in order, or what is wrong with it.

    `volatile` names the fields of a body that aren't part of its content, such as "attempt" or
    "meta.sent_at". Raises WrongType or WrongValue for these names.
    """
    return _webhooks(file, tenant, field_paths(volatile))


def _webhooks(file: BinaryIO, tenant: str, paths: tuple) -> Iterator[Webhook | Broken | Doubtful]:
    for number, line in _lines(file):
        place = f"line {number}"
        try:
            found = _delivery(line)
        except UnreadableLine as error:
            yield Broken(place, str(error))
            continue
        digest, why = content_digest(found["body"], paths)
        yield Webhook(place=place, tenant=tenant, digest=digest, **found)
        if why:
            yield Doubtful(place, f"its body has no fields to leave out ({why}); compared by its bytes")


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Each non-empty line with its number. None replaces a line that is too long."""
    number = 0
    while line := file.readline(MAX_LINE + 2):
        number += 1
        content = line.rstrip(b"\r\n")
        if len(content) > MAX_LINE:
            yield number, None
        elif content := content.removeprefix(_MARK if number == 1 else b"").strip(b" \t"):
            yield number, content
        while line and not line.endswith(b"\n"):
            line = file.readline(_PIECE)


def _delivery(line: bytes | None) -> dict[str, object]:
    """The checked content of the line."""
    found = _object(line)
    if set(found) not in _FORMS:
        raise UnreadableLine("it must have id, source, and either body or body_base64, and nothing else")
    for name, value in found.items():
        if type(value) is not str:
            raise UnreadableLine(f"{name} must be a text, not {type(value).__name__}")
    for name in ("id", "source"):
        if wrong := flaw(name, found[name]):
            raise UnreadableLine(wrong)
    body = _body(found)
    return {"key": found["id"], "namespace": found["source"], "body": body, "size": len(body)}


def _object(line: bytes | None) -> dict[str, object]:
    if line is None:
        raise UnreadableLine(f"it is longer than {MAX_LINE:,} bytes")
    try:
        found = json.loads(line.decode("utf-8"), object_pairs_hook=_once)
    except UnicodeDecodeError:
        raise UnreadableLine("it is not UTF-8") from None
    except RecursionError:
        raise UnreadableLine("it is nested too deeply") from None
    except ValueError:
        raise UnreadableLine("it is not JSON") from None
    if type(found) is not dict:
        raise UnreadableLine(f"it must be an object, not {type(found).__name__}")
    return found


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UnreadableLine("a field appears twice")
    return found


def _body(found: dict[str, str]) -> bytes:
    try:
        if "body" in found:
            return found["body"].encode("utf-8")
        return base64.b64decode(found["body_base64"], validate=True)
    except UnicodeEncodeError:
        raise UnreadableLine("body has a lone surrogate") from None
    except ValueError:
        raise UnreadableLine("body_base64 is not Base64") from None
