"""The check of what is done by hand for clients that are told `closed`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from receiptlab.contracts.retention import Executed, Retention
from receiptlab.exercises.answers import NotYet, checks, filled, raised
from receiptlab.exercises.watchdog import go_on
from receiptlab.outcomes import attempt
from receiptlab.store import Store
from receiptlab.values import sha256


class Client(NamedTuple):
    """An operation of a closed epoch whose client asks for it. `others` of the open one have its payload."""

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
    Client(1, "op-1", "pay 5", "was executed"),
    Client(1, "op-2", "pay 7", "never came", others=1),
    Client(0, "op-2", "pay 7", "never came", others=1),
)
OPEN = 2
ASKED = (130, 140)


class Watched(Retention):
    """It remembers the last answer of `execute`."""

    given: Executed | None = None

    def execute(self, *args: object, **kwargs: object) -> Executed:
        self.given = super().execute(*args, **kwargs)
        return self.given


@checks
def settles(answer: Callable[..., object]) -> str:
    """Epochs 0 and 1 are closed, 2 is open and has an op-2 of its own. Your function is called for each
    client that was told `closed`, as `answer(contract, **arguments)` with the arguments of its call, and
    later again.

    Each operation must then have had one effect, under whatever key.
    """
    mine = filled(answer, Callable, "a function")
    with Store.temporary(Retention.SCHEMA) as store:
        contract = Watched(store)
        _before(contract)
        asked: set[Client] = set()
        for time, now in zip(("", "asked again: "), ASKED, strict=True):
            for client in CLIENTS:
                asked.add(client)
                _settle(contract, mine, client, now, time)
                _must_be_once(contract, client, asked, time)
        for client in CLIENTS:
            _must_be_once(contract, client, asked, "in the end: ")
    return f"each of the {len(CLIENTS)} operations had one effect, and being asked again changed nothing"


def _before(contract: Retention) -> None:
    ran, late, _ = CLIENTS
    contract.execute(**ran.arguments(100))
    contract.execute("shop", OPEN, late.operation, late.payload, 110)
    contract.close_and_collect("shop", OPEN - 1, 120)


def _settle(contract: Watched, answer: Callable[..., object], client: Client, now: int, time: str) -> None:
    go_on()
    contract.given = None
    try:
        given = attempt(answer, contract, **client.arguments(now))
    except Exception as error:
        raise NotYet(f"{time}{client}: {raised(error)}") from None
    if given.word not in ("accepted", "replayed", "read"):
        raise NotYet(f"{time}{client}: your function ends as {given.word} {given.reason}")


def _must_be_once(contract: Watched, client: Client, asked: set[Client], time: str) -> None:
    """Effects are counted by payload. Whoever has asked with this one must have an effect of its own."""
    digest = sha256(client.payload)
    ((found,),) = contract.store.read("SELECT count(*) FROM effect WHERE digest = ?", (digest,))
    rest = client.others + sum(each.payload == client.payload for each in asked - {client})
    if (effects := found - rest) != 1:
        other = effects == 0 and contract.given is not None and contract.given.outcome == "replayed"
        why = "; the receipt that `execute` found is that of another operation" if other else ""
        raise NotYet(f"{time}{client}: it has {effects} effects, not 1{why}")
