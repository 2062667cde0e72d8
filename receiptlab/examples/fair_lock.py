"""A fair lock in front of the write lock: workers get it in the order in which they asked.

SQLite waits by polling, with longer and longer pauses. Under several writers that never pause, the one that
has just committed takes the lock again, and others wait for seconds. With a fair lock nobody overtakes, and
each worker gets about the same share. That costs some throughput: `make bench` shows both.

This is only about fairness. Correctness depends on SQLite's lock: a worker that skips the fair lock breaks
nothing, it only waits longer.
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
except ImportError:  # Windows polls its file locks once a second, which is worse than SQLite's own waiting
    fcntl = None


class FairLock:
    """A fair lock for one database file, between processes and threads: `with FairLock(path):`.

    The locks are on two empty files beside the database file, `NAME-turn` and `NAME-queue`, created when they
    are missing. The database file itself is never touched. The locks of a process are released when it ends,
    in whatever way. Where locking is impossible (no permission to create the files, a file system without
    locks, Windows), this lock does nothing, and SQLite's own waiting decides. If somebody removes the files,
    present and later waiters queue separately until the present ones are done.

    It waits without a timeout; Ctrl-C ends the wait. A suspended process keeps the lock. Hold it briefly:
    for one call, or a few. Raises NotWritten (nested) when the same thread holds it already.
    """

    def __init__(self, path: Path) -> None:
        path = Path(path).absolute()
        self._queue, self._turn = f"{path}-queue", f"{path}-turn"

    def __enter__(self) -> FairLock:
        frame = sys._getframe(1)
        if self._turn in _MINE.held:
            self._settle(frame)
        # The first waiter holds the queue until it gets the turn. So a caller that releases the turn and asks
        # again at once cannot overtake, as it could with a lock on the turn only.
        turn = None
        try:
            with _locked(self._queue):
                turn = _locked(self._turn)
        except BaseException:
            if turn is not None:
                turn.close()
            raise
        _MINE.held[self._turn] = (
            turn,
            frame,
        )  # there is no call before this, so Ctrl-C cannot strike in between
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._turn in _MINE.held:
            turn, _ = _MINE.held[self._turn]
            del _MINE.held[self._turn]
            turn.close()

    def _settle(self, frame: FrameType | None) -> None:
        """This thread already has the lock. If the `with` that took it is still running, this one is
        nested and refused. Otherwise Ctrl-C struck during its release, and it is released now."""
        while frame is not None:
            if frame is _MINE.held[self._turn][1]:
                what = (
                    "this thread holds the fair lock already; this call did nothing, the outer one continues"
                )
                raise NotWritten("nested", what)
            frame = frame.f_back
        self.__exit__()


class _Mine(threading.local):
    """The locks of one thread: by path, the open file and the frame of the `with`."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[IOBase, FrameType]] = {}


_MINE = _Mine()


def _locked(path: str) -> IOBase:
    """An open file that holds the lock until it is closed, or one that locks nothing where that is
    impossible.

    Each caller opens the file itself, so threads exclude each other as processes do, and a removed file is
    noticed soon.
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
    # Don't follow links: one to the database file would, when closed, drop SQLite's locks.
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o644)
