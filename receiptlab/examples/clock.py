"""The only place in the package that reads a clock. The commands pass the time on as `now`.

The contracts never read a clock: time comes from their caller, and here the caller is a command.
"""

from __future__ import annotations

import time


def milliseconds() -> int:
    """The wall clock in milliseconds since 1970, never negative. It can jump forwards and back."""
    return max(0, time.time_ns() // 1_000_000)


def shown(milliseconds: int) -> str:
    """A wall clock time for people, in UTC."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(milliseconds // 1_000))
    except (OverflowError, ValueError, OSError):  # the year is out of range
        return f"{milliseconds} ms after 1970"


def elapsed() -> int:
    """A monotonic clock in milliseconds, for durations within one process."""
    return time.monotonic_ns() // 1_000_000


def wait(milliseconds: int) -> None:
    """Sleep for this many milliseconds."""
    time.sleep(milliseconds / 1_000)
