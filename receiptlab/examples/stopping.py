"""What ends a worker from outside: somebody asks it to stop, or its database file goes away."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from receiptlab.errors import LabError


class Hurried(Exception):
    """Asked to stop while waiting for the turn."""


class Gone(LabError):
    """The database file was removed or replaced while the worker ran."""


class Stop:
    """How often the worker was asked to stop. Asked once it takes nothing more; asked twice it gives up what
    it works on. It can be a signal's handler, and does not interrupt a transaction."""

    def __init__(self) -> None:
        self.asked = 0
        self._waiting = False

    def __call__(self, *signal: object) -> None:
        """Ask once more."""
        self.asked += 1
        if self._waiting:
            self._waiting = False
            raise Hurried

    @contextlib.contextmanager
    def hurry(self) -> Iterator[None]:
        """Within it, whoever asks raises Hurried: for a wait that may have no end."""
        try:
            self._waiting = True
            yield
        finally:
            self._waiting = False


class Watched:
    """A file that must stay what it is. Only its name is looked at: opening the file would, once it is closed
    again, drop the locks that SQLite has on it in this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is = self._found()

    def look(self) -> None:
        """Raises Gone when the file was removed or replaced."""
        if self._is is None or self._found() != self._is:
            what = "what it was doing is not saved there; start it anew on the file that is meant"
            raise Gone(f"{self.path} was removed or replaced while the worker ran; {what}")

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino
