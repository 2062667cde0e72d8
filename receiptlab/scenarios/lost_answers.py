"""A receiver's answer is lost: when may a message be sent again, and how often? (S-7, D-2)"""

from __future__ import annotations

from receiptlab.contracts.relay import Entry, Message, to_file
from receiptlab.errors import InjectedFault, Refused
from receiptlab.experiment.run import Run
from receiptlab.faults.failpoints import crash_at
from receiptlab.scenarios.copy_experiment import CopyExperiment
from receiptlab.scenarios.outside import Shop
from receiptlab.scenarios.split_brain import ACCEPTED, HERE, Entries, letters, reconciled
from receiptlab.store import Store

LATER = 2_000
"""A time at which a delayed message is due again."""


def _lost(world: CopyExperiment):
    """A `receive` whose answer is lost once, after the receiver has committed."""
    lost = []

    def receive(message: Message) -> None:
        who = world.original.relay.writer()
        with crash_at(world.receiver.store, "" if lost else "after_commit"):
            lost.append(message)
            world.receiver.apply(who.owner, who.generation, who.instance, *message[1:], 210)

    return receive


def lost_answer_with_a_key() -> Run:
    """The receiver's answer is lost. The receiver keeps idempotency keys, so the message is sent again
    (S-7)."""
    world = CopyExperiment("a receiver's answer is lost, and it keeps keys", "lost-answer-with-a-key", "S-7")
    world.prepared()
    world.accept(world.original, HERE, "key-1", 200, ACCEPTED)
    receive = _lost(world)
    lost = {"acknowledged": 0, "unclear": 0, "failed": 1, "stopped": ""}
    world.send(world.original, HERE, 210, lost, receive, counts=[1, 1, 1, 0, 0, 0, 1])
    world.send(world.original, HERE, LATER, {"acknowledged": 1}, receive, counts=[1, 1, 1, 0, 0, 0, 1])
    return world.run


def _shop_step(name: str, title: str, kind: str = "holds") -> tuple[CopyExperiment, Shop]:
    world = CopyExperiment(title, name, "S-7", kind)
    world.prepared()
    world.accept(world.original, HERE, "key-1", 200, ACCEPTED)
    return world, Shop(Store.temporary(Shop.SCHEMA))


def _print_and_lose(shop: Shop):
    """The print shop sends the letter, and its answer is lost each time."""

    def receive(message: Message) -> None:
        shop.send(message.subject, message.fence, "worker-a")
        raise InjectedFault("after_commit")

    return receive


def lost_answer_with_a_look_up() -> Run:
    """The receiver keeps no keys, but the relay can ask whether the letter went out (S-7)."""
    world, shop = _shop_step("lost-answer-with-a-look-up", "a receiver's answer is lost, and it can be asked")

    def look_up(message: Message) -> None:
        if not shop.store.read("SELECT 1 FROM letter WHERE item = ?", (message.subject,)):
            raise Refused("not-found", "no such letter")

    ask = {"keyed": False, "look_up": look_up}
    world.send(world.original, HERE, 210, {"acknowledged": 1}, _print_and_lose(shop), **ask)
    world.send(world.original, HERE, 220, {"acknowledged": 0}, _print_and_lose(shop), **ask)
    return letters(world, shop, 1)


def looked_up_while_under_way() -> Run:
    """The relay stops waiting and asks while its request is still on the way: it hasn't arrived (S-7)."""
    world, shop = _shop_step("looked-up-while-under-way", "a look-up overtakes the request", "breaks")
    travelling: list[Message] = []

    def receive(message: Message) -> None:
        travelling.append(message)
        if len(travelling) == 1:
            raise InjectedFault("timeout")
        shop.send(message.subject, message.fence, "worker-a")

    def look_up(message: Message) -> None:
        raise Refused("not-found", "no such letter")

    ask = {"keyed": False, "look_up": look_up}
    world.send(world.original, HERE, 210, {"failed": 1}, receive, **ask)
    world.send(world.original, HERE, LATER, {"acknowledged": 1}, receive, **ask)
    late = (shop.send, travelling[0].subject, travelling[0].fence, "worker-a")
    world.step("the network", "delivers the first", LATER + 10, *late, expect=ACCEPTED)
    return letters(world, shop, 2, "duplicated")


