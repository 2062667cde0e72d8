"""The death of real processes (H-3).

A child is a fresh interpreter, so it works where there is no fork. It makes one call on a database file.
It can be ended at a named point with an exit code of that point's own, held at a point until it is
told GO, and killed. Order comes from lines over pipes, never from sleeping.

It proves recovery after a crash. A killed process cannot show the loss of unsynced writes: what it
has handed to the operating system is still written.
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
"""When a hung child is ended. A limit of the tests, not a deadline of a service."""

FIRST_EXIT_CODE = 40


class ChildFailed(LabError):
    """A child hung, or ended otherwise than it was told to. The message has what it printed."""


def exit_code(contract: type[Contract], call: str, point: str) -> int:
    """The exit code of a process that dies at this point: one of its own for each point of a contract."""
    points = [(name, each) for name in contract.GUARDS for each in failpoints_of(contract, name)]
    return FIRST_EXIT_CODE + points.index((call, point))


class Child:
    """A process that makes one call on the database file at `path`, with a connection of its own.

    `die_at` ends it at that point, `hold_at` makes it wait there. Use it with `with`: whatever is
    left of it at the end is killed.
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
        """Wait for this line. Raises ChildFailed when another comes, or none."""
        came = self._process.stdout.readline().rstrip("\n")
        if came != line:
            if came:  # it lives and does something else
                self._process.kill()
            raise self._failed(f"it should say {line!r} and said {came!r}")
        return self

    def go(self) -> Child:
        """Tell it to go on."""
        self._send("GO")
        return self

    def kill(self) -> int:
        """Kill it where it is (SIGKILL; on Windows TerminateProcess). Returns how it ended."""
        self._process.kill()
        return self._ended()

    def died(self) -> int:
        """Wait for its death at its point. Returns the exit code; raises ChildFailed for any other."""
        code = self._ended()
        if code != self.die_code:
            raise self._failed(f"it should die with exit code {self.die_code}")
        return code

    def outcome(self) -> dict:
        """Wait for its outcome: word, reason, fields, answer. Raises ChildFailed when none comes."""
        line = self._process.stdout.readline()
        code = self._ended()
        if code != 0 or not line.startswith("{"):
            raise self._failed("it should tell its outcome")
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
            raise self._failed("it should be told to go on") from None

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
        how = f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"
        if self.hung:
            how = f"it hung and was ended after {self.watchdog:g} s"
        self._printed.seek(0)
        printed = self._printed.read().decode("utf-8", "replace").strip() or "nothing"
        return ChildFailed(f"child {self.name}: {what}; {how}; it printed: {printed}")


def environment() -> dict[str, str]:
    """The environment of a child process: it finds the package where the parent found it."""
    package = str(Path(__file__).resolve().parents[3])
    paths = [package, os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONIOENCODING": "utf-8"}
