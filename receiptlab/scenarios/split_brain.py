"""A backup restored beside its original: two owners of one lease (S-1 to S-8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from receiptlab.contracts.base import Contract
from receiptlab.contracts.relay import Message
from receiptlab.errors import NotWritten, Refused
from receiptlab.experiment.run import Run
from receiptlab.scenarios.copy_experiment import SHOP, CopyExperiment
from receiptlab.scenarios.outside import Shop
from receiptlab.store import Store

HERE, THERE = "worker of the original", "worker of the copy"
ACCEPTED = {"outcome": "accepted"}


def two_owners_of_one_lease() -> Run:
    """Original and copy accept different keys at one revision: one result each, two in total (S-1)."""
    world = CopyExperiment(
        "a backup is restored beside its original", "two-owners-of-one-lease", "S-1", "breaks"
    )
    world.prepared()
    world.take_backup(100)
    one = ACCEPTED | {"answer": {"revision": 2}, "counts": [1, 1, 1, 0, 0, 0, 0]}
    world.accept(world.original, HERE, "key-1", 200, one)
    both = ACCEPTED | {"answer": {"revision": 2}, "counts": [1, 1, 1, 1, 1, 1, 0]}
    world.accept(world.copy, THERE, "key-2", 200, both, anomaly="duplicated")
    for party, who in ((world.original, "human at the original"), (world.copy, "human at the copy")):
        left = {"outcome": "read", "answer": {"revision": 2, "results": 1, "human_state": "open"}}
        world.step(who, "get", None, party.owner.get, SHOP, "order-17", expect=left)
    return world.run


class EpochAlone(Contract):
    """A receiver that only compares epochs: it refuses those older than the newest it has seen."""

    NAME = "epochs alone"
    SCHEMA = ("CREATE TABLE taken (epoch INTEGER NOT NULL, key TEXT NOT NULL) STRICT",)
    GUARDS: ClassVar = {}
    COUNTS: ClassVar = {"taken": "SELECT count(*) FROM taken"}

    def take(self, epoch: int, key: str) -> None:
        """Take the effect. Refused: epoch."""
        with self.store.write() as db:
            (newest,) = db.execute("SELECT coalesce(max(epoch), 0) FROM taken").fetchone()
            if epoch < newest:
                raise Refused("epoch", f"epoch {newest} was already used")
            db.execute("INSERT INTO taken VALUES (?, ?)", (epoch, key))


def both_raise_their_epoch() -> Run:
    """Each side raises the epoch in its own file by one. To the receiver they are equal (S-3)."""
    world = CopyExperiment("both copies raise their epoch by one", "both-raise-their-epoch", "S-3", "breaks")
    world.prepared()
    world.take_backup(100)
    with Store.temporary(EpochAlone.SCHEMA) as store:
        receiver = EpochAlone(store)
        sides = ((world.original, HERE, "key-1", 1), (world.copy, THERE, "key-2", 2))
        for party, who, key, taken in sides:
            old = party.owner.get(SHOP, "order-17").epoch
            raised = (SHOP, "order-17", old + 1, "policy-1", 150)
            world.step(who, "set_authority", 150, party.owner.set_authority, *raised, expect=ACCEPTED)
            world.accept(party, who, key, 200, ACCEPTED, epoch=old + 1)
            anomaly = "duplicated" if taken == 2 else ""
            world.step(who, "send", 300, receiver.take, old + 1, key, expect=ACCEPTED, anomaly=anomaly)
        stale = {"outcome": "refused", "reason": "epoch"}
        world.step("a writer in epoch 1", "send", 310, receiver.take, 1, "key-3", expect=stale)
        counted = {"outcome": "read", "answer": {"taken": 2}}
        world.step(
            "auditor", "count", None, lambda: Taken(*receiver.counted()), expect=counted, file="receiver"
        )
    return world.run


@dataclass(frozen=True)
class Taken:
    taken: int
    outcome: ClassVar[str] = "read"


def _taken_by(receiver: Contract) -> Callable[[], Taken]:
    return lambda: Taken(*receiver.counted())


def _both_accepted(world: CopyExperiment) -> None:
    world.prepared()
    world.take_backup(100)
    world.accept(world.original, HERE, "key-1", 200, ACCEPTED)
    world.accept(world.copy, THERE, "key-2", 200, ACCEPTED)


def receiver_decides() -> Run:
    """The restored owner registers a new identity. From then on the old one is refused (S-4)."""
    world = CopyExperiment("the receiver hands out generations", "receiver-decides", "S-4")
    _both_accepted(world)
    world.identity(world.copy, "copy-1", 300)
    world.send(world.original, HERE, 310, {"acknowledged": 0, "refused": 1}, counts=[1, 1, 1, 1, 1, 1, 0])
    world.send(world.copy, THERE, 320, {"acknowledged": 1, "refused": 0}, counts=[1, 1, 1, 1, 1, 1, 1])
    fenced = {"outcome": "read", "answer": {"list": ["shop/key-1: writer-fenced"]}}
    world.step("operator", "reconciliation", None, lambda: reconciled(world.original), expect=fenced)
    return world.run


@dataclass(frozen=True)
class Entries:
    list: tuple[str, ...]
    outcome: ClassVar[str] = "read"


def reconciled(party) -> Entries:
    return Entries(tuple(f"{entry.key}: {entry.detail}" for entry in party.relay.reconciliation()))


def _no_way(message: Message) -> None:
    raise NotWritten("unreachable", "this host cannot reach the receiver; nothing was sent")


def old_host_isolated() -> Run:
    """The old host cannot reach the receiver. The copy continues under the old identity (S-6)."""
    world = CopyExperiment("the old host is isolated instead", "old-host-isolated", "S-6")
    _both_accepted(world)
    cut = {"acknowledged": 0, "refused": 0, "stopped": "unreachable"}
    world.send(world.original, HERE, 310, cut, _no_way, counts=[1, 1, 1, 1, 1, 1, 0])
    world.send(world.copy, THERE, 320, {"acknowledged": 1}, counts=[1, 1, 1, 1, 1, 1, 1])
    pending = {"outcome": "read", "answer": {"list": ["shop/key-1"]}}
    world.step("operator", "what is pending", None, lambda: _pending(world.original), expect=pending)
    return world.run


def _pending(party) -> Entries:
    return Entries(tuple(message.key for message in party.relay.pending(10)))


def isolation_ends() -> Run:
    """The network comes back. The receiver doesn't know that the old host was replaced (S-6)."""
    world = CopyExperiment("the isolation of the old host ends", "isolation-ends", "S-6", "breaks")
    _both_accepted(world)
    world.send(world.original, HERE, 310, {"stopped": "unreachable"}, _no_way)
    world.send(world.copy, THERE, 320, {"acknowledged": 1})
    second = {"counts": [1, 1, 1, 1, 1, 1, 2], "anomaly": "duplicated"}
    world.send(world.original, HERE, 2_000, {"acknowledged": 1}, **second)
    return world.run


def _at_a_shop(name: str, title: str, call: str) -> Run:
    """Both sides send to a print shop that knows nothing about generations."""
    world, shop = CopyExperiment(title, name, "S-1", "breaks"), Shop(Store.temporary(Shop.SCHEMA))
    _both_accepted(world)

    def receive(message: Message) -> None:
        getattr(shop, call)(message.subject, message.fence, "worker-a")

    world.send(world.original, HERE, 310, {"acknowledged": 1}, receive)
    world.send(world.copy, THERE, 320, {"acknowledged": 1}, receive)
    return letters(world, shop, 2, "duplicated")


def no_defence() -> Run:
    """Original and copy send to a receiver that accepts everything (S-1)."""
    return _at_a_shop("no-defence", "both send to a receiver that accepts everything", "send")


def copied_fence() -> Run:
    """The receiver compares fences. Both sides show the copied one (S-1)."""
    return _at_a_shop("copied-fence", "both show the copied fence", "send_fenced")


def fence_seen_before() -> Run:
    """A restored owner hands out a fence that the receiver already knows from the original (S-8)."""
    world = CopyExperiment("a restored owner counts on from its backup", "fence-seen-before", "S-8", "breaks")
    world.prepared()
    world.take_backup(100)
    again = {"answer": {"fence": 2}} | ACCEPTED
    for party, who, actor in ((world.original, HERE, "worker-b"), (world.copy, THERE, "worker-c")):
        claim = (SHOP, "order-17", actor, 1_000, 2_000)
        world.step(who, "claim", 1_000, party.owner.claim, *claim, expect=again)
        world.accept(party, who, f"key of {actor}", 1_100, ACCEPTED, actor=actor, fence=2)
        if party is world.copy:
            world.identity(world.copy, "copy-1", 1_150)
        seen = {"anomaly": "duplicated"} if party is world.copy else {}
        world.send(party, who, 1_200, {"acknowledged": 1}, **seen)
    known = {"outcome": "read", "answer": {"fence": 2}, "counts": [1, 1, 1, 1, 1, 1, 2]}
    world.step("receiver", "known", None, world.receiver.known, SHOP, "shop/order-17", expect=known)
    return world.run


def letters(world: CopyExperiment, shop: Shop, letters: int, anomaly: str = "") -> Run:
    expect = {"outcome": "read", "answer": {"taken": letters}}
    world.step(
        "print shop",
        "count letters",
        None,
        _taken_by(shop),
        expect=expect,
        anomaly=anomaly,
        file="receiver",
    )
    shop.store.close()
    return world.run


SCENARIOS = (
    two_owners_of_one_lease,
    no_defence,
    copied_fence,
    both_raise_their_epoch,
    receiver_decides,
    old_host_isolated,
    isolation_ends,
    fence_seen_before,
)


def defences() -> list[dict[str, object]]:
    """One row per defence: how many effects the same two results have, and what stays pending."""
    runs = {
        "nothing": no_defence(),
        "the fence": copied_fence(),
        "an epoch raised on each side": both_raise_their_epoch(),
        "the old host isolated": old_host_isolated(),
        "isolated, until it ends": isolation_ends(),
        "the receiver's generation": receiver_decides(),
    }
    return [
        {
            "defence": name,
            "effects": run.last.answer.get("taken", run.last.counts[6]),
            "left over": ", ".join(run.last.answer.get("list", [])) or "–",
            "run": run.name,
        }
        for name, run in runs.items()
    ]
