"""The program of a writer that will be killed. See `kills`.

It reads a job (one line of JSON), opens the database file, and does one task after another, each under its
own key, as fast as it can. It prints each answer before it begins the next task. A task begun in an
earlier run is asked for again, as a client does that got no answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable

from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver
from receiptlab.contracts.registry import CONTRACTS
from receiptlab.contracts.retention import Retention
from receiptlab.contracts.work.work import Work
from receiptlab.errors import LabError, Refused
from receiptlab.store import Store
from receiptlab.values import sha256

FOREVER = 2**61
WORKLOAD = 10**9
"""How much later each run is, so that the previous one's leases and claims have expired."""

Answer = tuple[str, object]
"""Whether the task was done now (accepted) or before (replayed), and the name by which it is found in the
file."""


def accept(owner: Owner, who: str, number: int, workload: int) -> Answer:
    """Add, claim and finish work: three calls. An earlier run may have made the first two."""
    work = f"work-{number}"
    with contextlib.suppress(Refused):
        owner.add(who, work, 1, 1, "policy", 0)
    with contextlib.suppress(Refused):
        owner.claim(who, work, who, 1, FOREVER)
    receipt = owner.accept(who, work, who, str(number), 1, 1, "policy", 1, sha256(work), 2)
    return receipt.outcome, receipt.id


def execute(retention: Retention, who: str, number: int, workload: int) -> Answer:
    """One operation."""
    done = retention.execute(who, 0, str(number), f"payload {number}", 1)
    return done.outcome, done.effect


def deliver(intake: Intake, who: str, number: int, workload: int) -> Answer:
    """One delivery."""
    name = ("explicit", "kills", who, str(number), sha256(str(number)))
    found = intake.deliver(*name, "revision", "", FOREVER, FOREVER, 1)
    return ("accepted" if found.found == "first-seen" else "replayed"), found.revision


def complete(work: Work, who: str, number: int, workload: int) -> Answer:
    """Deliver, claim and complete an item: four transactions. If there is nothing to claim, it was done."""
    now, reference = workload * WORKLOAD + number, f"{who} {number}"
    by = ("count", "1", FOREVER, FOREVER, now)
    work.deliver("kills", who, str(number), sha256(str(number)), *by)
    taken = work.next(who, "count", who, 1, 1_000, 1_000_000, now).claims
    for claim in taken:
        work.complete(claim.work, claim.fence, reference, now)
    return ("accepted" if taken else "replayed"), reference


def apply(receiver: Receiver, who: str, number: int, workload: int) -> Answer:
    """One effect. A writer first registers its identity, and gets the same one again."""
    writer = receiver.register(who, "host", 0)
    effect = (f"subject {number % 5}", number, number, sha256(str(number)), 1)
    done = receiver.apply(who, writer.generation, "host", str(number), *effect)
    return done.outcome, done.id


BUSINESS: dict[str, Callable[..., Answer]] = {
    "owner": accept,
    "retention": execute,
    "intake": deliver,
    "work": complete,
    "receiver": apply,
}


def main(contracts: dict = CONTRACTS, report: Callable[[str], None] | None = None) -> None:
    """Do the job on the first line of standard input."""
    job = json.loads(sys.stdin.readline())
    contract = contracts[job["contract"]](Store.open(job["path"], job["timeout_ms"]))
    number, business = job["first"], BUSINESS[job["contract"]]
    while job["last"] is None or number <= job["last"]:
        word, answer = business(contract, job["writer"], number, job["life"])
        (report or say)(json.dumps([number, word, answer]))
        number += 1
    contract.store.close()


def say(line: str) -> None:
    """Print one line with one write, so that a reader gets all of it or nothing."""
    os.write(sys.stdout.fileno(), line.encode() + b"\n")


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(str(error))
