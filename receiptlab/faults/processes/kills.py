"""SIGKILL at many moments, to real processes that write at full speed (H-3).

For each contract, a few writers share one file. Repeatedly, one of them is killed and restarted, and then
asks again for what it got no answer to. After each kill the file must be intact and consistent. At the end,
every acknowledged call must be there exactly once.

This proves recovery after the death of a process, at the moments that were hit. It doesn't prove that
anything survives a power cut: the operating system still writes what a killed process gave it, so a file with
`synchronous` off passes this too.

The seed determines which writer is killed, after how many acknowledgements, and after how many rounds of
an empty loop. How far the process is by then depends on the machine, so two runs with one seed hit
different statements.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO

from receiptlab.contracts.registry import CONTRACTS
from receiptlab.errors import LabError
from receiptlab.faults.processes.children import ChildFailed, environment
from receiptlab.faults.seeded import Hashed
from receiptlab.store import Store

WRITERS = ("anna", "ben")
WATCHDOG_SECONDS = 60.0
"""Seconds after which a silent writer is killed. A limit for tests, not a deadline of a service."""

PROGRAM = ("-m", "receiptlab.faults.processes.killed_program")

KEPT = {
    "owner": "SELECT scope, key, id FROM receipt",
    "retention": "SELECT namespace, operation, id FROM effect",
    "intake": """SELECT r.namespace, r.key, v.number FROM outbox o JOIN receipt r ON r.identity = o.subject
        JOIN revision v ON v.identity = r.identity""",
    "work": "SELECT r.namespace, r.key, e.reference FROM effect e JOIN receipt r ON r.identity = e.identity",
    "receiver": "SELECT owner, key, id FROM effect",
}
"""For each contract: writer, number, and the name by which the task is found in the file, one row per
occurrence."""

EQUAL = {
    "owner": """SELECT (SELECT coalesce(sum(results), 0) FROM work), (SELECT count(*) FROM receipt),
        (SELECT count(*) FROM outbox), (SELECT count(*) FROM work WHERE state = 'result-recorded')""",
    "retention": "SELECT (SELECT count(*) FROM effect), (SELECT count(*) FROM receipt)",
    "intake": """SELECT (SELECT count(*) FROM receipt), (SELECT count(*) FROM revision),
        (SELECT count(*) FROM outbox), (SELECT sum(revisions) FROM receipt)""",
    "work": """SELECT (SELECT count(*) FROM work WHERE state = 'done'), (SELECT count(*) FROM effect),
        (SELECT count(*) FROM outbox WHERE topic = 'done'),
        (SELECT count(*) FROM attempt WHERE result = 'done'),
        (SELECT count(*) FROM receipt WHERE unsettled = 0)""",
    "receiver": """SELECT (SELECT count(*) FROM effect),
        (SELECT count(DISTINCT owner || ' ' || key) FROM effect),
        (SELECT count(*) FROM effect) + (SELECT count(*) FROM refusal)""",
}
"""For each contract: counts that must be equal at any moment, such as effects, receipts and messages."""


class KilledWriter:
    """A writing process with its restarts, and everything that it acknowledged. A thread reads its output,
    so that no writer waits for a reader."""

    def __init__(self, contract: str, path: Path, name: str, program: tuple[str, ...]) -> None:
        self.job = {"contract": contract, "path": str(path), "writer": name, "timeout_ms": 30_000}
        self.name, self.program, self.workload = name, program, 0
        self.acknowledged: dict[int, object] = {}
        self.again = 0
        """How often the first answer of a run was that of an earlier run: the kill came after the commit."""
        self.said = threading.Condition()

    def start(self, last: int | None = None) -> KilledWriter:
        """Start it again, where the previous run ended."""
        self.workload, self.silent = self.workload + 1, False
        self.printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process ends
        self.process = subprocess.Popen(
            [sys.executable, *self.program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.printed,
            env=environment(),
        )
        job = self.job | {"life": self.workload, "first": len(self.acknowledged) + 1, "last": last}
        with contextlib.suppress(BrokenPipeError):  # the caller of `kill` notices that it has ended
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        self.reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self.reader.start()
        return self

    def kill(self, acknowledgements: int, turns: int) -> None:
        """Kill it after this many further acknowledgements and rounds of an empty loop. Whatever it
        printed counts as acknowledged. Raises ChildFailed when it ended by itself, or hung."""
        with self.said:
            goal = len(self.acknowledged) + acknowledgements
            came = self.said.wait_for(lambda: self.silent or len(self.acknowledged) >= goal, WATCHDOG_SECONDS)
        for _ in range(turns):
            pass
        self.process.kill()
        self._end(-signal.SIGKILL if came else None)

    def finish(self) -> None:
        """Let it do the task that it was last killed in, and end by itself."""
        self.start(last=len(self.acknowledged) + 1)
        with self.said:
            if not self.said.wait_for(lambda: self.silent, WATCHDOG_SECONDS):
                self.process.kill()
        self._end(0)

    def _end(self, expected: int | None) -> None:
        """Read the rest of its output. Nothing is expected from a hung process."""
        try:
            code = self.process.wait()
            self.reader.join()
            if code != expected:
                how = f"ended with {code}" if expected is not None else "hung and was killed"
                self.printed.seek(0)
                said = self.printed.read().decode("utf-8", "replace").strip() or "nothing"
                raise ChildFailed(f"writer {self.name}: {how}; it printed: {said}")
        finally:
            self.close()

    def close(self) -> None:
        """Kill it if it is still running."""
        self.process.kill()
        self.process.wait()
        self.reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.printed):
            pipe.close()

    def _read(self, pipe: IO[bytes]) -> None:
        """Read what it acknowledges in this run. An incomplete line doesn't count."""
        first = True
        for line in pipe:
            if line.endswith(b"\n"):
                number, word, answer = json.loads(line)
                with self.said:
                    self.again += first and word == "replayed"
                    self.acknowledged[number], first = answer, False
                    self.said.notify_all()
        with self.said:
            self.silent = True
            self.said.notify_all()


