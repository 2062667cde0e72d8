"""The database files that this process has open, and the check that a forked child doesn't use them.

SQLite's locks belong to a process. A forked child doesn't inherit them, but SQLite's memory in the child
says that it holds them (https://www.sqlite.org/howtocorrupt.html, section 2.6). If the child wrote through
its parent's connection, or through a new one to the same file, its call would be accepted and its row lost
when the parent closes the file. Even closing the file in the child could remove the WAL that others use.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from ctypes import py_object, pythonapi  # here and not in the child, which may not be allowed to load it
from typing import Any

from receiptlab.errors import NotWritten

File = tuple[int, int]
"""A device and an inode."""

# The garbage collector can close a store in the middle of any call here, in the thread that holds the lock.
# So the lock is reentrant, and `_open` is a plain dictionary, of which `list` takes a copy in one step.
_lock = threading.RLock()
_open: dict[int, tuple[weakref.ref[Any], File]] = {}
_inherited: set[File] = set()


def enter(holder: Any, file: File, check: Callable[[], None]) -> None:
    """Record that `holder` has the file open, until it leaves or is garbage. Its connection is `holder.own`.

    Calls `check` first, which may open and close the file, unless this process already has it open. Raises
    NotWritten (other-process) for a file that the parent had open when it forked this process.
    """
    number = id(holder)
    with _lock:
        if file in _inherited:
            raise refusal("the file was open in the process that this one was forked from")
        if file not in [known for _, known in list(_open.values())]:
            check()
        _open[number] = weakref.ref(holder, lambda _: _open.pop(number, None)), file


def leave(holder: object) -> None:
    """Record that `holder` has closed its file."""
    with _lock:
        _open.pop(id(holder), None)


def refusal(why: str) -> NotWritten:
    """The error that every call in a forked child raises."""
    what = "open the file in a process that is spawned, not forked, or close it before the fork"
    return NotWritten("other-process", f"{why}; nothing was written; {what}")


def _in_child() -> None:
    """Keep every inherited connection referenced for ever, since the child may neither use nor close it."""
    try:
        for reference, file in list(_open.values()):
            _inherited.add(file)
            holder = reference()
            if holder is not None:
                pythonapi.Py_IncRef(py_object(holder.own))
        _open.clear()
    finally:
        _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_child)
