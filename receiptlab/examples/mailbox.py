"""Takes in the letters of an mbox.

The file is read as a stream: a letter's headers are kept in memory, and its body is only hashed, whatever its
size.

Key: the Message-ID. A letter without one gets a synthetic key, made from From, Date, Subject and the digest
of the body.

Content: the headers in `KEPT`, unfolded, and the body with CRLF as LF and without empty lines at its end.
Headers that providers rewrite on the way (Received, DKIM-Signature, Authentication-Results, X-… and the like)
are left out. A body that was re-encoded, or whose "From " lines were quoted by another rule, counts as
changed.

An ambiguous letter is reported and taken in: one with a doubtful separator (see `mbox`), or a multipart body
without its closing boundary. Many mailers leave the boundary out, and readers of RFC 2046 accept that. When
the rest of a truncated letter arrives later, it counts as changed.

Policy for a changed letter under a known Message-ID: with the same From it is a correction, staged as a
revision. With another From, or when the earlier row is gone, it is a collision, and the known letter stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import CharsetError, HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from sqlite3 import Connection
from typing import BinaryIO

from receiptlab.contracts.intake.items import Changed, Staged, synthetic_key
from receiptlab.examples.batches import Broken, Delivery, Doubtful, flaw
from receiptlab.examples.mbox import Mbox

KEPT = ("from", "to", "cc", "date", "subject", "in-reply-to", "references", "content-type")
"""The headers that are part of the content, in this order."""

MAX_HEADERS = 262_144
"""Maximum size of the headers of one letter, in bytes."""

MAX_FIELD = 4_096
"""Maximum length of From and Content-Type. A longer Subject is cut in the row but not in the digest."""

# Rows are not unique by identity: a letter whose tombstone is gone is taken in a second time.
SCHEMA = (
    """CREATE TABLE letter (
        id INTEGER NOT NULL PRIMARY KEY, identity TEXT NOT NULL, revision INTEGER NOT NULL,
        disposition TEXT NOT NULL CHECK (disposition IN ('accepted', 'collision')),
        sender TEXT NOT NULL, subject TEXT NOT NULL, place TEXT NOT NULL, size INTEGER NOT NULL,
        taken_in_at INTEGER NOT NULL) STRICT""",
    "CREATE INDEX letter_by_identity ON letter (identity, revision)",
)
_INSERT = """INSERT INTO letter (identity, revision, disposition, sender, subject, place, size, taken_in_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_SENDER = "SELECT sender FROM letter WHERE identity = ? AND revision = ? ORDER BY id DESC LIMIT 1"

Fields = dict[str, list[bytes]]


@dataclass(frozen=True, kw_only=True)
class Letter(Delivery):
    """A letter without its body. `place` is its position in the mbox."""

    sender: str
    subject: str

    TABLE = "letter"

    def corrects(self, db: Connection, changed: Changed) -> bool:
        """True when the known letter has the same From."""
        head = db.execute(_SENDER, (changed.item.identity, changed.head_revision)).fetchone()
        return head == (self.sender,)

    def write(self, db: Connection, staged: Staged, disposition: str, now: int) -> None:
        """Write the letter's row."""
        about = (self.sender, self.subject, self.place, self.size, now)
        db.execute(_INSERT, (staged.identity, staged.revision, disposition, *about))


class UnreadableLetter(Exception):
    """This letter cannot be used; the message says why."""


def letters(file: BinaryIO, tenant: str, namespace: str) -> Iterator[Letter | Broken | Doubtful]:
    """Every letter of an mbox that is open for reading bytes, in its order, or what is wrong with it. What is
    doubtful about a letter comes after it.

    Memory stays small whatever the sizes of the file, its letters and its lines.
    """
    mbox = Mbox(file)
    if mbox.preface():
        yield Broken("byte 0", "this is no message: an mbox begins with a line that begins with 'From '")
    for number, offset in enumerate(mbox.messages(), 1):
        place = f"message {number} at byte {offset}"
        doubts: list[str] = []
        try:
            about, closed = _letter(mbox)
        except UnreadableLetter as error:
            yield Broken(place, str(error))
        else:
            size = mbox.offset - offset
            yield Letter(place=place, tenant=tenant, namespace=namespace, size=size, **about)
            doubts += [] if closed else ["its closing multipart boundary is missing; taken in as it is"]
        yield from (Doubtful(place, why) for why in mbox.doubts() + doubts)


def _letter(mbox: Mbox) -> tuple[dict[str, str], bool]:
    """The letter, and whether its multipart body ends with its boundary."""
    fields = _fields(mbox.headers(MAX_HEADERS))
    key, closing = _message_id(fields), _closing(fields)
    sender = _text(b", ".join(fields.get("from", [])))
    if len(sender) > MAX_FIELD:
        raise UnreadableLetter(f"From has over {MAX_FIELD:,} characters")
    body, closed = mbox.body(closing)
    hashed = hashlib.sha256()
    for name in KEPT:
        for value in fields.get(name, []):
            hashed.update(b"%s: %s\n" % (name.encode(), value))
    hashed.update(b"\n" + body.encode())
    kind = "explicit" if key else "synthetic"
    key = key or synthetic_key(*(_exact(fields, name) for name in ("from", "date", "subject")), body)
    subject = _readable(_text(b", ".join(fields.get("subject", [])))[:MAX_FIELD])
    about = {"key_kind": kind, "key": key, "digest": hashed.hexdigest()}
    return about | {"sender": sender, "subject": subject}, closed


def _fields(block: bytes | None) -> Fields:
    """The headers by their lower-case names, unfolded, with runs of white space as one space. A quoted
    separator among them, which some mailers leave there, is skipped."""
    if block is None:
        raise UnreadableLetter(f"its headers have over {MAX_HEADERS:,} bytes")
    fields: Fields = {}
    for line in re.sub(rb"\n[ \t]", b" ", block.rstrip(b"\n")).split(b"\n"):
        if not line or line.startswith(b">From "):
            continue
        name, colon, value = line.partition(b":")
        if not colon or not re.fullmatch(rb"[!-9;-~]+[ \t]*", name):
            raise UnreadableLetter("a line among its headers is not a header")
        value = re.sub(rb"[ \t\r]+", b" ", value).strip(b" ")
        fields.setdefault(name.rstrip(b" \t").decode("ascii").lower(), []).append(value)
    if not fields:
        raise UnreadableLetter("it has no headers at all")
    return fields


def _message_id(fields: Fields) -> str:
    """The Message-ID, or empty."""
    found = {value for value in fields.get("message-id", []) if value}
    if len(found) > 1:
        raise UnreadableLetter("it has two Message-IDs")
    try:
        key = b"".join(found).decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableLetter("its Message-ID is not UTF-8") from None
    if wrong := flaw("Message-ID", key):
        raise UnreadableLetter(wrong)
    return key


def _closing(fields: Fields) -> bytes:
    """The line that must end a multipart body, or empty for any other body."""
    head, value = Message(), b"".join(fields.get("content-type", [])[:1])
    if len(value) > MAX_FIELD:
        raise UnreadableLetter(f"Content-Type has over {MAX_FIELD:,} bytes")
    head["Content-Type"] = value.decode("latin-1")
    if head.get_content_maintype() != "multipart":
        return b""
    try:
        boundary = head.get_boundary()
    except (LookupError, ValueError, TypeError):  # RFC 2231 parameters that the library cannot read
        raise UnreadableLetter("its multipart boundary cannot be read") from None
    if not boundary:
        raise UnreadableLetter("it is multipart and names no boundary")
    return b"--" + boundary.encode("latin-1", "replace") + b"--"


def _exact(fields: Fields, name: str) -> str:
    """A header as text, without losing a byte."""
    return b"\n".join(fields.get(name, [])).decode("latin-1")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _readable(value: str) -> str:
    """The text with encoded words decoded, or unchanged when their encoding is broken."""
    with contextlib.suppress(HeaderParseError, CharsetError, LookupError, ValueError, TypeError):
        value = str(make_header(decode_header(value)))
    return value.encode("utf-8", "backslashreplace").decode("utf-8")
