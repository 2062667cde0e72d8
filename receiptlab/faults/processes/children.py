"""Real processes that die (H-3).

A child is a new interpreter, so it works without fork. It makes one call on a database file. It can exit at a
failpoint, with an exit code for that failpoint, be held at a failpoint until it gets GO, or be killed. The
order of events is controlled by lines over pipes, never by sleeping.

This proves recovery after a crash. A killed process cannot show the loss of unsynced writes: the operating
system still writes what it was given.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from receiptlab.contracts.base import Contract
from receiptlab.errors import LabError
from receiptlab.faults.failpoints import failpoints_of

WATCHDOG_SECONDS = 15.0
"""Seconds after which a hung child is killed. A limit for tests, not a deadline of a service."""

FIRST_EXIT_CODE = 40


class ChildFailed(LabError):
    """A child hung, or didn't end as planned. The message contains what it printed."""


def exit_code(contract: type[Contract], call: str, point: str) -> int:
    """The exit code of a process that dies at this failpoint: a different one for each failpoint of a
    contract."""
    points = [(name, each) for name in contract.GUARDS for each in failpoints_of(contract, name)]
    return FIRST_EXIT_CODE + points.index((call, point))


class Child:
    """A process that makes one call on the database file at `path`, with its own connection.

    `die_at` makes it exit at that failpoint, and `hold_at` makes it wait there. Use it with `with`: at the
    end it is killed if it is still running.
    """

    def __init__(
        self,
        contract: type[Contract],
        path: Path,
        call: str,
        args: dict,
        *,
        die_at: str = "",
        hold_at: str = "",
        timeout_ms: int = 10_000,
        watchdog: float = WATCHDOG_SECONDS,
    ) -> None:
        self.name = f"{contract.NAME} {call}"
        self.die_code = exit_code(contract, call, die_at) if die_at else None
        self.watchdog = watchdog
        self.hung = False
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        self._process = subprocess.Popen(
            [sys.executable, "-m", "receiptlab.faults.processes.child_program"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            env=environment(),
            encoding="utf-8",
        )
        self._timer = threading.Timer(watchdog, self._bark)
        self._timer.daemon = True
        self._timer.start()
        job = {
            "contract": contract.NAME,
            "path": str(path),
            "call": call,
            "args": args,
            "timeout_ms": timeout_ms,
        }
        self._send(json.dumps(job | {"die_at": die_at, "hold_at": hold_at, "exit_code": self.die_code}))

    def expect(self, line: str) -> Child:
        """Wait for this line. Raises ChildFailed for any other line, or none."""
        came = self._process.stdout.readline().rstrip("\n")
        if came != line:
            if came:  # it is running and does something else
                self._process.kill()
            raise self._failed(f"it should print {line!r} and printed {came!r}")
        return self

    def go(self) -> Child:
        """Let it continue."""
        self._send("GO")
        return self

    def kill(self) -> int:
        """Kill it (SIGKILL; on Windows TerminateProcess). Returns how it ended."""
        self._process.kill()
        return self._ended()

    def died(self) -> int:
        """Wait for it to die at its failpoint. Returns the exit code. Raises ChildFailed for any other."""
        code = self._ended()
        if code != self.die_code:
            raise self._failed(f"it should die with exit code {self.die_code}")
        return code

    def outcome(self) -> dict:
        """Wait for its outcome: word, reason, fields, answer. Raises ChildFailed when there is none."""
        line = self._process.stdout.readline()
        code = self._ended()
        if code != 0 or not line.startswith("{"):
            raise self._failed("it should print its outcome")
        return json.loads(line)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._timer.cancel()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._printed):
            pipe.close()

    def _send(self, line: str) -> None:
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._failed("it should be waiting for GO") from None

    def _ended(self) -> int:
        code = self._process.wait()
        self._timer.cancel()
        return code

    def _bark(self) -> None:
        if self._process.poll() is None:
            self.hung = True
            self._process.kill()

    def _failed(self, what: str) -> ChildFailed:
        code = self._ended()
        how = f"it was killed by signal {-code}" if code < 0 else f"it ended with exit code {code}"
        if self.hung:
            how = f"it hung and was killed after {self.watchdog:g} s"
        self._printed.seek(0)
        printed = self._printed.read().decode("utf-8", "replace").strip() or "nothing"
        return ChildFailed(f"child {self.name}: {what}; {how}; it printed: {printed}")


def environment() -> dict[str, str]:
    """The environment of a child process, in which it finds the same package as its parent."""
    package = str(Path(__file__).resolve().parents[3])
    paths = [package, os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONIOENCODING": "utf-8"}
