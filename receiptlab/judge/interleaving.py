"""Checks of orders of statements: one that goes wrong, and a function for which every one is right."""

from __future__ import annotations

from collections.abc import Callable

from receiptlab.caseformat import CaseError
from receiptlab.errors import LabError
from receiptlab.hazards.explored import SAFE, Explored, Order, TooManyOrders, WrongOrder
from receiptlab.hazards.schedules import LETTERS
from receiptlab.hazards.stepping import Caller
from receiptlab.judge.answers import NotYet, checks, filled, raised
from receiptlab.scenarios import every_order
from receiptlab.scenarios.naive import Naive
from receiptlab.scenarios.orders import PAIRS, Experiment, among
from receiptlab.scenarios.racing import PLANTED
from receiptlab.values import sha256


@checks
def ends_in(experiment: str, verdict: str, answer: str) -> str:
    """Your order of statements, a letter for each, must end in this verdict: doubled, wrong, busy, deadlock
    or safe."""
    found = every_order.explored(experiment)
    if not found.classes.get(verdict):
        raise CaseError(f"no order of {experiment} ends {verdict}")
    letters = "".join(filled(answer, str, "an order in letters, such as 'AABB'").split()).upper()
    order = next((each for each in found.orders if each.order == letters), None)
    if order is None:
        raise NotYet(_not_an_order(experiment, letters))
    if order.verdict != verdict:
        raise NotYet(f"it ends {order.verdict}: {_ended(found, order)}")
    return f"it ends {verdict}: {_ended(found, order)}"


def _not_an_order(experiment: str, letters: str) -> str:
    """What is wrong with an order that nobody can run."""
    planned = {each.name: each for each in (*PAIRS, *PLANTED)}
    try:
        with planned[experiment].explorer() as explorer:
            explorer.rerun(letters)
    except WrongOrder as error:
        return str(error)
    return f"{letters} is none of the orders that were explored"


@checks
def in_every_order(answer: Callable[..., object]) -> str:
    """Two clients call your function with one key, as `answer(naive, key, digest)`, in every order of their
    statements.

    In each order there must be one result with one receipt and one message; one client is told nothing
    (`None`), and the other one gets the receipt.
    """
    named = {"key": "key-1", "digest": sha256("result 1")}
    function = filled(answer, Callable, "a function")
    clients = [
        Caller(who, "accept", lambda naive: _made(function, naive, named), args=named)
        for who in ("client", "its retry")
    ]
    mine = Experiment("your function", Naive, tuple(clients), None, among(0, (1, 1, 1, 1)))
    try:
        found = mine.explore()
    except TooManyOrders:
        raise NotYet("there is no end to the orders; does your function ask again and again?") from None
    except LabError as error:
        raise NotYet(str(error)) from None
    except NotYet:
        raise
    except Exception as error:
        raise NotYet(raised(error)) from None
    for order in found.orders:
        if order.verdict != SAFE:
            alike = found.classes[order.verdict]
            raise NotYet(f"{alike} of {len(found.orders)} orders end {order.verdict}; {_ended(found, order)}")
    return f"all {len(found.orders)} orders are safe: one effect, and one of the two gets the receipt"


def _made(function: Callable[..., object], naive: Naive, named: dict) -> object:
    given = function(naive, **named)
    if naive.store.db.in_transaction:
        raise NotYet("your function returns and leaves its transaction open; the next caller waits for ever")
    return given


def _ended(found: Explored, order: Order) -> str:
    """How each call ended in this order, and what is there then."""
    words = [
        f"{letter} {word} {why}".rstrip()
        for letter, (word, why) in zip(LETTERS, order.outcomes, strict=False)
    ]
    counts = [f"{name} {number}" for name, number in zip(found.count_names, order.counts, strict=True)]
    return f"in {order.order} {', '.join(words)}, with {', '.join(counts)}"
