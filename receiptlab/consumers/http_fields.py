"""How requests to the receiver are written: header fields, query, and the digest of a request.

A text in a header is a String of structured fields in its quotes, `"abc"`, or bare, `abc`. Both are the
same text, so they are one key: the quotes belong to the header and not to the key. Within quotes `\\"`
and `\\\\` stand for the two signs; parameters behind them (`"abc";a=1`) are refused. Wider than the
standard (https://www.rfc-editor.org/rfc/rfc9651, Structured Field Values for HTTP), a text may be any
UTF-8 without control characters, since owners and keys of the lab are.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from email.message import Message as Headers
from typing import BinaryIO
from urllib.parse import parse_qsl

from receiptlab.contracts.receiver import ARGUMENTS
from receiptlab.errors import WrongArgument

_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])+)"')
_ESCAPED = re.compile(r"\\(.)")
_INTEGER = re.compile(r"[0-9]{1,19}")
_ENDS = re.compile(rb"[\r\x00]")


class Problem(Exception):
    """The answer is no: a status, a reason for programs, one sentence for people, and headers beside it.
    Nothing was written."""

    def __init__(self, status: int, reason: str, detail: str, headers: dict[str, str] | None = None) -> None:
        self.status, self.reason, self.detail = status, reason, detail
        self.headers = headers or {}
        super().__init__(f"{reason}: {detail}")


class Lines:
    """The lines of a request's head. Python's parser takes a bare carriage return for the end of a line:
    one header could bring another in with it. And it takes the end of the connection for the end of the head:
    half a head would count as a request. Here both raise ValueError, and so does NUL."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readline(self, limit: int = -1) -> bytes:
        """The next line, at most `limit` bytes of it."""
        line = self._file.readline(limit)
        if not line:
            raise ValueError("the head has no end")
        if _ENDS.search(line.removesuffix(b"\n").removesuffix(b"\r")):
            raise ValueError("a bare carriage return or NUL")
        return line


def key(headers: Headers) -> str:
    """The operation key. Problem: 400 key-missing, key-malformed."""
    found = word(headers, "Idempotency-Key", "key-malformed")
    if found is None:
        raise Problem(400, "key-missing", "send the header Idempotency-Key; its text names the operation")
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
        raise Problem(400, reason, f"{name} stands there {len(values)} times; send it once")
    try:
        value = values[0].strip(" \t").encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise Problem(400, reason, f"{name} is no UTF-8") from None
    if value.startswith('"'):
        quoted = _QUOTED.fullmatch(value)
        value = _ESCAPED.sub(r"\1", quoted[1]) if quoted else ""
    if not value or any(unicodedata.category(each) == "Cc" for each in value):
        what = "must be a text, bare or in quotes, not empty and without control characters"
        raise Problem(400, reason, f"{name} {what}")
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
        raise ValueError("a control character cannot stand in a header")
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


def digest(method: str, target: str, body: bytes) -> str:
    """What a request asks for: the SHA-256 of method, path with its query, and body, byte by byte. Neither
    method nor path can have a blank or a line end in it, so no two requests are written alike."""
    return hashlib.sha256(f"{method} {target}\n".encode("latin-1") + body).hexdigest()


def flaw_of_target(request_line: str, path: str, hosts: list[str]) -> str:
    """What is wrong with where a request goes; empty where nothing is. `path` is what http.server made of it.

    A host by another name than this computer's own would be a page in a browser that was led here.
    """
    target = request_line.split()[1]
    if not target.startswith("/") or "#" in target or target != path:
        return "the target must be a path that begins with one slash, without a fragment"
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        return "Host must be 127.0.0.1, localhost or [::1], with or without the port"
    return ""


_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE | re.ASCII)
