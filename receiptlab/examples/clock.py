"""The one place in the package that reads a clock. The commands pass what it says on as `now`.

The contracts never read a clock: time is a fact of their caller, and here the caller is a command.
"""

from __future__ import annotations

import time


def milliseconds() -> int:
    """The wall clock in milliseconds since 1970, never less than 0. It can jump, also back."""
    return max(0, time.time_ns() // 1_000_000)


def shown(milliseconds: int) -> str:
    """A wall clock time for people, in UTC."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(milliseconds // 1_000))
    except (OverflowError, ValueError, OSError):  # no such year
        return f"{milliseconds} ms after 1970"


def elapsed() -> int:
    """Milliseconds since some moment; it never jumps. For what is measured within one process."""
    return time.monotonic_ns() // 1_000_000


def wait(milliseconds: int) -> None:
    """Do nothing for so long."""
    time.sleep(milliseconds / 1_000)
