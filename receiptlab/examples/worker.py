"""A worker: claims one item after the other, calls a handler, and saves the result.

An item is reserved in its own transactions, handled outside any transaction, and then finished in one: the
consumer's row (table `result`), the completion and an outbox row, all or nothing. In between, the claim is
renewed by heartbeats. A worker whose claim was lost saves nothing. So an item may be worked on twice, but
it is saved once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from receiptlab.contracts import outbox
from receiptlab.contracts.work.claims import WorkClaim, WorkState
from receiptlab.contracts.work.work import ARGUMENTS, Work
from receiptlab.errors import LabError, Locked, Refused
from receiptlab.examples.clock import shown
from receiptlab.examples.fair_lock import FairLock
from receiptlab.examples.handler import Failure, Handler, item_of
from receiptlab.examples.stopping import Hurried, Stop, Watched
from receiptlab.store import Store
from receiptlab.values import check, one_of, utf8

# Rows are not unique by identity, so that a duplicated result would be visible.
SCHEMA = (
    """CREATE TABLE result (
        id INTEGER NOT NULL PRIMARY KEY, identity TEXT NOT NULL, revision INTEGER NOT NULL,
        processor TEXT NOT NULL, processor_revision TEXT NOT NULL,
        output TEXT NOT NULL, worked_at INTEGER NOT NULL) STRICT""",
    "CREATE INDEX result_by_identity ON result (identity, revision)",
)

PAUSE = 200
"""Milliseconds between two checks while nothing is due."""

WAIT = 3_600_000
"""How long a draining worker waits while it can claim nothing, in milliseconds."""

SAID = 10
"""The number of pauses after which it reports what it is waiting for."""

PATIENCE = 50
"""The number of such pauses that a worker with an end condition makes for a lease that isn't released."""

ENDS = ("never", "drained", "idle")
"""When a worker ends by itself: never, when nothing is left to do, or when nothing is due now."""

_RESULT = """INSERT INTO result (identity, revision, processor, processor_revision, output, worked_at)
    VALUES (?, ?, ?, ?, ?, ?)"""
LOST = ("claim-lost", "not-found")
"""Refusals that mean that the item is another worker's now, or that it was compacted or erased."""

_LEFT = """SELECT count(*) FROM work
    WHERE processor = :processor AND state IN ('pending', 'claimed', 'failed')
    AND (:namespace IS NULL OR namespace = :namespace)"""
# Goes from one namespace to the next through the index, without reading the rows in between.
_EACH = """(WITH RECURSIVE each (name) AS (
        SELECT min(namespace) FROM work WHERE due IS NOT NULL
        UNION ALL SELECT (SELECT min(namespace) FROM work WHERE due IS NOT NULL AND namespace > name)
        FROM each WHERE name IS NOT NULL)
    SELECT name FROM each WHERE :namespace IS NULL OR name = :namespace)"""
_NAMESPACES = f"""SELECT name FROM {_EACH} WHERE EXISTS (SELECT 1 FROM work
    WHERE namespace = name AND processor = :processor AND due <= :now) ORDER BY name"""
_FIRST_DUE = f"""SELECT min((SELECT min(due) FROM work
    WHERE namespace = name AND processor = :processor AND due IS NOT NULL)) FROM {_EACH}"""


@dataclass(frozen=True)
class Policy:
    """How long a claim lasts, how many attempts an item gets, and the delay between them: `base` doubled
    for each attempt, at most `cap`. All times are in milliseconds. Raises WrongType or WrongValue."""

    hold_for: int = 30_000
    max_attempts: int = 5
    base: int = 1_000
    cap: int = 300_000

    def __post_init__(self) -> None:
        check(ARGUMENTS, vars(self))


@dataclass
class Tally:
    """What a worker did: attempts that ended done or failed, claims that were lost, and items that became
    dead letters."""

    done: int = 0
    failed: int = 0
    lost: int = 0
    dead_letters: int = 0


class Worker:
    """A worker for one processor on an open store, in one namespace or in all that have something due.

    `handle` does the work, see `handler.Handler`. `clock` returns milliseconds and may jump. `sleep` waits
    for milliseconds. `turns` makes the fair lock in front of the writes. `report` gets a sentence for
    anything other than a success. Raises WrongType or WrongValue for the names, and FileRefused when the
    store lacks the tables.
    """

    def __init__(
        self,
        store: Store,
        processor: str,
        name: str,
        policy: Policy,
        handle: Handler,
        clock: Callable[[], int],
        sleep: Callable[[int], object],
        *,
        namespace: str | None = None,
        turns: Callable[[Path], AbstractContextManager] = FairLock,
        report: Callable[[str], object] = str,
        stop: Stop | None = None,
    ) -> None:
        named = {"processor": processor, "worker": name}
        check(ARGUMENTS, named if namespace is None else named | {"namespace": namespace})
        store.require(SCHEMA)
        self.store, self.work = store, Work(store)
        self.processor, self.name, self.namespace, self.policy = processor, name, namespace, policy
        self.handle, self.clock, self.sleep, self.turns, self.report = handle, clock, sleep, turns, report
        self.stop = stop or Stop()
        self.tally = Tally()
        self.refused: Refused | None = None
        self.gave_up = False
        self._file = Watched(store.path)

    def run(self, ends: str = "never", at_most: int = WAIT) -> Tally:
        """Work until asked to stop, or until it `ends` by itself: `drained` when nothing is pending, claimed
        or failed; `idle` when nothing is due now. A draining worker waits at most `at_most` milliseconds in a
        row while it can claim nothing. Then it sets `gave_up` and ends.

        Raises `stopping.Gone` when the database file was removed or replaced, what `Store.write` raises
        except Locked, and Refused (busy) when `idle` waits in vain for a lease.
        """
        one_of(ENDS)("ends", ends)
        waited = 0
        while not self.stop.asked:
            if self.step():
                waited = 0
                continue
            if self._over(ends):
                break
            if ends == "drained" and self._waited(waited * PAUSE, at_most):
                break
            waited += 1
            if ends == "idle" and waited > PATIENCE and self.refused:
                raise self.refused
            self.sleep(PAUSE)
        return self.tally

    def step(self) -> bool:
        """Claim one item in each namespace that has one due, and work on it. False when there was none:
        nothing is due, or another worker was reserving. Raises as `run` does."""
        self._file.look()
        worked = False
        with contextlib.suppress(Locked):
            for namespace in self._namespaces():
                worked = (not self.stop.asked and self._one(namespace)) or worked
        return worked

    def left(self) -> int:
        """The number of unfinished items: pending, claimed or failed."""
        asked = {"processor": self.processor, "namespace": self.namespace}
        return self.store.read(_LEFT, asked)[0][0]

    def _over(self, ends: str) -> bool:
        with contextlib.suppress(Locked):
            if ends == "idle":
                return not self._namespaces()
            return ends == "drained" and self._first_due() is None
        return False

    def _waited(self, waited: int, at_most: int) -> bool:
        """Whether the wait is over. When it lasts, and when it ends, report what it is waiting for."""
        over = waited >= at_most
        if not over and waited != SAID * PAUSE:
            return False
        with contextlib.suppress(Locked):
            due, now = self._first_due(), self.clock()
            if due is None:  # another worker has finished the last one
                return False
            when = f"the first is due in {(due - now) / 1_000:,.0f} s, at {shown(due)}"
            when = when if due > now else "another worker holds the queue"
            how = f"gave up after {waited / 1_000:g} s" if over else "waiting"
            self.report(f"{how}: {self.left()} not finished, none can be claimed now; {when}")
        self.gave_up = over
        return over

    def _first_due(self) -> int | None:
        """When the first unfinished item is due, or None when all are finished."""
        asked = {"processor": self.processor, "namespace": self.namespace}
        return self.store.read(_FIRST_DUE, asked)[0][0]

    def _namespaces(self) -> list[str]:
        asked = {"processor": self.processor, "namespace": self.namespace, "now": self.clock()}
        return [name for (name,) in self.store.read(_NAMESPACES, asked)]

    def _one(self, namespace: str) -> bool:
        hold, most = self.policy.hold_for, self.policy.max_attempts
        try:
            with self._turn():
                if self.stop.asked:
                    return False
                now = self.clock()
                taken = self.work.next(namespace, self.processor, self.name, 1, hold, most, now)
        except Refused as refused:
            if refused.reason not in ("busy", "lease-lost"):
                raise
            self.refused = refused
            return False
        for work in taken.dead_letters:
            self.tally.dead_letters += 1
            self.report(f"work {work}: its last claim expired; after {most} attempts it is a dead letter now")
        for claim in taken.claims:
            self._work_on(claim)
        return bool(taken.claims or taken.dead_letters)

    def _work_on(self, claim: WorkClaim) -> None:
        where = f"work {claim.work}, attempt {claim.attempt}"
        try:
            try:
                output = self._handled(claim)
            except Failure as failure:
                ended = self._save(partial(self._fail, claim, failure))
                again = "it is a dead letter now" if ended.state == "dead" else "it will be tried again"
                self.tally.failed += 1
                self.report(f"{where}: {failure.error}; {again}")
            else:
                self._save(partial(self._complete, claim, output))
                self.tally.done += 1
        except Refused as refused:
            if refused.reason not in LOST:
                raise
            self.tally.lost += 1
            self.report(f"{where}: {refused}; nothing of this attempt was saved")

    def _handled(self, claim: WorkClaim) -> str:
        """The handler's output for the item. Any exception of the handler is a failure of this item."""
        item, held = item_of(self.store, claim), _Held(self, claim)
        try:
            return utf8("output", self.handle(item, held.beat))
        except (Failure, LabError):
            raise
        except Exception as error:
            raise Failure(type(error).__name__, str(error)) from error

    def _complete(self, claim: WorkClaim, output: str, now: int) -> WorkState:
        """Complete the item in one transaction: result, completion and message."""
        of = (claim.identity, claim.revision, claim.processor, claim.processor_revision)
        with self.store.write() as db:
            result = db.execute(_RESULT, (*of, output, now)).lastrowid
            done = self.work.stage_complete(db, claim, f"result {result}", now)
            outbox.stage(db, "done", claim.identity, now)
        return done

    def _fail(self, claim: WorkClaim, failure: Failure, now: int) -> WorkState:
        policy = (self.policy.max_attempts, self.policy.base, self.policy.cap)
        return self.work.fail(claim.work, claim.fence, failure.error, failure.detail, *policy, now)

    def _save(self, write: Callable[[int], WorkState]) -> WorkState:
        """Write under the fair lock. While the file is locked, retry a limited number of times."""
        tries = 0
        while True:
            try:
                with self._turn():
                    return write(self.clock())
            except Locked as locked:
                tries += 1
                if tries > PATIENCE or self.stop.asked > 1:
                    raise Refused("claim-lost", f"it could not be finished ({locked})") from None
                self.sleep(PAUSE)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """The fair lock around a write. When asked to stop while it waits, continue without it: the
        present holder may be suspended, and SQLite's own lock is enough. The file is checked before and
        after."""
        self._file.look()
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(Hurried), self.stop.hurry():
                if self.stop.asked < 2:
                    stack.enter_context(self.turns(self.store.path))
            self._file.look()
            yield
            self._file.look()


class _Held:
    """A claim while it is worked on."""

    def __init__(self, worker: Worker, claim: WorkClaim) -> None:
        self.worker, self.claim = worker, claim
        self.renewed = claim.until - worker.policy.hold_for

    def beat(self) -> None:
        """Renew the claim when a third of its time has passed. Raises Failure (stopped) when the worker
        was asked to stop twice, and Refused (claim-lost, not-found)."""
        worker, claim, hold = self.worker, self.claim, self.worker.policy.hold_for
        if worker.stop.asked > 1:
            raise Failure("stopped", "the worker was stopped while it worked on this")
        now = worker.clock()
        if now < self.renewed + hold // 3:  # the clock went back, so the claim lasts long enough
            return
        with contextlib.suppress(Locked):  # nothing was written; the next heartbeat tries again
            worker.work.renew(claim.work, claim.fence, hold, now)
            self.renewed = now
