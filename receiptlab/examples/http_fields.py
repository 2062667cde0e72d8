"""How requests to the receiver are written: header fields, query, and the digest of a request.

A text in a header is a String of Structured Field Values (https://www.rfc-editor.org/rfc/rfc9651) in its
quotes, `"abc"`, or bare, `abc`. Both are the same text, so they are one key. Within quotes, `\\"` and `\\\\`
stand for the two characters. Parameters after the text (`"abc";a=1`) are refused. A bare text consists of
visible ASCII without comma, semicolon, quote and backslash. Anything else is a 400: an intermediary may join
two headers with a comma, and `abc, abc` would be a new key and a second effect. Unlike the standard, a text
in quotes may be any UTF-8 without control characters, because the lab's owners and keys may be.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from email.message import Message as Headers
from urllib.parse import parse_qsl

from receiptlab.contracts.receiver import ARGUMENTS
from receiptlab.errors import WrongArgument

_BARE = re.compile(r"[!#-+\--:<-\[\]-~]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])+)"')
_ESCAPED = re.compile(r"\\(.)")
_INTEGER = re.compile(r"[0-9]{1,19}")
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")


class Problem(Exception):
    """A refusal: its status, a reason for programs, one sentence for people, and extra headers. Nothing was
    written."""

    def __init__(self, status: int, reason: str, detail: str, headers: dict[str, str] | None = None) -> None:
        self.status, self.reason, self.detail = status, reason, detail
        self.headers = headers or {}
        super().__init__(f"{reason}: {detail}")


def key(headers: Headers) -> str:
    """The idempotency key. Problem: 400 key-missing, key-malformed."""
    found = word(headers, "Idempotency-Key", "key-malformed")
    if found is None:
        raise Problem(400, "key-missing", "send the header Idempotency-Key; its text names the request")
    try:
        return ARGUMENTS["key"]("Idempotency-Key", found)
    except WrongArgument as error:
        raise Problem(400, "key-malformed", str(error)) from None


def word(headers: Headers, name: str, reason: str) -> str | None:
    """The text in a header; None where it is left out. Problem: 400 for the reason given."""
    values = headers.get_all(name, [])
    if not values:
        return None
    if len(values) > 1:
        raise Problem(400, reason, f"{name} was sent {len(values)} times; send it once")
    try:
        value = values[0].strip(" \t").encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise Problem(400, reason, f"{name} is not UTF-8") from None
    if value.startswith('"'):
        quoted = _QUOTED.fullmatch(value)
        value = _ESCAPED.sub(r"\1", quoted[1]) if quoted else ""
    elif not _BARE.fullmatch(value):
        value = ""
    if not value or any(unicodedata.category(each) == "Cc" for each in value):
        what = 'must be one text in quotes, as in "abc", not empty and without control characters'
        bare = "the quotes may be left out around visible ASCII without comma, semicolon, quote and backslash"
        raise Problem(400, reason, f"{name} {what}; {bare}")
    return value


def number(headers: Headers, name: str, reason: str) -> int | None:
    """The integer in a header; None where it is left out. Problem: 400 for the reason given."""
    values = headers.get_all(name, [])
    if not values:
        return None
    value = values[0].strip(" \t")
    if len(values) > 1 or not _INTEGER.fullmatch(value):
        raise Problem(400, reason, f"{name} must be one integer of at most 19 digits")
    return int(value)


def quoted(value: str) -> bytes:
    """A text as it is put into a header. Raises ValueError where it has a control character or cannot be
    written as UTF-8."""
    if any(unicodedata.category(each) == "Cc" for each in value):
        raise ValueError("a control character is not allowed in a header")
    return ('"' + re.sub(r'(["\\])', r"\\\1", value) + '"').encode("utf-8")


def query(text: str, *names: str) -> dict[str, str]:
    """The fields of a query, each of the names once and nothing else. Problem: 400 query."""
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=len(names)
        )
    except ValueError:  # UnicodeError is one
        pairs = []
    if sorted(name for name, _ in pairs) != sorted(names):
        raise Problem(
            400, "query", f"ask with {' and '.join(names)}, each once, in UTF-8 and percent-encoded"
        )
    return dict(pairs)


def digest(method: str, target: str, body: bytes, boundary: bytes = b"") -> str:
    """The SHA-256 of method, path with its query, and body, byte by byte. Neither method nor path can contain
    a space or a line end, so different requests are never written alike.

    Clients choose a new multipart `boundary` for each attempt. With a boundary, the digest therefore covers
    the pieces between the delimiter lines, each with its length before it.
    """
    start = f"{method} {target}"
    if boundary:
        line = rb"\r\n--" + re.escape(boundary) + rb"(?=(?:--)?[ \t]*(?:\r\n|\Z))"
        pieces = re.split(line, b"\r\n" + body)
        start, body = f"{start} multipart", b"".join(b"%d:%b" % (len(piece), piece) for piece in pieces)
    return hashlib.sha256(f"{start}\n".encode("latin-1") + body).hexdigest()


def boundary(headers: Headers) -> bytes:
    """The boundary of a multipart body; empty for any other body, and where it is not written as it should be
    (https://www.rfc-editor.org/rfc/rfc2046#section-5.1.1)."""
    if headers.get_content_maintype() != "multipart":
        return b""
    found = headers.get_boundary("")
    return found.encode("ascii") if _BOUNDARY.fullmatch(found) else b""


def check_target(target: str, hosts: list[str], own: str) -> None:
    """Raise Problem 400 for a request to another host, or for a target other than a plain path. `own` is the
    address that the service listens on.

    Another host name means that a browser was led here by somebody else's page.
    """
    if not target.startswith("/") or target.startswith("//") or "#" in target:
        raise Problem(
            400, "target", "the target must be a path that begins with one slash, without a fragment"
        )
    name = _PORT.sub("", hosts[0].lower()) if len(hosts) == 1 else ""
    if name not in (own, *_LOCAL):
        allowed = ", ".join(dict.fromkeys((own, *_LOCAL)))
        raise Problem(400, "target", f"Host must be one of {allowed}, with or without the port")


_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_PORT = re.compile(r":[0-9]{1,5}\Z")
