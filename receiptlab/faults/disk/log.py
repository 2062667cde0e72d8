"""A disk in memory that logs every operation (for H-4 and H-5). Standard library only.

It has files by name and a log: every write, truncate, sync, creation and deletion, in order, and the marks
that an experiment sets between them. It can be given a fault: an operation that fails.

Names lead to file numbers, as in a directory. A file that is deleted and created again is another file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

CHANGES = ("write", "truncate")


class Event(NamedTuple):
    """One entry of the log. `kind` is write, truncate, sync, create, delete, folder-sync or mark. `at` is the
    offset of a write, in bytes, or the size after a truncate."""

    kind: str
    file: int = 0
    name: str = ""
    at: int = 0
    data: bytes = b""

    def __str__(self) -> str:
        if self.kind == "write":
            return f"write of {len(self.data)} bytes at {self.at} of {self.name}"
        if self.kind == "truncate":
            return f"truncate of {self.name} to {self.at} bytes"
        return f"{self.kind} {self.name}".rstrip()


class DiskFault(Exception):
    """An operation that fails. `code` is SQLite's name of the error."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


def apply(content: bytearray, event: Event, parts: list[tuple[int, int]] | None = None) -> None:
    """Apply a write or a truncate to a file's content. Of a write, apply only these parts if they are
    given, as pairs of start and end within its data. Any gap between the old end and a write is filled
    with zeros."""
    if event.kind == "truncate":
        del content[event.at :]
        return
    for start, end in [(0, len(event.data))] if parts is None else parts:
        first = event.at + start
        if len(content) < first:
            content.extend(bytes(first - len(content)))
        content[first : first + end - start] = event.data[start:end]


class Disk:
    """Files by name, the log, and the hook for a fault."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.names: dict[str, int] = {}
        self.contents: dict[int, bytearray] = {}
        self.log: list[Event] = []
        self.before: Callable[[str], None] = nothing
        """Called with write, truncate, sync, open or delete before each; it may raise DiskFault."""
        self._last = 0
        for name, content in (files or {}).items():
            self.names[name] = self._new(bytearray(content))

    def files(self) -> dict[str, bytes]:
        """Every file as the running system sees it, synced or not."""
        return {name: bytes(self.contents[file]) for name, file in self.names.items()}

    def mark(self, name: str, at: int = 0) -> None:
        """Set a mark in the log."""
        self.log.append(Event("mark", name=name, at=at))

    def open(self, name: str | None, create: bool) -> int | None:
        """The number of the file, created if asked for; None when it doesn't exist. Without a name it is
        one of SQLite's temporary files, which is not logged."""
        self.before("open")
        if name is None:
            return self._new(bytearray())
        if name not in self.names:
            if not create:
                return None
            self.names[name] = self._new(bytearray())
            self._note("create", self.names[name], name)
        return self.names[name]

    def write(self, file: int, name: str | None, at: int, data: bytes) -> None:
        """Write. When a fault strikes, only the first half of the data is written, as on a full disk."""
        event = Event("write", file, name or "", at, data)
        try:
            self.before("write")
        except DiskFault:
            half = [(0, len(data) // 2)]
            apply(self.contents[file], event, half)
            raise
        apply(self.contents[file], event)
        self._note(*event)

    def truncate(self, file: int, name: str | None, size: int) -> None:
        """Truncate the file. SQLite never extends one this way."""
        self.before("truncate")
        event = Event("truncate", file, name or "", size)
        apply(self.contents[file], event)
        self._note(*event)

    def sync(self, file: int, name: str | None, folder: bool) -> None:
        """Make the file's writes durable, and with `folder` the names of all files."""
        self.before("sync")
        self._note("sync", file, name)
        if folder:
            self._note("folder-sync", file, name)

    def delete(self, name: str, folder: bool) -> bool:
        """Delete the file, with `folder` durably. False when there is no such file."""
        self.before("delete")
        if name not in self.names:
            return False
        self._note("delete", self.names.pop(name), name)
        if folder:
            self._note("folder-sync", 0, name)
        return True

    def _new(self, content: bytearray) -> int:
        self._last += 1
        self.contents[self._last] = content
        return self._last

    def _note(self, kind: str, file: int, name: str | None, *more: object) -> None:
        if name:
            self.log.append(Event(kind, file, name, *more))


class Fault:
    """Makes the `number`-th operation of these kinds fail, and with `for_good` every later one too.
    `codes` has SQLite's name of the error for each kind. Assign it to `Disk.before`."""

    def __init__(self, codes: dict[str, str], number: int, for_good: bool) -> None:
        self.codes, self.number, self.for_good = codes, number, for_good
        self.came = self.struck = 0

    def __call__(self, kind: str) -> None:
        if kind not in self.codes:
            return
        self.came += 1
        if self.came == self.number or (self.for_good and self.came > self.number):
            self.struck += 1
            raise DiskFault(self.codes[kind])


def nothing(kind: str) -> None:
    """Default hook: no fault."""
