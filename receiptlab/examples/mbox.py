"""An mbox as a stream: one message after the other, with at most a line in memory.

mbox has no single rule for where a message begins. A line that begins with "From " starts one at the start of
the file, and elsewhere as in this table. "Dated" means that the line ends in a date, as a separator does
(RFC 4155). "Header" means that the next line is a header.

| | dated, header | dated, no header | no date, header | no date, no header |
|---|---|---|---|---|
| after an empty line | starts | starts | starts, reported | text, reported |
| elsewhere | starts, reported | text, reported | text, reported | text |

So no message is joined to another, or split at a line of its text, without a report. One case can't be
detected: a complete message, with its separator, in the text of another one. The writer has to quote it
(">From "). Content-Length (mboxcl, mboxcl2) is not used.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import BinaryIO

PIECE = 65_536
"""Maximum number of bytes of a line in memory."""

_DATED = re.compile(
    rb"From .*\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
    rb"(?: +[A-Z][a-z]{2} +\d{1,2}|, +\d{1,2} +[A-Z][a-z]{2} +\d{4}) +\d{1,2}:\d\d"
)
_HEADER = re.compile(rb">From |[!-9;-~]+[ \t]*:")
_SEPARATOR = 1_000  # how many bytes of the line are searched for a date


class Mbox:
    """The messages of a file opened in binary mode. CRLF is read as LF.

    Iterate over `messages()`. For each, call `headers()`, then `body()`, then `doubts()`. Anything unread is
    skipped.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.offset = 0
        """The byte after the last line that was returned."""
        self._read = 0
        self._fetched = 0
        self._held = b""
        self._ahead: bytes | None = None
        self._doubt = self._next_doubt = ""
        self._unquoted: list[int] = []  # the number of lines, and the place of the first one
        self._next = self._piece()
        self._lines: Iterator[bytes] = iter(())

    def preface(self) -> bool:
        """Skip everything before the first message. True if it is more than empty lines."""
        found = False
        if not self._next.startswith(b"From "):
            found = self._next not in (b"", b"\n")
            self.offset = self._read
            for line in self._until_next(self._next):
                found |= line != b"\n"
        return found

    def messages(self) -> Iterator[int]:
        """The byte at which each message begins."""
        while self._next:
            begin, line = self.offset, self._next
            while line and not line.endswith(b"\n"):
                line = self._piece()
            self.offset = self._read
            self._doubt, self._unquoted = self._next_doubt, []
            self._lines = self._until_next(line)
            yield begin
            self._pass_over()

    def headers(self, limit: int) -> bytes | None:
        """The lines up to the first empty one, or None if they have more than `limit` bytes."""
        block, size, whole = [], 0, True
        for line in self._lines:
            if whole and line == b"\n":
                break
            block.append(line)
            size, whole = size + len(line), line.endswith(b"\n")
            if size > limit:
                return None
        return b"".join(block)

    def body(self, closing: bytes) -> tuple[str, bool]:
        """The SHA-256 of the rest without empty lines at its end, and whether it contains the line `closing`.
        An empty `closing` is always contained."""
        hashed, closed, empty, whole = hashlib.sha256(), not closing, 0, True
        for line in self._lines:
            if whole and line == b"\n":
                empty += 1
                continue
            while empty:
                hashed.update(b"\n" * min(empty, PIECE))
                empty -= min(empty, PIECE)
            hashed.update(line)
            if not closed and whole and line.startswith(closing):
                closed = line.rstrip() == closing
            whole = line.endswith(b"\n")
        if not whole:
            hashed.update(b"\n")
        return hashed.hexdigest(), closed

    def doubts(self) -> list[str]:
        """What is ambiguous about the start and end of this message. Skips anything unread."""
        self._pass_over()
        found = [self._doubt] if self._doubt else []
        if self._unquoted:
            count, first = self._unquoted
            found.append(
                f"lines of its text begin with 'From ' ({count}, the first at byte {first}); taken as text"
            )
        return found

    def _pass_over(self) -> None:
        for _ in self._lines:
            pass

    def _starts(self, line: bytes, empty: bool) -> bool:
        """Whether a message starts with this line, which begins with "From ". Records what is ambiguous."""
        dated = _DATED.match(line[:_SEPARATOR]) is not None
        header = line.endswith(b"\n") and _HEADER.match(self._peek()) is not None
        starts = (dated or header) if empty else (dated and header)
        if starts and not (empty and dated):
            missing = "date" if empty else "empty line before it"
            self._next_doubt = f"its 'From ' line has no {missing}; taken as the start of a letter"
        elif starts:
            self._next_doubt = ""
        elif empty or dated or header:
            count, first = self._unquoted or (0, self.offset)
            self._unquoted = [count + 1, first]
        return starts

    def _until_next(self, last: bytes) -> Iterator[bytes]:
        """The lines after `last` and before the next message. A long line is returned in pieces."""
        empty, whole = last == b"\n", last.endswith(b"\n")
        while piece := self._piece():
            if whole and piece.startswith(b"From ") and self._starts(piece, empty):
                self._next = piece
                return
            empty = whole and piece == b"\n"
            whole = piece.endswith(b"\n")
            self.offset = self._read
            yield piece
        self._next = b""

    def _piece(self) -> bytes:
        """The next line, or a piece of it."""
        piece, self._ahead = self._peek(), None
        self._read = self._fetched
        return piece

    def _peek(self) -> bytes:
        """The next piece, without consuming it."""
        if self._ahead is None:
            self._ahead = self._fetch()
        return self._ahead

    def _fetch(self) -> bytes:
        """Read a piece. A CR at its end is kept until the next byte is known."""
        read = self.file.readline(PIECE)
        self._fetched += len(read)
        if self._held:
            read, self._held = self._held + read, b""
        if read.endswith(b"\r\n"):
            return read[:-2] + b"\n"
        if read.endswith(b"\r") and len(read) > 1:
            read, self._held = read[:-1], b"\r"
        return read