def lost_answer_with_neither() -> Run:
    """Without a key or a look-up the message is unclear, and it is never sent again automatically (S-7)."""
    world, shop = _shop_step(
        "lost-answer-with-neither", "a receiver's answer is lost, with no key and no look-up"
    )
    nothing = {"acknowledged": 0, "unclear": 0, "stopped": ""}
    send = (world.original, HERE)
    world.send(*send, 210, {"unclear": 1}, _print_and_lose(shop), keyed=False)
    world.send(*send, 220, nothing, _print_and_lose(shop), keyed=False)
    listed = {"outcome": "read", "answer": {"list": ["shop/key-1: the answer was lost"]}}
    world.step("operator", "reconciliation", None, lambda: reconciled(world.original), expect=listed)
    close = (world.original.relay.close_entry, 1, "happened", "the shop has the letter in its book", 300)
    world.step("operator", "close_entry", 300, *close, expect=ACCEPTED)
    empty = {"outcome": "read", "answer": {"list": []}}
    world.step("operator", "reconciliation", None, lambda: reconciled(world.original), expect=empty)
    return letters(world, shop, 1)


def lost_answer_and_sent_again() -> Run:
    """The naive relay sends again to a receiver that keeps no keys (S-7)."""
    title = "a message is sent again to a receiver that keeps no keys"
    world, shop = _shop_step("lost-answer-and-sent-again", title, "breaks")
    world.send(world.original, HERE, 210, {"failed": 1}, _print_and_lose(shop))
    world.send(world.original, HERE, LATER, {"failed": 1}, _print_and_lose(shop))
    return letters(world, shop, 2, "duplicated")


def relay_stops_at_every_point() -> Run:
    """The relay dies at each failpoint of sending. Every acknowledged message has exactly one effect
    (S-7)."""
    world = CopyExperiment("a relay dies at each of its failpoints", "relay-stops-at-every-point", "S-7 H-1")
    world.prepared()
    world.accept(world.original, HERE, "key-1", 200, ACCEPTED)
    store = world.original.store
    for number, point in enumerate(("after_receiver", "after_mark", "before_commit", "after_commit")):
        expect = {"outcome": "unknown", "reason": point, "counts": [1, 1, 1, 0, 0, 0, 1]}

        def send(now: int = 210 + number) -> object:
            return world.original.relay.send(to_file(world.original.relay, world.receiver, now), 10, now)

        world.step("relay", "send", 210 + number, send, expect=expect, fault=point, on=store)
    world.send(world.original, "relay", 300, {"acknowledged": 0}, counts=[1, 1, 1, 0, 0, 0, 1])
    return world.run


def poison_message() -> Run:
    """The receiver fails on the first of three messages, every time. The others arrive, and an operator
    decides about the one that doesn't (D-2)."""
    world = CopyExperiment("a message that cannot be delivered", "poison-message", "D-2")
    world.prepared("order-17", "order-18", "order-19")
    for number in (17, 18, 19):
        world.accept(world.original, HERE, f"key-{number}", 200, ACCEPTED, work=f"order-{number}")
    relay, repaired = world.original.relay, []

    def receive(message: Message) -> object:
        if message.subject == "shop/order-17" and not repaired:
            raise ValueError("the receiver cannot read this message")
        return to_file(relay, world.receiver, 210)(message)

    send = (world.original, "relay")
    first = {"acknowledged": 2, "failed": 1, "stopped": ""}
    world.send(*send, 210, first, receive, counts=[3, 3, 3, 0, 0, 0, 2], max_attempts=2)
    waits = {"outcome": "read", "answer": {"list": ["shop/key-17: unanswered, 1 at 210: ValueError"]}}
    world.step("operator", "delayed", None, lambda: _with_history(relay.delayed()), expect=waits)
    nothing = {"acknowledged": 0, "failed": 0}
    world.send(*send, 220, nothing, receive, max_attempts=2)
    world.send(*send, LATER, {"failed": 1}, receive, max_attempts=2)
    parked = ["shop/key-17: parked, 1 at 210: ValueError, 2 at 2000: ValueError"]
    listed = {"outcome": "read", "answer": {"list": parked}}
    world.step(
        "operator", "reconciliation", None, lambda: _with_history(relay.reconciliation()), expect=listed
    )
    repaired.append("order-17")
    world.send(*send, 2 * LATER, nothing, receive)
    again = (relay.close_entry, 1, "send-again", "the receiver was repaired", 2 * LATER)
    world.step("operator", "close_entry", 2 * LATER, *again, expect=ACCEPTED)
    world.send(*send, 2 * LATER, {"acknowledged": 1}, receive, counts=[3, 3, 3, 0, 0, 0, 3])
    return world.run


def _with_history(entries: list[Entry]) -> Entries:
    return Entries(tuple(f"{each.key}: {', '.join((each.state, *each.history))}" for each in entries))


SCENARIOS = (
    poison_message,
    lost_answer_with_a_key,
    lost_answer_with_a_look_up,
    looked_up_while_under_way,
    lost_answer_with_neither,
    lost_answer_and_sent_again,
    relay_stops_at_every_point,
)
