"""Takes deliveries in, many per transaction, and counts what they were.

Your own consumer makes `Delivery` objects: the item's key, the digest of its content, and how its own row
is written. An entry that can't be read becomes `Broken`: it is reported, and the run continues. Anything
ambiguous about a readable entry becomes `Doubtful`.
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
"""Default time for which a receipt keeps its key and reference, in the caller's unit of time."""

TOMBSTONE = 2_000
"""Default time for which a redelivery is recognised at all, in the caller's unit of time."""

LATEST = MAX_INTEGER - TOMBSTONE
"""The largest `now` that these defaults allow."""

BATCH = 5_000
"""Deliveries per transaction. It holds the write lock for about a quarter of a second. Smaller transactions
write the pages of the indexes more often."""

MAX_BYTES = 8 * 1_048_576
"""A batch ends early when its deliveries have this many bytes, to limit memory."""

RACED = ("head-moved", "not-found", "erased")
"""Refusals that mean that something was staged or erased after the batch was classified."""

NAMED = 100
"""Maximum number of broken and doubtful entries that a report names. All are counted."""


class Broken(NamedTuple):
    """An entry of the source that can't be used: where it is, and what is wrong."""

    place: str
    why: str


class Doubtful(NamedTuple):
    """An entry is ambiguous: where it is, and what was decided. The entry itself was taken in, or is reported
    as broken."""

    place: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One delivered item: its key, the digest of its content, and its place in the source.

    `size` is in bytes. `place` is also the receipt's reference. A subclass fills in the rest.
    """

    place: str
    tenant: str
    namespace: str
    key: str
    digest: str
    size: int
    key_kind: str = "explicit"

    TABLE: ClassVar[str]
    """The consumer's own table, and the topic of its outbox rows."""

    def corrects(self, db: Connection, changed: Changed) -> bool:
        """The policy for changed content: True stages a revision, False stages a collision."""
        raise NotImplementedError

    def write(self, db: Connection, staged: Staged, disposition: str, now: int) -> None:
        """Write the consumer's row beside the staged receipt."""
        raise NotImplementedError


@dataclass
class Report:
    """The number of deliveries of each class. `changed` and `collisions` were staged as such in this run."""

    first_seen: int = 0
    redelivered: int = 0
    changed: int = 0
    collisions: int = 0
    collision_redelivered: int = 0
    erased: int = 0
    broken: int = 0
    doubtful: int = 0
    named: list[Broken | Doubtful] = field(default_factory=list)
    """The first broken or doubtful entries, at most `NAMED`."""
    work: int = 0
    """The number of work rows staged. These are not deliveries, so `counts` leaves them out."""

    def count(self, what: str | Broken | Doubtful, work: int = 0) -> None:
        """Count one delivery by its class, or a finding about one, and the work staged."""
        self.work += work
        if not isinstance(what, str):
            self.named += [what] if len(self.named) < NAMED else []
            what = "broken" if isinstance(what, Broken) else "doubtful"
        setattr(self, what, getattr(self, what) + 1)

    def counts(self) -> dict[str, int]:
        """The number of deliveries by class."""
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
    """Take in every delivery, at most `batch` per transaction, and report what they were.

    A first delivery is staged with the consumer's row and one outbox row. So is a changed one, as its policy
    says: a revision, or a collision (outbox topic `collision`). A redelivery or an erased item writes
    nothing, so taking in the same source again changes nothing. A batch that lost a race is rolled back and
    taken in one by one. A delivery that loses again is reported as broken.

    For each of `processors`, pairs of a name and a revision, every accepted revision gets its work in the
    same transaction, and so does a redelivered one that has none. Then `now` is in milliseconds. `retain` and
    `tombstone` are the times from `now` for which a receipt is kept in full, and recognised at all.

    `now` is the caller's time, and `now + tombstone` must fit in 64 bits. `progress` is called with the
    report after each batch. Raises WrongType or WrongValue, Refused (no-transaction) when `intake` isn't
    over `store`, and what `Store.write` raises. Batches that were committed before stay.
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
    """Delete the consumer's rows of every erased identity, and the results of its work. Returns the number
    of rows.

    The contracts don't know the consumer's tables. Call this after each erasure, including one that was
    applied again after a restore, and scrub afterwards. Idempotent.
    """
    tables = [kind.TABLE for kind in kinds]
    with store.write() as db:
        tables += [name for (name,) in db.execute(_RESULTS)]
        return sum(db.execute(_FORGET.format(table=table)).rowcount for table in tables)


def flaw(name: str, value: str) -> str:
    """The error in a name from outside, if it has a control character; otherwise empty."""
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
    """One run of `take_in`: its target, the processors, and retain_until, tombstone_until and now."""

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
        """Classify a delivery and stage what is new. It sees what this transaction has already staged."""
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
        """Stage the work of each processor and return the number of new rows. A collision gets none."""
        now = self.horizons[-1]
        return sum(self.work.stage_work(db, identity, revision, *each, now) for each in self.processors)
