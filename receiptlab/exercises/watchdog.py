"""Runs a check with a time limit, so that an answer that never returns cannot hang the notebook."""

from __future__ import annotations

import contextvars
import ctypes
import threading
from collections.abc import Callable

TRIES = 20
"""Maximum number of attempts to stop a thread that took too long, 50 ms apart."""


class TooLong(Exception):
    """The call did not return in time."""


class Stopped(BaseException):
    """Raised inside a call that took too long, to end it."""


class _Thread(threading.Thread):
    progress = 0


def go_on() -> None:
    """Report progress to the `within` that runs this code, if there is one: its time starts again."""
    thread = threading.current_thread()
    if isinstance(thread, _Thread):
        thread.progress += 1


def within(seconds: float | None, call: Callable[[], object]) -> object:
    """Make the call in a thread and return or raise what it does. Raises TooLong when it makes no progress
    for this long. Without a limit it waits forever.

    A thread works on every system and inside a running kernel, where a child process could not see what a
    learner has defined. A call that loops is stopped. A call that waits for a lock cannot be stopped from
    outside. Its thread stays asleep until the kernel ends.
    """
    ended: list[tuple[object, BaseException | None]] = []
    here = contextvars.copy_context()  # what the call prints appears under the cell that made it

    def run() -> None:
        try:
            ended.append((here.run(call), None))
        except BaseException as error:
            ended.append((None, error))

    thread = _Thread(target=run, name="receiptlab-check", daemon=True)
    thread.start()
    try:
        progress = -1
        while thread.is_alive() and progress != thread.progress:
            progress = thread.progress
            thread.join(seconds)
    finally:  # also when the learner interrupts the kernel
        stopped = _stop(thread)
    if stopped or not ended:
        raise TooLong
    answer, error = ended[0]
    if error is not None:
        raise error
    return answer


def _stop(thread: threading.Thread) -> bool:
    """End the thread if it still runs, and return whether it did."""
    was_alive = thread.is_alive()
    for _ in range(TRIES):
        if not thread.is_alive():
            break
        target = ctypes.c_ulong(thread.ident)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(target, ctypes.py_object(Stopped))
        thread.join(0.05)
    return was_alive
