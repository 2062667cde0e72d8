"""Which database files this process has open, and what a fork leaves of that. Standard library only.

SQLite's locks are those of a process, and a child doesn't inherit them, while SQLite's own memory in the
child says that it holds them (https://www.sqlite.org/howtocorrupt.html, section 2.6). A child that wrote
through a connection of its parent, or through a new one to the same file, would be answered "accepted" and
lose the row when the parent closes. Even closing in the child could take the WAL away from the others.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from ctypes import (  # not in the child: it may have given up the rights to read the library
    py_object,
    pythonapi,
)

from receiptlab.errors import NotWritten

File = tuple[int, int]
"""A device, and a file's number on it."""

_lock = threading.Lock()
_open: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_inherited: set[File] = set()


def enter(holder: object, file: File, check: Callable[[], None]) -> None:
    """Note that `holder` has the file open, until it is gone or leaves. Its connection is `holder.own`.

    Calls `check` before, unless this process has the file open already: `check` may open and close it.
    Raises NotWritten (other-process) for a file that the parent had open when this process was forked.
    """
    with _lock:
        if file in _inherited:
            raise refusal("the file was open in the process that this one was forked from")
        if file not in _open.values():
            check()
        _open[holder] = file


def leave(holder: object) -> None:
    """Note that `holder` has closed its file."""
    with _lock:
        _open.pop(holder, None)


def refusal(why: str) -> NotWritten:
    """What every call in a forked child gets."""
    return NotWritten(
        "other-process",
        f"{why}; nothing was written. Open the file in a process that is started and not forked "
        "(multiprocessing: spawn), or close it before the fork",
    )


def _in_child() -> None:
    """The child may neither use nor close what it inherited: nothing of it is ever let go."""
    try:
        for holder, file in list(_open.items()):
            _inherited.add(file)
            pythonapi.Py_IncRef(py_object(holder.own))
        _open.clear()
    finally:
        _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_child)
