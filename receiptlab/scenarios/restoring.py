"""How to bring a backup back into service, step by step, and what goes wrong without each step.

`PROCEDURE` lists the steps. `STORY` adds what happens around them: the original has done more since the
backup, its worker is still running, and a worker of the copy starts too early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from receiptlab.experiment.run import Run
from receiptlab.outcomes import Outcome
from receiptlab.scenarios.copy_experiment import SHOP, CopyExperiment

HERE, THERE = "worker of the original", "worker of the copy"
CLAUSES = ("S-1", "S-4", "S-8", "S-7", "S-5")
"""The clause that each step of the procedure keeps, in the order of the steps."""


def backup_and_go_on(world: CopyExperiment) -> None:
    """A backup is taken. Then the original accepts order-17, and its effect arrives."""
    world.prepared("order-17", "order-18", "order-19", "order-20")
    world.take_backup(100)
    world.accept(world.original, HERE, "key-17", 150, {"outcome": "accepted"})
    world.send(world.original, HERE, 160, {"acknowledged": 1})


def open_as_suspect(world: CopyExperiment) -> None:
    """The copy is opened read-only until it has its own identity."""
    world.copy.store.db.execute("PRAGMA query_only = ON")


def early_worker(world: CopyExperiment) -> None:
    """A worker of the copy sends a result for order-19 under the copied lease."""
    world.accept(world.copy, THERE, "key-19", 210, None, work="order-19")


def ask_for_an_identity(world: CopyExperiment) -> None:
    """The receiver hands out a new writer identity and fences the old one in the same transaction."""
    writer = world.receiver.register(SHOP, "copy-1", 300)
    world.operator.relay.write_as(writer)


def old_worker_goes_on(world: CopyExperiment) -> None:
    """The worker of the original accepts order-18 and order-19 there, and sends."""
    for number in (18, 19):
        accepted = {"outcome": "accepted"}
        world.accept(world.original, HERE, f"key-{number}-old", 350, accepted, work=f"order-{number}")
    world.send(world.original, HERE, 360, None)


def jump_past_what_was_seen(world: CopyExperiment) -> None:
    """Fences and revisions jump past everything the receiver has seen. No copied lease survives."""
    world.operator.relay.jump(world.receiver, 400)


def original_goes_on(world: CopyExperiment) -> None:
    """The original accepts order-18 and sends, which is allowed as long as it isn't fenced."""
    world.accept(world.original, HERE, "key-18", 250, {"outcome": "accepted"}, work="order-18")
    world.send(world.original, HERE, 260, None)


def into_service(world: CopyExperiment, orders: Sequence[int] = (17, 20)) -> None:
    """From now on the copy may write. Its workers ask for order-17 and order-20."""
    world.early = world.copy.owner.counted()[0]
    world.copy.store.db.execute("PRAGMA query_only = OFF")
    for number in orders:
        claim = (SHOP, f"order-{number}", "worker-c", 1_100, 2_000)
        claimed = world.step(THERE, "claim", 1_100, world.copy.owner.claim, *claim)
        if claimed.outcome == "accepted":
            result = {"work": f"order-{number}", "actor": "worker-c", "fence": claimed.answer["fence"]}
            world.accept(world.copy, THERE, f"key-{number}-new", 1_200, {"outcome": "accepted"}, **result)


def resume_relay(world: CopyExperiment) -> None:
    """The copy's pending messages are sent, including those pending at the time of the backup."""
    world.send(world.copy, THERE, 1_300, {"refused": 0, "stopped": ""})


def issue_the_receipt(world: CopyExperiment) -> None:
    """The receiver records who wrote, what it accepted and refused from each, and what it enforced."""
    who = world.operator.relay.writer()
    issue = (SHOP, who.generation, who.instance, "fence", 1_400)
    world.step("receiver", "issue", 1_400, world.receiver.issue, *issue, expect={"outcome": "accepted"})


