"""Inbound items, by what name they are known, and what intake answers about them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from typing import ClassVar

from receiptlab.store import Store

MINT = object()
"""What the contract shows when it makes an item or a handle."""

KEY_KINDS = ("explicit", "synthetic", "content")
"""Who made the key: the source; the consumer, from parts that stay; the consumer, from the content."""


def identity_of(key_kind: str, tenant: str, namespace: str, key: str) -> str:
    """The SHA-256 of the four parts, each with its length before it, under a name of their own. No two
    lists of parts give the same bytes, and keys of different kinds never meet."""
    return _digest("receiptlab intake identity 1", key_kind, tenant, namespace, key)


def synthetic_key(*parts: str) -> str:
    """A key for an item whose source gives none, from parts that stay the same when it comes again."""
    return _digest("receiptlab intake synthetic key 1", *parts)


def _digest(*parts: str) -> str:
    hashed = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8")
        hashed.update(len(data).to_bytes(8, "big") + data)
    return hashed.hexdigest()


@dataclass(frozen=True)
class Item:
    """An inbound item: its name, and the digest of its content. Make it with `Intake.item`."""

    key_kind: str
    tenant: str
    namespace: str
    key: str
    digest: str
    identity: str
    mint: int | None = field(default=None, compare=False, repr=False)
    """The seal of an item that was checked. One made or changed by hand is checked when it is staged."""

    def seal(self) -> int:
        """A number that hangs on every field, and on this process."""
        name = (self.key_kind, self.tenant, self.namespace, self.key, self.digest, self.identity)
        return hash((id(MINT), *name))

    def sealed(self) -> Item:
        """The item as one that was checked."""
        object.__setattr__(self, "mint", self.seal())
        return self


class Handle:
    """The right to stage what `classify` has found changed: once, on that store, on that head.

    It is used up by the attempt, also when the batch is rolled back later: classify again.
    """

    __slots__ = ("item", "on", "store", "used")

    def __init__(self, mint: object, store: Store, item: Item, on: tuple[int, int, str]) -> None:
        if mint is not MINT:
            raise TypeError("a handle comes from classify() alone")
        for name, value in {"store": store, "item": item, "on": on, "used": False}.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError("a handle cannot be changed; classify again")

    def use_up(self) -> None:
        """From now on it is refused."""
        object.__setattr__(self, "used", True)

    def __deepcopy__(self, memo: dict) -> Handle:
        return self

    def __reduce__(self) -> None:
        raise TypeError("a handle counts in this process alone")


class Finding:
    """What `classify` can find. `found` is its name."""

    found: ClassVar[str]
    outcome: ClassVar[str] = "read"

    def facts(self) -> dict[str, object]:
        """The finding as plain data, without the item and the handle."""
        names = [each.name for each in fields(self) if each.name not in ("item", "handle")]
        return {"found": self.found} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class FirstSeen(Finding):
    """Nothing is known of this identity."""

    item: Item
    found: ClassVar[str] = "first-seen"


@dataclass(frozen=True)
class Redelivered(Finding):
    """This content is known. `reference` is what was recorded of it; None once it was compacted."""

    item: Item
    revision: int
    is_head: bool
    reference: str | None
    found: ClassVar[str] = "redelivered"


@dataclass(frozen=True)
class CollisionRedelivered(Finding):
    """This content is known, and was recorded as a collision."""

    item: Item
    revision: int
    found: ClassVar[str] = "collision-redelivered"


@dataclass(frozen=True)
class Changed(Finding):
    """The identity is known, this content is not. Only `handle` can stage it."""

    item: Item
    head_revision: int
    head_digest: str
    handle: Handle = field(compare=False, repr=False)
    found: ClassVar[str] = "changed"


@dataclass(frozen=True)
class Erased(Finding):
    """The identity was erased; nothing of it can be staged."""

    item: Item
    erased_at: int
    found: ClassVar[str] = "erased"


@dataclass(frozen=True)
class Staged:
    """What was staged: the number of the revision."""

    identity: str
    revision: int
    outcome: ClassVar[str] = "accepted"


@dataclass(frozen=True)
class Delivered:
    """What a delivery was found to be, and the revision that it has now."""

    found: str
    revision: int
    outcome: ClassVar[str] = "accepted"


@dataclass(frozen=True)
class Swept:
    """How many receipts were compacted, and how many tombstones went."""

    compacted: int
    removed: int
    outcome: ClassVar[str] = "accepted"


@dataclass(frozen=True)
class Erasure:
    """How many identities were erased by this call."""

    erased: int
    outcome: ClassVar[str] = "accepted"


@dataclass(frozen=True)
class Erasures:
    """Announced erasures in the order in which they happened: (id of the announcement, identity, time)."""

    rows: tuple[tuple[int, str, int], ...]
    more: bool
    outcome: ClassVar[str] = "read"

    def facts(self) -> dict[str, object]:
        """The erasures as plain lists."""
        ids, identities, times = (
            (list(part) for part in zip(*self.rows, strict=True)) if self.rows else ([],) * 3
        )
        return {"ids": ids, "identities": identities, "times": times, "more": self.more}


@dataclass(frozen=True)
class Scrub:
    """Whether the WAL could be written back and emptied. Where not, erased bytes may still be in it."""

    done: bool
    outcome: ClassVar[str] = "accepted"
