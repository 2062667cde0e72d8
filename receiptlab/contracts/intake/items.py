"""How an inbound item is identified, what `classify` finds about it, and the other answers of intake."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NoReturn

from receiptlab.contracts.base import AcceptedAnswer, ReadAnswer
from receiptlab.store import Store

MINT = object()
"""Shown by the contract when it makes an item or a handle."""

KEY_KINDS = ("explicit", "synthetic", "content")
"""Where the key comes from: the source, the consumer (from parts that stay the same), or the content."""


def identity_of(key_kind: str, tenant: str, namespace: str, key: str) -> str:
    """The SHA-256 of the four parts, each preceded by its length, under a fixed label. No two lists of parts
    give the same bytes, so keys of different kinds never collide."""
    return _digest("receiptlab intake identity 1", key_kind, tenant, namespace, key)


def synthetic_key(*parts: str) -> str:
    """A key for an item whose source gives none, from parts that are the same on every delivery."""
    return _digest("receiptlab intake synthetic key 1", *parts)


def _digest(*parts: str) -> str:
    hashed = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8")
        hashed.update(len(data).to_bytes(8, "big") + data)
    return hashed.hexdigest()


@dataclass(frozen=True)
class Item:
    """An inbound item: how it is identified, and the digest of its content. Make it with `Intake.item`."""

    key_kind: str
    tenant: str
    namespace: str
    key: str
    digest: str
    identity: str
    mint: int | None = field(default=None, init=False, compare=False, repr=False)
    """The seal of a checked item. An item made or changed by hand is checked when it is staged."""

    def seal(self) -> int:
        """A hash over every field, valid in this process only."""
        parts = (self.key_kind, self.tenant, self.namespace, self.key, self.digest, self.identity)
        return hash((id(MINT), *parts))

    def sealed(self) -> Item:
        """This item, marked as checked."""
        object.__setattr__(self, "mint", self.seal())
        return self


class Handle:
    """The right to stage changed content once: in the store where `classify` found it, on the same head.

    An attempt uses it up, even if the transaction is rolled back later. Then classify again.
    """

    __slots__ = ("item", "on", "store", "used")
    item: Item
    on: tuple[int, int, str]
    store: Store
    used: bool

    def __init__(self, mint: object, store: Store, item: Item, on: tuple[int, int, str]) -> None:
        if mint is not MINT:
            raise TypeError("a handle only comes from classify()")
        for name, value in {"store": store, "item": item, "on": on, "used": False}.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError("a handle cannot be changed; classify again")

    def use_up(self) -> None:
        """Mark it as used: from now on it is refused."""
        object.__setattr__(self, "used", True)

    def __deepcopy__(self, memo: dict[int, object]) -> Handle:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a handle is only valid in this process")


class Finding(ReadAnswer):
    """What `classify` can find. `found` is its name."""

    item: Item
    found: ClassVar[str]

    def facts(self) -> dict[str, object]:
        """The finding as plain data, without the item and the handle."""
        this: Any = self  # every kind of finding is a dataclass
        names = [each.name for each in fields(this) if each.name not in ("item", "handle")]
        return {"found": self.found} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class FirstSeen(Finding):
    """This identity is new."""

    item: Item
    found: ClassVar[str] = "first-seen"


@dataclass(frozen=True)
class Redelivered(Finding):
    """This content is known. `reference` is what was recorded with it, or None once it is compacted."""

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
    """The identity was erased. Nothing can be staged under it."""

    item: Item
    erased_at: int
    found: ClassVar[str] = "erased"


@dataclass(frozen=True)
class Staged(AcceptedAnswer):
    """What was staged: the number of the revision."""

    identity: str
    revision: int


@dataclass(frozen=True)
class Delivered(AcceptedAnswer):
    """What kind of delivery it was, and the number of its revision."""

    found: str
    revision: int


@dataclass(frozen=True)
class Swept(AcceptedAnswer):
    """How many receipts were compacted, and how many tombstones were removed."""

    compacted: int
    removed: int


@dataclass(frozen=True)
class Erasure(AcceptedAnswer):
    """How many identities this call erased."""

    erased: int


@dataclass(frozen=True)
class Erasures(ReadAnswer):
    """Announced erasures in the order in which they happened: (id of the announcement, identity, time)."""

    rows: tuple[tuple[int, str, int], ...]
    more: bool

    def facts(self) -> dict[str, object]:
        """One list for each column."""
        names = ("ids", "identities", "times")
        lists = {name: [row[column] for row in self.rows] for column, name in enumerate(names)}
        return lists | {"more": self.more}


@dataclass(frozen=True)
class Scrub(AcceptedAnswer):
    """Whether the WAL was written back and emptied. If not, erased bytes may still be in it."""

    done: bool
