"""Explores every interleaving of the statements of two or three connections on one file (H-6).

Each caller makes one call over a real connection. A step is one SQL statement of one caller. The
interleavings are explored depth first: each is run from its beginning, on the original rows, until none is
left.

An interleaving is written as letters: A is the first caller, B the second. `ABBA` says which caller ran at
each step. A caller that finds the file locked waits (which is a step, too) until another one has ended its
transaction, and then tries again. Retries in between would fail, so interleavings that only differ in them
are not distinguished. `every_retry=True` distinguishes them, and a test compares the two.

This proves the result for these callers and the file that they begin with, at the level of statements: to
other connections, SQLite runs each statement as a whole. It proves nothing about other calls, dying
processes, or time.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from receiptlab.contracts.base import Contract
from receiptlab.experiment.row_diff import Rows
from receiptlab.experiment.run import Lease, Recorder, Run
from receiptlab.experiment.sandbox import Sandbox
from receiptlab.interleaving.choices import Given, Path
from receiptlab.interleaving.findings import (
    BUSY,
    DEADLOCK,
    DUPLICATED,
    SERIALIZABLE,
    WRONG,
    Explored,
    Interleaving,
    Outcomes,
    TooManyInterleavings,
    WrongInterleaving,
)
from receiptlab.interleaving.stepper import FAILED, WAITS, Caller, Player, Start, greenlets, short

LETTERS = "ABCD"
LIMIT = 50_000
"""Default limit on the number of interleavings."""
MAX_STEPS = 500
"""Maximum number of steps of an interleaving."""

Judge = Callable[[tuple[int, ...], Outcomes], str]


class Explorer:
    """The callers, their connections and their file. Use it with `with`.

    `prepare` gets the contract on the new file and makes the earlier calls. `guards` replaces the
    contract's guards. `judge` gets counts and outcomes and returns a verdict. Without a judge, an
    interleaving is serializable when its outcomes and rows are those of the calls made one after another,
    in some order. Raises ModuleNotFoundError without the package greenlet.
    """

    def __init__(
        self,
        contract: type[Contract],
        callers: Sequence[Caller],
        prepare: Callable[[Contract], object] | None = None,
        *,
        guards: dict | None = None,
        judge: Judge | None = None,
        name: str = "",
        every_retry: bool = False,
    ) -> None:
        if not 2 <= len(callers) <= len(LETTERS):
            raise ValueError(f"callers must be 2 to {len(LETTERS)}, not {len(callers)}")
        greenlets()
        self.contract, self.callers, self.judge = contract, tuple(callers), judge
        self.name, self.every_retry = name or " and ".join(caller.call for caller in callers), every_retry
        self.sandbox = Sandbox(contract, sync=False, timeout_ms=0)
        self.start = Start(self.sandbox, prepare)
        self.players = [
            Player(letter, caller, self.sandbox.actor(letter).store, contract, guards)
            for letter, caller in zip(LETTERS, callers, strict=False)
        ]
        self._serial: dict[tuple, set] = {}

    def explore(self, limit: int = LIMIT) -> Explored:
        """Run every interleaving. Raises TooManyInterleavings above `limit`, and NotRepeatable."""
        calls = (f"{caller.actor}: {caller.call}" for caller in self.callers)
        interleavings = tuple(self._interleavings(limit))
        return Explored(
            self.name, self.contract.NAME, tuple(calls), tuple(self.contract.COUNTS), interleavings
        )

    def rerun(self, interleaving: str) -> Run:
        """Run one interleaving again. The Run has a step for each letter: the statement that ran, failed
        or must wait, and the counts that another connection sees after it. Raises WrongInterleaving."""
        watch = _Watch(self, interleaving)
        came = self._play(Given(interleaving, self.players), watch=watch)
        if len(came.interleaving) < len(interleaving):
            raise WrongInterleaving(
                f"{interleaving} is too long: every call has ended after {came.interleaving or 'no step'}"
            )
        return watch.run(came)

    def _interleavings(self, limit: int) -> Iterator[Interleaving]:
        path = Path()
        for number in itertools.count(1):
            if number > limit:
                raise TooManyInterleavings(
                    f"there are more than {limit:,} interleavings; take fewer or shorter calls"
                )
            yield self._play(path)
            if not path.turn():
                return

    def _play(self, choose: Callable, watch: Callable | None = None) -> Interleaving:
        """Run one interleaving on the original rows: `choose` gets the callers that can continue and picks
        one."""
        players = self.players
        self._begin(players)
        try:
            interleaving, waits, met = self._steps(players, choose, watch)
            counts = self.start.observer.counted()
            outcomes = tuple(_ended(player) for player in players)
            rows = self.start.rows() if self.judge is None else ()
            answers = tuple(_answer(player) for player in players) if self.judge is None else ()
        finally:
            for player in players:
                player.leave()
        return Interleaving(
            interleaving, outcomes, counts, self._verdict(outcomes, counts, rows, answers), waits, met
        )

    def _begin(self, players: Sequence[Player]) -> None:
        from greenlet import getcurrent

        self.start.put_back()
        for player in players:
            player.begin(getcurrent())

    def _steps(self, players: Sequence[Player], choose: Callable, watch: Callable | None) -> tuple:
        interleaving, waits, met = [], 0, False
        while able := [player for player in players if player.outcome is None and not player.waiting]:
            if len(interleaving) == MAX_STEPS:
                raise TooManyInterleavings(
                    f"an interleaving has more than {MAX_STEPS} steps; take shorter calls"
                )
            player = choose(len(interleaving), able)
            others = [other for other in players if other is not player]
            met = met or any(other.db.in_transaction for other in others)
            held = player.db.in_transaction
            sql, values = player.pending, player.values
            player.go()
            interleaving.append(player.letter)
            waits += player.came == WAITS
            released = held and not player.db.in_transaction
            if released or (self.every_retry and player.came != WAITS):
                for other in others:
                    other.waiting = False
            if watch is not None:
                watch(player, sql, values)
        return "".join(interleaving), waits, met

    def _verdict(self, outcomes: Outcomes, counts: tuple[int, ...], rows: tuple, answers: tuple) -> str:
        if any(word == "waiting" for word, _ in outcomes):
            return DEADLOCK
        if self.judge is None:
            said = self._against_serial_orders(outcomes, rows, answers)
        else:
            said = self.judge(counts, outcomes)
        failed = [reason for word, reason in outcomes if word == "failed"]
        if said == SERIALIZABLE and not all(reason.startswith("SQLITE_BUSY") for reason in failed):
            return WRONG  # for example, a call met a constraint where it should have been refused or answered
        return BUSY if said == SERIALIZABLE and failed else said

    def _against_serial_orders(self, outcomes: Outcomes, rows: tuple, answers: tuple) -> str:
        """Compare with the serial orders of the calls that did not fail."""
        who = tuple(number for number, (word, _) in enumerate(outcomes) if word != "failed")
        if who not in self._serial:
            self._serial[who] = {self._one_by_one(turns) for turns in itertools.permutations(who)}
        known = self._serial[who]
        ended = tuple(outcomes[number] for number in who)
        if (ended, tuple(answers[number] for number in who), rows) in known:
            return SERIALIZABLE
        return DUPLICATED if _accepted(ended) > max(_accepted(each) for each, *_ in known) else WRONG

    def _one_by_one(self, turns: Sequence[int]) -> tuple[Outcomes, tuple, tuple]:
        players = [self.players[number] for number in turns]
        self._begin(players)
        try:
            self._steps(players, lambda _, able: able[0], None)
            players = [self.players[number] for number in sorted(turns)]
            return tuple(map(_ended, players)), tuple(map(_answer, players)), self.start.rows()
        finally:
            for player in players:
                player.leave()

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for player in self.players:
            player.leave()
            player.store.db = player.db
        self.sandbox.close()


class _Watch:
    """Records the steps of one interleaving."""

    def __init__(self, explorer: Explorer, interleaving: str) -> None:
        self.observer = explorer.start.observer
        self.rows = Rows()
        self.rows.changes({"": self.observer.store.db})
        contract = explorer.contract
        title = f"{explorer.name} in the interleaving {interleaving}"
        self.record = Recorder(
            title, name=f"interleaving-{interleaving}", contract=contract.NAME, count_names=contract.COUNTS
        )

    def __call__(self, player: Player, sql: str, values: tuple | dict) -> None:
        waits, reads = player.came == WAITS, short(sql).split()[0] in ("SELECT", "PRAGMA")
        word = "failed" if player.came in (WAITS, FAILED) else "read" if reads else "accepted"
        facts = player.outcome.facts() if player.outcome is not None else {}
        if word == "read":  # the same statement in the same transaction reads the same rows again
            rows = len(player.db.execute(sql, values).fetchall())
            facts = {"saw": "nothing" if not rows else "1 row" if rows == 1 else f"{rows} rows"} | facts
        reason = f"{short(sql)}: locked" if waits else player.error
        if player.outcome is not None:
            reason = ", ".join(filter(None, (reason, f"{player.caller.call} ends: {_words(player)}")))
        self.record.add(
            player.caller.actor,
            "waits" if waits else short(sql),
            player.caller.now,
            word,
            reason=reason,
            args=player.caller.args if player.outcome is not None else {},
            answer=facts,
            counts=self.observer.counted(),
            leases=tuple(Lease(*lease) for lease in self.observer.leases()),
            changes=self.rows.changes({"": self.observer.store.db}),
        )

    def run(self, came: Interleaving) -> Run:
        """The run. Its last step has the verdict as its anomaly, unless the interleaving is serializable."""
        steps, harmed = self.record.steps, came.verdict != SERIALIZABLE
        if harmed and steps:
            steps[-1] = replace(steps[-1], anomaly=came.verdict)
        self.record.head["kind"] = "breaks" if harmed else "holds"
        return self.record.run()


def _words(player: Player) -> str:
    word, why = _ended(player)
    return f"{word} ({why})" if why else word


def _ended(player: Player) -> tuple[str, str]:
    outcome = player.outcome
    if outcome is None:
        return ("waiting", "")
    found = getattr(outcome.answer, "found", "")  # a delivery's answer says how it was classified
    return (outcome.word, outcome.reason or str(found))


def _answer(player: Player) -> str:
    """The call's answer, for comparison."""
    return "" if player.outcome is None else json.dumps(player.outcome.facts(), sort_keys=True)


def _accepted(outcomes: Outcomes) -> int:
    return sum(word == "accepted" for word, _ in outcomes)