PROCEDURE = (
    open_as_suspect,
    ask_for_an_identity,
    jump_past_what_was_seen,
    resume_relay,
    issue_the_receipt,
)
STORY = (
    backup_and_go_on,
    open_as_suspect,
    early_worker,
    ask_for_an_identity,
    old_worker_goes_on,
    jump_past_what_was_seen,
    into_service,
    resume_relay,
    issue_the_receipt,
)
GOES_ON = (
    *STORY[:3],
    original_goes_on,
    ask_for_an_identity,
    jump_past_what_was_seen,
    partial(into_service, orders=(17, 18, 20)),
    resume_relay,
    issue_the_receipt,
)
"""Like `STORY`, but the original continues earlier, while the copy is suspect and has no identity."""


@dataclass(frozen=True)
class Audit:
    """Whether each clause was kept."""

    kept: dict[str, bool]
    outcome: ClassVar[str] = "read"

    def facts(self) -> dict[str, object]:
        """One entry for each clause."""
        return dict(self.kept)


def audit(world: CopyExperiment) -> Audit:
    """What must be true at the end, one question per clause.

    S-1: the copy accepted nothing before it went into service. S-4: nothing from the original took effect
    after the restore. S-8: no work has two effects. S-7: the copy has no pending messages. S-5: there is
    a restore receipt.
    """
    effects = world.receiver.store.read("SELECT key, subject FROM effect ORDER BY id")
    return Audit(
        {
            "S-1": world.early == 0,
            "S-4": not any(key.endswith("-old") for key, _ in effects),
            "S-8": len({subject for _, subject in effects}) == len(effects),
            "S-7": not world.operator.relay.pending(10),
            "S-5": world.receiver.counted()[3] == 1,
        }
    )


def restore(without: Callable | None = None) -> Run:
    """The whole story without one step of the procedure. The last step of the run is the audit."""
    broken = CLAUSES[PROCEDURE.index(without)] if without else ""
    name = f"restore-without-{without.__name__.replace('_', '-')}" if without else "restore-procedure"
    title = f"a restore without: {without.__name__.replace('_', ' ')}" if without else "a complete restore"
    world = CopyExperiment(title, name, broken or "S-4 S-5 S-7 S-8", "breaks" if without else "holds")
    return _played(world, [part for part in STORY if part is not without], broken)


def restored(steps: Sequence[Callable], story: Sequence[Callable] = STORY) -> Run:
    """A story with these steps of the procedure in this order."""
    steps = iter(steps)
    story = [next(steps, None) if part in PROCEDURE else part for part in story]
    world = CopyExperiment("a restore with chosen steps", "restore-as-chosen", "S-4 S-5 S-7 S-8")
    return _played(world, [part for part in story if part], "")


def _played(world: CopyExperiment, story: Iterable[Callable], broken: str) -> Run:
    for part in story:
        if part in PROCEDURE[:3]:
            world.note(
                "operator", part.__name__.replace("_", " "), None, Outcome("accepted", answer=part(world))
            )
        else:
            part(world)
        if part is backup_and_go_on:
            world.operator = world.owner_file(world.copy.store.path)
    expect = {"outcome": "read", "answer": {clause: clause != broken for clause in CLAUSES}}
    world.step("auditor", "audit", None, audit, world, expect=expect, anomaly="broken" if broken else "")
    world.operator.store.close()
    return world.run


def restore_procedure() -> Run:
    """A backup is brought into service while the original is still running (S-4, S-5, S-7, S-8)."""
    return restore()


def _without(step: Callable) -> Callable[[], Run]:
    left_out = partial(restore, step)
    left_out.__name__ = f"restore_without_{step.__name__}"
    left_out.__doc__ = f"The same without this step: {step.__doc__}"
    return left_out


ABLATION = tuple(_without(step) for step in PROCEDURE)
"""The procedure with one step left out at a time. Each breaks exactly one clause."""

SCENARIOS = (restore_procedure, *ABLATION)


def ablation() -> list[dict[str, str]]:
    """One row for each step left out: whether each clause was kept."""
    rows = []
    for step in PROCEDURE:
        kept = restore(step).last.answer
        marks = {clause: "kept" if held else "‼ broken" for clause, held in kept.items()}
        rows.append({"left out": step.__name__.replace("_", " ")} | marks)
    return rows
