"""Checks of interleavings of statements: one that goes wrong, and a function for which every one is right."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable

from receiptlab.errors import LabError
from receiptlab.exercises.answers import NotYet, checks, filled, raised
from receiptlab.exercises.watchdog import go_on
from receiptlab.experiment.case_file import CaseError
from receiptlab.interleaving.explorer import LETTERS
from receiptlab.interleaving.findings import (
    SERIALIZABLE,
    Explored,
    Interleaving,
    TooManyInterleavings,
    WrongInterleaving,
)
from receiptlab.interleaving.stepper import Caller
from receiptlab.outcomes import Outcome
from receiptlab.scenarios import interleaving_rows as every_interleaving
from receiptlab.scenarios.interleavings import PAIRS, Experiment, among
from receiptlab.scenarios.naive import Naive
from receiptlab.scenarios.racing_mistakes import PLANTED
from receiptlab.values import sha256


@checks
def ends_in(experiment: str, verdict: str, answer: str) -> str:
    """Your order of statements, a letter for each, must end in this verdict: duplicated, wrong, busy, deadlock
    or safe."""
    found = every_interleaving.explored(experiment)
    if not found.classes.get(verdict):
        raise CaseError(f"no order of {experiment} ends {verdict}")
    letters = "".join(filled(answer, str, "an order in letters, such as 'AABB'").split()).upper()
    interleaving = next((each for each in found.interleavings if each.interleaving == letters), None)
    if interleaving is None:
        raise NotYet(_not_an_interleaving(experiment, letters))
    if interleaving.verdict != verdict:
        raise NotYet(f"it ends {interleaving.verdict}: {_ended(found, interleaving)}")
    return f"it ends {verdict}: {_ended(found, interleaving)}"


def _not_an_interleaving(experiment: str, letters: str) -> str:
    """What is wrong with an order that nobody can run."""
    planned = {each.name: each for each in (*PAIRS, *PLANTED)}
    try:
        with planned[experiment].explorer() as explorer:
            explorer.rerun(letters)
    except WrongInterleaving as error:
        return str(error)
    return f"{letters} is none of the interleavings that were explored"


@checks
def in_every_interleaving(answer: Callable[..., object]) -> str:
    """Two clients call your function with one key, as `answer(naive, key, digest)`, in every interleaving of
    their statements.

    Each must end with one result, one receipt and one message. A client that finds the receipt gets it. The
    one that writes may get the receipt or nothing (`None`).
    """
    named = {"key": "key-1", "digest": sha256("result 1")}
    function = filled(answer, Callable, "a function")
    clients = [
        Caller(who, "accept", lambda naive: _made(function, naive, named), args=named)
        for who in ("client", "its retry")
    ]
    endings = [(writers_without_receipt, 1, 1, 1) for writers_without_receipt in (0, 1)]
    mine = Experiment("your function", Naive, tuple(clients), None, among(0, *endings))
    try:
        found = mine.explore()
    except TooManyInterleavings:
        raise NotYet(
            "there is no end to the interleavings; does your function ask again and again?"
        ) from None
    except LabError as error:
        raise NotYet(str(error)) from None
    except NotYet:
        raise
    except Exception as error:
        raise NotYet(raised(error)) from None
    for interleaving in found.interleavings:
        if interleaving.verdict != SERIALIZABLE:
            alike = f"{found.classes[interleaving.verdict]} of {len(found.interleavings)} interleavings end {interleaving.verdict}"
            raise NotYet(
                f"{alike}; {_ended(found, interleaving)}. The statements: {_statements(mine, interleaving)}"
            )
    return f"all {len(found.interleavings)} interleavings are safe: one effect, and a client that asks again gets the receipt"


def _made(function: Callable[..., object], naive: Naive, named: dict) -> object:
    go_on()
    try:
        given = function(naive, **named)
    except sqlite3.Error as error:  # what `store.write` does with it: undo, and say it in the lab's words
        naive.store._roll_back()
        raise naive.store._translated(error) from error
    if naive.store.db.in_transaction:
        raise NotYet("your function returns and leaves its transaction open; the next caller waits for ever")
    facts = Outcome("read", answer=given).facts()
    if given is not None and facts != {"result_digest": named["digest"]}:
        raise NotYet(f"your function returns {given!r}; return the receipt, or None")
    return given


def _statements(mine: Experiment, interleaving: Interleaving) -> str:
    """What each client runs in this order, those in a row together: `A: BEGIN, SELECT receipt; B: BEGIN`."""
    with mine.explorer() as explorer:
        steps = zip(interleaving.interleaving, explorer.rerun(interleaving.interleaving).steps, strict=True)
        groups = itertools.groupby(steps, key=lambda step: step[0])
        return "; ".join(f"{who}: {', '.join(step.call for _, step in group)}" for who, group in groups)


def _ended(found: Explored, interleaving: Interleaving) -> str:
    """How each call ended in this order, and what is there then."""
    words = [
        f"{letter} {word} {why}".rstrip()
        for letter, (word, why) in zip(LETTERS, interleaving.outcomes, strict=False)
    ]
    counts = [f"{name} {number}" for name, number in zip(found.count_names, interleaving.counts, strict=True)]
    return f"in {interleaving.interleaving} {', '.join(words)}, with {', '.join(counts)}"
