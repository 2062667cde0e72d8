"""The program of a child process. See `children` for the parent.

It reads a job (one line of JSON), opens the database file, and talks in lines: READY, then waits for GO;
AT and a failpoint where it must hold, then waits for GO; and at the end the outcome as JSON. Where it must
die, it exits at once like a killed process: nothing is rolled back or closed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

from receiptlab.contracts.registry import CONTRACTS
from receiptlab.errors import LabError
from receiptlab.outcomes import attempt
from receiptlab.store import Store


def main() -> None:
    """Do the job on the first line of standard input."""
    job = json.loads(sys.stdin.readline())
    contract = CONTRACTS[job["contract"]](Store.open(job["path"], job["timeout_ms"]))
    _say("READY")
    _wait()
    contract.store.failpoint = _at(job)
    _say("CALLING")
    outcome = attempt(getattr(contract, job["call"]), **job["args"])
    message = {
        "word": outcome.word,
        "reason": outcome.reason,
        "fields": outcome.fields,
        "answer": outcome.facts(),
    }
    contract.store.close()
    _say(json.dumps(message))


def _at(job: dict) -> Callable[[str], None]:
    def failpoint(point: str) -> None:
        if point == job["hold_at"]:
            _say(f"AT {point}")
            _wait()
        if point == job["die_at"]:
            os._exit(job["exit_code"])

    return failpoint


def _say(line: str) -> None:
    print(line, flush=True)


def _wait() -> None:
    if sys.stdin.readline() != "GO\n":
        sys.exit("the parent has gone")


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(str(error))
