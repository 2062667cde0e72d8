"""Two versions of the owner on one file: a deploy that adds a field to the command (O-22)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from receiptlab.contracts.owner import AcceptResult, Owner, Receipt
from receiptlab.experiment.experiment import Experiment
from receiptlab.experiment.run import Run
from receiptlab.values import integer, sha256


@dataclass(frozen=True)
class AcceptWithPriority(AcceptResult):
    """The command with the field that the later version added."""

    priority: int = 0
    ADDED: ClassVar = ("priority",)


class Newer(Owner):
    """A possible later version of the owner: a command also has a priority, 0 for older commands."""

    ARGUMENTS: ClassVar = Owner.ARGUMENTS | {"priority": integer}

    def accept(
        self,
        scope: str,
        work: str,
        actor: str,
        key: str,
        revision: int,
        epoch: int,
        policy: str,
        fence: int,
        result_digest: str,
        now: int,
        priority: int = 0,
    ) -> Receipt:
        command = (scope, work, actor, key, revision, epoch, policy, fence, result_digest, now, priority)
        return self._accept(AcceptWithPriority(*command))


def a_deploy_adds_a_field() -> Run:
    """The old version and the new one run side by side, and a retry can reach either of them."""
    lab = Experiment(
        Owner, "a retry reaches another version of the service", name="a-deploy-adds-a-field", clauses="O-22"
    )
    older, newer = Owner(lab.store), Newer(lab.store)
    for number in (1, 2, 3):
        older.add("shop", f"order-{number}", 1, 1, "policy-1", 0)
        older.claim("shop", f"order-{number}", "worker-a", 100, 160)

    def accept(on: Owner, key: str, now: int, expect: dict, **more: object) -> None:
        result = {"scope": "shop", "work": key.replace("key", "order"), "actor": "worker-a", "key": key}
        result |= {"revision": 1, "epoch": 1, "policy": "policy-1", "fence": 1, "now": now}
        who = "newer version" if on is newer else "older version"
        result |= {"result_digest": sha256("result 1")} | more
        lab.step(who, "accept", now, on.accept, **result, expect=expect)

    def counted(word: str, count: int, **more: object) -> dict:
        return {"outcome": word, "counts": [count] * 3} | more

    def refused(reason: str, count: int) -> dict:
        return counted("refused", count, reason=reason, fields=["priority"])

    accept(older, "key-1", 110, counted("accepted", 1))
    accept(newer, "key-1", 111, counted("replayed", 1, answer={"id": 1}))
    accept(newer, "key-1", 112, refused("key-reused", 1), priority=5)
    accept(newer, "key-2", 120, counted("accepted", 2))
    accept(older, "key-2", 121, counted("replayed", 2, answer={"id": 2}))
    accept(newer, "key-3", 130, counted("accepted", 3), priority=5)
    accept(newer, "key-3", 131, counted("replayed", 3, answer={"id": 3}), priority=5)
    accept(newer, "key-3", 132, refused("key-reused", 3))
    accept(older, "key-3", 133, refused("unknown-field", 3))
    return lab.run


SCENARIOS = (a_deploy_adds_a_field,)