def run(
    kills: int = 300,
    seed: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
    contracts: tuple[str, ...] = tuple(KEPT),
    program: tuple[str, ...] = PROGRAM,
) -> list[dict]:
    """Kill this many times, spread over the contracts. Returns a row for each: contract, seed, kills,
    acknowledged (calls), again (kills between a commit and its answer), lost, duplicated, wrong (what else
    didn't hold, in words). `progress` is called with the contract, the kills so far and their total.

    Raises LabError where there is no SIGKILL, and ChildFailed for a writer that ended by itself.
    """
    if not hasattr(signal, "SIGKILL") or os.name != "posix":
        raise LabError("kills need a POSIX system: there is no SIGKILL here; nothing was run")
    if kills < len(contracts):
        raise LabError(f"kills must be {len(contracts)} or more, one for each contract, not {kills}")
    share, rest = divmod(kills, len(contracts))
    return [
        _one(contract, share + (number < rest), seed, progress, program)
        for number, contract in enumerate(contracts)
    ]


def _one(contract: str, kills: int, seed: int, progress: Callable | None, program: tuple) -> dict:
    draw, wrong = Hashed("kills", seed, contract), []
    with tempfile.TemporaryDirectory(prefix="receiptlab-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "receipts.db"
        Store.create(path, CONTRACTS[contract].SCHEMA).close()
        writers = [KilledWriter(contract, path, name, program) for name in WRITERS]
        try:
            for writer in writers:
                writer.start()
            for number in range(1, kills + 1):
                victim = draw.among(writers)
                # One in ten dies before it has printed anything. Short waits are as frequent as long ones:
                # a task
                # is one transaction for some contracts and four for others.
                turns = draw.below(30_000) << draw.below(6)
                victim.kill(0 if draw.chance(10) else 1 + draw.below(8), turns)
                wrong += [f"after kill {number}: {what}" for what in _unsound(contract, path)]
                victim.start()
                if progress:
                    progress(contract, number, kills)
            for writer in writers:
                writer.kill(0, 0)
            for writer in writers:
                writer.finish()
        finally:
            for writer in writers:
                writer.close()
        about = {"contract": contract, "seed": seed, "kills": kills}
        return about | _reckoned(contract, path, writers) | {"wrong": wrong + _unsound(contract, path)}


def _unsound(contract: str, path: Path) -> list[str]:
    """What is wrong with the file now, whether or not others are writing."""
    with Store.open(path, timeout_ms=30_000) as store:
        lines = store.read("PRAGMA integrity_check")
        found = [f"integrity: {line}" for (line,) in lines if line != "ok"]
        [numbers] = store.read(EQUAL[contract])
        same = len({number or 0 for number in numbers}) == 1
        return found + ([] if same else [f"not the same: {', '.join(map(str, numbers))}"])


def _reckoned(contract: str, path: Path, writers: list[KilledWriter]) -> dict:
    """Compare what was acknowledged with what is in the file. Each writer has an answer to everything it
    began."""
    with Store.open(path, timeout_ms=30_000) as store:
        kept = [(who, int(number), answer) for who, number, answer in store.read(KEPT[contract])]
    said = {(writer.name, *each) for writer in writers for each in writer.acknowledged.items()}
    times = Counter(row[:2] for row in kept)
    return {
        "acknowledged": len(said),
        "again": sum(writer.again for writer in writers),
        "lost": len(said - set(kept)),
        "duplicated": sum(times.values()) - len(times),
        "unasked": len(set(kept) - said),
    }
