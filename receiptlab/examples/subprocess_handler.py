"""Runs a command on an item: the item is its standard input, and its output is the result.

The command runs in its own session, so Ctrl-C only reaches the worker. Killing it kills its whole process
group, but not processes that moved to another session. It has ended when it has exited and no process has
its outputs open.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Sequence

from receiptlab.examples.clock import elapsed
from receiptlab.examples.handler import Failure

MAX_OUTPUT = 65_536
"""Maximum length of a command's output, in bytes."""

TICK = 0.05
"""Seconds between heartbeats while the command runs."""

_TAIL = 8_192
_PIECE = 65_536
_REAP = 5


class CommandHandler:
    """A handler that runs `argv`, without a shell, for at most `timeout` milliseconds.

    The item is one JSON object on standard input, which the command may ignore. With exit status 0, the
    output (UTF-8, at most 64 KiB) is the result. Otherwise it raises Failure: exit-N, signal-N, timeout,
    output-too-long, output-not-utf-8 or cannot-start, with the end of standard error as its detail.
    """

    def __init__(self, argv: Sequence[str], timeout: int) -> None:
        self.argv, self.timeout = tuple(argv), timeout

    def __call__(self, item: dict, beat: Callable[[], None]) -> str:
        """Run the command on the item, with a heartbeat every tick. An exception from `beat` ends the
        command."""
        started, talk = elapsed(), None
        process = self._start()
        try:
            talk = _Talk(process, json.dumps(item).encode("ascii") + b"\n")
            while not talk.over():
                beat()
                if elapsed() - started >= self.timeout:
                    raise Failure("timeout", talk.said())
                talk.go_on()
        except BaseException:
            _kill(process)
            raise
        finally:
            if talk is not None:
                talk.close()
        return _result(process.returncode, talk)

    def _start(self) -> subprocess.Popen:
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(self.argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        except OSError as error:
            raise Failure("cannot-start", f"{self.argv[0]}: {error.strerror}") from None


class _Talk:
    """The command's input and outputs, in bounded memory."""

    def __init__(self, process: subprocess.Popen, unsent: bytes) -> None:
        self.process, self.unsent = process, memoryview(unsent)
        self.output, self.tail = bytearray(), bytearray()
        self.open = selectors.DefaultSelector()
        for pipe, event, do in (
            (process.stdin, selectors.EVENT_WRITE, self._write),
            (process.stdout, selectors.EVENT_READ, self._read_output),
            (process.stderr, selectors.EVENT_READ, self._read_error),
        ):
            os.set_blocking(pipe.fileno(), False)
            self.open.register(pipe, event, do)

    def over(self) -> bool:
        """True when both outputs are closed and the process has ended."""
        still = {key.fileobj for key in self.open.get_map().values()}
        if self.process.stdout in still or self.process.stderr in still:
            return False  # don't wait for the process: its id must stay reserved until it is killed
        return self.process.poll() is not None

    def go_on(self) -> None:
        """Transfer what is ready, for at most one tick. Raises Failure (output-too-long)."""
        if not self.open.get_map():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(TICK)
            return
        for key, _ in self.open.select(TICK):
            with contextlib.suppress(BlockingIOError):
                key.data(key.fileobj)

    def said(self) -> str:
        """The end of standard error."""
        return self.tail.decode("utf-8", "backslashreplace")

    def close(self) -> None:
        self.open.close()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()

    def _write(self, pipe: object) -> None:
        try:
            self.unsent = self.unsent[os.write(pipe.fileno(), self.unsent) :]
        except BrokenPipeError:
            self.unsent = self.unsent[:0]
        if not self.unsent:
            self._done(pipe)

    def _read_output(self, pipe: object) -> None:
        piece = os.read(pipe.fileno(), _PIECE)
        self.output += piece
        if not piece:
            self._done(pipe)
        if len(self.output) > MAX_OUTPUT:
            raise Failure("output-too-long", f"it printed over {MAX_OUTPUT} bytes\n{self.said()}")

    def _read_error(self, pipe: object) -> None:
        piece = os.read(pipe.fileno(), _PIECE)
        self.tail = (self.tail + piece)[-_TAIL:]
        if not piece:
            self._done(pipe)

    def _done(self, pipe: object) -> None:
        self.open.unregister(pipe)
        with contextlib.suppress(OSError):
            pipe.close()


def _result(status: int, talk: _Talk) -> str:
    if status:
        raise Failure(f"signal-{-status}" if status < 0 else f"exit-{status}", talk.said())
    try:
        return talk.output.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Failure("output-not-utf-8", f"at byte {error.start}\n{talk.said()}") from None


def _kill(process: subprocess.Popen) -> None:
    """Kill the process group. The process wasn't waited for, so its id is still its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_REAP)
