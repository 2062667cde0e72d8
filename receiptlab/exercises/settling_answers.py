"""The check of how an operator settles the operations of clients that got the answer `closed`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from receiptlab.contracts.retention import Executed, Retention
from receiptlab.exercises.answers import NotYet, called, checks, filled, must_return
from receiptlab.store import Store
from receiptlab.values import sha256


class ClosedClient(NamedTuple):
    """An operation of a closed epoch. `others` operations of the open epoch have the same payload."""

    epoch: int
    operation: str
    payload: str
    story: str
    others: int = 0

    def arguments(self, now: int) -> dict[str, object]:
        named = {"epoch": self.epoch, "operation": self.operation, "payload": self.payload}
        return {"namespace": "shop", **named, "now": now}

    def __str__(self) -> str:
        return f"{self.operation} of epoch {self.epoch}, which {self.story}"


CLIENTS = (
    ClosedClient(1, "op-1", "pay 5", "was executed"),
    ClosedClient(1, "op-2", "pay 7", "never came", others=1),
    ClosedClient(0, "op-2", "pay 7", "never came", others=1),
)
OPEN = 2
ROUNDS = {"": 130, "asked again: ": 140}


class RememberingRetention(Retention):
    """Remembers the last answer of `execute`."""

    given: Executed | None = None

    def execute(self, *args: object, **kwargs: object) -> Executed:
        self.given = super().execute(*args, **kwargs)
        return self.given


@checks
def settles(answer: Callable[..., object]) -> str:
    """Epochs 0 and 1 are closed. Epoch 2 is open and has its own op-2. Your function is called for each
    client that got `closed`, as `answer(contract, **arguments)` with the arguments of its call, and later
    once more.

    Each operation must then have had exactly one effect, under any key.
    """
    mine = filled(answer, Callable, "a function")
    with Store.temporary(Retention.SCHEMA) as store:
        contract = RememberingRetention(store)
        _close(contract)
        asked: set[ClosedClient] = set()
        for when, now in ROUNDS.items():
            for client in CLIENTS:
                asked.add(client)
                contract.given = None
                given = called(f"{when}{client}: ", mine, contract, **client.arguments(now))
                must_return(given, f"{when}{client}: ")
                _must_be_once(contract, client, asked, when)
        for client in CLIENTS:
            _must_be_once(contract, client, asked, "in the end: ")
    return f"each of the {len(CLIENTS)} operations had one effect, and asking again changed nothing"


def _close(contract: Retention) -> None:
    ran, late, _ = CLIENTS
    contract.execute(**ran.arguments(100))
    contract.execute("shop", OPEN, late.operation, late.payload, 110)
    contract.close_and_collect("shop", OPEN - 1, 120)


def _must_be_once(
    contract: RememberingRetention, client: ClosedClient, asked: set[ClosedClient], when: str
) -> None:
    """Counts effects by payload. Each client that has asked with this payload must have its own effect."""
    digest = sha256(client.payload)
    ((found,),) = contract.store.read("SELECT count(*) FROM effect WHERE digest = ?", (digest,))
    rest = client.others + sum(each.payload == client.payload for each in asked - {client})
    if (effects := found - rest) != 1:
        other = effects == 0 and contract.given is not None and contract.given.outcome == "replayed"
        why = "; the receipt that `execute` found belongs to another operation" if other else ""
        raise NotYet(f"{when}{client}: it has {effects} effects, not 1{why}")
