"""An mbox as a stream: messages one after the other, held no longer than a line.

A message begins with a line that begins with "From ", at the start of the file or after an empty line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO

PIECE = 65_536
"""The most bytes of a line that are held at once."""


class Mbox:
    """The messages of a file that is open for reading bytes. CRLF is read as LF.

    Go over `messages()`. In each, call `headers()`, then `body()`; what is not read is passed over.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.offset = 0
        """Where the lines that were handed out end."""
        self._read = 0
        self._held = b""
        self._next = self._piece()
        self._lines: Iterator[bytes] = iter(())

    def preface(self) -> bool:
        """Pass over what stands before the first message. True if it is more than empty lines."""
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
            self._lines = self._until_next(line)
            yield begin
            for _ in self._lines:
                pass

    def headers(self, limit: int) -> bytes | None:
        """The lines up to the first empty one. None if they have more than `limit` bytes."""
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
        """The SHA-256 of the rest without empty lines at its end, and whether the line `closing` is in it.
        An empty `closing` is in every body."""
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

    def _until_next(self, last: bytes) -> Iterator[bytes]:
        """The lines after `last` and before the next message. A long line comes in pieces."""
        empty, whole = last == b"\n", last.endswith(b"\n")
        while piece := self._piece():
            if empty and piece.startswith(b"From "):
                self._next = piece
                return
            empty = whole and piece == b"\n"
            whole = piece.endswith(b"\n")
            self.offset = self._read
            yield piece
        self._next = b""

    def _piece(self) -> bytes:
        """The next line, or a piece of it. A CR that ends a piece waits for what follows it."""
        read = self.file.readline(PIECE)
        self._read += len(read)
        if self._held:
            read, self._held = self._held + read, b""
        if read.endswith(b"\r\n"):
            return read[:-2] + b"\n"
        if read.endswith(b"\r") and len(read) > 1:
            read, self._held = read[:-1], b"\r"
        return read
