"""Turns: workers stand in line before they ask for the write lock.

SQLite's own waiting asks again and again, with longer and longer pauses. Under several writers that never
rest, whoever has just committed takes the lock again, and others wait for seconds. With turns nobody
overtakes who is first in line, and each gets about as many as the others. It costs some throughput, since
the file passes from process to process: `make bench` shows both.

It is for fairness alone. What is correct hangs on SQLite's lock and on nothing here: a worker
that goes without a turn breaks nothing, it only waits longer.
"""

from __future__ import annotations

import os
import sys
import threading
from io import BytesIO, FileIO, IOBase
from pathlib import Path
from types import FrameType

from receiptlab.errors import NotWritten

try:
    import fcntl
except ImportError:  # Windows, whose file locks ask again once a second: worse than SQLite's own waiting
    fcntl = None


class FairLock:
    """The line in front of one database file, for processes and for threads: `with Turns(path):`.

    The locks are on two empty files beside the database file, `<database file>-turn` and `<database file>-queue`, made where
    they are missing; the database file itself is never touched. The end of a process frees what it held, however
    it ends. Where no lock can be had (no right to make the files, a file system without locks, Windows)
    there are no turns, and SQLite's own waiting decides. Where the files are removed, those who wait and
    those who come later stand in two lines until the first has gone.

    It waits as long as those before it take; Ctrl-C ends the wait. A process that was stopped in its turn
    keeps it. Keep a turn short: one call, or a few. Raises NotWritten (nested) for a turn inside a turn of
    the same thread.
    """

    def __init__(self, path: Path) -> None:
        path = Path(path).absolute()
        self._queue, self._turn = f"{path}-queue", f"{path}-turn"

    def __enter__(self) -> FairLock:
        frame = sys._getframe(1)
        if self._turn in _MINE.held:
            self._settle(frame)
        # Whoever is first in line holds the queue until the turn is his. So who gives a turn back and
        # asks at once for the next cannot overtake: with the lock on the turn alone it does.
        turn = None
        try:
            with _locked(self._queue):
                turn = _locked(self._turn)
        except BaseException:
            if turn is not None:
                turn.close()
            raise
        _MINE.held[self._turn] = turn, frame  # no call here: Ctrl-C cannot strike before it
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._turn in _MINE.held:
            turn, _ = _MINE.held[self._turn]
            del _MINE.held[self._turn]
            turn.close()

    def _settle(self, frame: FrameType | None) -> None:
        """This thread has the turn already. If the `with` that took it still runs, this one is nested and
        refused. Else Ctrl-C struck as it was given back, and it is given back now."""
        while frame is not None:
            if frame is _MINE.held[self._turn][1]:
                what = "a turn inside a turn of one thread; this one did nothing, the outer one goes on"
                raise NotWritten("nested", what)
            frame = frame.f_back
        self.__exit__()


class _Mine(threading.local):
    """The turns of one thread: by the path, the open file and the frame of the `with`."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[IOBase, FrameType]] = {}


_MINE = _Mine()


def _locked(path: str) -> IOBase:
    """An open file whose lock is ours until it is closed. Where none can be had, one that locks nothing.

    Each is opened anew: so threads exclude each other as processes do, and a file that was removed is
    missed by nobody for long.
    """
    file = BytesIO()
    if fcntl is None:
        return file
    try:
        file = FileIO(path, opener=_open)
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        pass
    except BaseException:
        file.close()
        raise
    return file


def _open(path: str, flags: int) -> int:
    # Not through a link: it could lead to the database file, and closing that costs SQLite its locks.
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o644)
