"""Checks of interleavings: one that goes wrong, and a function that must be right in all of them."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable

from receiptlab.exercises.answers import NotYet, checks, filled, learners_code
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
from receiptlab.scenarios.interleavings import PAIRS, Race, among
from receiptlab.scenarios.naive import Naive
from receiptlab.scenarios.racing_mistakes import PLANTED
from receiptlab.values import sha256


@checks
def ends_in(experiment: str, verdict: str, answer: str) -> str:
    """Your interleaving, one letter a statement, must end in this verdict: serializable, duplicated, wrong,
    busy or deadlock."""
    found = every_interleaving.explored(experiment)
    if not found.classes.get(verdict):
        raise CaseError(f"no interleaving of {experiment} ends {verdict}")
    letters = "".join(filled(answer, str, "an interleaving in letters, such as 'AABB'").split()).upper()
    mine = next((each for each in found.interleavings if each.interleaving == letters), None)
    if mine is None:
        raise NotYet(_why_it_cannot_run(experiment, letters))
    if mine.verdict != verdict:
        raise NotYet(f"it ends {mine.verdict}: {_ended(found, mine)}")
    return f"it ends {verdict}: {_ended(found, mine)}"


def _why_it_cannot_run(experiment: str, letters: str) -> str:
    planned = {each.name: each for each in (*PAIRS, *PLANTED)}
    try:
        with planned[experiment].explorer() as explorer:
            explorer.rerun(letters)
    except WrongInterleaving as error:
        return str(error)
    return f"{letters} is none of the interleavings that were explored"


@checks
def in_every_interleaving(answer: Callable[..., object]) -> str:
    """Two clients call your function with one key, as `answer(naive, key, digest)`, in every interleaving
    of their statements.

    There must be one result, one receipt and one message in the end. A client that finds the receipt must
    return it. The client that writes may return the receipt or nothing (`None`).
    """
    named = {"key": "key-1", "digest": sha256("result 1")}
    function = filled(answer, Callable, "a function")
    clients = [
        Caller(who, "accept", lambda naive: _made(function, naive, named), args=named)
        for who in ("client", "its retry")
    ]
    endings = [(writers_without_receipt, 1, 1, 1) for writers_without_receipt in (0, 1)]
    mine = Race("your function", Naive, tuple(clients), None, among(0, *endings))
    found = _explored(mine)
    number = len(found.interleavings)
    for each in found.interleavings:
        if each.verdict != SERIALIZABLE:
            alike = f"{found.classes[each.verdict]} of {number} interleavings end {each.verdict}"
            raise NotYet(f"{alike}; {_ended(found, each)}. The statements: {_statements(mine, each)}")
    return f"all {number} interleavings are serializable: one effect, and a retry gets the receipt"


def _explored(mine: Race) -> Explored:
    with learners_code():
        try:
            return mine.explore()
        except TooManyInterleavings:
            raise NotYet("the interleavings never end; does your function ask again and again?") from None


def _made(function: Callable[..., object], naive: Naive, named: dict) -> object:
    go_on()
    try:
        given = function(naive, **named)
    except sqlite3.Error as error:  # as `store.write` does: roll back, and raise the lab's own error
        naive.store._roll_back()
        raise naive.store._translated(error) from error
    if naive.store.db.in_transaction:
        raise NotYet("your function returns and leaves its transaction open; the next caller waits forever")
    facts = Outcome("read", answer=given).facts()
    if given is not None and facts != {"result_digest": named["digest"]}:
        raise NotYet(f"your function returns {given!r}; return the receipt, or None")
    return given


def _statements(mine: Race, interleaving: Interleaving) -> str:
    """What each client runs, consecutive statements together: `A: BEGIN, SELECT receipt; B: BEGIN`."""
    letters = interleaving.interleaving
    with mine.explorer() as explorer:
        steps = zip(letters, explorer.rerun(letters).steps, strict=True)
        groups = itertools.groupby(steps, key=lambda step: step[0])
        return "; ".join(f"{who}: {', '.join(step.call for _, step in group)}" for who, group in groups)


def _ended(found: Explored, interleaving: Interleaving) -> str:
    """How each call ended in this interleaving, and the counts afterwards."""
    words = [
        f"{letter} {word} {why}".rstrip()
        for letter, (word, why) in zip(LETTERS, interleaving.outcomes, strict=False)
    ]
    counts = [f"{name} {number}" for name, number in zip(found.count_names, interleaving.counts, strict=True)]
    return f"in {interleaving.interleaving} {', '.join(words)}, with {', '.join(counts)}"
