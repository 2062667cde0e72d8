"""What ends a worker from outside: a request to stop, or the removal of its database file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from receiptlab.errors import LabError


class Hurried(Exception):
    """The worker was asked to stop while it waited for the fair lock."""


class Gone(LabError):
    """The database file was removed or replaced while the worker ran."""


class Stop:
    """The number of requests to stop. After one, the worker claims nothing more. After two, it gives up
    its present item. It can be a signal handler, and it doesn't interrupt a transaction."""

    def __init__(self) -> None:
        self.asked = 0
        self._waiting = False

    def __call__(self, *signal: object) -> None:
        """Request a stop."""
        self.asked += 1
        if self._waiting:
            self._waiting = False
            raise Hurried

    @contextlib.contextmanager
    def hurry(self) -> Iterator[None]:
        """Within this block, a request to stop raises Hurried: for waits without a timeout."""
        try:
            self._waiting = True
            yield
        finally:
            self._waiting = False


class Watched:
    """A file that must not be removed or replaced. Only its directory entry is checked: opening and
    closing the file would drop SQLite's locks in this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is = self._found()

    def look(self) -> None:
        """Raises Gone when the file was removed or replaced."""
        if self._is is None or self._found() != self._is:
            what = "its present work is not saved there; start it again on the right file"
            raise Gone(f"{self.path} was removed or replaced while the worker ran; {what}")

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino
