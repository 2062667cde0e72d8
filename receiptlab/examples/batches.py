"""Takes deliveries in, many in one transaction, and counts what they were.

A consumer of its own makes `Delivery` objects: the item's name, the digest of its canonical form, and
how its domain row is written. What cannot be read comes as `Broken`: it is reported, and the rest goes on.
What is ambiguous about an entry that can be read comes as `Doubtful`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from sqlite3 import Connection
from typing import ClassVar, NamedTuple

from receiptlab.contracts import outbox
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.intake.items import Changed, FirstSeen, Redelivered, Staged
from receiptlab.contracts.work.work import Work
from receiptlab.errors import Refused, WrongArgument
from receiptlab.store import Store
from receiptlab.values import MAX_INTEGER, integer

RETAIN = 1_000
"""How long a receipt keeps its key and reference where nothing else is said, in the caller's unit of time."""

TOMBSTONE = 2_000
"""How long a redelivery is recognised at all where nothing else is said, in the caller's unit of time."""

LATEST = MAX_INTEGER - TOMBSTONE
"""The largest `now` with these."""

BATCH = 5_000
"""Deliveries in one transaction. It holds the write lock for about a quarter of a second; in smaller
ones the pages of the indexes are written again and again."""

MAX_BYTES = 8 * 1_048_576
"""A batch ends early once its deliveries have this many bytes, so that it needs little memory."""

RACED = ("head-moved", "not-found", "erased")
"""Refused for these reasons, a batch met something that was staged or erased since it was classified."""

NAMED = 100
"""How many broken and doubtful entries a report names. All are counted."""


class Broken(NamedTuple):
    """An entry of the source that cannot be used: where it stands, and what is wrong."""

    place: str
    why: str


class Doubtful(NamedTuple):
    """Something about an entry is ambiguous: where it is, and what was decided. The entry itself was taken
    in, or is reported as broken."""

    place: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One item that came in: its name, the digest of its canonical form, and where it stood.

    `size` is in bytes. `place` is also what the receipt refers to. A subclass fills in the rest.
    """

    place: str
    tenant: str
    namespace: str
    key: str
    digest: str
    size: int
    key_kind: str = "explicit"

    TABLE: ClassVar[str]
    """The domain table, and the topic of its outbox rows."""

    def corrects(self, db: Connection, changed: Changed) -> bool:
        """The policy for changed content: True stages a revision, False a collision."""
        raise NotImplementedError

    def write(self, db: Connection, staged: Staged, disposition: str, now: int) -> None:
        """Write the domain row beside the receipt that was staged."""
        raise NotImplementedError


@dataclass
class Report:
    """How many deliveries were what. `changed` and `collisions` were staged as such in this run."""

    first_seen: int = 0
    redelivered: int = 0
    changed: int = 0
    collisions: int = 0
    collision_redelivered: int = 0
    erased: int = 0
    broken: int = 0
    doubtful: int = 0
    named: list[Broken | Doubtful] = field(default_factory=list)
    """The first of what is broken or doubtful, at most `NAMED`."""
    work: int = 0
    """How many rows of work were staged. It counts no deliveries, so `counts` leaves it out."""

    def count(self, what: str | Broken | Doubtful, work: int = 0) -> None:
        """Count one delivery, by the name of its count, or a finding about one, and the work staged."""
        self.work += work
        if not isinstance(what, str):
            self.named += [what] if len(self.named) < NAMED else []
            what = "broken" if isinstance(what, Broken) else "doubtful"
        setattr(self, what, getattr(self, what) + 1)

    def counts(self) -> dict[str, int]:
        """How many deliveries were what, by the name of the count."""
        return {name: value for name, value in vars(self).items() if name not in ("named", "work")}


def take_in(
    store: Store,
    intake: Intake,
    deliveries: Iterable[Delivery | Broken | Doubtful],
    batch: int = BATCH,
    *,
    now: int,
    progress: Callable[[Report], object] | None = None,
    processors: Iterable[tuple[str, str]] = (),
    retain: int = RETAIN,
    tombstone: int = TOMBSTONE,
) -> Report:
    """Take every delivery in, at most `batch` in one transaction, and report what they were.

    A first delivery is staged with its domain row and one outbox row. So is a changed one, as its
    policy says: a revision, or a collision (outbox topic `collision`). For a redelivery or an erased
    item nothing is written, so taking the same source in again changes nothing. A batch that lost a race
    is rolled back and taken again one by one; what loses again is reported as broken.

    For each of `processors`, pairs of a name and a revision, every accepted revision gets its work in the
    same transaction, a redelivered one where it has none; then `now` is in milliseconds. `retain` and
    `tombstone` say how long from `now` a receipt is kept whole, and known at all.

    `now` is the caller's time; `now + tombstone` must fit in 64 bits. `progress` is called with the report
    after each batch. Raises WrongType or WrongValue, Refused (no-transaction) when `intake` is not of
    `store`, and what `Store.write` raises; whole batches that were taken in before stay.
    """
    integer("batch", batch, low=1)
    horizons = _horizons(retain, tombstone, now)
    processors = tuple(processors)
    work = Work(store) if processors else None
    taking, report = _Taking(store, intake, work, processors, horizons), Report()
    for group in _groups(deliveries, batch):
        try:
            found = taking.together(group)
        except Refused as refused:
            if refused.reason not in RACED:
                raise
            found = [taking.alone(delivery) for delivery in group]
        for what, staged in found:
            report.count(what, staged)
        if progress is not None:
            progress(report)
    return report


def forget(store: Store, *kinds: type[Delivery]) -> int:
    """Delete the domain rows of every erased identity, and the results of its work if there are any.
    Returns the number of rows.

    The contracts do not know the consumer's tables. A consumer calls this after each erasure, also one that
    was applied again after a restore, and scrubs afterwards. Idempotent.
    """
    tables = [kind.TABLE for kind in kinds]
    with store.write() as db:
        tables += [name for (name,) in db.execute(_RESULTS)]
        return sum(db.execute(_FORGET.format(table=table)).rowcount for table in tables)


def flaw(name: str, value: str) -> str:
    """What is wrong with a name from outside: a control character. Empty where nothing is."""
    found = next((each for each in value if unicodedata.category(each) == "Cc"), None)
    return f"{name} has a control character (U+{ord(found):04X})" if found else ""


_RESULTS = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = 'result'"
_FORGET = "DELETE FROM {table} WHERE identity IN (SELECT subject FROM outbox WHERE topic = 'erased')"


def _groups(
    deliveries: Iterable[Delivery | Broken | Doubtful], batch: int
) -> Iterator[list[Delivery | Broken | Doubtful]]:
    group, size = [], 0
    for delivery in deliveries:
        group.append(delivery)
        size += getattr(delivery, "size", 0)
        if len(group) >= batch or size >= MAX_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _horizons(retain: int, tombstone: int, now: int) -> tuple[int, int, int]:
    integer("tombstone", tombstone)
    integer("retain", retain, high=tombstone)
    integer("now", now, high=MAX_INTEGER - tombstone)
    return now + retain, now + tombstone, now


class _Taking(NamedTuple):
    """One run of `take_in`: where to, whose work to stage, and retain_until, tombstone_until and now."""

    store: Store
    intake: Intake
    work: Work | None
    processors: tuple[tuple[str, str], ...]
    horizons: tuple[int, int, int]

    def together(
        self, group: list[Delivery | Broken | Doubtful]
    ) -> list[tuple[str | Broken | Doubtful, int]]:
        with self.store.write() as db:
            return [self._one(db, delivery) for delivery in group]

    def alone(self, delivery: Delivery | Broken | Doubtful) -> tuple[str | Broken | Doubtful, int]:
        try:
            return self.together([delivery])[0]
        except Refused as refused:
            if refused.reason not in RACED:
                raise
            return Broken(delivery.place, str(refused)), 0

    def _one(self, db: Connection, one: Delivery | Broken | Doubtful) -> tuple[str | Broken | Doubtful, int]:
        """Classify, and stage what is new. It sees what this transaction has staged before it."""
        if isinstance(one, (Broken, Doubtful)):
            return one, 0
        try:
            known = self.intake.classify(one.key_kind, one.tenant, one.namespace, one.key, one.digest)
        except WrongArgument as error:
            return Broken(one.place, str(error)), 0
        if isinstance(known, (FirstSeen, Changed)):
            return self._stage(db, one, known)
        again = isinstance(known, Redelivered)
        work = self._work(db, known.item.identity, known.revision) if again else 0
        return known.found.replace("-", "_"), work

    def _stage(self, db: Connection, one: Delivery, known: FirstSeen | Changed) -> tuple[str, int]:
        what, topic, disposition, now = "first_seen", one.TABLE, "accepted", self.horizons[-1]
        if isinstance(known, FirstSeen):
            staged = self.intake.stage_first(db, known, one.place, *self.horizons)
        elif one.corrects(db, known):
            what = "changed"
            staged = self.intake.stage_revision(db, known.handle, one.place, *self.horizons)
        else:
            what, topic, disposition = "collisions", "collision", "collision"
            staged = self.intake.stage_collision(db, known.handle, one.place, now)
        one.write(db, staged, disposition, now)
        outbox.stage(db, topic, staged.identity, now)
        return what, self._work(db, staged.identity, staged.revision)

    def _work(self, db: Connection, identity: str, revision: int) -> int:
        """Stage the work of each processor; returns how many rows are new. A collision gets none."""
        now = self.horizons[-1]
        return sum(self.work.stage_work(db, identity, revision, *each, now) for each in self.processors)
